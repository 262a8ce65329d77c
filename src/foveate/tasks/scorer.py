"""How texts are compared with a query: in memory, and as rows of a library.

This imports neither torch nor a model, so that a library is searched without them.

Vectors have unit length, so that products are cosines, written ⟨x, y⟩. Models spread their cosines
differently, so these are standardized before they are weighted. With u(q), the mean cosine of the
query q and sentences that have nothing to do with it or with each other,

    r(x, q) = (⟨x, q⟩ - u(q)) / (1 - u(q))

is 0 for an unrelated text and 1 for the query itself. It does not depend on what is searched.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from foveate.documents.language import FALLBACK
from foveate.documents.sentences import split_sentences
from foveate.tasks.bm25 import Floats, Ints, Words, bm25
from foveate.tasks.late_interaction import late_interaction
from foveate.tasks.terms import identifiers, terms
from foveate.tasks.weights import (
    UNRELATED_TOKENS,
    Level,
    Weights,
    relative,
    term_weights,
    weights_for,
)

if TYPE_CHECKING:
    from foveate.inference import Encoder
    from foveate.inference.query_encoder import QueryEncoder

Rarities = Callable[[Sequence[str], Level], Floats]
"""Returns `foveate.tasks.weights.rarity` of terms among the texts of a level: `(terms,)`."""


@dataclass(frozen=True)
class EncodedQuery:
    """A query, as the texts of a collection are compared with it.

    Attributes:
        text: Its words.
        language: ISO 639 code of the language of the texts.
        vectors: `(parts, dimension)` float32, of unit length: that of the whole query and, if it
            has several sentences, those of the sentences.
        unrelated: `(parts,)`, u of each.
        tokens: `(tokens, token_size)` float32, the vectors of its tokens; None if the model has no
            head for it.
        weights: The weights for this kind of query and model.
    """

    text: str
    language: str
    vectors: npt.NDArray[np.float32]
    unrelated: npt.NDArray[np.float32]
    tokens: npt.NDArray[np.float32] | None
    weights: Weights

    @classmethod
    def encode(
        cls,
        text: str,
        language: str | None,
        encoder: "Encoder | QueryEncoder",
        unrelated: npt.NDArray[np.float32],
        *,
        by_sentence: bool = True,
    ) -> "EncodedQuery":
        """Encode a query.

        Args:
            text: Its words.
            language: ISO 639 code of the language of the texts; English if it is unknown.
            encoder: The model that made the vectors of the texts.
            unrelated: `(dimension,)`, the mean of its vectors of unrelated sentences.
            by_sentence: Encode its sentences too, which whole documents are compared with.
        """
        language = language or FALLBACK
        cuts = split_sentences(text, language) if by_sentence else []
        sentences = [text[start:end] for start, end in cuts]
        whole, token_vectors = encoder.encode_query(text)
        parts = encoder.encode_queries(sentences) if len(sentences) > 1 else ()
        vectors = np.stack([np.asarray(one, np.float32) for one in (whole, *parts)])
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        tokens = None if token_vectors is None else np.asarray(token_vectors)
        weights = weights_for(text, encoder.context, has_tokens=tokens is not None)
        return cls(text, language, vectors, vectors @ unrelated, tokens, weights)

    @property
    def sentences(self) -> slice:
        """Which of its parts are its sentences."""
        return slice(len(self.vectors) > 1, None)

    @cached_property
    def terms(self) -> list[str]:
        """Its terms, each once."""
        return list(dict.fromkeys(terms(self.text, self.language)))

    @cached_property
    def names(self) -> list[list[str]]:
        """What it names exactly, see `foveate.tasks.terms.identifiers`."""
        return identifiers(self.text, self.language)

    def cosines(self, vectors: npt.NDArray[np.float32], parts: slice = slice(1)) -> Floats:
        """Return r of texts and parts of the query: `(texts, parts)`.

        Args:
            vectors: `(texts, dimension)`, of unit length.
            parts: Which parts; by default the whole query.
        """
        # A product of matrices would start BLAS's threads, which keep cores from an engine.
        cosines = np.vecdot(vectors[:, None], self.vectors[parts])
        return relative(cosines, self.unrelated[parts]).astype(np.float64)

    def match_tokens(self, tokens: npt.NDArray[np.uint8], num_tokens: Ints) -> Floats:
        """Return how well texts match token by token, 0 for unrelated ones: `(texts,)`.

        Args:
            tokens: See `foveate.tasks.late_interaction.late_interaction`.
            num_tokens: See there.
        """
        assert self.tokens is not None
        scores = late_interaction(self.tokens, tokens, num_tokens)
        return relative(scores, UNRELATED_TOKENS).astype(np.float64)


class Scorer:
    """Compares the words of texts with those of a query.

    Args:
        query: The query.
        rarities: How rare terms are in the collection.
    """

    def __init__(self, query: EncodedQuery, rarities: Rarities) -> None:
        self.query = query
        self.term_weights = cache(self._term_weights)
        self._rarities = rarities

    def _term_weights(self, level: Level) -> Floats:
        """Return i(t)^p / T of `foveate.tasks.bm25.bm25` of each of the T terms of the query."""
        terms = self.query.terms
        return term_weights(self._rarities(terms, level), level) if terms else np.zeros(0)

    def match_words(self, counts: Ints, lengths: Ints, mean_length: float, level: Level) -> Floats:
        """Return b of `foveate.tasks.bm25.bm25` of texts of a level: `(texts,)`.

        Args:
            counts: `(texts, terms)`, how often they have the terms of the query.
            lengths: `(texts,)`, the number of their terms.
            mean_length: That of all texts of the level, at least 1.
            level: What they are.
        """
        return bm25(counts, lengths, mean_length, self.term_weights(level))

    def match_names(self, words: Words) -> Floats:
        """Return e of sentences: the mean of i(x)² over the x that the query names exactly.

        Args:
            words: The words of the sentences.

        Returns:
            `(sentences,)`, where those without a name count as 0, and i(x) is
            `foveate.tasks.weights.rarity` of the rarest term of x.
        """
        found = np.zeros(len(words.lengths))
        for name in self.query.names:
            rarest = self._rarities(name, "sentence").max()
            found += rarest**2 * words.have(name) / len(self.query.names)
        return found
