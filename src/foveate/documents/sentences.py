"""Splitting of paragraphs into sentences.

The library sentencex finds the sentences of more than two hundred languages. What it gets wrong in
the languages that people try first is corrected here: abbreviations that it does not know, numbers
of list items, ordinal numbers, quotations of several sentences, and texts without punctuation.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from foveate.documents.words import load_words, name_set

MAX_LENGTH = 1_000  # characters of a sentence; longer ones are cut

_QUOTATION = re.compile(r'“[^“”]*”|"[^"]*"|„[^„“”]*[“”]|«[^«»]*»|「[^「」]*」|『[^『』]*』')
_SPACE = re.compile(r"\s")
_WINDOW = 10_000  # characters split at once: the time for quotations grows with the square
_UNDECIDED = 200  # characters at the end of a window whose sentences depend on what follows
_WORD = re.compile(r"\w")
_ASCII_END = re.compile(r"[.!?]")
_NAME_PART = re.compile(r"[A-Za-z0-9ºª/\\_~@#=&%+-]")
_BARE_STOP = re.compile(r"(?<![^\s'\"`(])\.$")  # of no word, as in: pip install '.[ocr]'
_QUOTED_STOP = re.compile(r"(['\"`])\.\1$")
_CLOSING = "」』）》】〉"
_PARENTHESIZED_MARKER = re.compile(r"\s*\(\w{1,5}\)\s")  # (a)
_MARKER = re.compile(
    r"§\s*\d{1,4}[.:]|[(\[（]?(?:\d{1,3}(?:\.\d{1,3})*|[A-Za-z]|[ivxlcdmIVXLCDM]{1,6}|[一二三四五六七八九十]{1,3})"
    r"[.)\]）、]+|[①-⑳]|[^\w\s]"
    r"|[A-Z]\w+\.? \d{1,3}(?:\.\d{1,3})*[.:]"  # Table 1.2.
)
_INITIALS = re.compile(r"(?:[A-ZÀ-ÖØ-Þ][a-zà-ÿ]{0,2}\.-)+[A-ZÀ-ÖØ-Þ]\.")  # J.-P.
_CITATION = re.compile(r"\bal\. ?(?:\[[^\[\]]*\]|\([^()]*\))$")  # et al. [7]
_LEGAL = re.compile(  # Fed. R. Civ. P. 12, Pub. L. No. 104-1, 9th Cir.
    r"\b(?:ex rel|Fed\. R|R\. (?:App|Bankr|Civ|Crim|Evid)|Pub\. L|F\. Supp|\d+ Stat"
    r"|(?:\d(?:d|st|nd|rd|th)|D\.C\.|Fed\.) Cir)\.$"
)
_LEGAL_NEXT = re.compile(r"\s(?:Cir|L|R|Reg|Supp)\.")
_RECORD = re.compile(  # Pet. App. 3a, Tr. of Oral Arg. 14, Compl. ¶ 12, amend. XIV
    r"\b(?:[Aa]mend|App|Arg|Att|Br|[Bb]ull|Cert|[Cc]iv|[Cc]mt|Cong|Compl|Const|Decl|Dep|Dkt|Exh?|Mem"
    r"|Opp|Pet|Rec|Rep|Resp|Sched|Tr)\.$"
)
_RECORD_NEXT = re.compile(
    r"\s(?:[A-Z]?\d|[¶§]|[IVXLC]+(?:[,.;)]|\s§)|[a-zA-Z](?:[,.;)]|\sat\s|\s\()|art\.|amend\."
    r"|(?:Add|App|Br|Rec|Rep|No|Tr)s?\.)"
)
_CODE = re.compile(r"[A-Z][a-z]{1,5}\.$")
_CODE_NEXT = re.compile(  # Gen. Bus. Law § 349, Bus. & Com. Code, So. 2d 34, Bd. v. Smith, ¶ 12
    r"\s(?:(?:& [A-Z][\w.]* )?(?:Code|Law)\b[^.]{0,9}(?:\. )?§|& [A-Z]|\d(?:d|th) \d|vs?\. |¶)"
)
_SHORT_WORD = re.compile(r"(?:[^\W\d_]{1,5}|&c)\.")
_INNER_WORD = re.compile(r"\s+(?:and|as|at|by|for|from|in|of|on|or|the|to|with|within)\b")
_MAX_PARENTHESIS = 120  # characters between the end of a sentence and the parenthesis around it
_LAST_WORD = re.compile(r"[^\s>(\[（«“„\"'’]+$")
_ORDINAL = re.compile(
    r"\b(?:am|ab|beim?|bis|das|de[rmns]|die|ein\w*|i[mn]|jede\w*|seit|und|vo[mn]|zu[mr])"
    r"\s\d{1,2}\.$",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[;；]\s*|[:：,，、–—]\s+|[，、：]|\s[–—]\s")
_MIN_CLAUSE = MAX_LENGTH // 2


_WORDS = load_words("abbreviations")
_BEFORE_NAMES, _BEFORE_NUMBERS, _BEFORE_SMALL = (
    name_set(_WORDS[before]) for before in ("before_names", "before_numbers", "before_small")
)
_CURRENCIES = "$€£¥₹₽"
_FRENCH = name_set("m. mm.")
_FRENCH_CODES = name_set("A. D. L. R.")  # before the numbers of articles: L. 121-1
_NO_WORDS = name_set("")
_ORDINALS = name_set(_WORDS["ordinals"])
_NAMES = {language: name_set(words) for language, words in _WORDS["names"].items()}
_NUMBERS = {language: name_set(words) for language, words in _WORDS["numbers"].items()}
_NUMBER = re.compile(r"\d{1,4}\.$")
_ENDS = {  # where a sentence ends although the library does not say so
    "en": re.compile(rf"\b(?:{_WORDS['english_words'].replace(' ', '|')})\.\s+(?=[A-Z][a-z])"),
    "km": re.compile(r"[។៕]\s*"),
    "ru": re.compile(r"(?:\b(?:т\. ?[дп]|др|пр)|\d\s?гг?)\.\s+(?=[А-ЯЁ])"),
}

UNSPACED_LANGUAGES = ("ja", "km", "lo", "my", "th", "zh")  # write no spaces between words
_UNSPACED_SENTENCES = ("ja", "zh")


def split_sentences(text: str, language: str = "en") -> list[tuple[int, int]]:
    """Find the sentences of a paragraph.

    Args:
        text: One paragraph. A line break counts as a space.
        language: ISO 639 code. Unknown languages fall back to general rules.

    Returns:
        Start and end of each sentence, sorted and non-overlapping. They start and end with a
        visible character and together cover everything but whitespace. None is longer than 1,000
        characters: what is longer is cut after a semicolon, a comma or a word.
    """
    flat = _SPACE.sub(" ", text)
    spans: list[tuple[int, int]] = []
    joins = False  # whether the last span continues
    for start, cut in _pieces(flat, language):
        piece = flat[start:cut]
        visible = piece.strip()
        if not visible:
            continue
        first = start + len(piece) - len(piece.lstrip())
        end = first + len(visible)
        if spans and (joins or not _WORD.search(visible)):  # a stray ellipsis or quotation mark
            first = spans.pop()[0]
        spans.append((first, end))
        joins = _goes_on(flat, first, end, language) or (
            len(spans) == 1 and _MARKER.fullmatch(flat, first, end) is not None
        )
    return [part for span in spans for part in shorten(flat, *span)]


def shorten(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Cut a sentence that is too long to be read, such as a text without punctuation.

    Args:
        text: The text that contains it.
        start: Where it starts.
        end: Where it ends.

    Yields:
        Start and end of parts of at most `MAX_LENGTH` characters, without the spaces around them.
    """
    while end - start > MAX_LENGTH:
        limit = start + MAX_LENGTH
        cut = limit
        for clause in _CLAUSE.finditer(text, start + _MIN_CLAUSE, limit):
            cut = clause.end()
        if cut == limit:
            cut = text.rfind(" ", start + _MIN_CLAUSE, limit) + 1 or limit
        visible = text[start:cut].rstrip()
        yield start, start + len(visible)
        start = cut
        while text[start].isspace():
            start += 1
    yield start, end


