"""Register kernels as torch ops of the namespace `foveate`.

An op is opaque to the compiler and knows the shapes of its outputs without running, so
`torch.compile`, graph capture, checkpointing and distributed wrappers treat it like a built-in op.
Ops have no autograd rule: a `torch.autograd.Function` calls the forward op and the backward op,
which costs the host less than `torch.library.register_autograd`.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch._ops import OpOverload

_NAMESPACE = "foveate"


def define_op(
    schema: str, *, fake: Callable[..., object]
) -> Callable[[Callable[..., object]], OpOverload]:
    """Register the decorated function as a torch op for the CPU and for CUDA.

    Args:
        schema: Name and signature in torch's notation. An op cannot return None: see `or_empty`.
        fake: Takes the arguments of the op and returns uninitialized tensors of the shapes, dtypes
            and devices of its outputs.

    Returns:
        A decorator that returns the op.

    Example:
        >>> @define_op("twice(Tensor x) -> Tensor", fake=torch.empty_like)
        ... def twice(x):
        ...     return 2 * x
        >>> twice(torch.ones(2))
        tensor([2., 2.])
    """
    name, parenthesis, signature = schema.partition("(")
    qualified_name = f"{_NAMESPACE}::{name}"

    def register(function: Callable[..., object]) -> OpOverload:
        torch.library.define(qualified_name, parenthesis + signature)
        torch.library.impl(qualified_name, ("cpu", "cuda"), function)
        torch.library.register_fake(qualified_name, fake)
        op: OpOverload = getattr(getattr(torch.ops, _NAMESPACE), name).default
        return op

    return register


def or_empty(x: Tensor | None, like: Tensor) -> Tensor:
    """Return x, or if it is None, an empty tensor with the dtype and device of `like`."""
    return like.new_empty(0) if x is None else x


def new_or_empty(x: Tensor | None, like: Tensor) -> Tensor:
    """Return an uninitialized tensor like x, or if x is None, an empty one like `like`."""
    return like.new_empty(0) if x is None else x.new_empty(x.shape)
