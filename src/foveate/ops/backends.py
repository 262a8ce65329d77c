"""Which implementation of an op runs."""

import os
from importlib.util import find_spec

import torch
from torch import Tensor

has_triton = find_spec("triton") is not None
"""Whether the kernels for GPUs can be had."""

BACKENDS = ("auto", "triton", "torch", "reference")


def choose(backend: str | None, q: Tensor) -> str:
    """Name the backend for these queries: the one asked for, FOVEATE_BACKEND's, or the fastest.

    Raises:
        ValueError: an unknown backend, or one that cannot run on these tensors.
    """
    backend = backend or os.environ.get("FOVEATE_BACKEND") or "auto"
    if backend not in BACKENDS:
        raise ValueError(f"unknown backend {backend!r}: choose among {list(BACKENDS)}")
    if backend == "auto":
        return "triton" if q.is_cuda and _why_no_triton(q) is None else "torch"
    if backend == "triton" and (reason := _why_no_triton(q)):
        raise ValueError(f'backend "triton" cannot run: {reason}')
    return backend


def _why_no_triton(q: Tensor) -> str | None:
    """What keeps the kernels from taking these tensors; None if nothing does."""
    if not has_triton:
        return "the package triton is not installed"
    if not q.is_cuda and os.environ.get("TRITON_INTERPRET") != "1":
        return f"it needs tensors on a GPU, got {q.device} (or TRITON_INTERPRET=1, for tests)"
    if q.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        return f"it computes in float16, bfloat16 and float32, got {q.dtype}"
    if q.shape[-1] > 128:
        return f"its heads have up to 128 channels, got {q.shape[-1]}"
    return None


def autocast(x: Tensor) -> Tensor:
    """Bring x to the dtype that an enclosing torch.autocast asks matrix products to use."""
    device = x.device.type
    if x.dtype == torch.float64 or not torch.is_autocast_enabled(device):
        return x
    return x.to(torch.get_autocast_dtype(device))
