"""Decoding of files and bytes into text, and recognition of its format."""

import codecs
import re
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path

from foveate.documents.compression import decompress
from foveate.documents.formats import FORMATS, Format, check_format
from foveate.documents.recognition import format_from_name, sniff, sniff_bytes
from foveate.documents.structure import DocumentError

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it starts with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DECLARED_ENCODING = re.compile(rb"(?:encoding|charset)\s*=\s*[\"']?\s*([A-Za-z][\w.:-]*)")
_ISO_2022_JP = re.compile(rb"\x1b\$[@B]")
_JAPANESE = re.compile(rb"\x1b(?:\$[@B]((?:[\x21-\x7e]{2}|[\r\n])*)|\(I([\x21-\x5f]*)|\([BJ])?")
_EUC = ("euc_jp", "euc_jis_2004", "euc_jisx0213")
_EUC_JP = re.compile(rb"\x8e([\xa1-\xdf])|([\xa1-\xfe])([\xa1-\xfe])")
_WIDE = re.compile(r"utf[-_]?(?:16|32)", re.IGNORECASE)
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_NOT_WESTERN = frozenset(
    ("Croatian", "Czech", "Hungarian", "Polish", "Romanian", "Slovak", "Slovene", "Turkish")
)
_MAX_CONTROLS = 1 / 100  # share of control characters in a text
_MAX_DAMAGE = 1 / 100  # share of damaged UTF-8 among the characters beyond ASCII
_SAMPLE = 2**16  # bytes that decide about an encoding
# Encodings in which files are found. The library knows many more, and finds rare ones too often.
_ENCODINGS = [
    *("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256"),
    *("iso8859_2", "iso8859_5", "iso8859_7", "koi8_r", "tis_620"),
    *("gb18030", "big5", "cp932", "euc_jp", "euc_jis_2004", "cp949"),
]


@dataclass(frozen=True, slots=True)
class File:
    """A file's decompressed content: text, or bytes if its format is binary.

    Attributes:
        name: Its name, in messages and as the source of its document.
        content: Its text, or bytes if its format is binary.
        format: Its format.
        place: Where a reader of the collection that it comes from finds it.
    """

    name: str
    content: str | bytes
    format: Format
    place: str | None = None


def name_as_text(path: str | PathLike[str]) -> str:
    """Return the name of a file, escaping what is not UTF-8, since text cannot hold that."""
    return fspath(path).encode(errors="backslashreplace").decode()


def load(path: str | PathLike[str], format: str | None, encoding: str | None) -> File:
    """Read and decompress a file, and decode it unless its format is binary.

    Args:
        path: The file.
        format: Name of its format; None to recognize it by name and content.
        encoding: Its encoding; None to detect it.
    """
    name, file = name_as_text(path), Path(path)
    if not name:  # which would be the current folder
        raise FileNotFoundError("the name of a file is empty: give one.")
    if file.is_dir():
        raise IsADirectoryError(f"{name} is a directory: read it with read_documents.")
    if not file.exists():
        raise FileNotFoundError(f"{name} does not exist: check the path.")
    return load_bytes(file.read_bytes(), name, format, encoding, file.name)


def load_bytes(
    data: bytes, name: str, format: str | None, encoding: str | None, file_name: str = ""
) -> File:
    """Decompress bytes, and decode them unless their format is binary.

    Args:
        data: The bytes.
        name: Their name in messages.
        format: Name of their format; None to recognize it.
        encoding: Their encoding; None to detect it.
        file_name: The name of the file that they come from, by which the format is recognized;
            without one it is recognized by the content alone.
    """
    data = decompress(data, name, file_name)
    return load_decompressed(data, name, format, encoding, file_name)


