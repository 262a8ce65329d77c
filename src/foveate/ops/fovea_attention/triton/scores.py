# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# mypy: disable-error-code=no-untyped-def
"""The scores of a pair of tiles, near or beyond the reach of the bias."""

import triton
import triton.language as tl

from foveate.ops._packed.triton.bias import biased_scores


@triton.jit
def far_biases(bias, reach):
    """Biases of keys beyond reach before their queries and after them; 0 without a bias."""
    before, after = 0.0, 0.0
    if bias is not None:
        before, after = tl.load(bias - reach), tl.load(bias + reach)
    return before, after


@triton.jit
def near_scores(products, distance, met, bias, scale):
    """Compute `biased_scores`, with -inf where `met` is false."""
    return tl.where(met, biased_scores(products, distance, bias, scale), float("-inf"))
