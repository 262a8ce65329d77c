"""The words of headings, for all formats: "Chapter 3", "Abstract", "Contents", in many languages.

Headings are recognized here by their words alone; how they look and where they stand is for the
readers to judge.
"""

import re

from foveate.documents.words import alternatives, load_words

_WORDS = load_words("headings")
_ORDINALS = alternatives(_WORDS["ordinals"])
_FOREIGN_ORDINALS = alternatives(_WORDS["foreign_ordinals"])
_UNITS = alternatives(_WORDS["units"])
NUMBER_WORDS = (
    rf"{_UNITS}|{alternatives(_WORDS['teens'])}|"
    rf"(?:{alternatives(_WORDS['tens'])})(?:[- ](?:{_UNITS}))?"
)
_NUMBER = (
    r"(?:\d{1,3}(?:\.\d{1,3})*(?:er|re|º|ª)?|[ivxlcdm]{1,9}(?:er|re)?|"
    rf"(?:the )?(?:{_ORDINALS}|last)|{NUMBER_WORDS}|{_FOREIGN_ORDINALS})"
)
CHINESE_NUMBER = r"第\s*[\d０-９〇零一二三四五六七八九十百千]{1,7}\s*"
PART_WORDS: dict[str, str] = _WORDS["parts"]  # by what they are called in English
_PART_NAMES = {word: name for name, words in PART_WORDS.items() for word in words.split()}
LAW_PARTS = frozenset(f"{PART_WORDS['section']} {PART_WORDS['article']}".split())
"""What sections and articles are called; their text may begin right after their number."""

LAW_PARTS_PATTERN = "|".join(map(re.escape, sorted(LAW_PARTS)))

PART_WORDS_PATTERN = "|".join(map(re.escape, _PART_NAMES))
_ARABIC_NUMBER = r"(?:\(?[\d٠-٩]{1,3}\)?|ال\w+(?:\s+عشرة?)?)"
_PART = re.compile(
    rf"({PART_WORDS_PATTERN})\s+(?:{_NUMBER}|{_ARABIC_NUMBER})\s*(?:[.:–—-](?!\d)\s*.*|\n.*|\([^()]*\))?",
    re.IGNORECASE | re.DOTALL,
)
_ORDINAL_PART = re.compile(  # Erster Abschnitt, Première partie
    rf"(?!second )(?:{_FOREIGN_ORDINALS})\s+({PART_WORDS_PATTERN})\s*(?:[.:–—-]\s*.*|\n.*)?",
    re.IGNORECASE | re.DOTALL,
)
_ANNEX = re.compile(
    rf"(?:(?:{'|'.join(PART_WORDS['annex'].split())})\s+[A-Z]\d{{0,2}}"
    r"|(?:附录|附錄|付録)\s*[A-Z\d])(?:\s*[.:–—-]\s*.*|(?<=録[A-Z])\s.*|(?<=录[A-Z])\s.*)?",
    re.IGNORECASE | re.DOTALL,
)
_TITLED_PART = re.compile(  # without punctuation after the number: Kapitel 3 Rechte
    rf"(?i:({PART_WORDS_PATTERN}))\s+(?:\d{{1,3}}(?:\.\d{{1,3}})*|[IVXLC]{{1,7}}|[A-Z])\s+\w.*[^\W_]"
)
_BARE_PART = re.compile(
    rf"(?:(?:{PART_WORDS_PATTERN})\s+(?:{_NUMBER}|{_ARABIC_NUMBER}|[A-Z])"
    rf"|(?!second )(?:{_FOREIGN_ORDINALS})\s+(?:{PART_WORDS_PATTERN})"
    rf"|{CHINESE_NUMBER}\w|제\s*\d{{1,3}}[편장절관조])[.:]?",
    re.IGNORECASE,
)
_CHINESE_PART = re.compile(
    rf"(?:{CHINESE_NUMBER}|제\s*\d{{1,3}}(?=[편장절관조]))"
    r"([章回話话講讲節节条條款卷部篇編编幕편장절관조])"
    r"(?:[\s　：:、.．].*|\n.*)?",
    re.DOTALL,
)
_CHINESE_NAMES = dict.fromkeys("章回話话講讲장", "chapter") | dict.fromkeys("節节절", "section")
_OUTERMOST = "|".join(
    re.escape(word)
    for name in ("chapter", "part", "section", "annex")
    for word in PART_WORDS[name].split()
)
PART_BEFORE = re.compile(
    rf"({_OUTERMOST})\s+(\d+|[IVXLC]+|[A-Z])\b|{CHINESE_NUMBER}[章节節部回篇]", re.IGNORECASE
)
"""The name and the number of a part that a heading begins with: "Chapter 3" of "Chapter 3 Eels"."""

_PARAGRAPH = re.compile(r"§{1,2}\s*\d{1,4}\s?[a-z]?(?:\s*[.:–—-]?\s+[(\w].*)?")
_NAMES = _WORDS["sections"].split()
_PAPER_NAMES: list[str] = _WORDS["paper_sections"]
TERMS: list[str] = _WORDS["terms"]
"""The names of lists of terms above a paper."""

