"""What can be measured, the tables that are made of results, and the command line of both.

A measurement is a function whose options are its parameters. It returns its results, or yields
them with what is still missing after every step, so that an interrupted run loses one step. The
module `NAME` registers the measurement NAME, and others as NAME-PART:

    @measurement("fish-nets.json", "torch")
    def nets(data: Path = report.DATA, lengths: Sequence[int] = (1, 2)) -> dict[str, Any]:

A table of a page is made of saved results by a function:

    @table("numbers/fish.md", "nets", "fish-nets.json")
    def nets_table(results: dict[str, Any]) -> str:
"""

import argparse
import inspect
import json
import re
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import GeneratorType, NoneType
from typing import Any, Literal, TypeVar

from benchmarks import report

FOLDER = Path(__file__).parent
F = TypeVar("F", bound=Callable[..., Any])

HELP = {
    "batches": "numbers of sequences",
    "data": "folder of texts, see README.md",
    "device": "by default a GPU if there is one",
    "documents": "number of files in the library",
    "dtype": "of linear layers, by default that of the checkpoint",
    "encoders": "prefixes of names, by default of all",
    "forms_": "forms to measure, see forms.py",
    "lengths": "tokens",
    "limit": "documents or questions of each set, by default all",
    "minilm": "folder of all-MiniLM-L6-v2, by default the package's",
    "minutes": "begin nothing after these",
    "model": "name or path of an encoder, by default the default model",
    "output": "file to save the results in",
    "parts": "parts to measure",
    "turns": "measurements of each part",
}
"""Of options that several measurements have; others are described by their function."""


@dataclass(frozen=True)
class Measurement:
    """A function that measures.

    Attributes:
        function: It.
        results: The file of its results, with options in braces; None if it writes what it makes.
        packages: Names of packages whose versions matter.
    """

    function: Callable[..., Any]
    results: str | None
    packages: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A table on a page.

    Attributes:
        page: The page, below docs.
        name: The name in the page's comment.
        files: The results that it is made of.
        write: Takes these to Markdown.
    """

    page: str
    name: str
    files: tuple[str, ...]
    write: Callable[..., str]


MEASUREMENTS: dict[str, Measurement] = {}
TABLES: list[Table] = []
PICTURES: dict[str, tuple[str, Callable[..., Any]]] = {}
"""By the name below docs/images: the file of results, and what draws it as a figure."""


def measurement(results: str | None, *packages: str, part: str | None = None) -> Callable[[F], F]:
    """Register a measurement of a module, by the module's name and that of the part."""

    def register(function: F) -> F:
        module = function.__module__.rpartition(".")[2]
        name = f"{module}-{part}" if part else module
        MEASUREMENTS[name] = Measurement(function, results, packages)
        return function

    return register


def table(page: str, name: str, *files: str) -> Callable[[F], F]:
    """Register what writes a table."""

    def register(function: F) -> F:
        TABLES.append(Table(page, name, files, function))
        return function

    return register


def picture(name: str, file: str) -> Callable[[F], F]:
    """Register what draws a picture of all that a file of results says."""

    def register(function: F) -> F:
        PICTURES[name] = (file, function)
        return function

    return register


def modules_with(what: str) -> dict[str, str]:
    """Return the text of each module that registers measurements, tables or pictures, by name.

    Nothing is imported: some modules need packages that others do not.
    """
    texts = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.py")}
    pattern = re.compile(rf"^(?:@| {{4}}){what}\(", re.MULTILINE)
    return {name: text for name, text in sorted(texts.items()) if pattern.search(text)}


def import_with(what: str) -> None:
    """Import the modules that register these."""
    for name in modules_with(what):
        import_module(f"benchmarks.{name}")


def write_tables() -> None:
    """Write all tables into their pages."""
    for page in dict.fromkeys(one.page for one in TABLES):
        found = {one.name: text_of(one) for one in TABLES if one.page == page}
        report.write_tables(report.ROOT / "docs" / page, found)


def text_of(one: Table) -> str:
    """Make a table of its saved results."""
    text: str = one.write(*(report.load(report.RESULTS / file) for file in one.files))
    return text


def draw_pictures() -> None:
    """Draw all pictures of the pages."""
    for name, (file, draw) in PICTURES.items():
        figure = draw(json.loads((report.RESULTS / file).read_text(encoding="utf-8")))
        figure.savefig(report.ROOT / "docs" / "images" / name, dpi=110)
        print(name)


def run(name: str, arguments: Sequence[str]) -> None:
    """Measure, and save the results whenever there are more."""
    chosen = MEASUREMENTS[name]
    options = vars(parser_of(name, chosen).parse_args(arguments))
    output = options.pop("output", None) if chosen.results else None
    found = chosen.function(**options)
    if not chosen.results:
        return
    path = output or report.RESULTS / chosen.results.format(**options)
    for results, missing in found if isinstance(found, GeneratorType) else [(found, None)]:
        report.save(path, results, *chosen.packages, missing=missing)
    for one in TABLES:
        if one.files == (path.name,):
            print(f"\n{one.name}\n\n{one.write(results)}")


def parser_of(name: str, chosen: Measurement) -> argparse.ArgumentParser:
    """Make a parser of a function's parameters, whose help is in its docstring."""
    function = chosen.function
    docstring = inspect.getdoc(inspect.getmodule(function)) or ""
    described = dict(re.findall(r"^ {4}(\w+): (.+)$", inspect.getdoc(function) or "", re.MULTILINE))
    parser = argparse.ArgumentParser(
        f"python -m benchmarks {name}",
        description=docstring,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    hints = typing.get_type_hints(function)
    for option in inspect.signature(function).parameters.values():
        help_text = described.get(option.name) or HELP[option.name]
        is_required = option.default is option.empty
        _add(parser, option.name, hints[option.name], help_text, required=is_required)
        if not is_required:
            parser.set_defaults(**{option.name: option.default})
    if chosen.results:
        _add(parser, "output", Path, HELP["output"])
    return parser


def _add(
    parser: argparse.ArgumentParser, name: str, type_: Any, help_text: str, required: bool = False
) -> None:
    """Add an option of a type: several values, one of several, a flag, or one value."""
    flag = f"--{name.strip('_').replace('_', '-')}"
    options: dict[str, Any] = {"dest": name, "help": help_text, "required": required}
    if type_ is bool:
        parser.add_argument(flag, dest=name, action="store_true", help=help_text)
        return
    if NoneType in typing.get_args(type_):
        (type_,) = (one for one in typing.get_args(type_) if one is not NoneType)
    if typing.get_origin(type_) is Sequence:
        options["nargs"] = "+"
        type_ = typing.get_args(type_)[0]
    if typing.get_origin(type_) is Literal:
        options["choices"] = typing.get_args(type_)
        type_ = str
    parser.add_argument(flag, type=type_, **options)
