"""E-mail: a message, or the messages of a thread, without what they quote."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import EmailMessage
from email.utils import parseaddr, parsedate_to_datetime
from typing import cast

from foveate.documents.blocks import Block, Heading, ParsedText, Prose, collapse, compose_text
from foveate.documents.decoding import decode, decode_declared
from foveate.documents.metadata import clean_names, make_date
from foveate.documents.readers import html, plain
from foveate.documents.structure import DocumentError
from foveate.documents.words import alternatives, load_words

_MAX_PARTS = 20  # levels of parts in parts
_FROM = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))From [^\n]*\n(?=[!-9;-~]+:)")
# The parser of the standard library takes quadratic time for some long headers.
_MAX_HEADER = 4000  # bytes
_HEADERS = re.compile(
    rb"(?:\A|^--[^\n]*\n)(?:[!-9;-~]+:[^\n]*(?:\n|\Z)(?:[ \t][^\n]*(?:\n|\Z))*)+", re.MULTILINE
)
_LONG_HEADER = re.compile(
    rb"^([!-9;-~]+:(?:[^\n]|\n[ \t]){%d})(?:[^\n]|\n[ \t])+" % _MAX_HEADER, re.MULTILINE
)
_HEADERS_END = re.compile(rb"\r?\n\r?\n")
_ANY_FROM = re.compile(rb"^>*From ", re.MULTILINE)
_ESCAPED_FROM = re.compile(rb"^>(?=>*From )", re.MULTILINE)
_WORDS = load_words("mail")
_REPLY_PREFIX = re.compile(
    rf"(?:\s*(?:{alternatives(_WORDS['replies'])})(?:\[\d+\])?\s*:\s*)+", re.I
)
# "On Monday, Ann wrote:"
_WROTE = re.compile(
    rf"\b(?:(?:{alternatives(_WORDS['wrote'])})\s?"
    rf"|(?:{alternatives(_WORDS['wrote_earlier'])})\b[^.!?]{{0,80}}?(?:\S+@\S+?\s*)?)[:：]\Z"
    rf"|(?:{alternatives(_WORDS['wrote_unspaced'])})[:：]\Z",
    re.IGNORECASE,
)
_OPENING = re.compile(rf"(?:{alternatives(_WORDS['on'])}|\d{{1,4}}[-/.]\d)\b", re.IGNORECASE)
_ADDRESS = re.compile(r"[^\s<>@]@[^\s<>@]")
_BLOCK_QUOTE = re.compile(r"<blockquote\b", re.IGNORECASE)
_QUOTED_HTML = re.compile(
    r"<blockquote\b[^>]*(?:\btype=\W?cite|\bcite=|_quote)|moz-cite-prefix|gmail_attr", re.IGNORECASE
)
_MAX_ATTRIBUTION = 4  # lines
_QUOTE = re.compile(r"\s{0,3}>")
_SEPARATOR = re.compile(
    rf"\s*(?:[-_*]{{2,}}\s*(?:{alternatives(_WORDS['separators'])})\b"
    rf"|{alternatives(_WORDS['separators_alone'])})",
    re.IGNORECASE,
)
_FROM_WORD = re.compile(rf"\s*\**(?:{alternatives(_WORDS['senders'])})\s?:", re.IGNORECASE)
_HEADER_WORD = re.compile(rf"\b(?:{alternatives(_WORDS['headers'])})\s?:", re.IGNORECASE)
_MIN_HEADERS = 3  # that are the head of a quoted message
_HEAD_LINES = 6
_RULE = re.compile(r"\s*[-_=*]{20,}\s*\Z")
_FOOTER_LINES = 8  # at most, of what a mailing list adds below a rule
_SENT_FROM = re.compile(rf"\s*(?:{alternatives(_WORDS['sent_from'])})", re.IGNORECASE)


def read(data: bytes) -> ParsedText:
    """Read each message of a thread as a section, whose heading is its sender and date.

    The title is the subject of the first message, and the date the day on which it was sent; the
    authors are the senders of all messages, as far as they give a name. Quoted and forwarded text
    and signatures are left out, except in a thread that contains nothing else. Attachments are left
    out.
    """
    messages = [parse_message(message) for message in split_messages(data)]
    if not messages[0].keys():
        raise DocumentError("is not an e-mail: it does not begin with headers.")
    title = subject(messages[0])
    for leave_out in (True, False):
        blocks = [
            block
            for number, message in enumerate(messages, 1)
            for block in _message_blocks(message, number, leave_out)
        ]
        if any(isinstance(block, Prose) for block in blocks):
            parsed = compose_text(title, blocks)
            parsed.authors = clean_names(sender(one)[0] for one in messages)
            sent = date(messages[0])
            parsed.date = make_date(sent.year, sent.month, sent.day) if sent else None
            return parsed
    if any("ms-tnef" in part.get_content_type() for one in messages for part in one.walk()):
        raise DocumentError(
            "has its text in a winmail.dat, in which Outlook packs what it sends: open it in "
            "Outlook and save it as .msg or .eml."
        )
    raise DocumentError("has no text: its messages are empty, or attachments only.")


def split_messages(data: bytes) -> list[bytes]:
    """Split a mailbox file at the lines that begin with "From "; a message alone stays whole."""
    starts = list(_FROM.finditer(data))
    if not starts or starts[0].start():
        return [data]
    ends = [match.start() for match in starts[1:]] + [len(data)]
    return [
        _ESCAPED_FROM.sub(b"", data[match.end() : end])
        for match, end in zip(starts, ends, strict=True)
    ]


def join_messages(messages: list[bytes]) -> bytes:
    """Write messages as a mailbox file."""
    escaped = (_ANY_FROM.sub(rb">\g<0>", message.strip()) for message in messages)
    return b"".join(b"From -\n" + message + b"\n\n" for message in escaped)


def parse_message(data: bytes) -> EmailMessage:
    """Parse a message, with at most 4,000 bytes of each header."""
    shortened = _HEADERS.sub(lambda headers: _LONG_HEADER.sub(rb"\1", headers[0]), data.lstrip())
    try:
        return message_from_bytes(shortened, policy=policy.default)
    except Exception as error:  # the parser raises many types on damaged messages
        raise DocumentError(f"cannot be read as e-mail ({type(error).__name__}).") from error


def parse_headers(data: bytes) -> EmailMessage:
    """Parse the headers of a message alone."""
    data = data.lstrip()
    end = _HEADERS_END.search(data)
    return parse_message(data[: end.start()] if end else data)


def header(message: EmailMessage, name: str) -> str:
    """Return a header, decoded; empty if it is missing."""
    return collapse(_decode_words(_written(message, name)))


def sender(message: EmailMessage) -> tuple[str, str]:
    """Return the name and the address of who sent a message; empty if unknown."""
    try:
        name, address = parseaddr(collapse(_written(message, "From")))
    except RecursionError:  # thousands of parentheses
        return "", ""
    return collapse(_decode_words(name)), address


def _written(message: EmailMessage, name: str) -> str:
    """Return a header as it is written, whose parser in the library fails on damaged ones."""
    values = (value for one, value in message.raw_items() if one.lower() == name.lower())
    return str(next(values, ""))


def _decode_words(text: str) -> str:
    """Decode the encoded words of a header; a character may be divided between two of them."""
    if not text.isascii():  # which is against the rules; bytes have become surrogates
        text = decode(text.encode("ascii", "surrogateescape"))
    try:
        parts = decode_header(text)
    except HeaderParseError:
        return text
    return "".join(
        part if isinstance(part, str) else _decode_part(part, (label or "").partition("*")[0])
        for part, label in parts
    )


def _decode_part(data: bytes, label: str) -> str:
    """Decode bytes by the encoding that they declare if that is right."""
    if label not in ("", "us-ascii", "ascii"):  # else bytes beyond ASCII say more than it
        with suppress(DocumentError):
            return decode_declared(data, label)
    with suppress(DocumentError):
        return decode(data)
    return data.decode("latin-1")


def date(message: EmailMessage) -> datetime | None:
    """Return when a message was sent; None if unknown."""
    try:
        sent = parsedate_to_datetime(header(message, "Date"))
    except (ValueError, OverflowError, TypeError):
        return None
    return sent if sent.tzinfo else sent.replace(tzinfo=UTC)


def subject(message: EmailMessage) -> str:
    """Return the subject without "Re:" and the like at its beginning."""
    text = header(message, "Subject")
    prefix = _REPLY_PREFIX.match(text)
    return text[prefix.end() :] if prefix else text


def _message_blocks(message: EmailMessage, number: int, leave_out: bool) -> Iterator[Block]:
    name = next(filter(None, sender(message)), None)
    sent = date(message)
    yield Heading(1, ", ".join(filter(None, (name, f"{sent:%Y-%m-%d %H:%M}" if sent else ""))))
    place: str | None = f"message {number}"
    for block in _body(message, leave_out):
        if isinstance(block, Heading):
            yield Heading(block.level + 1, block.text)
        elif block.text:
            yield replace(block, speaker=name, place=place)
            place = None  # the following paragraphs come after the first one


def _body(message: EmailMessage, leave_out: bool) -> list[Block]:
    """Return the paragraphs of the parts that are shown as the message."""
    blocks: list[Block] = []
    for part in _text_parts(message, has_attached=not leave_out):
        written = _content(part)
        if part.get_content_subtype() == "html":
            own = html.read(written, is_part=True, has_quotations=False).blocks
            are_quoted = any(map(_is_quotation, own)) or _QUOTED_HTML.search(written)
            if leave_out and are_quoted:
                blocks += _before_quotes(own, stop=not _BLOCK_QUOTE.search(written))
            else:
                blocks += html.read(written, is_part=True).blocks
        else:
            parsed = plain.read_lines(_own_words(written) if leave_out else written)
            if parsed.title:  # a heading like others: the subject is the title
                blocks.append(Heading(1, parsed.title))
            blocks += parsed.blocks
    return blocks


def _text_parts(
    part: EmailMessage, depth: int = 0, *, has_attached: bool
) -> Iterator[EmailMessage]:
    """Yield the texts of a message without attachments; of alternatives, the first one.

    Messages that are attached are left out, too, unless there is nothing else.
    """
    if part.is_multipart():
        is_message = part.get_content_maintype() == "message"
        if depth == _MAX_PARTS or (is_message and _is_attached(part) and not has_attached):
            return
        children = cast(list[EmailMessage], part.get_payload())
        texts = [
            list(_text_parts(child, depth + 1, has_attached=has_attached)) for child in children
        ]
        if part.get_content_subtype() == "alternative":
            texts = [text for text in texts if any(_content(one).strip() for one in text)][:1]
        for text in texts:
            yield from text
    elif part.get_content_type() in ("text/plain", "text/html") and not _is_attached(part):
        yield part


def _is_attached(part: EmailMessage) -> bool:
    try:
        return part.is_attachment() or part.get_filename() is not None
    except Exception:  # as for headers
        return False


def _content(part: EmailMessage) -> str:
    """Decode the content of a part, by its own encoding if that is right."""
    payload = part.get_payload(decode=True)
    data = payload if isinstance(payload, bytes) else b""
    text = _decode_part(data, part.get_content_charset("")).replace("\r\n", "\n").replace("\0", "")
    is_flowed = str(part.get_param("delsp", "")).lower() == "yes"
    return _unflowed(text) if is_flowed else text


def _unflowed(text: str) -> str:
    """Join the lines that end in a space, which is not part of the text (RFC 3676, DelSp)."""
    lines: list[str] = []
    open_depth = -1  # of the quotation whose last line goes on
    for line in text.split("\n"):
        body = line.lstrip(">")
        depth = len(line) - len(body)
        body = body.removeprefix(" ")
        goes_on = body.endswith(" ") and line != "-- "
        shown = body[:-1] if goes_on else body
        if depth == open_depth:
            lines[-1] += shown
        else:
            lines.append(">" * depth + " " * bool(depth) + shown if line != "-- " else line)
        open_depth = depth if goes_on else -1
    return "\n".join(lines)


def _own_words(body: str) -> str:
    """Return a plain text without quotations, forwarded text and signature."""
    lines = body.split("\n")
    kept: list[str] = []
    number = 0
    while number < len(lines) and not _ends_message(lines, number):
        length, is_quoted = _attribution(lines, number)
        if length and not is_quoted:  # the rest is a quotation without marks
            break
        if not length and not _QUOTE.match(lines[number]) and not _SENT_FROM.match(lines[number]):
            kept.append(lines[number])
        number += length or 1
    return "\n".join(kept)


def _ends_message(lines: list[str], number: int) -> bool:
    """Return whether a line begins a signature, a forwarded message, or a mailing list's footer."""
    line = lines[number]
    if line.rstrip() == "--" or _SEPARATOR.match(line):
        return True
    if _FROM_WORD.match(line):
        return _is_head("\n".join(lines[number : number + _HEAD_LINES]))
    if len(lines) - number <= _FOOTER_LINES and _RULE.match(line):
        return any("://" in one or _ADDRESS.search(one) for one in lines[number:])
    return False


