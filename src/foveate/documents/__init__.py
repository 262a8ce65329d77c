"""Reading of files and text into a `Document`: nested sections of sentences with exact offsets."""

from foveate.documents.document import Document, as_document, as_documents
from foveate.documents.files import read_documents
from foveate.documents.formats import FORMATS, Format
from foveate.documents.structure import (
    Box,
    DocumentError,
    Kind,
    Landmark,
    NotADocumentError,
    Paragraph,
    Section,
    Sentence,
    Span,
)

__all__ = [
    "FORMATS",
    "Box",
    "Document",
    "DocumentError",
    "Format",
    "Kind",
    "Landmark",
    "NotADocumentError",
    "Paragraph",
    "Section",
    "Sentence",
    "Span",
    "as_document",
    "as_documents",
    "read_documents",
]
