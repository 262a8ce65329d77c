"""Files and text in, `Document` out: nested sections of sentences with their exact offsets."""

from foveate.documents.document import Document, as_document, as_documents
from foveate.documents.structure import DocumentError, Paragraph, Section, Sentence, Span

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