def _is_head(text: str) -> bool:
    """Return whether a text begins with the headers of a message, as Outlook quotes it."""
    return (
        _FROM_WORD.match(text) is not None
        and len(_HEADER_WORD.findall(text[:1000])) >= _MIN_HEADERS
    )


def _attribution(lines: list[str], number: int) -> tuple[int, bool]:
    """Find a phrase such as "On Monday, Ann wrote:".

    Returns:
        Number of lines that it takes, 0 if there is none, and whether marked lines follow it.
    """
    is_opening = _OPENING.match(lines[number].lstrip()) is not None
    for end in range(number + 1, number + 1 + (_MAX_ATTRIBUTION if is_opening else 1)):
        text = " ".join(lines[number:end]).strip()
        if not text.endswith((":", "：")):
            continue
        following = next((lines[i] for i in range(end, len(lines)) if lines[i].strip()), "")
        is_quoted = _QUOTE.match(following) is not None
        is_dated = is_opening and any(map(str.isdigit, text))
        if _WROTE.search(text) and (is_quoted or is_dated):
            return end - number, is_quoted
        if is_quoted and _ADDRESS.search(text):
            return end - number, is_quoted
    return 0, False


def _before_quotes(blocks: list[Block], *, stop: bool) -> Iterator[Block]:
    """Yield the paragraphs of an HTML message up to a quoted or forwarded one.

    It begins at "Ann wrote:" if `stop`; else what she wrote has been left out.
    """
    for block in blocks:
        shown = collapse(block.text)
        is_attribution = _is_attribution(shown)
        if shown == "--" or (is_attribution and stop) or _SEPARATOR.match(shown) or _is_head(shown):
            return
        if not (_SENT_FROM.match(shown) or is_attribution):
            yield block


def _is_attribution(shown: str) -> bool:
    return bool(shown) and _attribution([shown], 0)[0] > 0


def _is_quotation(block: Block) -> bool:
    """Return whether a paragraph of HTML introduces a quoted or forwarded message."""
    shown = collapse(block.text)
    return _is_attribution(shown) or _SEPARATOR.match(shown) is not None or _is_head(shown)
