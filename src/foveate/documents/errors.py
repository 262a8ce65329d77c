"""The error raised for files and texts that cannot be read."""


class DocumentError(ValueError):
    """A file or text cannot become a document; the message says what is wrong and what to do."""
