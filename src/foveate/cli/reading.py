"""Reading the files that a command is given: the arguments and options, and what they do."""

import logging
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any, TextIO

import typer

from foveate.cache import Cache
from foveate.documents import Document, DocumentError, read_documents
from foveate.documents.files import read_data
from foveate.documents.formats import check_format
from foveate.progress import progress

_READ = (
    "Files in any format that `foveate formats` lists, compressed or not. Folders, archives and "
    "mailboxes are read completely. - stands for standard input."
)
Files = Annotated[list[str], typer.Argument(metavar="FILE", help=_READ, show_default=False)]
FilesOrNone = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILE", help=f"{_READ} Not with --library.", show_default=False),
]
File = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="A file in any format that `foveate formats` lists, compressed or not. - stands for "
        "standard input.",
        show_default=False,
    ),
]
_PANEL = "Reading"
_log = logging.getLogger(__name__)
_SHOWN = 3
"""How many of the files that are left out are named."""


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """The options that say how files are read."""

    format: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Format of the files, one of those that `foveate formats` lists. Default: "
            "recognized from suffix and content.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None
    language: Annotated[
        str | None,
        typer.Option(
            metavar="CODE",
            help="Language of the text (en, de, fr …), which determines how it is split into "
            "sentences. Default: detected.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None
    encoding: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Encoding of the text (utf-8, cp1252 …). Default: detected.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None
    pdf: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What reads PDFs: pdfium, or docling, which finds tables and formulas with models "
            "and takes longer. Default: pdfium.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None
    ocr: Annotated[
        bool,
        typer.Option("--ocr", help="Recognize the text of scanned pages.", rich_help_panel=_PANEL),
    ] = False
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="Stop at the first file that cannot be read. Default: go on, and name these files "
            "at the end.",
            rich_help_panel=_PANEL,
        ),
    ] = False
    failures: list[Exception] = field(default_factory=list)

    def given(self) -> list[str]:
        """Return the names of the options that are given."""
        names = (option.name for option in fields(self) if option.name != "failures")
        return [name.replace("_", "-") for name in names if getattr(self, name)]

    def options(self) -> dict[str, Any]:
        """Return the options as those of `read_documents`.

        Raises:
            DocumentError: There is no such format.
            ValueError: There is no such language.
        """
        if self.format is not None:
            check_format(self.format)
        if self.language is not None:
            from langcodes import tag_is_valid  # takes a moment

            if not tag_is_valid(self.language):
                raise ValueError(f"there is no language {self.language!r}: give a code such as de")
        options: dict[str, Any] = {
            "format": self.format,
            "language": self.language,
            "encoding": self.encoding,
        }
        if self.pdf is not None:
            options["engine"] = self.pdf
        if self.ocr:
            options["ocr"] = True
        return options


