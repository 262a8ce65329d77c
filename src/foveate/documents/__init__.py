"""Files and text in, :class:`Document` out: nested sections of sentences that know their place."""

from foveate.documents.document import Document, Paragraph, Section, Sentence
from foveate.documents.errors import DocumentError

__all__ = ["Document", "DocumentError", "Paragraph", "Section", "Sentence"]
