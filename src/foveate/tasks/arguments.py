"""Validation of the arguments that several tasks share."""

from typing import Literal, get_args

from foveate.documents import DocumentError
from foveate.documents.decoding import check_characters

Unit = Literal["passage", "section", "document"]
"""What `search` finds."""


def check_query(query: object) -> None:
    """Check that a query is a string of valid characters that is not blank.

    Raises:
        TypeError: It is not a string; most likely, it was not passed as the first argument.
        ValueError: It is blank, or contains an invalid character.
    """
    if not isinstance(query, str):
        kind = type(query).__name__
        raise TypeError(f"expected a query and then what to read, got {kind} first")
    if not query.strip():
        raise ValueError("the query is empty: say what to look for")
    try:
        check_characters(query)
    except DocumentError as error:
        raise ValueError(f"the query {error}") from error


def check_top_k(top_k: int) -> None:
    """Raise a ValueError if `top_k` is below 1."""
    if top_k < 1:
        raise ValueError(f"top_k must be at least 1, got {top_k}")


def check_budget(sentences: int | None, words: int | None) -> None:
    """Raise a ValueError if a summary has both budgets, or one below 1."""
    if sentences is not None and words is not None:
        raise ValueError("give a number of sentences or of words, not both")
    for name, budget in (("sentences", sentences), ("words", words)):
        if budget is not None and budget < 1:
            raise ValueError(f"{name} must be at least 1, got {budget}")


def check_context(context: int) -> None:
    """Raise a ValueError if a number of sentences around hits is negative."""
    if context < 0:
        raise ValueError(f"context must be at least 0, got {context}")


def check_unit(by: str) -> None:
    """Raise a ValueError if `by` is not a `Unit`."""
    if by not in get_args(Unit):
        raise ValueError(f"by must be 'passage', 'section' or 'document', got {by!r}")
