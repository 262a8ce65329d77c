"""Which implementation of a layer's steps runs."""

from typing import Any

from torch import Tensor

from foveate.ops.backends import choose

from . import eager as _eager


def steps(rows: Tensor, backend: str | None) -> Any:
    """Give the module whose `select`, `split` and `merge` run on these rows."""
    if choose(backend, rows, widest=None) == "triton":
        from . import triton

        return triton
    return _eager