def _goes_on(text: str, start: int, end: int, language: str) -> bool:
    """Return whether the sentence that would end at `end` continues after it."""
    following = text[end : end + 3].lstrip()
    if not following:
        return False
    if text[end - 1] in ".?!" and _NAME_PART.match(text, end):  # README.Debian, foo/../bar, n.º
        return True
    if _BARE_STOP.search(text, max(start, end - 1), end) and not text[end].isspace():
        return True
    if _QUOTED_STOP.search(text, max(start, end - 3), end) and following[0].islower():
        return True
    if (following[0].islower() or following[0] in ",;") and _CITATION.search(
        text, max(start, end - 60), end
    ):
        return True
    if text[end - 1] == ".":
        word = _LAST_WORD.search(text, max(start, end - 20), end)
        last = word[0].casefold() if word else ""
        if last in _FRENCH and word and (language != "fr" or text[word.start() - 2].isdigit()):
            return False  # metres or millimetres
        return (
            (last in _BEFORE_NAMES and (following[0].isalnum() or following[0] in _CURRENCIES))
            or (last in _BEFORE_NUMBERS and (following[0].isdigit() or following[0] in "(§"))
            or (last in _BEFORE_SMALL and following[0].islower())
            or (language == "fr" and word and word[0] in _FRENCH_CODES and following[0].isdigit())
            or _is_abbreviation(last, text, end - len(last), following[0], language)
            or (language in _NAMES and text[start].isupper() and following[0].islower())
            or _LEGAL.search(text, max(start, end - 20), end) is not None
            or _is_cited(text, start, end)
            or (last in ("fed.", "pub.") and _LEGAL_NEXT.match(text, end) is not None)
            or (word is not None and _INITIALS.fullmatch(word[0]) is not None)
            or (word is not None and _is_shortened(word[0], text, start, end))
            or _is_inside_parentheses(text, start, end)
            or (language == "de" and _ORDINAL.search(text, max(start, end - 30), end) is not None)
        )
    return following[0] in "とっだ" and text[end - 1] in "」』"


