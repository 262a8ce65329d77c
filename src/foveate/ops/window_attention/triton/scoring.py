"""The terms of a score other than the product of query and key, and the options of the kernels."""

from typing import NamedTuple

import torch
from torch import Tensor

from foveate.ops._packed.triton import options as attention_options
from foveate.ops._packed.triton.bias import DistanceBuckets, distance_buckets
from foveate.ops._packed.triton.options import Options, options
from foveate.ops._triton.card import H200, card_of, padded_width

NOT_SPECIALIZED = (
    "n",
    "heads",
    "num_tiles",
    "num_global",
    "left",
    "right",
    "reach",
    "farthest",
)
"""Arguments that change from batch to batch, for which kernels are not recompiled."""


class WindowScoring(NamedTuple):
    """The terms that turn products of queries and keys into scores.

    Attributes:
        bias: Bias by distance in base 2, `(heads, 2·farthest + 1)` float32.
        buckets: The bucket of every distance, if there is a bias.
        masked_keys: Tokens that no window shows, `(tokens,)` uint8.
        left: Tokens of a window to the left of the query.
        right: Tokens of a window to the right of the query.
        scale: Factor on the products.
    """

    bias: Tensor | None
    buckets: DistanceBuckets | None
    masked_keys: Tensor | None
    left: int
    right: int
    scale: float

    @classmethod
    def from_table(
        cls,
        table: Tensor | None,
        masked_keys: Tensor | None,
        left: int,
        right: int,
        max_distance: int,
        scale: float,
    ) -> "WindowScoring":
        """Look up a table `(num_buckets, heads)` by distance."""
        bias = buckets = None
        if table is not None:
            buckets = distance_buckets(len(table), max_distance, True, table.device)
            bias = buckets.bias(table)
        masked_bytes = None if masked_keys is None else masked_keys.view(torch.uint8)
        return cls(bias, buckets, masked_bytes, left, right, scale)

    @property
    def tensors(self) -> tuple[Tensor | None, Tensor | None]:
        """The tensors that every kernel takes."""
        return self.bias, self.masked_keys

    @property
    def numbers(self) -> tuple[float, ...]:
        """The numbers that every kernel takes."""
        reach = 0 if self.buckets is None else self.buckets.reach
        farthest = 0 if self.bias is None else self.bias.shape[1] // 2
        return self.left, self.right, reach, farthest, self.scale


class GlobalTokens(NamedTuple):
    """Global keys and values without a bias, which the window kernels attend to themselves."""

    k: Tensor
    v: Tensor
    lengths: list[int]

    def tile_size(self, keys: int) -> int:
        """Return the number of tokens of a tile, for a kernel whose tiles have so many keys."""
        is_small = card_of(self.k.device).shared_memory < H200.shared_memory
        return min(keys if is_small else 64, padded_width(max(self.lengths)))


def global_tensors(global_tokens: GlobalTokens | None) -> tuple[Tensor | None, Tensor | None]:
    """Return the global keys and values as the kernels take them."""
    return (None, None) if global_tokens is None else (global_tokens.k, global_tokens.v)


def global_strides(global_tokens: GlobalTokens | None) -> tuple[int, ...]:
    """Return the token and head strides of the global keys and values."""
    if global_tokens is None:
        return (0,) * 4
    return (*global_tokens.k.stride()[:2], *global_tokens.v.stride()[:2])


def forward_options(q: Tensor) -> Options:
    """Return the options of the forward kernel."""
    return attention_options.forward_options(q, options(64, 64, 4, 3, maxnreg=128))


def queries_options(q: Tensor) -> Options:
    """Return the options of the backward kernel that finishes queries."""
    return attention_options.queries_options(q, options(64, 64, 4, 3))


def keys_options(q: Tensor) -> Options:
    """Return the options of the backward kernel that finishes keys.

    With more queries per tile, matrix products wait for each other.
    """
    return attention_options.keys_options(q, options(32, 64, 4, 4, maxnreg=168))
