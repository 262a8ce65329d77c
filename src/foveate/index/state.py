"""What a library consists of at one point in time, in whatever engine."""

from dataclasses import dataclass, field
from typing import Any

from foveate.index.statistics import Totals

IN_MEMORY = "a model in memory"
"""The name of a model that cannot be loaded by name: its weights are in no file."""


class LibraryError(ValueError):
    """A library cannot be used; the message says why and what to do."""


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

    @property
    def num_documents(self) -> int:
        """Number of documents."""
        return self.totals.num_texts("document")

    @property
    def num_sentences(self) -> int:
        """Number of sentences."""
        return self.totals.num_texts("sentence")
