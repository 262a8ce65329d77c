"""Some rows of a large buffer, read and written without ever touching the others.

Plain indexing would cost as much as the buffer in every backward pass: the gradient of each read is
a buffer of zeros with a few rows, and that of each write a copy with a few zeros. Here reads and
writes form a chain, each taking the buffer's place, so that one gradient goes back along it and
only the rows concerned are changed, in place.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def read_rows(buffer: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Copy rows `(r,)` of a buffer `(n, ...)`: `(r, ...)`, and the buffer to go on with."""
    if not (torch.is_grad_enabled() and buffer.requires_grad):
        return buffer.index_select(0, rows), buffer
    read, buffer = _Read.apply(buffer, rows)
    return read, buffer


def write_rows(buffer: Tensor, rows: Tensor, values: Tensor) -> Tensor:
    """Overwrite rows `(r,)` of a buffer `(n, ...)` in place: the buffer to go on with.

    No row may be named twice.
    """
    if not torch.is_grad_enabled() or not (buffer.requires_grad or values.requires_grad):
        return buffer.index_copy_(0, rows, values)
    written: Tensor = _Write.apply(buffer, rows, values)
    return written


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, buffer: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        ctx.mark_dirty(buffer)  # it goes on as an output
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(rows)
        ctx.shape = buffer.shape
        return buffer.index_select(0, rows), buffer

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_read: Tensor | None, grad: Tensor | None) -> tuple[Any, ...]:
        (rows,) = ctx.saved_tensors
        if of_read is None:
            return grad, None
        if grad is None:
            grad = of_read.new_zeros(ctx.shape)
        return grad.index_add_(0, rows, of_read), None


class _Write(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, buffer: Tensor, rows: Tensor, values: Tensor) -> Tensor:
        ctx.mark_dirty(buffer)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(rows)
        return buffer.index_copy_(0, rows, values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor | None) -> tuple[Any, ...]:
        if grad is None:
            return None, None, None
        (rows,) = ctx.saved_tensors
        of_values = grad.index_select(0, rows)
        return grad.index_fill_(0, rows, 0), None, of_values
