"""Words of Chinese and Japanese, which are written without spaces."""

import math
import re
from functools import cache

from foveate.detectors.frequencies import general_frequencies

_CODES = ("ja", "zh")
_UNSPACED = re.compile(r"[\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")
_KATAKANA = re.compile(r"[\u30a1-\u30ff]+")
_MAX_CHARACTERS = 8  # of a word; hardly any is longer


def needs_segmentation(language: str) -> bool:
    """Return whether a language, by its ISO 639 code, is Chinese or Japanese."""
    return language.lower().replace("_", "-").partition("-")[0] in _CODES


def segment(text: str, language: str) -> list[tuple[int, int]]:
    """Split the Chinese or Japanese parts of a text into their most probable words.

    Of all splits, the one with the highest product of the words' shares in general usage is
    taken. A character that begins no known word is a word of its own, and so is a run of katakana,
    in which Japanese writes foreign words.

    Args:
        text: The text.
        language: Code of Chinese or Japanese.

    Returns:
        Start and end of each word, in order; what is not written in Chinese characters or kana is
        left out.

    Example:
        >>> text = "鲸鱼在冰下游泳"
        >>> [text[start:end] for start, end in segment(text, "zh")]
        ['鲸鱼', '在', '冰', '下', '游泳']
    """
    words: list[tuple[int, int]] = []
    for run in _UNSPACED.finditer(text):
        words += [
            (run.start() + start, run.start() + end) for start, end in _split(run[0], language)
        ]
    return words


def _split(run: str, language: str) -> list[tuple[int, int]]:
    costs, unknown = _costs(language)
    katakana = {match.start(): match.end() for match in _KATAKANA.finditer(run)}
    best = [0.0] + [math.inf] * len(run)  # cost of the cheapest split of the first characters
    origin = [0] * (len(run) + 1)  # where the last word of that split begins
    for start in range(len(run)):
        longest = min(start + _MAX_CHARACTERS, len(run))
        ends = {end: costs.get(run[start:end]) for end in range(start + 1, longest + 1)}
        if (end := katakana.get(start)) is not None:
            ends[end] = costs.get(run[start:end], unknown)
        if ends[start + 1] is None:
            ends[start + 1] = unknown
        for end, cost in ends.items():
            if cost is not None and best[start] + cost < best[end]:
                best[end], origin[end] = best[start] + cost, start
    words: list[tuple[int, int]] = []
    end = len(run)
    while end:
        words.append((origin[end], end))
        end = origin[end]
    return words[::-1]


@cache
def _costs(language: str) -> tuple[dict[str, float], float]:
    """Return the negative logarithm of each common word's share of usage, and one above all."""
    costs = {word: -math.log(share) for word, share in general_frequencies(language).items()}
    return costs, max(costs.values()) + 1
