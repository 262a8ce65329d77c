"""The terms of a score other than the product of query and key, and the options of the kernels."""

from typing import NamedTuple

import torch
from torch import Tensor

from foveate.ops._packed.triton import options as attention_options
from foveate.ops._packed.triton.bias import DistanceBuckets, distance_buckets
from foveate.ops._packed.triton.options import Options, options
from foveate.ops._triton.math import next_power_of_2

MAX_CACHED = 4096
"""The most distances whose biases a program keeps in registers; beyond, it reads them."""


class RelativeScoring(NamedTuple):
    """The terms that turn products of queries and keys into scores.

    Attributes:
        table: Bias of each bucket, `(num_buckets, heads)`, contiguous.
        buckets: The bucket of every distance, if there is a table.
        key_bias: `(key_tokens,)`.
        q_positions: `(tokens,)`; 0, 1, … in each sequence if None.
        k_positions: `(key_tokens,)`, likewise.
        causal: Whether later keys are hidden.
        scale: Factor on the products.
    """

    table: Tensor | None
    buckets: DistanceBuckets | None
    key_bias: Tensor | None
    q_positions: Tensor | None
    k_positions: Tensor | None
    causal: bool
    scale: float

    @classmethod
    def from_table(
        cls,
        table: Tensor | None,
        key_bias: Tensor | None,
        q_positions: Tensor | None,
        k_positions: Tensor | None,
        causal: bool,
        max_distance: int,
        scale: float,
    ) -> "RelativeScoring":
        """Look up the buckets of distances, and drop positions that make no difference."""
        if table is None:
            positions = (q_positions, k_positions) if causal else (None, None)
            return cls(None, None, key_bias, *positions, causal, scale)
        buckets = distance_buckets(len(table), max_distance, not causal, table.device)
        return cls(table.contiguous(), buckets, key_bias, q_positions, k_positions, causal, scale)

    @property
    def has_positions(self) -> bool:
        """Whether positions other than 0, 1, … matter."""
        return self.q_positions is not None or self.k_positions is not None

    @property
    def reach(self) -> int:
        """The largest distance with a bias of its own; 0 without a bias."""
        return 0 if self.buckets is None else self.buckets.reach

    @property
    def num_cached(self) -> int:
        """The number of biases that a program keeps, a power of two; 0 if there are too many."""
        num_distances = next_power_of_2(2 * self.reach + 1)
        return num_distances if num_distances <= MAX_CACHED else 0

    @property
    def near_buckets(self) -> Tensor | None:
        """Bucket of each distance within reach."""
        return None if self.buckets is None else self.buckets.near


def forward_options(q: Tensor, longest: int) -> Options:
    """Return the options of the forward kernel for sequences of up to `longest` queries."""
    if longest <= 16:  # decoding is bound by loading keys
        # Four warps that share 16 queries hold more copies of their operands.
        return attention_options.fitted(q, *options(16, 64, 4, 3), num_own_tiles=4)
    return attention_options.forward_options(q, options(128, 64, 4, 3))


def queries_options(q: Tensor, has_bias: bool) -> Options:
    """Return the options of the backward kernel that finishes queries."""
    narrow = options(64, 64, 4, 3, maxnreg=168) if has_bias else options(128, 64, 8, 3, maxnreg=128)
    return attention_options.queries_options(q, narrow)


def keys_options(q: Tensor) -> Options:
    """Return the options of the backward kernel that finishes keys."""
    return attention_options.keys_options(q, options(64, 64, 4, 3))


def num_key_splits(programs: int, longest: int, device: torch.device) -> int:
    """Return how many programs share the keys of a tile of queries, so that the GPU is not idle.

    Each gets at least 2,048 keys of the longest sequence: with fewer, merging costs more than it
    saves.
    """
    if longest < 4096:
        return 1
    cuda = device.type == "cuda"
    slots = 2 * torch.cuda.get_device_properties(device).multi_processor_count if cuda else 16
    return max(1, min(slots // programs, longest // 2048))