def load_decompressed(
    data: bytes, name: str, format: str | None, encoding: str | None, file_name: str = ""
) -> File:
    """Decode bytes that are not compressed, or no longer, unless their format is binary.

    Args:
        data: The bytes.
        name: As for `load_bytes`, like the other arguments.
        format: Name of their format.
        encoding: Their encoding.
        file_name: The name of the file that they come from.
    """
    named = check_format(format).name if format else format_from_name(file_name)
    try:
        guess = named if format else sniff_bytes(named, data)
        if guess is None and not is_text(data):
            raise DocumentError(
                f"ends in {Path(file_name).suffix}, and is in no format that can be read: "
                "convert it; `foveate formats` lists the formats."
            )
        guessed = FORMATS.get(guess or "text")  # None for XML, whose root tells
        if guessed and guessed.is_binary:
            return File(name, data, guessed)
        text = decode(data, encoding, markup=guessed is None or guessed.declares_encoding)
        if guessed is None or not format:
            guessed = FORMATS[sniff(guess, text)]
        return File(name, text, guessed)
    except DocumentError as error:
        raise DocumentError(f"{name} {error}") from error


def is_text(data: bytes) -> bool:
    """Return whether bytes look like text: few control characters, unless UTF-16 or 32 say so."""
    if any(data.startswith(mark) for mark, _ in _BYTE_ORDER_MARKS):
        return True
    head = data[:_SAMPLE]
    return b"\0" not in head and len(_CONTROL.findall(head)) <= _MAX_CONTROLS * len(head)


def decode(data: bytes, encoding: str | None = None, *, markup: bool = False) -> str:
    """Decode bytes; lines that end in carriage returns alone, as on early Macs, end in line feeds.

    Args:
        data: The bytes.
        encoding: Their encoding; by default that of their byte order mark, the one that markup
            declares, UTF-8 or, if the bytes are none of these, the one that charset-normalizer
            finds the most likely.
        markup: Whether the text may declare its encoding.

    Raises:
        DocumentError: The bytes are not text, or not in the given encoding.
    """
    text = _decode(data, encoding, markup)
    return text if "\n" in text else text.replace("\r", "\n")


def _decode(data: bytes, encoding: str | None, markup: bool) -> str:
    if encoding is not None:
        return _decode_as(data, encoding)
    if marked := next((name for mark, name in _BYTE_ORDER_MARKS if data.startswith(mark)), None):
        return _decode_as(data, marked)
    declared = _DECLARED_ENCODING.search(data[:1024]) if markup else None
    if declared:
        with suppress(DocumentError):  # pages often declare the wrong encoding
            return decode_declared(data, declared[1].decode())
    _reject_binary(data)
    if _ISO_2022_JP.search(data):
        return _decode_japanese(data)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        return _decode_damaged(data) or _decode_as(data, _detect_encoding(data, error.start))


def decode_declared(data: bytes, label: str) -> str:
    """Decode bytes that declare their encoding; labels mean what browsers take them for.

    Raises:
        DocumentError: The encoding is unknown, or the bytes are not in it.
    """
    from webencodings import lookup

    known = lookup(label)
    name = known.codec_info.name if known else label
    if name.startswith("utf-16") and b"\0" not in data:  # else the label could not be read
        name = "utf-8"
    if name == "iso2022_jp":
        return _decode_japanese(data)
    return _decode_as(data, {"gbk": "gb18030"}.get(name, name)).removeprefix("\ufeff")


def _decode_japanese(data: bytes) -> str:
    """Decode ISO-2022-JP with the characters that NEC and IBM added, which Python refuses."""

    def shifted(match: re.Match[bytes]) -> bytes:
        if match[2] is not None:
            return bytes(code | 0x80 for code in match[2])
        pairs = re.findall(rb"[\r\n]|[\x21-\x7e]{2}", match[1] or b"")
        return b"".join(pair if len(pair) == 1 else _shift(*pair) for pair in pairs)

    return _JAPANESE.sub(shifted, data).decode("cp932", "replace")


