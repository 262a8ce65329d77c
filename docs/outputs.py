"""Rewrite what the commands in the documentation print.

    python docs/outputs.py

Runs the commands of every `console` block of the README and the pages, in a temporary folder with
`examples/`, and puts what they print below them. `tests/docs` checks it.
"""

import io
import re
import shlex
import sys
import tempfile
from contextlib import chdir, redirect_stdout
from pathlib import Path

from foveate.cli import main

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
FOLDER = "/home/ann"
"""What stands for the temporary folder."""
BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
PROMPT = re.compile(r"^\$ (.*)\n", re.MULTILINE)


def rewritten(block: str) -> str:
    """Return a block with what its commands print today."""
    outputs = []
    for command in PROMPT.findall(block):
        sys.argv = shlex.split(command)
        with redirect_stdout(io.StringIO()) as printed:
            try:
                main()
            except SystemExit as stop:
                if stop.code:
                    raise
        text = printed.getvalue().strip().replace(str(Path.cwd()), FOLDER)
        output = "\n".join(line.rstrip() for line in text.splitlines())
        outputs.append(f"$ {command}\n{output}\n")
    return "\n".join(outputs)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        Path("examples").symlink_to(ROOT / "examples")
        for page in PAGES:
            text = page.read_text(encoding="utf-8")
            new = BLOCK.sub(lambda found: rewritten(found[0]), text)
            page.write_text(new, encoding="utf-8")
