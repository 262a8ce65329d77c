"""The tiles that attend to each other, in lists that the kernels read.

Windows are numbered as in one long tensor: first the tokens, which are the windows of level 0, then
the windows of level 1 of all sequences, those of level 2, and so on. A *tile* is a run of some of
them, `first, first + step, …`. A query tile has a list of the key tiles that it attends to, and a
key tile has one of the query tiles that attend to it. Both contain the distance from the query
tile's first token to the key tile's first window, counted in windows of the nodes laid end to end.

Nodes of a level begin at every 2^-level-th part of a block, so few of them begin where a key tile
does. Hence the levels that a run holds are cut into tiles more than once, from every place within a
tile where nodes begin, and no node meets a tile in part. Each of these *cuts* has gradients of its
own, which are summed later: for every second level, as many more as there are tokens. Higher levels
and blocks of less than two tiles are cut once.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from foveate.ops._packed.triton.bias import DistanceBuckets, distance_buckets
from foveate.ops._triton.cache import cached_for_graphs

from ..pyramid import window_stride
from .tile import row_bytes

RUN = 64
"""Tokens that one program averages over the windows of all levels that they contain."""


class TileSizes(NamedTuple):
    """The numbers of queries and of keys in a tile."""

    queries: int
    keys: int

    @classmethod
    def for_block(cls, block_size: int, row_bytes: int) -> "TileSizes":
        """Choose sizes that suit the matrix units and shared memory, at most a block."""
        size = max(16, 1 << (block_size - 1).bit_length())
        if row_bytes <= 128:
            queries, keys = 64, 64
        elif row_bytes <= 256:
            queries, keys = 128, 64
        else:
            queries, keys = 64, 32
        return cls(min(size, queries), min(size, keys))


class TileLists(NamedTuple):
    """Tiles, and the tiles of the other side that each of them meets.

    Attributes:
        tiles: The first window, the step and the number of windows; where the tile's entries begin,
            where the far ones among them begin, and where they end. `(tiles, 6)` int32. An entry is
            far if its tile is beyond the reach of the bias and, for query tiles, full.
        entries: The first window, the step and the number of windows of the other tile; the
            distance from the query tile's first token to the key tile's first window; and the first
            and the end of the key tile's windows that are met. `(entries, 6)` int32.
    """

    tiles: Tensor
    entries: Tensor


class Schedule(NamedTuple):
    """The tiles, windows and buckets of a batch, as the kernels read them.

    Attributes:
        sizes: Sizes of tiles.
        level_ends: The number of windows up to the end of each level.
        runs: Runs of up to RUN tokens, in which the windows of the first levels are consecutive:
            for each level from 0 on the first window, and last the number of tokens. int32.
        halves: For each higher level, the two windows of the level below that a window joins,
            numbered within their level, `(windows, 2)` int32, and their shares in it, float32.
        parents: For the windows below each of these levels, the windows above that they are halves
            of, and their shares in these, likewise. A share is 0 where there is none.
        keys_of_queries: The key tiles of the query tiles.
        queries_of_keys: The query tiles of the key tiles, those with many first.
        gradient_rows: The first row and the step of the key tiles' gradients, `(tiles, 2)` int32.
        gradient_ends: The number of rows of gradients up to the end of each level. Those of all
            cuts of a window are adjacent.
        gradient_runs: Like `runs`, in rows of gradients.
        unit: Key tiles between nodes of level 0; a level has 2^level / unit cuts.
        buckets: The bucket of every distance; None without a bias.
    """

    sizes: TileSizes
    level_ends: tuple[int, ...]
    runs: Tensor
    halves: list[tuple[Tensor, Tensor]]
    parents: list[tuple[Tensor, Tensor]]
    keys_of_queries: TileLists
    queries_of_keys: TileLists
    gradient_rows: Tensor
    gradient_ends: tuple[int, ...]
    gradient_runs: Tensor
    unit: int
    buckets: DistanceBuckets | None

    @property
    def reach(self) -> int:
        """The largest distance with a bias of its own; 0 without a bias."""
        return 0 if self.buckets is None else self.buckets.reach

    def bias(self, table: Tensor | None) -> Tensor | None:
        """Look up a table `(num_buckets, heads)` by distance; see `DistanceBuckets.bias`."""
        return None if table is None or self.buckets is None else self.buckets.bias(table)

    def num_cuts(self, level: int) -> int:
        """Return how many times a level is cut into key tiles."""
        return _num_cuts(level, self.unit)


class ScheduleKey(NamedTuple):
    """The arguments of `fovea_attention` that the schedule of a batch depends on.

    `num_buckets` is 0 without a bias, and `row_bytes` the size of a row of a tile.
    """

    lengths: tuple[int, ...]
    block_size: int
    k_neighbours: int
    coverage: str
    max_distance: int
    num_buckets: int
    row_bytes: int

    @classmethod
    def from_arguments(
        cls,
        q: Tensor,
        bias: Tensor | None,
        lengths: Sequence[int],
        block_size: int,
        k_neighbours: int,
        coverage: str,
        max_distance: int,
    ) -> "ScheduleKey":
        """Gather the arguments of the torch op."""
        num_buckets = 0 if bias is None else len(bias)
        return cls(
            tuple(lengths),
            block_size,
            k_neighbours,
            coverage,
            max_distance,
            num_buckets,
            row_bytes(q),
        )


class _TilePairs(NamedTuple):
    """Tiles of queries and tiles of keys that meet, `(pairs,)` int64 each."""

    query: Tensor
    num_queries: Tensor
    key: Tensor
    step: Tensor
    num_keys: Tensor
    distance: Tensor
    level: Tensor
    sequence: Tensor


def num_windows(lengths: Sequence[int], block_size: int, k_neighbours: int) -> int:
    """Count the windows of all levels of a batch: level q exists if its first node fits."""
    farthest = max(-(-length // block_size) for length in lengths) - 1
    total = sum(lengths)
    level = 1
    while k_neighbours * ((1 << level) - 1) + (1 << level) <= farthest:
        stride = window_stride(level, block_size)
        total += sum(-(-length // stride) for length in lengths)
        level += 1
    return total


@cached_for_graphs(16)  # all layers of a model need the same schedule
def build_schedule(key: ScheduleKey, device: torch.device) -> Schedule:
    """Build the schedule of packed sequences."""
    lengths, block_size, k_neighbours, coverage, max_distance, num_buckets, row_size = key
    buckets = None
    if num_buckets:  # on the CPU, since the schedule is moved as a whole and serves all streams
        buckets = distance_buckets(num_buckets, max_distance, True, torch.device("cpu"))
    reach = 0 if buckets is None else buckets.reach
    sizes = TileSizes.for_block(block_size, row_size)
    selected = [
        select_all_nodes(-(-length // block_size), k_neighbours, coverage) for length in lengths
    ]
    num_levels = 1 + max(int(level.max()) for _, level, _, _ in selected)
    strides = [window_stride(level, block_size) for level in range(num_levels)]
    counts = torch.tensor([[-(-length // stride) for length in lengths] for stride in strides])
    starts = _starts(counts)
    pairs_of_sequences = [
        _tile_pairs(i, lengths[i], block_size, selected[i], starts[:, i], strides, sizes)
        for i in range(len(lengths))
    ]
    pairs = _TilePairs(*map(torch.cat, zip(*pairs_of_sequences, strict=True)))
    unit = (block_size & -block_size) // sizes.keys
    unit = unit if unit > 1 else RUN
    cuts = torch.tensor([_num_cuts(level, unit) for level in range(num_levels)])
    gradient_starts = _starts(counts * cuts[:, None])
    runs = _runs(lengths, strides, starts)
    halves, parents = [], []
    for level in range(runs.shape[1] - 1, num_levels):
        up, down = _halves_and_parents(lengths, level, strides[level - 1], strides[level])
        halves.append(up)
        parents.append(down)
    queries_of_keys, gradient_rows = _queries_of_keys(
        pairs, reach, sizes, counts, starts, strides, cuts, gradient_starts
    )
    schedule = Schedule(
        sizes,
        tuple(counts.sum(1).cumsum(0).tolist()),
        runs,
        halves,
        parents,
        _keys_of_queries(pairs, reach, sizes),
        queries_of_keys,
        gradient_rows,
        tuple((counts.sum(1) * cuts).cumsum(0).tolist()),
        _runs(lengths, strides, gradient_starts, cuts),
        unit,
        buckets,
    )
    moved: Schedule = tree_map_only(Tensor, lambda x: x.to(device), schedule)
    return moved


def _starts(counts: Tensor) -> Tensor:
    """Return where each sequence's windows of each level begin, given their `counts`."""
    return counts.flatten().cumsum(0).view_as(counts) - counts