def _shift_euc(match: re.Match[bytes]) -> bytes:
    """Return the code in Shift JIS of a character in EUC-JP, which Python lacks some of."""
    return match[1] or _shift(match[2][0] & 0x7F, match[3][0] & 0x7F)


def _shift(row: int, cell: int) -> bytes:
    """Return the code in Shift JIS of a character of JIS X 0208."""
    first = (row + 1) // 2 + (0x70 if row < 0x5F else 0xB0)
    second = cell + (0x1F + (cell > 0x5F) if row % 2 else 0x7E)
    return bytes((first, second))


def _decode_as(data: bytes, encoding: str) -> str:
    """Decode bytes whose encoding is known."""
    if not _is_known(encoding):
        raise DocumentError(
            f"cannot be decoded: there is no encoding {encoding!r}; name another one, such as "
            "utf-8 or cp1252."
        )
    if not _WIDE.match(encoding):
        _reject_binary(data)
    try:
        if _WIDE.match(encoding) or codecs.lookup(encoding).name not in _EUC:
            return data.decode(encoding)
        with suppress(UnicodeError):
            return data.decode("euc_jp")
        return _EUC_JP.sub(_shift_euc, data).decode("cp932")
    except UnicodeError as error:
        where = f" (byte {error.start})" if isinstance(error, UnicodeDecodeError) else ""
        raise DocumentError(
            f"is not valid {encoding.upper()}{where}: name its encoding, or convert it to UTF-8."
        ) from error


def _is_known(encoding: str) -> bool:
    """Return whether an encoding of text has this name."""
    try:
        b" ".decode(encoding)
    except UnicodeError:  # in UTF-16, a character has two bytes
        return True
    except (LookupError, ValueError):
        return False
    return True


def _reject_binary(data: bytes) -> None:
    if b"\0" in data:
        raise DocumentError(
            f"is not text (byte 0 at offset {data.index(0)}): convert it, or name its format."
        )
    if not is_text(data):
        raise DocumentError("is not text (control characters): convert it, or name its format.")


def _decode_damaged(data: bytes) -> str | None:
    """Decode UTF-8 with a few damaged bytes, which become U+FFFD; None if it is not UTF-8."""
    text = data.decode(errors="replace")
    others = len(text) - len(text.encode("ascii", "ignore"))
    is_utf8 = text.count("\ufffd") <= _MAX_DAMAGE * others
    return text if is_utf8 else None


def _detect_encoding(data: bytes, start: int) -> str:
    """Detect an encoding by the lines that are not ASCII; UTF-8 ends at `start`."""
    from charset_normalizer import from_bytes

    first = data.rfind(b"\n", 0, start) + 1
    lines = data[first : first + 16 * _SAMPLE].splitlines(keepends=True)
    sample = b"".join(line for line in lines if not line.isascii())[:_SAMPLE]
    matches = from_bytes(sample, cp_isolation=_ENCODINGS)
    best = matches.best()
    if best is None:
        raise DocumentError(
            f"is not valid UTF-8 (byte {start}), and its encoding cannot be determined: name it, "
            "or convert it to UTF-8."
        )
    # Texts in Western languages are readable in several encodings: take the most common.
    is_western = best.language not in _NOT_WESTERN and any(
        "cp1252" in (match.encoding, *match.could_be_from_charset)
        and match.chaos <= best.chaos
        and match.coherence >= best.coherence
        for match in matches
    )
    return "cp1252" if is_western else best.encoding


def check_text(text: str) -> None:
    """Reject blank text and invalid characters."""
    if not text.strip():
        raise DocumentError("is empty: give it some text.")
    check_characters(text)


def check_characters(text: str) -> None:
    """Reject null characters and lone surrogates, which tokenizers do not accept."""
    if bad := _NOT_TEXT.search(text):
        raise DocumentError(
            f"has the character U+{ord(bad[0]):04X} at {bad.start()}, which is not text: remove it."
        )
