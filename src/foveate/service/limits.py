"""Limits on what the service accepts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on what is sent, kept and waited for. Anything beyond them is refused with a reason.

    Attributes:
        body_bytes: Size of a request's body.
        body_seconds: Time in which a body must arrive.
        requests: Number of requests that are worked on or wait for the model.
        request_seconds: Time after which a request is given up.
        pages: Number of pages of a PDF.
        characters: Length of a document's text.
        reading_seconds: Time in which a file must be read.
        reading_bytes: Memory of the process that reads a file.
        readers: Number of files that are read at the same time.
        upload_bytes: Memory for the documents that were uploaded.
        upload_seconds: Time after which a document that nobody uses is forgotten.
        vector_bytes: Memory for the vectors of documents.
        batch_tokens: Number of tokens, by estimate, that the model reads for several requests at
            once.
    """

    body_bytes: int = 64 * 2**20
    body_seconds: float = 60
    requests: int = 128
    request_seconds: float = 300
    pages: int = 5_000
    characters: int = 8_000_000
    reading_seconds: float = 120
    reading_bytes: int = 4 * 2**30
    readers: int = 2
    upload_bytes: int = 512 * 2**20
    upload_seconds: float = 3600
    vector_bytes: int = 512 * 2**20
    batch_tokens: int = 8192
