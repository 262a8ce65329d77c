"""What a process that reads or encodes files sends to the one that writes the library."""

import warnings
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def messages(parts: Iterable[T]) -> Iterator[tuple[T | Exception, list[str]]]:
    """Yield parts and at last the error that ended them, each with the warnings before it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default", UserWarning)

        def message(result: T | Exception) -> tuple[T | Exception, list[str]]:
            warned = [str(one.message) for one in caught if one.category is UserWarning]
            caught.clear()
            return result, warned

        try:
            for part in parts:
                yield message(part)
        except (ValueError, OSError, ImportError) as error:
            yield message(error)
        except Exception as error:  # whose class the other process may not have
            yield message(RuntimeError(f"{type(error).__name__}: {error}"))


def received(message: tuple[T | Exception, list[str]]) -> T:
    """Warn of what a message warns of, and return its part or raise its error."""
    result, warned = message
    for text in warned:
        warnings.warn(text, stacklevel=3)
    if isinstance(result, Exception):
        raise result
    return result
