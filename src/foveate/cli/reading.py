"""Reading the files that a command is given."""

import logging
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from foveate.cache import Cache
from foveate.documents import Document, DocumentError, read_documents
from foveate.documents.files import read_data
from foveate.documents.formats import check_format
from foveate.progress import progress
from foveate.tasks.parameters import parameter

from .command import Command

FILES = (
    "Files in any format that `foveate formats` lists, compressed or not. Folders, archives and "
    "mailboxes are read completely. - stands for standard input."
)
FILE = (
    "A file in any format that `foveate formats` lists, compressed or not. - stands for standard "
    "input."
)
_PANEL = "Reading"
_log = logging.getLogger(__name__)
_SHOWN = 3
"""How many of the files that are left out are named."""


@dataclass(kw_only=True)
class FormatOptions(Command):
    """The options that say how files are read."""

    format: str | None = parameter(
        "Format of the files, one of those that `foveate formats` lists. Default: recognized from "
        "suffix and content.",
        None,
        metavar="NAME",
        panel=_PANEL,
    )
    language: str | None = parameter(
        "Language of the text (en, de, fr …), which determines how it is split into sentences. "
        "Default: detected.",
        None,
        metavar="CODE",
        panel=_PANEL,
    )
    encoding: str | None = parameter(
        "Encoding of the text (utf-8, cp1252 …). Default: detected.",
        None,
        metavar="NAME",
        panel=_PANEL,
    )
    pdf: str | None = parameter(
        "What reads PDFs: pdfium, or docling, which finds tables and formulas with models and "
        "takes longer. Default: pdfium.",
        None,
        metavar="NAME",
        panel=_PANEL,
    )
    ocr: bool = parameter("Recognize the text of scanned pages.", False, panel=_PANEL)
    strict: bool = parameter(
        "Stop at the first file that cannot be read. Default: go on, and name these files at the "
        "end.",
        False,
        panel=_PANEL,
    )

    def reading(self) -> dict[str, Any]:
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
        named = {"format": self.format, "language": self.language, "encoding": self.encoding}
        of_pdf = {"engine": self.pdf, "ocr": self.ocr or None}
        return named | {name: value for name, value in of_pdf.items() if value is not None}


@dataclass(kw_only=True)
class ReadingOptions(FormatOptions):
    """Those options for a command that reads files each time it is called, and the cache."""

    no_cache: bool = parameter(
        "Read and encode files even if that is in the cache (`foveate cache`), and keep nothing "
        "there.",
        False,
        panel=_PANEL,
    )

    @property
    def cache(self) -> Cache | None:
        """Where documents and their vectors are kept."""
        return None if self.no_cache else Cache()

    def read(self, files: Sequence[str]) -> list[Document]:
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

        how = {**self.reading(), "on_error": None if self.strict else note, "cache": self.cache}
        documents: list[Document] = []
        with progress("Reading", len(files) if len(files) > 1 else None) as advance:
            for file in files:
                start = time.perf_counter()
                documents += (
                    read_data(standard_input().buffer.read(), "standard input", **how)
                    if file == "-"
                    else read_documents(file, on_skip=skipped.append, **how)
                )
                _log.info("%s: read in %.1f s", file, time.perf_counter() - start)
                advance()
        say_skipped(skipped)
        if errors and not documents:
            self.failures.extend(errors[:-1])
            raise errors[-1]
        self.failures.extend(errors)
        return documents

    def read_one(self, file: str) -> Document:
        """Read a file that holds one document; `-` stands for standard input.

        Raises:
            DocumentError: It cannot be read, or holds several documents.
        """
        documents = self.read([file])
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
