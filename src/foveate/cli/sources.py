"""What a command searches: files that it reads, or a library."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foveate.tasks.parameters import ConditionParameters, ReadingParameters, parameter

from .command import Command, options
from .models import ENCODER, OF_LIBRARY, LoadingOptions, checkpoint
from .reading import FILES, ReadingOptions

if TYPE_CHECKING:
    from foveate.documents import Document
    from foveate.inference import Encoder
    from foveate.tasks.context import Prompt
    from foveate.tasks.hits import Hit


@dataclass(kw_only=True)
class _LibraryOption(Command):
    library: Path | None = parameter(
        "Library built by `foveate index`, to use instead of files.",
        None,
        short="-l",
        metavar="DIR",
        panel="Library",
    )


@dataclass(kw_only=True)
class SourceOptions(ReadingOptions, LoadingOptions, ConditionParameters, _LibraryOption):
    """What is read, either files or a library, and by which model."""

    files: list[str] | None = parameter(
        f"{FILES} Not with --library.", None, metavar="FILE", is_argument=True
    )
    model: str | None = checkpoint(f"{ENCODER}{OF_LIBRARY}")

    def __post_init__(self) -> None:
        """Let what is given outweigh settings: files a library, a library's model another."""
        if "library" in self.of_settings and self.files:
            self.library = None
        if "model" in self.of_settings and self.library:
            self.model = None

    @property
    def conditions(self) -> dict[str, Any]:
        """The options that choose what is used of a library, as those of `Index.search`."""
        return {one.name: getattr(self, one.name) for one in options(ConditionParameters)}

    def check_sources(self) -> None:
        """Check that there are either files or a library, and only options that go with these.

        Raises:
            ValueError: There are both, or neither, or options for the other.
        """
        if self.library is None:
            if not self.files:
                raise ValueError(
                    "there is nothing to search: name files (- for standard input), or a library "
                    "with --library"
                )
            if given := [name for name, value in self.conditions.items() if value]:
                raise ValueError(
                    f"--{given[0]} goes with --library: without one, name the files to read"
                )
            return
        if self.files:
            raise ValueError(
                "name either files or --library: `foveate index FILE --library DIR` adds files to "
                "one"
            )
        unused = (one.name for one in options(ReadingOptions) if getattr(self, one.name))
        if name := next(unused, None):
            raise ValueError(
                f"--{name.replace('_', '-')} says how files are read, and a library's have been "
                "read already: choose among them with --where"
            )

    def check_found(self, hits: "Sequence[Hit]") -> None:
        """Check that something of a library was found.

        Raises:
            ValueError: No document satisfies the conditions.
        """
        if not hits:
            given = [f"--{name} {value}" for name, value in self.conditions.items() if value]
            raise ValueError(
                f"no document of {self.library} matches {' and '.join(given) or 'a query'}: "
                f"`foveate library list {self.library}` shows what it has"
            )

    def make_prompt(
        self,
        query: str | None,
        tokens: int,
        tokenizer: str | None = None,
        *,
        thorough: bool = True,
    ) -> "tuple[Prompt, Encoder]":
        """Show files or a library within a budget, and return the encoder too."""
        if self.library is not None:
            index = self.open_library(self.library)
            prompt = index.context(query, tokens=tokens, tokenizer=tokenizer, **self.conditions)
            return prompt, index.encoder
        documents = self.read(self.files or [])
        encoder = self.load_encoder(self.cache)
        from foveate.tasks.context import context

        prompt = context(
            query, documents, tokens=tokens, tokenizer=tokenizer, model=encoder, thorough=thorough
        )
        if not thorough:
            say_share_read(documents, encoder)
        return prompt, encoder


@dataclass(kw_only=True)
class QuerySourceOptions(SourceOptions, ReadingParameters):
    """Those options for a query, which files are read for as closely as it needs."""

    def check_sources(self) -> None:
        """See `SourceOptions.check_sources`.

        Raises:
            ValueError: See there; or a library is to be read thoroughly.
        """
        super().check_sources()
        if self.library is not None and self.thorough:
            raise ValueError(
                "--thorough says how files are read, and a library's have been read as a whole: "
                "leave it out"
            )


def say_share_read(documents: "Sequence[Document]", encoder: "Encoder") -> None:
    """Say which share of documents a query was compared with closely, unless it is all."""
    from foveate.tasks.closely import share_read

    if (share := share_read(documents, encoder)) < 1:
        print(
            f"foveate: {max(share, 0.01):.0%} of the text was read closely, where the words of the "
            "query point (--thorough: all)",
            file=sys.stderr,
        )
