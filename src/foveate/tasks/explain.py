"""Why a hit was found: which words of its best sentence match which words of the query."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from foveate.detectors.frequencies import general_frequencies
from foveate.detectors.keyword import Word, words
from foveate.documents import Span
from foveate.tasks.hits import Hit, WordMatch
from foveate.tasks.late_interaction import similarities

if TYPE_CHECKING:
    from foveate.inference import Encoder
    from foveate.preprocessing.tree_builder import PassageBuilder

Signs = npt.NDArray[np.uint8]

MIN_SIMILARITY = 0.45
"""Of 103 pairs of words above it in searches of `examples/`, 96 were right; below it, half were."""

_VERY_COMMON = 5e-4
"""Words with at least this share of general usage, such as "does", are left out."""


def check_tokens(encoder: "Encoder") -> None:
    """Raise a ValueError if a model makes no vectors of tokens, by which hits are explained."""
    if not encoder.has_tokens:
        raise ValueError(
            f"{encoder.name or 'the model'} has no vectors of tokens: leave out explain, or use "
            "foveate's own model"
        )


def explain(
    query: str,
    tokens: npt.NDArray[np.float32],
    hits: Sequence[Hit],
    signs: Sequence[Signs | None],
    language: str,
    encoder: "Encoder",
) -> list[Hit]:
    """Add the `matches` of hits: for each word of the query, the most similar one of the sentence.

    The similarity of two words is the highest cosine of a token of the one and one of the other.

    Args:
        query: The query.
        tokens: `(query tokens, token_size)`, see `foveate.inference.Encoder.encode_query`.
        hits: What was found.
        signs: For each hit `(tokens, token_size / 8)` those of the tokens of its best sentence, see
            `foveate.inference.DocumentVectors`; a hit without them stays as it is.
        language: ISO 639 code of the language of the texts.
        encoder: The model that made all of these.
    """
    processor = cast("PassageBuilder", encoder.processor)
    asked = _tokens_of_words(query, processor, language)

    def matches(best: Span, its_signs: Signs) -> Iterator[WordMatch]:
        # A sentence is read after the name of whoever begins to speak.
        is_alone = len(processor.offsets(best.text)) == len(its_signs)
        said = "" if is_alone else f"{best.speaker}: "
        found = _tokens_of_words(said + best.text, processor, language)
        cosines = similarities(tokens, its_signs)
        for word, columns in asked.items():
            similarity = {
                other: float(cosines[np.ix_(rows, columns)].max())
                for other, rows in found.items()
                if other.start >= len(said)
            }
            closest = max(similarity, key=similarity.__getitem__, default=None)
            if closest is not None and similarity[closest] >= MIN_SIMILARITY:
                start, end = closest.start - len(said), closest.end - len(said)
                yield WordMatch(
                    query[word.start : word.end],
                    best.text[start:end],
                    start,
                    end,
                    round(similarity[closest], 4),
                )

    return [
        hit if one is None else replace(hit, matches=tuple(matches(hit.best, one)))
        for hit, one in zip(hits, signs, strict=True)
    ]


def _tokens_of_words(
    text: str, processor: "PassageBuilder", language: str
) -> dict[Word, list[int]]:
    """Return which tokens each word of a text has, without very common words."""
    frequencies: Mapping[str, float] = {}
    with suppress(ValueError):  # there are none for the language
        frequencies = general_frequencies(language)
    offsets = processor.offsets(text)
    tokens = {
        word: [i for i, (start, end) in enumerate(offsets) if start < word.end and end > word.start]
        for word in words(text, language)
        if frequencies.get(word.key, 0) < _VERY_COMMON
    }
    return {word: idx for word, idx in tokens.items() if idx}
