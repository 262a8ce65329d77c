# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""The scores of a pair of tiles, near or beyond the reach of the bias, and the kernels' options.

As in relative attention, whose loops are similar, what matters is how many programs fit on a
multiprocessor at once, given their registers and their tiles in shared memory.
"""

import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._packed.triton.bias import biased_scores
from foveate.ops._triton.math import padded_width


def forward_options(q: Tensor) -> dict[str, int]:
    """Return Triton's options for the forward kernel."""
    return {**_options(4, 3), "maxnreg": 128} if row_bytes(q) <= 128 else _wide_options(q)


def queries_options(q: Tensor) -> dict[str, int]:
    """Return Triton's options for the backward kernel that finishes tiles of queries."""
    return {**_options(4, 3), "maxnreg": 168} if row_bytes(q) <= 128 else _wide_options(q)


def keys_options(q: Tensor, queries: int) -> dict[str, int]:
    """Return Triton's options for the kernel that finishes tiles of keys, and its ROWS."""
    is_narrow = row_bytes(q) <= 128
    options = _options(4, 2) if is_narrow else _wide_options(q)
    return options | {"ROWS": min(queries, 64 if is_narrow else 32)}


def _wide_options(q: Tensor) -> dict[str, int]:
    return _options(8, 2 if row_bytes(q) <= 256 else 1)


def _options(num_warps: int, num_stages: int) -> dict[str, int]:
    return {"num_warps": num_warps, "num_stages": num_stages}


def row_bytes(q: Tensor) -> int:
    """Return the number of bytes of a row of a tile."""
    return padded_width(q.shape[-1]) * q.element_size()


@triton.jit
def far_biases(bias, reach):
    """Return the biases of keys beyond reach before and after their queries; 0 without a bias."""
    before, after = 0.0, 0.0
    if bias is not None:
        before, after = tl.load(bias - reach), tl.load(bias + reach)
    return before, after


@triton.jit
def load_log_sizes(log_sizes, first, step, count, KEYS: tl.constexpr):
    """Load the logarithms of the sizes of a tile's windows; 0 beyond the last, or without them."""
    key = tl.arange(0, KEYS)
    sizes = tl.zeros([KEYS], tl.float32)
    if log_sizes is not None:
        sizes = tl.load(log_sizes + first + step * key, mask=key < count, other=0.0)
    return sizes


@triton.jit
def near_scores(products, distance, met, bias, scale):
    """Compute `biased_scores`, with -inf where `met` is false."""
    return tl.where(met, biased_scores(products, distance, bias, scale), float("-inf"))
