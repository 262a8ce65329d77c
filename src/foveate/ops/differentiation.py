"""What the gradients of ops cannot do: second derivatives."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

_P = ParamSpec("_P")
_R = TypeVar("_R")


def once_differentiable(backward: Callable[_P, _R]) -> Callable[_P, _R]:
    """Refuse to run the backward pass of a `torch.autograd.Function` with `create_graph=True`.

    torch's decorator of this name drops what the gradients owe to the saved tensors: second
    derivatives behind other layers, or of a sum of outputs, would silently be wrong.

    Raises:
        RuntimeError: The gradients are to be differentiated again.
    """

    @wraps(backward)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            raise RuntimeError(
                "foveate's ops can be differentiated only once: leave create_graph out or, for "
                'second derivatives, use the backend "reference" (FOVEATE_BACKEND=reference) or '
                "a model without speed_up"
            )
        return backward(*args, **kwargs)

    return call
