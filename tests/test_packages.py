"""The packages of foveate are ordered, and each imports only from those before it."""

import ast
import re
from importlib.util import resolve_name
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "foveate"
PAGES = ("CONTRIBUTING.md", "docs/reference/index.md")
SHARED = re.findall(
    r"`(\w+)\.py`", (ROOT / "CONTRIBUTING.md").read_text().partition(", which import nothing")[0]
)
"""The modules that serve all packages."""


def packages(page):
    """Return the packages in the order of a page's table."""
    blocks = (ROOT / page).read_text().split("\n\n")
    table = next(block for block in blocks if block.startswith("| package"))
    return re.findall(r"^\| \[?`(?:foveate\.)?(\w+)`", table, re.MULTILINE)


def imports(path):
    """Return the packages and modules of foveate that a file imports, even inside a function."""
    parent = ".".join(("foveate", *path.relative_to(SOURCE).parent.parts))
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), parent)
            names = [f"{module}.{alias.name}" for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("foveate.")}
    return found


def files(name):
    folder = SOURCE / name
    return folder.rglob("*.py") if folder.is_dir() else [folder.with_suffix(".py")]


@pytest.mark.parametrize("page", PAGES)
def test_each_package_imports_only_from_those_before_it(page):
    order = packages(page)
    assert len(order) >= 14
    later = set(order)
    for name in order:
        later.discard(name)
        for path in files(name):
            assert not imports(path) & later, path


def test_every_package_has_its_place():
    named = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert named - {"__init__", "__main__", "__pycache__", "py"} == {
        *packages("CONTRIBUTING.md"),
        *SHARED,
    }


@pytest.mark.parametrize("name", SHARED)
def test_what_serves_all_packages_imports_none_of_them(name):
    assert not imports(SOURCE / f"{name}.py") & set(packages("CONTRIBUTING.md"))
