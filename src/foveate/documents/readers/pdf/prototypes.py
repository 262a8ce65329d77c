"""Functions of PDFium that take plain numbers as arguments.

The checks of pypdfium2's own prototypes cost more than the calls, which come a few times a
character.
"""

import ctypes
from collections.abc import Callable
from typing import Any

POINTER, INT, UINT, ULONG = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, ctypes.c_ulong


def prototype(function: Any, result: Any, *arguments: Any) -> Callable[..., Any]:
    """Make a function of PDFium take plain numbers as arguments."""
    address = ctypes.cast(function, POINTER).value
    made: Callable[..., Any] = ctypes.PYFUNCTYPE(result, *arguments)(address)  # type: ignore[arg-type]
    return made