def _num_cuts(level: int, unit: int) -> int:
    return max(1, (1 << level) // unit) if 1 << level <= RUN else 1


def select_all_nodes(num_blocks: int, k_neighbours: int, coverage: str) -> tuple[Tensor, ...]:
    """Select the nodes of all blocks at once, as `select_nodes` does one by one.

    Returns:
        Each node's query block, level, first block, and number among the nodes of its query block,
        counted from the block itself: negative to the left. `(nodes,)` int64 each.
    """
    block = torch.arange(num_blocks)
    parts = [(block, 0 * block, block, 0 * block)]
    for room, side in ((num_blocks - 1 - block, 1), (block, -1)):
        levels, ends, number = _outward_levels(room, k_neighbours, coverage)
        query, node = (levels >= 0).nonzero(as_tuple=True)
        level, end = levels[query, node], ends[query, node]
        first = query + 1 + end - (1 << level) if side > 0 else query - end
        parts.append((query, level, first, side * number[query, node]))
    return tuple(map(torch.cat, zip(*parts, strict=True)))


def _outward_levels(
    room: Tensor, k_neighbours: int, coverage: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Lay nodes end to end in `room` blocks.

    Returns:
        The level of each node, -1 for none, the number of blocks up to its end and the number of
        nodes up to it, `(rooms, nodes)` each.
    """
    num_levels = int(room.max()).bit_length()
    regular = torch.arange(num_levels).repeat_interleave(k_neighbours)
    fits = (1 << regular).cumsum(0) <= room[:, None]
    levels = torch.where(fits, regular, -1)
    if coverage == "full":
        remainder = room - (fits << regular).sum(1)
        binary = torch.arange(num_levels).flip(0)
        digits = torch.where((remainder[:, None] >> binary & 1).bool(), binary, -1)
        levels = torch.cat([levels, digits], dim=1)
    exists = levels >= 0
    return levels, (exists << levels.clamp(min=0)).cumsum(1), exists.cumsum(1)


def _tile_pairs(
    sequence: int,
    length: int,
    block_size: int,
    selected: tuple[Tensor, ...],
    starts: Tensor,
    strides: Sequence[int],
    sizes: TileSizes,
) -> _TilePairs:
    """Cut a sequence's query blocks and their nodes into tiles."""
    block, level, start, number = selected
    stride, window = torch.tensor(strides)[level], 1 << level
    step = window // stride
    key = starts[level] + start * block_size // stride
    num_keys = (-(-(length - start * block_size) // window)).clamp(max=block_size)
    num_queries = (length - block * block_size).clamp(max=block_size)

    offsets = (torch.arange(0, block_size, size) for size in sizes)
    q_offset, k_offset = (x.flatten() for x in torch.meshgrid(*offsets, indexing="ij"))
    shape = (len(block), len(q_offset))
    pairs = _TilePairs(
        query=int(starts[0]) + (block * block_size)[:, None] + q_offset,
        num_queries=(num_queries[:, None] - q_offset).clamp(max=sizes.queries),
        key=key[:, None] + step[:, None] * k_offset,
        step=step[:, None].expand(shape),
        num_keys=(num_keys[:, None] - k_offset).clamp(max=sizes.keys),
        distance=(number * block_size)[:, None] + k_offset - q_offset,
        level=level[:, None].expand(shape),
        sequence=torch.full(shape, sequence),
    )
    exists = (pairs.num_queries > 0) & (pairs.num_keys > 0)
    return _TilePairs(*(x[exists] for x in pairs))


def _keys_of_queries(pairs: _TilePairs, reach: int, sizes: TileSizes) -> TileLists:
    query, owner = pairs.query.unique(return_inverse=True)
    num_queries = torch.empty_like(query).scatter_(0, owner, pairs.num_queries)
    query_tiles = torch.stack([query, torch.ones_like(query), num_queries], dim=1)
    entries = torch.stack(
        [
            pairs.key,
            pairs.step,
            pairs.num_keys,
            _within_margin(pairs.distance, reach, sizes),
            torch.zeros_like(pairs.key),
            pairs.num_keys,
        ],
        dim=1,
    )
    is_far = (pairs.num_keys == sizes.keys) & ~_is_near(pairs.distance, reach, sizes)
    return _sort_entries(query_tiles, owner, entries, is_far)


def _queries_of_keys(
    pairs: _TilePairs,
    reach: int,
    sizes: TileSizes,
    counts: Tensor,
    starts: Tensor,
    strides: Sequence[int],
    cuts: Tensor,
    gradient_starts: Tensor,
) -> tuple[TileLists, Tensor]:
    """Cut every level into tiles of windows a step apart: the lists, and their gradients' rows.

    Nodes of the levels that are cut once may meet a tile in part.
    """
    step = (1 << torch.arange(len(strides))) // torch.tensor(strides)
    shift = sizes.keys // cuts  # from one cut to the next
    longest = -(-counts // step[:, None])  # windows a step apart
    runs = -(-(longest + (sizes.keys - shift)[:, None]) // sizes.keys)  # tiles of these
    num_tiles = (runs * (step * cuts)[:, None]).flatten()
    first_tile = (num_tiles.cumsum(0) - num_tiles).view_as(counts)

    kind = torch.arange(num_tiles.numel()).repeat_interleave(num_tiles)
    tile = torch.arange(int(num_tiles.sum())) - first_tile.flatten()[kind]
    level, run = kind // counts.shape[1], runs.flatten()[kind]
    way, start = tile // run, tile % run * sizes.keys
    residue, cut = way % step[level], way // step[level]
    start -= -cut * shift[level] % sizes.keys
    stop = torch.minimum(start + sizes.keys, -(-(counts.flatten()[kind] - residue) // step[level]))
    start = start.clamp(min=0)
    place = residue + step[level] * start
    key_tiles = torch.stack(
        [starts.flatten()[kind] + place, step[level], (stop - start).clamp(min=0)], dim=1
    )
    first_row = gradient_starts.flatten()[kind] + place * cuts[level] + cut
    gradient_rows = torch.stack([first_row, step[level] * cuts[level]], dim=1)

    place = pairs.key - starts[pairs.level, pairs.sequence]
    residue, place = place % pairs.step, place // pairs.step
    cut = place % sizes.keys // shift[pairs.level]
    place += -cut * shift[pairs.level] % sizes.keys
    owners: list[Tensor] = []
    entries: list[Tensor] = []
    for run in (place // sizes.keys, (place + pairs.num_keys - 1) // sizes.keys):
        before = place - run * sizes.keys
        owner = first_tile[pairs.level, pairs.sequence] + run
        owner += (cut * pairs.step + residue) * runs[pairs.level, pairs.sequence]
        entry = torch.stack(
            [
                pairs.query,
                torch.ones_like(place),
                pairs.num_queries,
                pairs.distance - before,
                before.clamp(min=0),
                (before + pairs.num_keys).clamp(max=sizes.keys),
            ],
            dim=1,
        )
        new = (run != place // sizes.keys) if owners else torch.ones_like(run, dtype=torch.bool)
        owners.append(owner[new])
        entries.append(entry[new])
    entry = torch.cat(entries)
    is_far = ~_is_near(entry[:, 3], reach, sizes)
    entry[:, 3] = _within_margin(entry[:, 3], reach, sizes)
    lists = _sort_entries(key_tiles, torch.cat(owners), entry, is_far)
    order = (lists.tiles[:, 5] - lists.tiles[:, 3]).argsort(descending=True)
    return TileLists(lists.tiles[order], lists.entries), gradient_rows[order].int()


def _sort_entries(tiles: Tensor, owner: Tensor, entries: Tensor, is_far: Tensor) -> TileLists:
    """Sort entries by the tile that owns them, far ones last."""
    order = (2 * owner + is_far).argsort(stable=True)
    ends = torch.bincount(owner, minlength=len(tiles)).cumsum(0)
    begins = torch.cat([ends[:1] * 0, ends[:-1]])
    bounds = [begins, ends - torch.bincount(owner[is_far], minlength=len(tiles)), ends]
    return TileLists(
        torch.cat([tiles, torch.stack(bounds, dim=1)], dim=1).int(), entries[order].int()
    )


def _is_near(distance: Tensor, reach: int, sizes: TileSizes) -> Tensor:
    """Return whether any key of a pair of tiles is nearer than `reach` to any query."""
    if not reach:
        return torch.zeros_like(distance, dtype=torch.bool)
    return (distance - (sizes.queries - 1) < reach) & (distance + sizes.keys - 1 > -reach)


def _within_margin(distance: Tensor, reach: int, sizes: TileSizes) -> Tensor:
    """Move pairs of tiles that are beyond reach as near as possible, still beyond it."""
    return distance.clamp(1 - sizes.keys - reach, sizes.queries - 1 + reach)


def _runs(
    lengths: Sequence[int], strides: Sequence[int], starts: Tensor, cuts: Tensor | None = None
) -> Tensor:
    """Cut sequences into runs of tokens; see `Schedule`."""
    consecutive = [level for level, stride in enumerate(strides) if stride == 1 << level <= RUN]
    runs = []
    for sequence, length in enumerate(lengths):
        token = torch.arange(0, length, RUN)
        windows = [
            starts[level, sequence] + (token >> level) * (1 if cuts is None else cuts[level])
            for level in consecutive
        ]
        runs.append(torch.stack([*windows, (length - token).clamp(max=RUN)], dim=1))
    return torch.cat(runs).int()


def _halves_and_parents(
    lengths: Sequence[int], level: int, narrow: int, wide: int
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Find the windows of the level below that each window of a level joins, and the reverse."""
    half = 1 << level - 1
    halves, shares, parents, parent_shares = [], [], [], []
    below = above = 0  # windows of the previous sequences
    for length in lengths:
        start = torch.arange(0, length, wide)
        begins = torch.stack([start, start + half], dim=1)
        tokens = (length - begins).clamp(0, half)
        halves.append(torch.where(tokens > 0, below + begins // narrow, 0))
        shares.append(tokens / tokens.sum(1, keepdim=True))

        start = torch.arange(0, length, narrow)
        begins = torch.stack([start, start - half], dim=1)
        tokens = (length - start).clamp(max=half)[:, None]
        parent_tokens = (length - begins).clamp(max=2 * half)
        exists = (begins >= 0) & (begins % wide == 0)
        parents.append(torch.where(exists, above + begins // wide, 0))
        parent_shares.append(exists * tokens / parent_tokens)
        below, above = below + len(start), above + len(halves[-1])
    up = torch.cat(halves).int(), torch.cat(shares).float()
    return up, (torch.cat(parents).int(), torch.cat(parent_shares).float())
