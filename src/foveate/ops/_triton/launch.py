"""Launch kernels with little overhead on the host.

At every launch Triton inspects all arguments to find the compiled kernel that fits, which takes the
host longer than a small kernel takes the device. Nearly always only addresses have changed.
"""

from collections.abc import Hashable, Sequence
from functools import reduce
from operator import or_
from typing import Any

import torch
from torch import Tensor

_compiled: dict[Hashable, Any] = {}


def launch(
    kernel: Any,
    programs: int | tuple[int, int],
    tensors: Sequence[Tensor | None],
    strides: Sequence[int],
    numbers: Sequence[float],
    constants: tuple[Hashable, ...],
    **options: int,
) -> None:
    """Launch a kernel on the device of the first tensor.

    If all addresses and strides are multiples of 16 and all integers fit in 32 bits, Triton would
    choose the same compiled kernel each time, so that kernel is called directly. Otherwise the
    choice is left to Triton.

    Args:
        kernel: A kernel that takes the tensors, strides, numbers and constants, in this order.
        programs: The number of programs, along one axis or two.
        tensors: All on one device; None in place of an optional one.
        strides: Integers that Triton may specialize the kernel for, strides and lengths.
        numbers: Floats, and the integers that the kernel's `do_not_specialize` names.
        constants: Values of the kernel's compile-time constants.
        options: Triton's options, such as `num_warps`.
    """
    device = tensors[0].device if tensors[0] is not None else None
    if device is not None and device.type == "cuda" and device.index != torch.cuda.current_device():
        with torch.cuda.device(device):
            return launch(kernel, programs, tensors, strides, numbers, constants, **options)
    grid = (programs, 1, 1) if isinstance(programs, int) else (*programs, 1)
    addresses = [0 if x is None else x.data_ptr() for x in tensors]
    bits = reduce(or_, strides, 0)
    if (reduce(or_, addresses) | bits) & 15 or bits >> 31 or max(numbers, default=0) >= 1 << 31:
        kernel[grid](*tensors, *strides, *numbers, *constants, **options)
        return None
    dtypes = [None if x is None else x.dtype for x in tensors]
    key = (kernel.fn, device, constants, *dtypes, *options.items())
    compiled = _compiled.get(key)
    if compiled is None:  # the interpreter compiles nothing and returns None
        _compiled[key] = kernel[grid](*tensors, *strides, *numbers, *constants, **options)
    else:
        compiled[grid](*addresses, *strides, *numbers, *constants)
    return None
