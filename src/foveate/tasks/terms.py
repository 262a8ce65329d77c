"""The terms by which texts are compared, and the words of a document's outline."""

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from itertools import chain
from pathlib import PurePath
from unicodedata import normalize

from foveate.documents import Document
from foveate.tasks.stems import stemmer

# Chinese, Japanese, Thai, Lao, Burmese and Khmer have no spaces between words.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_FIRST_OF_CHINESE = "\u3040"  # and Japanese: of these, single characters may be words
_HANGUL = "\uac00-\ud7a3"
# Accents, joiners, and vowels of Hebrew, Arabic and the scripts of India, which are not in \w.
_MARKS = (
    "\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed"
    "\u0900-\u0963\u0966-\u0dff\u200c\u200d"
)


def _with_marks(letter: str) -> str:
    return rf"{letter}+(?:[{_MARKS}]+{letter}*)*"


def _compound(word: str) -> str:
    return rf"{word}(?:(?:[.:/@'’+-]+|(?<=\d),(?=\d)){word})*(?:\+\+|\#(?!\w))?"


_WORD = _with_marks(rf"[^\W{_UNSPACED}]")
_TERM = re.compile(rf"[{_UNSPACED}]+|§\s*[A-Za-z\d]+(?:\.[A-Za-z\d]+)*|{_compound(_WORD)}")
_ASCII_TERM = re.compile(_compound(r"\w+"), re.ASCII)  # the same, twice as fast
_UNSPACED_RUN = re.compile(rf"[{_UNSPACED}]+")
_HANGUL_RUN = re.compile(rf"[{_HANGUL}]+")
_PART = re.compile(_with_marks(r"[^\W_]"))
_HUMP = re.compile(  # not in GPUs, and where a Korean particle follows
    r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})"
    rf"|(?<=[^\W{_HANGUL}])(?=[{_HANGUL}])"
)
_VERSION = re.compile(r"\Av(?=\d+\.\d)", re.IGNORECASE)
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+")

# Straight marks open a quotation after a space, unlike those of inches, and unlike in 'tis or '90s.
_BEFORE = r"(?<![^\s(\[])"
_QUOTED = re.compile(
    r"“([^“”]+)”|„([^„“”]+)[“”]|«([^«»]+)»|「([^「」]+)」|『([^『』]+)』"
    rf'|{_BEFORE}"(?=\S)([^"]+)(?<=\S)"(?!\w)'
    rf"|{_BEFORE}‘(?=\S)([^‘]+?)(?<=\S)’(?!\w)"
    rf"|{_BEFORE}'(?!(?:tis|twas|em|til|cause|n)\b|\d\ds?\b|\s)((?:[^']|\b'\b)+)(?<=\S)'(?!\w)"
)
_IDENTIFIER = re.compile(
    r"§.*"
    r"|(?=.*[^\W_]).*_.*"  # foo_bar, __init__
    r"|[^\W\d_].*\d.*|\d+[^\W\d_]+\d.*"  # v1.2.3, CVE-2023-1234, 0x1F
    r"|\w*[a-z][A-Z].*|[A-Z]{2,}[a-z]{2}.*"  # PyObject, HTTPServer
    r"|[^\W\d]\w+(?:(?:\.|::)\w{2,})+|[\w.]+@.+"  # os.path, but not e.g
    r"|\w+(?:\+\+|\#)"  # C++
)
_NUMBER = re.compile(r"(?:[.,]?\d){3,}|\d+(?:-\d+){2,}")  # 1,000, 3.14, 978-3-16-148410-0
_DATE = re.compile(r"\d{4}([-.])\d\d?\1\d\d?|\d\d?([-.])\d\d?\2\d{4}")

_REMEMBERED = 2**16  # words of a language, of which few make up most of a text


