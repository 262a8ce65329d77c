"""Speech without content: marks of sounds, fillers, and backchannels."""

import re
from collections.abc import Sequence
from dataclasses import replace

from foveate.documents.blocks import Block, MappedText, Prose
from foveate.documents.language import detect_language_of
from foveate.documents.words import alternatives, load_words

_WORDS = load_words("speech")
_SOUNDS = (
    r"(?:background |loud |no |mixed |overlapping )?(?:" + alternatives(_WORDS["sounds"]) + ")"
)
_MARK = re.compile(
    rf"\{{\s*\w+\s*\}}|[\[(<*]{{1,2}}\s?{_SOUNDS}[\s\d:.,!]{{0,20}}[\])>*]{{1,2}}|[♪♫♬]+",
    re.IGNORECASE,
)
_FILLERS: dict[str, list[str]] = _WORDS["fillers"]
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_BACKCHANNEL = re.compile(alternatives(_WORDS["backchannel"]), re.IGNORECASE)
_MAX_BACKCHANNEL = 80  # characters


def clean(blocks: Sequence[Block]) -> tuple[list[Block], str]:
    """Remove from a transcript what nobody would look for.

    These are marks of sounds, such as "{vocalsound}" and "[laughter]"; the fillers "um", "uh" and
    the like; and turns that only show that someone is listening, such as "Mm-hmm." and "Okay,
    right.", except after a question, to which they are an answer.

    Args:
        blocks: The turns in order, and headings among them.

    Returns:
        The blocks that are left, and the language of the transcript. If it holds nothing but
        backchannels, they are kept.
    """
    language = detect_language_of(str(block.text) for block in blocks if isinstance(block, Prose))
    filler = _filler_pattern(language)
    spoken: list[Block] = [
        replace(block, text=_without(filler, _without(_MARK, block.text)))
        if isinstance(block, Prose)
        else block
        for block in blocks
    ]
    kept: list[Block] = []
    asks = False
    for block in spoken:
        if isinstance(block, Prose) and block.text:
            shown = str(block.text).rstrip()
            asks, was_asked = shown.endswith("?"), asks
            if not (asks or was_asked) and _is_backchannel(shown):
                continue
        kept.append(block)
    has_words = any(isinstance(block, Prose) and block.text for block in kept)
    return kept if has_words else spoken, language


def _is_backchannel(shown: str) -> bool:
    return len(shown) <= _MAX_BACKCHANNEL and all(map(_BACKCHANNEL.fullmatch, _WORD.findall(shown)))


def _filler_pattern(language: str) -> re.Pattern[str]:
    """Match fillers with the comma that sets them off, or with the full stop if they stand alone.

    Part of a backchannel such as "uh-huh" is not a filler.
    """
    sounds = alternatives(_FILLERS.get(language, _FILLERS["any"]))
    filler = rf"(?<![\w'’-])(?:{sounds})(?![\w'’]|\s?[-–]\s?[hm])"
    return re.compile(
        rf"(?:\A|(?<=[.?!]))\s*(?:{filler}[\s,]*)+(?:[.…]+|\Z)|"
        rf"(?<=[^\s,])[\s,]+{filler}(?=\s?[.?!])|{filler}\s?,?",
        re.IGNORECASE,
    )


def _without(pattern: re.Pattern[str], text: MappedText) -> MappedText:
    """Return a text without what a pattern matches."""
    shown = str(text)
    matches = [match.span() for match in pattern.finditer(shown)]
    if not matches:
        return text
    kept = MappedText()
    start = 0
    for first, last in [*matches, (len(shown), len(shown))]:
        kept.extend(text.part(start, first))
        start = last
    return kept
