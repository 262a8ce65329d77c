"""What is raised when something cannot be read."""


class DocumentError(ValueError):
    """A file or text cannot become a document; the message says what is wrong and what to do."""