_NAMED = re.compile(
    rf"(?:(?:{_ORDINALS}|author['’]s|translator['’]s)\s+)?"
    rf"(?:{'|'.join(_NAMES)}|(?:appendix|annex) [a-z0-9]{{1,3}})(?:[.:：](?: .*)?)?",
    re.IGNORECASE,
)
_NOT_LETTERS = re.compile(r"[\W_]+")
_KEYS = frozenset(
    _NOT_LETTERS.sub("", name)
    for name in (*_NAMES, *_PAPER_NAMES, *_WORDS["other_sections"].split(), *TERMS)
)
_REFERENCES = re.compile(
    rf"\W*(?:\d{{1,2}}(?:\.\d{{1,2}})*\.?\s+)?(?:{alternatives(_WORDS['references'])})\W*", re.I
)
_CONTENTS = re.compile(alternatives(_WORDS["contents"]), re.IGNORECASE)
_MAX_CONTENTS = 40  # characters of the heading of a table of contents
_TITLE_BEHIND = re.compile(r"\S+\s+\S+\s*[.:–—-]?\s*")  # the part and its number
SMALL_WORDS = re.compile(alternatives(_WORDS["small_words"]))
"""The words of more than three letters that titles write without capitals."""
END_OF_SENTENCE = ".,;:!?。，；：！？"


def is_part(heading: str) -> bool:
    """Return whether a heading is that of a part: "Schedule 1", "Chapter IV. Silt", "Annex B"."""
    return any(one.fullmatch(heading) for one in (_PART, _ORDINAL_PART, _ANNEX, _CHINESE_PART)) or (
        _TITLED_PART.fullmatch(heading) is not None and _is_title(heading)
    )


def is_bare_part(heading: str) -> bool:
    """Return whether a heading is that of a part without its title: "Schedule 1"."""
    return _BARE_PART.fullmatch(heading) is not None


def part_kind(heading: str) -> str:
    """Return what a part is called in English, by the first word of its heading."""
    return _part_name(heading.split(maxsplit=1)[0])


def _part_name(word: str) -> str:
    """Return what a part is called in English; empty for another word, such as SECTİON."""
    return _PART_NAMES.get(word.lower(), "")


def is_name(heading: str) -> bool:
    """Return whether a heading is one that any document may have: "Abstract", "Appendix B"."""
    return _NAMED.fullmatch(heading) is not None


def is_references(heading: str) -> bool:
    """Return whether a heading is that of a bibliography: "References", "7. Literatur"."""
    return _REFERENCES.fullmatch(heading) is not None


def is_contents(heading: str) -> bool:
    """Return whether a heading says that a table of contents, or a list of tables, follows."""
    heading = heading.rstrip(".: ")
    return len(heading) < _MAX_CONTENTS and _CONTENTS.fullmatch(heading) is not None


def letters(heading: str) -> str:
    """Return the letters and digits of a heading, without case."""
    return _NOT_LETTERS.sub("", heading).casefold()


def is_paper_name(heading: str) -> bool:
    """Return whether a heading is one that papers have: "Related Work"."""
    return heading.casefold() in (*_PAPER_NAMES, *TERMS)


def is_section_key(key: str) -> bool:
    """Return whether letters are those of a name, which may have been spaced: "R E S U L T S"."""
    return key in _KEYS


def heading_kind(heading: str, *, is_line: bool) -> str:
    """Return what a text is the heading of by its words; empty if it does not read like one.

    Args:
        heading: The text.
        is_line: Whether it stands on a line of its own.

    Returns:
        What a part is called in English or Chinese, "§", or "named" for names such as "Abstract".
    """
    part = _PART.fullmatch(heading) or _ORDINAL_PART.fullmatch(heading)
    if part and not (part[1].lower() in LAW_PARTS and _ends_sentence(heading)):
        return _part_name(part[1])
    if _ANNEX.fullmatch(heading):
        return "annex"
    if (part := _CHINESE_PART.fullmatch(heading)) and heading[-1] not in END_OF_SENTENCE:
        return _CHINESE_NAMES.get(part[1], part[1])
    if not is_line:
        return ""
    if _NAMED.fullmatch(heading):
        return "named"
    if (part := _TITLED_PART.fullmatch(heading)) and _is_title(heading):
        return _part_name(part[1])
    if _PARAGRAPH.fullmatch(heading) and heading[-1] not in END_OF_SENTENCE:
        return "§"
    return ""


def long_words(text: str) -> list[str]:
    """Return the words that begin in capitals in a title, small ones among them."""
    return [word for word in text.split() if len(word) > 3 and word[0].isalpha()]


def _ends_sentence(shown: str) -> bool:
    """Return whether the text after a number is a sentence: Section 2. The Buyer pays."""
    title = _TITLE_BEHIND.sub("", shown, count=1)
    words = long_words(title)
    is_title = 2 * sum(word[0].isupper() for word in words) > len(words) and ". " not in title
    return title[-1:] in (*END_OF_SENTENCE, "؛", "،") and not is_title


def _is_title(shown: str) -> bool:
    """Return whether the words after the number begin in capitals, as a sentence's may not."""
    return shown.split()[2][0].isupper() and shown[-1] not in END_OF_SENTENCE


def is_title_case(shown: str) -> bool:
    """Return whether a line is of a few words, or most of its long words begin in capitals."""
    words = long_words(shown)
    return len(shown.split()) < 4 or 2 * sum(word[0].isupper() for word in words) > len(words)
