"""Run the code examples of the README and of the documentation, page by page.

The Python blocks of a page share one namespace and run from top to bottom in a temporary folder
that holds `examples/` and the small files of `example_files`. A shell block is run too where each
of its lines is a `foveate` command; other shell blocks are there to be read. A console block must
show what its commands print, except for numbers; `docs/outputs.py` brings it up to date. YAML
blocks are recipes, which are loaded. An HTML comment just above a block, such as
`<!-- skip: needs a GPU -->`, says why the block cannot run here; of Python blocks, what they import
is still checked.
"""

import ast
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest
import transformers

from foveate.cli import main
from foveate.training import Recipe
from foveate.training.config import load_yaml

from .example_files import write_example_files

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
SHELLS = ("bash", "console", "sh")
SKIP = "<!-- skip:"


class Block(NamedTuple):
    """A fenced block of a page.

    Attributes:
        language: What follows the fence.
        line: Number of the block's first line in the page, from 1.
        code: The lines between the fences.
        skip: Why the block is not run; empty for a block that is.
    """

    language: str
    line: int
    code: str
    skip: str


def blocks(page: Path) -> Iterator[Block]:
    """Visit the blocks of a page that are examples: Python, commands of foveate, and recipes."""
    lines = page.read_text(encoding="utf-8").splitlines()
    number, comment = 0, ""
    while number < len(lines):
        line = lines[number].strip()
        number += 1
        if not line.startswith("```"):
            comment = line or comment
            continue
        start, indent = number, len(lines[number - 1]) - len(lines[number - 1].lstrip())
        while lines[number].strip() != "```":
            number += 1
        code = "\n".join(one[indent:] for one in lines[start:number])
        number += 1
        language = line.removeprefix("```")
        skip = comment.removeprefix(SKIP).removesuffix("-->").strip()
        block = Block(language, start + 1, code, skip if comment.startswith(SKIP) else "")
        comment = ""
        if language in ("python", "yaml") or (language in SHELLS and commands(block)):
            yield block


def commands(block: Block) -> list[list[str]]:
    """Arguments of each command in a shell block; none unless all of them are of foveate."""
    code = block.code.replace("\\\n", " ")
    if block.language == "console":
        code = "\n".join(line[2:] for line in code.splitlines() if line.startswith("$ "))
    found = [shlex.split(line, comments=True) for line in code.splitlines()]
    found = [words for words in found if words]
    return found if all(words[0] == "foveate" and "|" not in words for words in found) else []


def words_of(text: str) -> list[str]:
    """Split a text into words; numbers, which differ between processors, are all alike."""
    return re.sub(r"\d[\d.,]*(e[+-]\d+)?", "#", text).split()


def run_shell(
    block: Block, page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run the commands of a shell block in this process, with the patterns in them expanded."""
    _, *shown = re.split(r"^\$ .*$", block.code, flags=re.MULTILINE)
    for number, words in enumerate(commands(block)):
        arguments = [
            path
            for word in words
            for path in (sorted(map(str, Path().glob(word))) if "*" in word else [word])
        ]
        monkeypatch.setattr(sys, "argv", arguments)
        capsys.readouterr()  # what came before
        try:
            main()
        except SystemExit as stop:
            if stop.code:
                pytest.fail(f"{page.name}:{block.line}: {shlex.join(words)} exited with {stop}")
        if shown:
            printed = capsys.readouterr().out.replace(str(Path.cwd()), "/home/ann")
            assert words_of(printed) == words_of(shown[number]), shlex.join(words)


def title(page: Path) -> str:
    """Name a page by its path in the repository."""
    return str(page.relative_to(ROOT))


RUN = [page for page in PAGES if any(not block.skip for block in blocks(page))]


@pytest.mark.parametrize("page", RUN, ids=title)
def test_examples_run(page, tmp_path, monkeypatch, capsys):
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    write_example_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.skip:
            continue
        if block.language == "python":
            # Empty lines in front, so that a traceback names the line of the page.
            code = "\n" * (block.line - 1) + block.code
            exec(compile(code, str(page), "exec"), namespace)
        elif block.language == "yaml":
            Recipe.from_dict(load_yaml(block.code))
        else:
            run_shell(block, page, monkeypatch, capsys)


def test_skipped_examples_import_what_exists():
    for page in PAGES:
        for block in blocks(page):
            if block.skip and block.language == "python":
                for node in ast.walk(ast.parse(block.code, str(page))):
                    if isinstance(node, ast.ImportFrom) and str(node.module).startswith("foveate"):
                        if block.skip.startswith("needs sentence-transformers"):
                            continue  # without which the module cannot be imported
                        module = import_module(str(node.module))
                        missing = [a.name for a in node.names if not hasattr(module, a.name)]
                        assert not missing, f"{title(page)}:{block.line}: {missing}"


def test_skipped_examples():
    """Report how many blocks are not run, and why."""
    reasons = Counter(block.skip for page in PAGES for block in blocks(page) if block.skip)
    total = sum(1 for page in PAGES for _ in blocks(page))
    if reasons:
        listed = ", ".join(f"{reason} ({count})" for reason, count in reasons.most_common())
        pytest.skip(f"{reasons.total()} of {total} blocks are not run: {listed}")
