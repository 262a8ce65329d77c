r"""Rich Text (RTF).

striprtf turns it into plain text, which says nothing about headings, tables and notes. Therefore
the control words that do are first followed by marks, which striprtf keeps like any text.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from striprtf.striprtf import rtf_to_text

from foveate.documents.blocks import ParsedText
from foveate.documents.readers.office import symbols
from foveate.documents.readers.office.paragraphs import (
    BlockCollector,
    heading_level,
    is_contents_style,
    join_pieces,
    style_kind,
    table_cell,
)
from foveate.documents.structure import DocumentError, Kind
from foveate.documents.tables import Cell

_TOKEN = re.compile(r"\\([A-Za-z]{1,32})(-?\d{1,9})? ?|\\'[0-9A-Fa-f]{2}|\\[^A-Za-z]|[{}]|[^\\{}]+")
_NOT_ASCII = re.compile("[\x80-\xff]")
_OPEN, _CLOSE = "\ufdd0", "\ufdd1"  # around a mark: no characters of any text
_MARK = re.compile(f"\n|{_OPEN}([a-z]+)(-?[0-9]*){_CLOSE}")
_MARKED = frozenset(("pard", "s", "outlinelevel", "intbl", "trhdr"))
_REPLACED = frozenset(("cell", "row", "footnote"))  # striprtf treats them differently
_STYLE = re.compile(r"\{\\s(\d{1,5})\b([^{}]*)\}")
_CONTROL_WORD = re.compile(r"\\[a-z]+-?\d* ?")
_TITLE = re.compile(r"\{\\title\b ?([^{}]*)\}")
_AUTHOR = re.compile(r"\{\\author\b ?([^{}]*)\}")
_CODE_PAGE = re.compile(r"\\ansicpg\d+")
_ITEM = re.compile(
    r"\s*(?:([•·–‣▪◦●○■\ue000-\uf8ff-])|(\(?(?:\d{1,4}\.)*(?:\d{1,4}|[A-Za-z]|[ivxlcIVXLC]{1,6})[.)]?))"
    r"\t\s*(.*)",
    re.DOTALL,
)
_BODY_TEXT = 9  # the outline level of what is not a heading


class _Format(NamedTuple):
    """How the text of a group is shown."""

    is_hidden: bool = False
    level: int = 0  # 1 of superscripts, -1 of subscripts
    font: str = ""
    num_spare: int = 1  # characters after a character of Unicode, for old readers


_PLAIN = _Format()
_FORMATS: dict[str, Callable[[_Format, str], _Format]] = {  # what control words change
    "plain": lambda old, number: _PLAIN._replace(num_spare=old.num_spare),
    "uc": lambda old, number: old._replace(num_spare=int(number or 1)),
    "v": lambda old, number: old._replace(is_hidden=number != "0"),
    "super": lambda old, number: old._replace(level=int(number != "0")),
    "sub": lambda old, number: old._replace(level=-int(number != "0")),
    "nosupersub": lambda old, number: old._replace(level=0),
    "f": lambda old, number: old._replace(font=number),
}
_SYMBOL_FONT = re.compile(r"\\f(\d{1,5})\b[^;{}]{0,100}?\b(Symbol|Wingdings)\b")


def read(data: bytes) -> ParsedText:
    """Read headings, paragraphs, lists, tables and notes."""
    rtf = data.decode("latin-1").lstrip("\ufeffï»¿ \t\r\n\0")
    if not rtf.startswith("{\\rtf"):
        raise DocumentError(
            r"cannot be read as RTF (it does not begin with {\rtf): check that it is, or open it "
            "and save it again."
        )
    reader = _RtfBlocks(_style_names(rtf))
    reader.read(_to_text(_mark(rtf)))
    code_page = _CODE_PAGE.search(rtf)
    header = "{\\rtf1\\ansi" + (code_page[0] if code_page else "")
    title, author = (
        _to_text(f"{header} {written[1]}}}") if written else ""
        for written in (_TITLE.search(rtf), _AUTHOR.search(rtf))
    )
    return reader.collector.parsed(title, author)


def _to_text(rtf: str) -> str:
    try:
        text: str = rtf_to_text(rtf, errors="replace")
    except (ValueError, TypeError, LookupError, OverflowError) as error:
        raise DocumentError(
            f"cannot be read as RTF ({error}): check that it is RTF, or open it and save it again."
        ) from error
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _mark(rtf: str) -> str:
    """Put marks into the source, and take out what striprtf reads slowly or not at all."""
    pieces: list[str] = []
    groups = [""]  # what the open groups hold: "pict", "fonttbl", "footnote" or text
    formats = [_PLAIN]  # of the text in each
    shown_level = 0
    fonts = dict(_SYMBOL_FONT.findall(rtf))  # that show symbols, by their numbers
    begin = 0  # of the next token that is not picture data
    spare = 0  # characters to come that the one before stands for
    for match in _TOKEN.finditer(rtf):
        token, word, number = match[0], match[1], match[2] or ""
        if match.start() < begin:
            continue
        if spare and word is None and token not in "{}":
            if token[0] == "\\":
                spare -= 1
                continue
            token = token.replace("\r", "").replace("\n", "")
            token, spare = token[spare:], max(spare - len(token), 0)
            if not token:
                continue
        else:
            spare = formats[-1].num_spare if word == "u" else 0
        if token == "{":
            groups.append("" if groups[-1] == "footnote" else groups[-1])
            formats.append(_PLAIN if groups[-2] == "footnote" else formats[-1])
        elif token == "}":
            ended = groups.pop() if len(groups) > 1 else ""
            formats = formats[:-1] or [_PLAIN]
            token = f"{_OPEN}noteend{_CLOSE}}}" if ended == "footnote" else token
        elif word == "bin":
            begin = match.end() + max(int(number or 0), 0)
            continue
        elif groups[-1] == "pict":
            continue
        elif groups[-1] == "fonttbl":  # all that striprtf needs to know, quickly found
            token = f"\n{token}" if word == "f" else f"{token} x;" if word == "fcharset" else ""
        elif word in ("pict", "fonttbl"):
            groups[-1] = word
        elif word in _MARKED or word in _REPLACED:
            if word == "footnote":
                groups[-1] = word
                if pieces and pieces[-1] == "\\*":
                    pieces.pop()
            token = ("" if word in _REPLACED else token) + f"{_OPEN}{word}{number}{_CLOSE}"
        elif word in ("line", "nestcell"):
            token = "\\tab "
        elif word == "field":  # with a space, striprtf does not append the address of a link
            token = "\\field "
        elif word == "deleted" and number != "0":
            token = "\\*"  # the rest of the group is left out
        elif word == "pntext":  # the number of an item
            token = ""
        elif word in _FORMATS:
            token = "" if word == "uc" else token
            formats[-1] = _FORMATS[word](formats[-1], number)
        elif word in (None, "u") and formats[-1].is_hidden and not token.startswith("\\*"):
            continue
        elif word in (None, "u"):
            is_hex = token.startswith("\\'") and len(token) == 4
            is_text = token[0] != "\\" or is_hex or word is not None
            codes = chr(int(token[2:], 16)) if is_hex else token
            if word:
                codes = chr(int(number or 32) % 0x10000)
                token = f"\\u{ord(codes)} ?"
            is_code = is_text and (not word or "\uf000" <= codes <= "\uf0ff")
            if is_code and formats[-1].font in fonts:
                symbols_shown = symbols.translate(codes, fonts[formats[-1].font])
                token = "".join(f"\\u{ord(one)} ?" for one in symbols_shown)
            token = _NOT_ASCII.sub(lambda byte: f"\\'{ord(byte[0]):02x}", token)
            if is_text and formats[-1].level != shown_level:
                shown_level = formats[-1].level
                token = f"{_OPEN}level{shown_level}{_CLOSE}{token}"
        pieces.append(token)
    return "".join(pieces)


def _style_names(rtf: str) -> dict[str, str]:
    """Return the names of the paragraph styles by their numbers, in lower case."""
    names: dict[str, str] = {}
    begin = rtf.find("\\stylesheet")
    for style in _STYLE.finditer(rtf, begin) if begin >= 0 else ():
        *_, name = _CONTROL_WORD.split(style[2])
        names.setdefault(style[1], name.strip(" ;\r\n").lower())
    return names


class _RtfBlocks:
    """Reads the blocks of a text with marks."""

    def __init__(self, style_names: dict[str, str]) -> None:
        self.style_names = style_names
        self.collector = BlockCollector()
        self.shown: list[tuple[str, int]] = []  # pieces of the current paragraph, cell or note
        self.text_level = 0  # 1 of superscripts, -1 of subscripts
        self.style = ""
        self.level = _BODY_TEXT
        self.in_table = False
        self.is_head_row = False
        self.num_heads = 0
        self.cells: list[Cell] = []
        self.rows: list[list[Cell]] = []
        self.notes: list[str] = []  # of the current paragraph or row
        self.table_notes: list[str] = []
        self.interrupted: list[list[tuple[str, int]]] = []  # the paragraphs around the current note

    def read(self, text: str) -> None:
        begin = 0
        for match in _MARK.finditer(text):
            self.shown.append((text[begin : match.start()], self.text_level))
            begin = match.end()
            self.obey(match[1], match[2])
        self.shown.append((text[begin:], self.text_level))
        self.end_paragraph()
        self.end_table()

    def obey(self, word: str | None, number: str | None) -> None:
        """Do what a mark or, without a word, the end of a paragraph says."""
        if word == "level":
            self.text_level = int(number or 0)
        elif word == "footnote":
            self.interrupted.append(self.shown)
            self.shown = []
        elif word == "noteend" and self.interrupted:
            self.notes.append(self.take_shown())
            self.shown = self.interrupted.pop()
        elif word is None:
            if self.in_table or self.interrupted:
                self.shown.append(("\t", 0))
            else:
                self.end_paragraph()
        elif word == "cell":
            self.cells.append(table_cell(self.take_shown(), len(self.rows) + 1))
        elif word == "row":
            self.end_row()
        elif word == "trhdr":
            self.is_head_row = True
        elif word == "intbl":
            self.in_table = True
        elif self.interrupted:
            return
        elif word == "pard":
            self.style, self.level, self.in_table = "", _BODY_TEXT, False
        elif word == "s":
            self.style = number or ""
        elif word == "outlinelevel":
            self.level = int(number or _BODY_TEXT)

    def take_shown(self) -> str:
        """Return the text of the current paragraph, cell or note, which ends."""
        text = join_pieces(self.shown)
        self.shown = []
        return text

    def end_paragraph(self) -> None:
        text = self.take_shown()
        if text.strip() and self.rows:
            self.end_table()
        names = [self.style_names.get(self.style, "")]
        level = self.level + 1 if 0 <= self.level < _BODY_TEXT else heading_level(names)
        item = _ITEM.fullmatch(text)
        if is_contents_style(names):
            self.collector.skip_paragraph(text)
        elif "title" in names:
            self.collector.add_title(text)
        elif level is not None:
            self.collector.add_heading(level, text)
        elif item:
            self.collector.add_paragraph(f"{item[2] or ''} {item[3]}", "item")
        else:
            kind: Kind = style_kind(names) or "prose"
            self.collector.add_paragraph(text, kind)
        self.add_notes(self.notes)
        self.notes = []

    def end_row(self) -> None:
        if self.is_head_row and self.num_heads == len(self.rows):
            self.num_heads += 1
        self.is_head_row = False
        self.rows.append(self.cells)
        self.table_notes += self.notes
        self.cells, self.notes = [], []

    def end_table(self) -> None:
        if max(map(len, self.rows), default=0) > 1:
            self.collector.add_table(self.rows, self.num_heads or None)
        else:  # it only lays out the page
            for row in self.rows:
                for cell in row:
                    self.collector.add_paragraph(str(cell.text))
        self.add_notes(self.table_notes)
        self.rows, self.num_heads, self.table_notes = [], 0, []

    def add_notes(self, notes: list[str]) -> None:
        for note in notes:
            self.collector.add_note(note)