@dataclass(frozen=True, slots=True)
class Reading(ReadingOptions):
    """Those options for a command that reads files each time it is called, and the cache."""

    no_cache: Annotated[
        bool,
        typer.Option(
            "--no-cache",
            help="Read and encode files even if that is in the cache (`foveate cache`), and keep "
            "nothing there.",
            rich_help_panel=_PANEL,
        ),
    ] = False

    @property
    def cache(self) -> Cache | None:
        """Where documents and their vectors are kept."""
        return None if self.no_cache else Cache()

    def documents(self, files: list[str]) -> list[Document]:
        """Read the documents in files and folders; `-` stands for standard input.

        What cannot be read is added to `failures`, unless nothing can.

        Raises:
            DocumentError: With `strict`, a file cannot be read; otherwise, none can. Or there is
                no such format.
        """
        if files.count("-") > 1:
            raise ValueError("- stands for standard input, which can be read only once")
        for file in files:
            if file.startswith(("http://", "https://")):
                raise ValueError(f"{file} is on the web: fetch it, and name the file")
        errors: list[Exception] = []
        skipped: list[str] = []

        def note(name: str, error: Exception) -> None:
            errors.append(named_error(name, error))

        options = {
            **self.options(),
            "on_error": None if self.strict else note,
            "cache": self.cache,
        }

        documents: list[Document] = []
        with progress("Reading", len(files) if len(files) > 1 else None) as advance:
            for file in files:
                start = time.perf_counter()
                documents += (
                    read_data(standard_input().buffer.read(), "standard input", **options)
                    if file == "-"
                    else read_documents(file, on_skip=skipped.append, **options)
                )
                _log.info("%s: read in %.1f s", file, time.perf_counter() - start)
                advance()
        say_skipped(skipped)
        if errors and not documents:
            self.failures.extend(errors[:-1])
            raise errors[-1]
        self.failures.extend(errors)
        return documents

    def document(self, file: str) -> Document:
        """Read a file that holds one document; `-` stands for standard input.

        Raises:
            DocumentError: It cannot be read, or holds several documents.
        """
        documents = self.documents([file])
        if len(documents) > 1:
            raise DocumentError(
                f"{file} holds {len(documents)} documents, and this command takes one: name a "
                "file that holds only one."
            )
        return documents[0]


def say_skipped(names: Sequence[str]) -> None:
    """Say which files of folders were left out, and how to have them read."""
    if names:
        shown = ", ".join(names[:_SHOWN])
        rest = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
        print(
            f"foveate: left out of the folders, since no reader takes their format: {shown}{rest} "
            "(see `foveate formats`); a file that is named itself is read as text",
            file=sys.stderr,
        )


def named_error(name: str, error: Exception) -> Exception:
    """Return the error of a file as one whose message names the file."""
    return error if name in str(error) else DocumentError(f"{name}: {error}")


def standard_input() -> TextIO:
    """Return standard input.

    Raises:
        ValueError: It is closed.
    """
    if sys.stdin is None:
        raise ValueError("standard input is closed: give the command something to read from it")
    return sys.stdin


def _set_verbose(is_given: bool) -> None:
    if is_given:
        logging.basicConfig(format="%(name)s: %(message)s")
        logging.getLogger("foveate").setLevel(logging.DEBUG)


_VERBOSE = Annotated[
    bool,
    typer.Option(
        "--verbose",
        callback=_set_verbose,
        is_eager=True,
        help="Say on standard error what is done, and where in the code an error occurred.",
    ),
]


def takes_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `Reading`, and of any other group that it has a parameter of.

    A group is a dataclass whose fields are annotated as options. A library that is only the default
    gives way to files, and a model that is only the default to that of a library.
    """
    own = signature(command, eval_str=True).parameters.values()
    groups: dict[str, Any] = {
        one.name: one.annotation for one in own if is_dataclass(one.annotation)
    }
    parameters = [
        Parameter("ctx", Parameter.KEYWORD_ONLY, annotation=typer.Context),
        Parameter("verbose", Parameter.KEYWORD_ONLY, annotation=_VERBOSE, default=False),
    ]
    for one in own:
        several = signature(groups[one.name]).parameters.values() if one.name in groups else [one]
        parameters += [
            option.replace(kind=Parameter.KEYWORD_ONLY)
            for option in several
            if option.name != "failures"
        ]

    @wraps(command)
    def with_options(*, ctx: typer.Context, verbose: bool, **values: Any) -> None:
        sources = {name: ctx.get_parameter_source(name) for name in values}
        defaults = [name for name, one in sources.items() if one and one.name == "DEFAULT_MAP"]
        if "folder" in defaults and values.get("files"):
            values["folder"] = None
        if "model" in defaults and values.get("folder"):
            values["model"] = None
        values["failures"] = ctx.obj
        for name, group in groups.items():
            values[name] = group(**{one.name: values.pop(one.name) for one in fields(group)})
        values.pop("failures", None)  # of a command that reads no files
        command(**values)

    with_options.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {one.name: one.annotation for one in parameters}
    return with_options
