"""Which implementation of a layer's steps runs."""

from typing import Any

from torch import Tensor

from foveate.ops.backends import choose

from . import torch as _torch


def steps(rows: Tensor, backend: str | None) -> Any:
    """Give the module whose `select`, `split` and `merge` run on these rows."""
    if choose(backend, rows[:, :1]) == "triton":  # the width of heads is limited, not that of rows
        from . import triton

        return triton
    return _torch
