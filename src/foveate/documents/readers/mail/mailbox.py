"""Mailboxes (mbox files), a document for each thread."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from email.message import EmailMessage

from foveate.documents.formats import Member
from foveate.documents.readers.mail.message import (
    date,
    header,
    join_messages,
    parse_headers,
    split_messages,
    subject,
)
from foveate.documents.structure import DocumentError

_ID = re.compile(r"<[^<>\s]+>")
_EARLIEST = datetime.min.replace(tzinfo=UTC)


def split(data: bytes) -> Iterator[Member]:
    """Yield each thread as a mailbox of its own, named by the number of its first message."""
    messages = split_messages(data)
    if len(messages) == 1 and not parse_headers(messages[0]).keys():
        raise DocumentError("is not a mailbox: it does not begin with a message.")
    for numbers in threads(messages):
        thread = join_messages([messages[number] for number in numbers])
        yield Member(f":{min(numbers) + 1}", thread, "email")


def threads(messages: Sequence[bytes]) -> list[list[int]]:
    """Sort messages into threads.

    A message belongs to the thread of those that it refers to or, if it is a reply that refers to
    none, to that of the last message before it with its subject. Dates decide what is before it,
    since messages may be stored in any order; one without a date follows the one stored before it.

    Returns:
        The indices of each thread's messages, sorted by date; the threads in the order of their
        first messages.
    """
    dates: list[datetime] = []
    names: list[list[str]] = []  # of each message: identifiers, or a subject, that it has or cites
    topics: list[str | None] = []  # of those that begin a thread
    for message in map(parse_headers, messages):
        identifiers = _identifiers(message, "Message-ID")
        references = _identifiers(message, "References") + _identifiers(message, "In-Reply-To")
        topic = subject(message)
        is_reply = topic != header(message, "Subject")  # it begins with "Re:"
        dates.append(date(message) or (dates[-1] if dates else _EARLIEST))
        names.append(identifiers + (references or ([topic] if is_reply else [])))
        topics.append(None if references or is_reply else topic)
    found: list[list[int]] = []
    bearers: dict[str, list[int]] = {}  # threads, by identifiers and subjects
    for number in sorted(range(len(messages)), key=dates.__getitem__):
        thread = next((bearers[name] for name in names[number] if name in bearers), [])
        if not thread:
            found.append(thread)
        thread.append(number)
        for name in names[number]:
            bearers.setdefault(name, thread)
        if (begun := topics[number]) is not None:
            bearers[begun] = thread  # others may have the same subject by chance
    return sorted(found, key=min)


def _identifiers(message: EmailMessage, name: str) -> list[str]:
    return _ID.findall(header(message, name))