def _is_abbreviation(word: str, text: str, start: int, following: str, language: str) -> bool:
    """Return whether a word is an abbreviation of a language, after which a sentence goes on."""
    if language in _ORDINALS and following.islower() and _NUMBER.fullmatch(word):
        return True
    if word in _NUMBERS.get(language, _NO_WORDS) and (following.isdigit() or following in "№§"):
        return True
    if word not in _NAMES.get(language, _NO_WORDS) or not following.isalnum():
        return False
    return following.islower() or not text[max(start - 2, 0) : start].strip()[-1:].isdigit()


def _is_cited(text: str, start: int, end: int) -> bool:
    """Return whether a full stop is within the citation of a record, a report or a code."""
    before = max(start, end - 20)
    return (
        _RECORD.search(text, before, end) is not None and _RECORD_NEXT.match(text, end) is not None
    ) or (_CODE.search(text, before, end) is not None and _CODE_NEXT.match(text, end) is not None)


def _is_shortened(word: str, text: str, start: int, end: int) -> bool:
    """Return whether a short word is an abbreviation: one that begins no sentence follows it.

    People who write no capitals begin sentences with any word.
    """
    return (
        not text[start].islower()
        and _SHORT_WORD.fullmatch(word) is not None
        and _INNER_WORD.match(text, end) is not None
    )


def _is_inside_parentheses(text: str, start: int, end: int) -> bool:
    """Return whether parentheses opened after the first character close after the end."""
    depth = text.count("(", start + 1, end) - text.count(")", start + 1, end)
    if depth < 1:
        return False
    for index in range(end, min(end + _MAX_PARENTHESIS, len(text))):
        depth += (text[index] == "(") - (text[index] == ")")
        if not depth:
            return True
    return False


def _pieces(text: str, language: str) -> Iterator[tuple[int, int]]:
    """Yield the stretches between the offsets at which a new sentence starts."""
    start = 0
    for cut in _boundaries(text, language):
        while cut < len(text) and text[cut] in _CLOSING:
            cut += 1
        if cut > start:
            yield start, cut
            start = cut
    yield start, len(text)


def _boundaries(text: str, language: str) -> list[int]:
    """Return the offsets at which a new sentence starts.

    `sentencex` takes a quotation as one sentence, even pages of dialogue. Therefore quotations are
    split on their own too.
    """
    if text.isascii() and not _ASCII_END.search(text):
        return []
    cuts = set(_sentence_starts(text, language))
    if language in _ENDS:
        cuts.update(match.end() for match in _ENDS[language].finditer(text))
    for quotation in _QUOTATION.finditer(text):
        inside = quotation.start() + 1
        cuts.update(
            inside + cut for cut in _sentence_starts(text[inside : quotation.end() - 1], language)
        )
    return sorted(cuts)


def _sentence_starts(text: str, language: str) -> Iterator[int]:
    # Imported late: models import documents, and must run with torch alone installed.
    from sentencex import get_sentence_boundaries

    # `sentencex` does not split what begins like "(a) " at all.
    if marker := _PARENTHESIZED_MARKER.match(text):
        text = " " * marker.end() + text[marker.end() :]
    quoted = [i for quotation in _QUOTATION.finditer(text) for i in quotation.span()]
    offset = 0
    while offset < len(text):
        boundaries = get_sentence_boundaries(language, text[offset : offset + _WINDOW])
        starts = [
            offset + boundary["start_index"] for boundary in boundaries if boundary["start_index"]
        ]
        if offset + _WINDOW >= len(text):
            yield from starts
            return
        # What follows a window determines its last sentences. The next window starts at a sentence
        # outside quotations, because within one the quotation marks would be paired wrongly.
        starts = [start for start in starts if start < offset + _WINDOW - _UNDECIDED]
        outside = [start for start in starts if bisect_right(quoted, start) % 2 == 0]
        offset = outside[-1] if outside else offset + _WINDOW - 2 * _UNDECIDED
        yield from (start for start in starts if start <= offset)


def join_sentences(sentences: Iterable[str], language: str | None) -> str:
    """Join sentences as usual in their language: without spaces in Chinese and Japanese."""
    return ("" if language in _UNSPACED_SENTENCES else " ").join(sentences)
