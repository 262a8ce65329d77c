"""Files and text in, `Document` out: nested sections of sentences with their exact offsets."""

from foveate.documents.document import Document, as_document, as_documents
from foveate.documents.errors import DocumentError
from foveate.documents.span import Span
from foveate.documents.structure import Paragraph, Section, Sentence

__all__ = [
    "Document",
    "DocumentError",
    "Paragraph",
    "Section",
    "Sentence",
    "Span",
    "as_document",
    "as_documents",
]
