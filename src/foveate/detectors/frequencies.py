"""Frequencies of words in general usage."""

from contextlib import suppress
from functools import cache

_SAME_LANGUAGE = 10
"""Greatest `langcodes` distance between codes of one language: no and nb, en-US and en."""


@cache
def general_frequencies(language: str) -> dict[str, float]:
    """Return each common word's share of general usage.

    Common words are those that occur at least once in a million words. The shares are wordfreq's,
    whose sources are Wikipedia, subtitles, news, books, the web and social media.

    Raises:
        ValueError: wordfreq does not know the language.
    """
    import langcodes
    import wordfreq
    from langcodes.tag_parser import LanguageTagError

    known = sorted(wordfreq.available_languages("small"))
    match = None
    with suppress(LanguageTagError):
        # wordfreq itself would fall back to ever more distant languages, and finally to English.
        match = langcodes.closest_supported_match(language, known, max_distance=_SAME_LANGUAGE)
    if match is None:
        raise ValueError(
            f"there are no word frequencies for the language {language!r}: "
            f"name one of {', '.join(known)}"
        )
    return wordfreq.get_frequency_dict(match, wordlist="small")
