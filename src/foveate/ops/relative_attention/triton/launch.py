"""How the kernels are launched: what makes scores of products, and sizes of tiles."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from foveate.ops._triton.math import LOG2E

from .tables import Distances, distances

COUNTS = ("n", "n_keys", "n_tiles", "reach", "edge_count")
"""Numbers that kernels are not compiled for anew: they change with every batch."""

AT_HAND = 4096
"""Distances whose biases a program keeps, at most; it looks up those of wider reach one by one."""


@dataclass(frozen=True)
class Scoring:
    """Everything in a score but the product of query and key."""

    table: Tensor | None
    """Biases of the buckets `(num_buckets, heads)`, contiguous."""
    distances: Distances | None
    key_bias: Tensor | None
    q_positions: Tensor | None
    k_positions: Tensor | None
    causal: bool
    scale: float

    @classmethod
    def by_table(
        cls,
        table: Tensor | None,
        key_bias: Tensor | None,
        q_positions: Tensor | None,
        k_positions: Tensor | None,
        causal: bool,
        max_distance: int,
        scale: float,
    ) -> "Scoring":
        """Find the buckets of distances; drop positions that do not count."""
        if table is None:
            places = (q_positions, k_positions) if causal else (None, None)
            return cls(None, None, key_bias, *places, causal, scale)
        found = distances(len(table), max_distance, not causal, table.device)
        places = q_positions, k_positions
        return cls(table.contiguous(), found, key_bias, *places, causal, scale)

    @cached_property
    def bias(self) -> Tensor | None:
        """Bias in base 2 of every distance that `distances` has, `(heads, ...)`, float32."""
        if self.table is None or self.distances is None:
            return None
        return (self.table.float() * LOG2E.value).T.index_select(1, self.distances.bucket)

    @property
    def placed(self) -> bool:
        """Whether positions other than 0, 1, … count."""
        return self.q_positions is not None or self.k_positions is not None

    @property
    def reach(self) -> int:
        """Largest distance with a bias of its own; 0 if there is none."""
        return 0 if self.distances is None else self.distances.reach

    @property
    def at_hand(self) -> int:
        """Places for the biases that a program keeps, a power of two; 0 if there are too many."""
        places = power_of_two(2 * self.reach + 1)
        return places if places <= AT_HAND else 0

    @property
    def near(self) -> Tensor | None:
        """Bucket of each distance within reach."""
        return None if self.distances is None else self.distances.near


def power_of_two(n: int) -> int:
    """Round up, in a tenth of the time of triton's own function."""
    return 1 << (n - 1).bit_length()


# The fastest of those tried on an H200 at 16,384 rows, at 4,096 in float32. What decides is how
# many programs fit on a multiprocessor at once, by their registers and by their tiles in shared
# memory: one computes weights while another multiplies.


def forward_options(q: Tensor, longest: int) -> dict[str, int]:
    """Tiles of the forward kernel, for sequences of up to `longest` queries."""
    if longest <= 16:  # decoding reads keys, it hardly computes
        return _options(16, 64, 4, 3)
    if q.dtype == torch.float32:
        return _options(32, 32, 4, 2) if _wide(q) else _options(128, 32, 8, 2)
    return _options(128, 64, 8, 3) if _wide(q) else _options(128, 64, 4, 3)


def queries_options(q: Tensor, placed: bool) -> dict[str, int]:
    """Tiles of the backward kernel that owns queries; small ones are less often near others."""
    if q.dtype == torch.float32:
        return _options(32, 64, 8, 2) if _wide(q) else _options(64, 32, 4, 2)
    if _wide(q):
        return _options(64, 64, 4, 2)
    if placed:
        return _options(64, 64, 4, 3) | {"maxnreg": 168}
    return _options(128, 64, 8, 3) | {"maxnreg": 128}


def keys_options(q: Tensor) -> dict[str, int]:
    """Tiles of the backward kernel that owns keys."""
    if q.dtype == torch.float32:
        return _options(64, 32, 8, 2) if _wide(q) else _options(32, 64, 4, 2)
    return _options(32, 64, 4, 2) if _wide(q) else _options(64, 64, 4, 3)


def _options(queries: int, keys: int, warps: int, stages: int) -> dict[str, int]:
    return {"QUERIES": queries, "KEYS": keys, "num_warps": warps, "num_stages": stages}


def _wide(q: Tensor) -> bool:
    return q.shape[-1] > 64


def parts_of_keys(programs: int, longest: int, device: torch.device) -> int:
    """Programs that share the keys of a tile of queries, where these alone would not fill the GPU.

    Each gets 2,048 keys of the longest sequence at least, or merging costs more than it brings.
    """
    if longest < 4096:
        return 1
    cuda = device.type == "cuda"
    slots = 2 * torch.cuda.get_device_properties(device).multi_processor_count if cuda else 16
    return max(1, min(slots // programs, longest // 2048))
