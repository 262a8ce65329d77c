"""The words of a text, and how common they are."""

import re
from contextlib import suppress
from functools import cache
from typing import NamedTuple

_SAME = 10
"""Distance of `langcodes` up to which codes are of one language: no and nb, en-US and en."""

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


class Word(NamedTuple):
    """A word of a text: what it counts as, and where it stands."""

    key: str
    start: int
    end: int


def words(text: str) -> list[Word]:
    """Find the runs of letters and digits, with the apostrophes inside them, in lower case.

    Example:
        >>> [word.key for word in words("Don't re-enter Room_12!")]
        ["don't", 're', 'enter', 'room', '12']
    """
    return [
        Word(match[0].lower().replace("’", "'"), match.start(), match.end())
        for match in _WORD.finditer(text)
    ]


@cache
def general_frequencies(language: str) -> dict[str, float]:
    """Share of each common word in general usage: of those that come up once in a million words.

    From wordfreq, whose sources are Wikipedia, subtitles, news, books, the web and social media.

    Raises:
        ValueError: wordfreq does not know the language.
    """
    import langcodes
    import wordfreq

    known = sorted(wordfreq.available_languages("small"))
    found = None
    with suppress(langcodes.LanguageTagError):
        # wordfreq would go on to what is nearest, and that is English sooner or later.
        found = langcodes.closest_supported_match(language, known, max_distance=_SAME)
    if found is None:
        raise ValueError(
            f"there are no word frequencies for the language {language!r}: "
            f"name one of {', '.join(known)}"
        )
    return wordfreq.get_frequency_dict(found, wordlist="small")
