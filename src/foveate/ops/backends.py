"""Choose the implementation of an op."""

import os
import warnings
from importlib.util import find_spec

import torch
from torch import Tensor

from foveate.ops._triton.card import capability_for, card_of

has_triton = find_spec("triton") is not None
"""Whether Triton, which compiles the GPU kernels, is installed."""

_AUTOCAST = ("cpu", "cuda", "mps", "xpu", "hpu", "mtia", "privateuseone")
"""Types of devices that have autocast; asking torch for them cannot be compiled in torch 2.11."""

BACKENDS = ("auto", "triton", "eager", "reference")
"""Implementations of an op: "triton" is kernels for GPUs, "eager" plain PyTorch for any device,
both mostly in linear memory, and "reference" the definition. "auto" is "triton" where that can run,
otherwise "eager". The environment variable FOVEATE_BACKEND names the default."""


def choose(backend: str | None, x: Tensor, widest: int | None = 128, shared_memory: int = 0) -> str:
    """Resolve the backend for a tensor: "triton", "eager" or "reference".

    Args:
        backend: One of `BACKENDS`; if None, the environment's, or "auto".
        x: A tensor that the op computes with; for attention the queries.
        widest: The largest last dimension of `x` that the kernels support; None for no limit, of
            kernels that multiply no matrices.
        shared_memory: Bytes that the kernels need, whatever their sizes.

    Raises:
        ValueError: If the backend is unknown or cannot run on this tensor.

    Warns:
        UserWarning: "auto" is "eager" because the GPU lacks what the kernels need.
    """
    backend = backend or os.environ.get("FOVEATE_BACKEND") or "auto"
    if backend not in BACKENDS:
        raise ValueError(f"unknown backend {backend!r}: choose among {list(BACKENDS)}")
    if backend == "auto" and (not x.is_cuda or _why_no_triton(x, widest)):
        return "eager"
    if backend in ("eager", "reference"):
        return backend
    if reason := _why_no_triton(x, widest):
        raise ValueError(f'backend "triton" cannot run: {reason}')
    if reason := _what_the_card_lacks(x, widest is not None, shared_memory):
        if backend == "triton":
            raise ValueError(f'backend "triton" cannot run: {reason}')
        if not torch.compiler.is_compiling():
            warnings.warn(f"no kernels run, but plain PyTorch: {reason}", stacklevel=3)
        return "eager"
    return "triton"


def _why_no_triton(x: Tensor, widest: int | None) -> str | None:
    """Return why the kernels cannot run on this tensor, or None if they can."""
    if not has_triton:
        return "the package triton is not installed"
    if not x.is_cuda and os.environ.get("TRITON_INTERPRET") != "1":
        return f"it needs tensors on a GPU, got {x.device} (or TRITON_INTERPRET=1, for tests)"
    if x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        return f"it computes in float16, bfloat16 and float32, got {x.dtype}"
    if widest is not None and x.shape[-1] > widest:
        return f"it supports heads of up to {widest} channels, got {x.shape[-1]}"
    return None


def _what_the_card_lacks(x: Tensor, multiplies: bool, shared_memory: int) -> str | None:
    """Return what the kernels need that the GPU does not have, if anything."""
    # torch.compile warns of a cache.
    look_up = card_of.__wrapped__ if torch.compiler.is_compiling() else card_of
    card, oldest = look_up(x.device), capability_for(x.dtype, multiplies)
    if torch.version.hip is None and card.capability < oldest:
        needs, has = (".".join(map(str, pair)) for pair in (oldest, card.capability))
        return f"in {x.dtype} they need a GPU of compute capability {needs}, and this one has {has}"
    if shared_memory > card.shared_memory:
        return (
            f"heads of {x.shape[-1]} channels in {x.dtype} need {shared_memory} bytes of shared "
            f"memory, and this GPU has {card.shared_memory}"
        )
    return None


def autocast(x: Tensor) -> Tensor:
    """Cast x to the dtype that an enclosing torch.autocast uses for matrix products."""
    dtype = autocast_dtype(x)
    return x if x.dtype == dtype else x.to(dtype)


def autocast_dtype(x: Tensor) -> torch.dtype:
    """Return the dtype that x has in matrix products, given any enclosing torch.autocast."""
    device = x.device.type
    if not autocasts(device) or x.dtype == torch.float64:
        return x.dtype
    return torch.get_autocast_dtype(device)


def autocasts(device: str) -> bool:
    """Return whether there is an enclosing torch.autocast for a type of devices."""
    return device in _AUTOCAST and torch.is_autocast_enabled(device)