def terms(text: str, language: str | None = None) -> list[str]:
    """List the terms of a text, in lower case, for comparison with other texts.

    A term is a word, number or identifier. It is followed by what else it is found by: those parts
    of "re-enter", "getUserName" or "v1.2.31" that have at least two characters, and the stems of
    words, if they differ. Scripts without spaces between words yield pairs of neighbouring
    characters, and Chinese, Japanese and Korean each character too. Letters are composed (NFC).

    Args:
        text: The text.
        language: ISO 639 code of the language whose stems are listed; none without it.

    Example:
        >>> terms("Call os.path for C++, see § 3.1")
        ['call', 'os.path', 'os', 'path', 'for', 'c++', 'see', '§3.1']
        >>> terms("getUserName fails", "en")
        ['getusername', 'getusernam', 'get', 'user', 'name', 'fails', 'fail']
        >>> terms("鯨が泳ぐ")
        ['鯨', '鯨が', 'が', 'が泳', '泳', '泳ぐ', 'ぐ']
    """
    is_ascii = text.isascii()
    found = _ASCII_TERM.findall(text) if is_ascii else _TERM.findall(normalize("NFC", text))
    return [*chain.from_iterable(map(_listing(language), found))]


def identifiers(query: str, language: str | None = None) -> list[list[str]]:
    """List what a query names exactly: quoted phrases, identifiers, and numbers of three digits.

    Identifiers are words with digits, underscores or capitals in them ("CVE-2023-1234", "foo_bar",
    "PyObject"), names with dots ("os.path") and paragraphs ("§ 3.1"). Measurements ("5kg"), dates
    ("2020-03-31"), ranges and hyphenated words are not.

    Args:
        query: The query.
        language: See `terms`.

    Returns:
        For each, without repetitions, terms that follow each other in the `terms` of a text, in the
        same language, that has it.

    Example:
        >>> identifiers("Which “thread states” has PyObject in v3.13?", "en")
        [['thread', 'states', 'state'], ['pyobject'], ['3.13']]
    """
    query = normalize("NFC", query)
    quoted = ("".join(match.groups("")) for match in _QUOTED.finditer(query))
    sequences = [terms(phrase, language) for phrase in quoted]
    for match in _TERM.findall(query):
        name = re.sub("['’]s$", "", match)
        if _IDENTIFIER.fullmatch(name) or (_NUMBER.fullmatch(name) and not _DATE.fullmatch(name)):
            sequences.append(terms(_VERSION.sub("", name, count=1))[:1])
    return [[*one] for one in dict.fromkeys(map(tuple, sequences)) if len("".join(one)) > 1]


@cache
def _listing(language: str | None) -> Callable[[str], tuple[str, ...]]:
    """Return what lists the terms of a match of `_TERM`, and remembers some."""
    stem = stemmer(language)

    @lru_cache(_REMEMBERED)
    def listed(match: str) -> tuple[str, ...]:
        if _UNSPACED_RUN.match(match):
            return tuple(_characters(match))
        both = ((x, stem(x)) if x.isalpha() else (x,) for x in _with_parts(match))
        return tuple(dict.fromkeys(chain.from_iterable(both)))

    return listed


def _characters(run: str) -> Iterator[str]:
    """Yield the characters of a run, each before the pair with the next."""
    for i, character in enumerate(run):
        if character >= _FIRST_OF_CHINESE or len(run) == 1:
            yield character
        if i + 1 < len(run):
            yield run[i : i + 2]


def _with_parts(match: str) -> Iterator[str]:
    """Yield a match of `_TERM` with spaces between words, and its parts."""
    whole = "".join(match.lower().split()).replace("’", "'")
    yield whole
    if match.isalpha() and (match.islower() or match.istitle()):  # as most are
        return
    if _HANGUL_RUN.fullmatch(whole):
        yield from _characters(whole)
    elif _GROUPED.fullmatch(whole):
        yield whole.replace(",", "")
    elif not whole.startswith("§"):
        yield _VERSION.sub("", whole.removesuffix("'s"), count=1)
        for part in _PART.findall(match):
            yield from (x.lower() for x in (part, *_HUMP.split(part)) if len(x) > 1)


def titles_above(document: Document) -> list[str]:
    """Return the words that each section is under: the document's name and the titles above it."""
    name = _name(document)
    return [" ".join((name, *path)) for path, _ in document.walk()]


def all_titles(document: Document) -> str:
    """Return the words of a document's outline: its name and the titles of its sections."""
    return " ".join((_name(document), *(section.title for _, section in document.walk())))


def _name(document: Document) -> str:
    return f"{PurePath(document.name).stem} {document.title}"
