"""Messages of Outlook (MSG), which kreuzberg converts."""

import re
from datetime import datetime
from email.utils import format_datetime

from foveate.documents.blocks import ParsedText, collapse
from foveate.documents.readers.mail import message
from foveate.documents.structure import DocumentError

_DATE = re.compile(r"^Date: (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[+-]\d\d:\d\d)?)$", re.MULTILINE)


def read(data: bytes) -> ParsedText:
    """Read a message as mail is read; attachments are left out."""
    try:
        import kreuzberg
    except ImportError as error:
        raise ImportError(
            "messages of Outlook need kreuzberg: run pip install 'foveate[office]'."
        ) from error
    config = kreuzberg.ExtractionConfig(output_format="plain", use_cache=False)
    try:
        result = kreuzberg.extract_bytes_sync(data, "application/vnd.ms-outlook", config)
    except Exception as error:  # of types that it does not export
        reason = collapse(error).rstrip(".")
        raise DocumentError(
            f"cannot be read as MSG ({reason:.200}): open it and save it again."
        ) from error
    return message.read(_DATE.sub(_as_in_mail, result.content, 1).encode())


def _as_in_mail(date: re.Match[str]) -> str:
    """Return the field of a date in ISO 8601 as mail has it."""
    return f"Date: {format_datetime(datetime.fromisoformat(date[1]))}"
