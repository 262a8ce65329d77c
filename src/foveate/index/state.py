"""What a library consists of at one point in time, in whatever engine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from foveate.index.statistics import Totals


class LibraryError(ValueError):
    """A library cannot be used; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class LibraryDocument:
    """A document of a library, without its content.

    Attributes:
        number: Its number, as `Index.document` takes it.
        source: Its name: its file, or its place in a file that holds several.
        file: The file that it was read from.
        title: Its title; empty if it has none.
        authors: The names of its authors, in order; empty if unknown.
        date: When it was published, in ISO 8601: a year, a month or a day; None if unknown.
        language: ISO 639 code of its language; None if unknown.
        format: The suffix of its file.
        size: The size of its file in bytes.
        modified: When its file was last changed.
        indexed: When it was added.
        num_sections: Number of its sections.
        num_sentences: Number of its sentences.
    """

    number: int
    source: str
    file: str
    title: str
    authors: tuple[str, ...]
    date: str | None
    language: str | None
    format: str | None
    size: int
    modified: datetime
    indexed: datetime
    num_sections: int
    num_sentences: int


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """The model that made a library's vectors.

    Attributes:
        name: Name or path of its checkpoint; None for the default model.
        sha256: Hash of its weights.
        context: What it reads at once, see `Encoder`.
        dimension: Length of its vectors.
        options: See `Encoder.options`.
    """

    name: str | None
    sha256: str
    context: str
    dimension: int
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def loading(self) -> dict[str, Any]:
        """The options with which `Encoder.from_pretrained` loads it."""
        return {"context": self.context, **self.options}

    @property
    def is_default(self) -> bool:
        """Whether it is foveate's own, as it is loaded without options."""
        return self.name is None and self.context == "tree" and not self.options


@dataclass(frozen=True, slots=True)
class State:
    """What a library consists of at one point in time.

    Attributes:
        model: The model that made its vectors.
        version: The version of its table.
        library: Drawn at random when the library was created, so that another one that takes its
            place is noticed.
        next_document: Number of the next document.
        totals: How many texts and terms it has.
        unrelated: `(dimension,)`, the mean of the vectors of sentences that have nothing to do with
            each other, see `foveate.tasks.relevance`.
    """

    model: ModelRecord
    version: int
    library: str
    next_document: int
    totals: Totals
    unrelated: tuple[float, ...]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the state that `dataclasses.asdict` made a dictionary of, even if JSON had it."""
        model, totals = ModelRecord(**values["model"]), Totals(*map(tuple, values["totals"]))
        unrelated = tuple(values["unrelated"])
        return cls(**{**values, "model": model, "totals": totals, "unrelated": unrelated})

    @property
    def num_documents(self) -> int:
        """Number of documents."""
        return self.totals.num_texts("document")

    @property
    def num_sentences(self) -> int:
        """Number of sentences."""
        return self.totals.num_texts("sentence")


def check_model(place: str | Path, recorded: ModelRecord, given: ModelRecord) -> None:
    """Refuse a model other than the one that made a library.

    Raises:
        LibraryError: The models, or options that their vectors of documents depend on, differ.
    """
    settings = [
        {name: value for name, value in model.loading.items() if name != "query_prompt"}
        for model in (recorded, given)
    ]
    if recorded.sha256 == given.sha256 and settings[0] == settings[1]:
        return
    made_by = recorded.name or "foveate's default model"
    if recorded.sha256 == given.sha256:
        made_by += "".join(f" with {name}={value!r}" for name, value in settings[0].items())
    raise LibraryError(
        f"the library {place} was made by {made_by} (SHA-256 {recorded.sha256[:12]}…), and its "
        f"vectors cannot be compared with those of {given.name or 'the default model'} "
        f"({given.sha256[:12]}…): name that model, or index the files into a new library"
    )
