"""What runs an encoder's model: texts and outlines of documents in, vectors out."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, Self

import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor

from foveate.preprocessing.tree import Anchor

Context = Literal["sentence", "document", "tree"]

TEXTS_PER_CHUNK = 4096
"""Texts that are tokenized and sorted by length together."""


@dataclass(frozen=True)
class DocumentVectors:
    """A document's vectors, float32 on the CPU.

    Attributes:
        document: `(dimension,)`.
        sections: `(sections, dimension)`, in the order of `Document.walk`.
        sentences: `(sentences, dimension)`, in the order of `Document.sentences`.
        salience: `(sentences,)`, how much each sentence belongs in a summary, on a scale of the
            document's own; None if the model has no head for it.
        tokens: `(tokens, token_size / 8)` uint8, the signs of the vectors of the tokens of all
            sentences, in order, eight to a byte as `numpy.packbits` has them; None if the model has
            no head for it.
        num_tokens: `(sentences,)` int64, how many of them each sentence has.
    """

    document: Tensor
    sections: Tensor
    sentences: Tensor
    salience: Tensor | None = None
    tokens: Tensor | None = None
    num_tokens: Tensor | None = None

    @property
    def num_bytes(self) -> int:
        """The memory that they take."""
        return sum(x.nbytes for x in vars(self).values() if x is not None)

    def to_bytes(self) -> bytes:
        """Return the vectors as the content of a safetensors file."""
        tensors = {name: x for name, x in vars(self).items() if x is not None}
        return safetensors.torch.save({name: x.contiguous() for name, x in tensors.items()})

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Return the vectors that `to_bytes` saved."""
        return cls(**safetensors.torch.load(content))


class Runner(ABC):
    """A model with its tokenizer; `foveate.inference.Encoder` is what callers use.

    Args:
        model: The model, in evaluation mode.
        processor: What prepares its texts.
        context: See `Encoder`.
        dimension: Length of its vectors.
        linear_dtype: Dtype of the model's linear layers; everything else is float32.
        normalizes: Whether its vectors have unit length.
        details: What `Encoder.describe` says beyond its name, context and dimension.
        options: See `Encoder`.
    """

    has_tokens = False

    def __init__(
        self,
        model: Any,
        processor: Any,
        context: Context,
        dimension: int,
        linear_dtype: torch.dtype = torch.float32,
        *,
        normalizes: bool,
        details: Mapping[str, Any],
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.model = model
        self.processor = processor
        self.context: Context = context
        self.dimension = dimension
        self.linear_dtype = linear_dtype
        self.details = dict(details)
        self.options = dict(options or {})
        self._normalizes = normalizes

    @abstractmethod
    def encode_texts(self, texts: Sequence[str], show_progress: bool | None = None) -> Tensor:
        """Encode texts, each by itself: `(texts, dimension)`, see `Encoder.encode_texts`."""

    def encode_queries(self, queries: Sequence[str]) -> Tensor:
        """Encode queries: `(queries, dimension)`."""
        return self.encode_texts(queries)

    def encode_query(self, query: str) -> tuple[Tensor, Tensor | None]:
        """Encode a query and its tokens, see `Encoder.encode_query`."""
        return self.encode_queries([query])[0], None

    def encode_outlines(
        self, outlines: list[list[Anchor]], show_progress: bool | None = None
    ) -> list[DocumentVectors]:
        """Encode documents, whose outlines these are: by default, their sentences by themselves."""
        sentences = [
            [anchor.text for anchor in anchors if anchor.sentence_idx is not None]
            for anchors in outlines
        ]
        titles = [
            [anchor.text for anchor in anchors if anchor.text and anchor.sentence_idx is None]
            for anchors in outlines
        ]
        return [
            self._from_sentences(anchors, sentence_vectors, title_vectors)
            for anchors, sentence_vectors, title_vectors in zip(
                outlines,
                self._encode_lists(sentences, show_progress),
                self._encode_lists(titles, show_progress),
                strict=True,
            )
        ]

    def _encode_lists(
        self, lists: list[list[str]], show_progress: bool | None
    ) -> tuple[Tensor, ...]:
        """Encode lists of texts together."""
        vectors = self.encode_texts(list(chain.from_iterable(lists)), show_progress)
        parts: tuple[Tensor, ...] = vectors.split([len(texts) for texts in lists])
        return parts

    def _from_sentences(
        self, anchors: list[Anchor], sentences: Tensor, titles: Tensor
    ) -> DocumentVectors:
        """Compute the vectors of the document and its sections: means over sentences and titles."""
        upper = [i for i, anchor in enumerate(anchors) if anchor.kind != "sentence"]
        row_of = {i: row for row, i in enumerate(upper)}
        sums = torch.zeros(len(upper), self.dimension)
        counts = torch.zeros(len(upper), 1)
        for vectors, are_titles in ((sentences, False), (titles, True)):
            parents = torch.tensor(
                [
                    row_of[anchor.parent]
                    for anchor in anchors
                    if anchor.text and (anchor.sentence_idx is None) == are_titles
                ],
                dtype=torch.long,
            )
            sums.index_add_(0, parents, vectors)
            counts.index_add_(0, parents, torch.ones(len(parents), 1))
        for i in reversed(upper[1:]):  # sections come after what holds them
            sums[row_of[anchors[i].parent]] += sums[row_of[i]]
            counts[row_of[anchors[i].parent]] += counts[row_of[i]]
        vectors = self._finish(sums, counts)
        return DocumentVectors(vectors[0], vectors[1:], sentences)

    def _finish(self, sums: Tensor, counts: Tensor) -> Tensor:
        """Divide sums by counts and normalize if requested; in place, to save memory."""
        means = sums.div_(counts.clamp(min=1))  # sentences may be empty strings
        return F.normalize(means, dim=-1, out=means) if self._normalizes else means
