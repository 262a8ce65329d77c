"""The tiles that attend to each other, in lists that the kernels read.

Windows are numbered as in one long tensor: first the tokens, which are the windows of level 0, then
the windows of level 1 of all sequences, those of level 2, and so on. A *tile* is a run of some of
them, `first, first + step, …`. A query tile has a list of the key tiles that it attends to, and a
key tile has one of the query tiles that attend to it. Both contain the distance from the query
tile's first token to the key tile's first window, counted in windows of the nodes laid end to end.

Nodes of a level begin at every 2^-level-th part of a block, so few of them begin where a key tile
does. So the levels that a run holds are cut into tiles more than once, from every place within a
tile where nodes begin, and no node overlaps a tile only in part. Each of these *cuts* has gradients
of its own, which are summed later: for every second level, as many more as there are tokens. Higher
levels and blocks of less than two tiles are cut once.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from foveate.ops._packed.triton.bias import DistanceBuckets, distance_buckets
from foveate.ops._triton.cache import cached_for_graphs

from ..pyramid import window_sizes, window_stride
from .tile import TileSizes

RUN = 64
"""Tokens that one program averages over the windows of all levels that they contain."""


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
        log_sizes: The number of tokens in each window, as its logarithm in base 2, float32.
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
    log_sizes: Tensor
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

    `num_buckets` is 0 without a bias, and `sizes` are at most a block's.
    """

    lengths: tuple[int, ...]
    block_size: int
    k_neighbours: int
    coverage: str
    stop_level: int | None
    max_distance: int
    num_buckets: int
    sizes: TileSizes

    @classmethod
    def from_arguments(
        cls,
        q: Tensor,
        bias: Tensor | None,
        lengths: Sequence[int],
        block_size: int,
        k_neighbours: int,
        coverage: str,
        stop_level: int | None,
        max_distance: int,
    ) -> "ScheduleKey":
        """Gather the arguments of the torch op."""
        num_buckets = 0 if bias is None else len(bias)
        return cls(
            tuple(lengths),
            block_size,
            k_neighbours,
            coverage,
            stop_level,
            max_distance,
            num_buckets,
            TileSizes.largest(q).within(block_size),
        )


class _Layout(NamedTuple):
    """The positions of the tiles and windows of a batch; mostly int64.

    Attributes:
        block_size: Tokens of a block.
        sizes: Sizes of tiles.
        reach: The largest distance with a bias of its own; 0 without a bias.
        lengths: Tokens of each sequence.
        blocks: Each block's number in its sequence, and the sequence, `(blocks, 2)`.
        nodes: The nodes in a given number of blocks next to a query block: for each its level, -1
            for none, its first block, counted from the query block on, when they are to its right
            and when they are to its left, and its number, `(rooms, nodes, 4)`.
        offsets: Where the tiles of a block and of a node begin, for each pair of them `(2, pairs)`.
        query_tiles: The first token, its number in its sequence, and the sequence, `(tiles, 3)`.
        tile_of_block: The query tile of each pair of a block, `(blocks, pairs)`.
        kinds: For each level and sequence, the first window, the tokens from a window to the next,
            the windows from one of a node to the next, the shift from one cut to the next, the
            first key tile, and the tiles of windows that are a step apart `(levels, sequences, 6)`.
        key_tiles: The first window, the step, the place of the first among the windows that are a
            step apart, that where the tile ends, the first of these windows, and the level and the
            sequence, `(tiles, 7)`.
        gradient_rows: See `Schedule`; for `key_tiles`.
    """

    block_size: int
    sizes: TileSizes
    reach: int
    lengths: Tensor
    blocks: Tensor
    nodes: Tensor
    offsets: Tensor
    query_tiles: Tensor
    tile_of_block: Tensor
    kinds: Tensor
    key_tiles: Tensor
    gradient_rows: Tensor


class _TilePairs(NamedTuple):
    """Tiles of queries and tiles of keys that may meet, `(nodes, pairs of a node)` int64 each.

    Attributes:
        owner: The number of the query tile.
        query: Its first query.
        num_queries: The number of its queries.
        key: The first window.
        num_keys: The number of windows.
        distance: From the first query to the first window.
        kind: What `_Layout.kinds` has for the level and the sequence, six tensors `(nodes, 1)`.
        exists: Whether they meet, bool.
    """

    owner: Tensor
    query: Tensor
    num_queries: Tensor
    key: Tensor
    num_keys: Tensor
    distance: Tensor
    kind: Sequence[Tensor]
    exists: Tensor


def num_windows(
    lengths: Sequence[int], block_size: int, k_neighbours: int, stop_level: int | None
) -> int:
    """Count the windows of all levels of a batch: level q exists if its first node fits."""
    farthest = max(-(-length // block_size) for length in lengths) - 1
    total = sum(lengths)
    level = 1
    while level != stop_level and k_neighbours * ((1 << level) - 1) + (1 << level) <= farthest:
        stride = window_stride(level, block_size)
        total += sum(-(-length // stride) for length in lengths)
        level += 1
    return total


@cached_for_graphs(16)  # all layers of a model need the same schedule
def build_schedule(key: ScheduleKey, device: torch.device) -> Schedule:
    """Build the schedule of packed sequences."""
    schedule = _build(key)  # on the CPU: the schedule is moved as a whole, for all streams
    moved: Schedule = tree_map_only(Tensor, lambda x: x.to(device), schedule)
    return moved


def _build(key: ScheduleKey) -> Schedule:
    block_size, lengths = key.block_size, torch.tensor(key.lengths)
    buckets = None
    if key.num_buckets:
        buckets = distance_buckets(key.num_buckets, key.max_distance, True, torch.device("cpu"))
    sizes = key.sizes
    num_blocks = [-(-length // block_size) for length in key.lengths]
    nodes = nodes_by_room(max(num_blocks), key.k_neighbours, key.coverage, key.stop_level)
    num_levels = 1 + int(nodes[..., 0].max()) if nodes.numel() else 1
    strides = [window_stride(level, block_size) for level in range(num_levels)]
    counts = torch.stack([-(-lengths // stride) for stride in strides])
    starts = _starts(counts)
    unit = (block_size & -block_size) // sizes.keys
    unit = unit if unit > 1 else RUN
    cuts = torch.tensor([_num_cuts(level, unit) for level in range(num_levels)])
    gradient_starts = _starts(counts * cuts[:, None])
    kinds, key_tiles, gradient_rows = _key_tiles(
        sizes, counts, starts, torch.tensor(strides), cuts, gradient_starts
    )
    blocks = _number(num_blocks)
    offsets = (torch.arange(0, block_size, size) for size in sizes)
    q_offset, k_offset = (x.flatten() for x in torch.meshgrid(*offsets, indexing="ij"))
    token = blocks[:, :1] * block_size + q_offset
    query = starts[0][blocks[:, 1:]] + token
    exists = token < lengths[blocks[:, 1:]]
    first, tile_of_block = query[exists].unique(return_inverse=True)
    sequence = torch.searchsorted(starts[0], first, right=True) - 1
    layout = _Layout(
        block_size,
        sizes,
        0 if buckets is None else buckets.reach,
        lengths,
        blocks,
        nodes,
        torch.stack([q_offset, k_offset]),
        torch.stack([first, first - starts[0, sequence], sequence], dim=1),
        torch.zeros_like(query).masked_scatter(exists, tile_of_block),
        kinds,
        key_tiles,
        gradient_rows,
    )
    pairs = _tile_pairs(layout)
    queries_of_keys, gradient_rows = _queries_of_keys(layout, pairs)

    run, sequence = _number([-(-length // RUN) for length in key.lengths]).unbind(1)
    begin = run * RUN
    tokens = (lengths[sequence] - begin).clamp(max=RUN)
    consecutive = [level for level, stride in enumerate(strides) if stride == 1 << level <= RUN]
    windows, gradient_windows = (
        torch.stack(
            [begins[i, sequence] + (begin >> i) * factor[i] for i in consecutive] + [tokens], dim=1
        )
        for begins, factor in ((starts, torch.ones_like(cuts)), (gradient_starts, cuts))
    )
    up_and_down = [
        _halves_and_parents(key.lengths, level, strides[level - 1], strides[level])
        for level in range(len(consecutive), num_levels)
    ]
    return Schedule(
        sizes,
        tuple(counts.sum(1).cumsum(0).tolist()),
        torch.cat(
            [window_sizes(n, level, block_size) for level in range(num_levels) for n in key.lengths]
        )
        .float()
        .log2(),
        windows.int(),
        [up for up, _ in up_and_down],
        [down for _, down in up_and_down],
        _keys_of_queries(layout, pairs),
        queries_of_keys,
        gradient_rows,
        tuple((counts.sum(1) * cuts).cumsum(0).tolist()),
        gradient_windows.int(),
        unit,
        buckets,
    )


def _number(counts: Sequence[int]) -> Tensor:
    """Count up to each of the counts: the numbers, and whose they are, `(numbers, 2)`."""
    return torch.cat(
        [
            torch.stack([torch.arange(count), torch.full((count,), i)], dim=1)
            for i, count in enumerate(counts)
        ]
    )


def _starts(counts: Tensor) -> Tensor:
    """Return where each sequence's windows of each level begin, given their `counts`."""
    return counts.flatten().cumsum(0).view_as(counts) - counts


def _num_cuts(level: int, unit: int) -> int:
    return max(1, (1 << level) // unit) if 1 << level <= RUN else 1


def nodes_by_room(
    num_blocks: int, k_neighbours: int, coverage: str, stop_level: int | None
) -> Tensor:
    """Lay out the nodes in 0 to `num_blocks - 1` blocks next to a query block: `_Layout.nodes`."""
    room = torch.arange(num_blocks)
    levels, ends, number = _outward_levels(room, k_neighbours, coverage, stop_level)
    to_the_right = 1 + ends - (1 << levels.clamp(min=0))
    return torch.stack([levels, to_the_right, -ends, number], dim=2)


def _outward_levels(
    room: Tensor, k_neighbours: int, coverage: str, stop_level: int | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Lay nodes end to end in `room` blocks.

    Returns:
        The level of each node, -1 for none, the number of blocks up to its end and the number of
        nodes up to it, `(rooms, nodes)` each.
    """
    num_levels = int(room.max()).bit_length()
    regular = torch.arange(num_levels).repeat_interleave(k_neighbours)
    if stop_level is not None and stop_level < num_levels:
        regular = regular[: k_neighbours * stop_level]
        more = regular.new_full((int(room.max()) >> stop_level - 1,), stop_level - 1)
        regular = torch.cat([regular, more])
    fits = (1 << regular).cumsum(0) <= room[:, None]
    levels = torch.where(fits, regular, -1)
    if coverage == "full":
        remainder = room - (fits << regular).sum(1)
        binary = torch.arange(num_levels).flip(0)
        digits = torch.where((remainder[:, None] >> binary & 1).bool(), binary, -1)
        levels = torch.cat([levels, digits], dim=1)
    exists = levels >= 0
    return levels, (exists << levels.clamp(min=0)).cumsum(1), exists.cumsum(1)


def select_all_nodes(nodes: Tensor, block: Tensor, room: Tensor) -> tuple[Tensor, ...]:
    """Select the nodes of all query blocks at once, as `select_nodes` does one by one.

    Args:
        nodes: See `_Layout`.
        block: The number of each query block in its sequence, `(blocks,)`.
        room: The number of blocks after it.

    Returns:
        Each node's query block, level, first block, and number among the nodes of its query block,
        counted from the block itself: negative to the left. `(nodes,)` each.
    """
    index = torch.arange(len(block), device=block.device)
    level, right, _, number = nodes[room].unbind(2)
    level_left, _, left, number_left = nodes[block].unbind(2)
    slots = level.shape[1]
    levels = torch.cat([level.flatten(), level_left.flatten()])
    first = torch.cat([(block[:, None] + right).flatten(), (block[:, None] + left).flatten()])
    beside = index[:, None].expand(-1, slots).flatten()
    query = torch.cat([index, beside, beside])
    zero = torch.zeros_like(block)
    columns = (
        query,
        torch.cat([zero, levels]),
        torch.cat([block, first]),
        torch.cat([zero, number.flatten(), -number_left.flatten()]),
    )
    return tuple(column[columns[1] >= 0] for column in columns)


def _tile_pairs(layout: _Layout) -> _TilePairs:
    """Cut sequences' query blocks and their nodes into tiles."""
    block_size, sizes = layout.block_size, layout.sizes
    block, sequence = layout.blocks.unbind(1)
    length = layout.lengths[sequence]
    room = -(-length // block_size) - 1 - block
    query, level, first, number = select_all_nodes(layout.nodes, block, room)
    num_queries = (length - block * block_size).clamp(max=block_size)[query]
    kind = layout.kinds[level, sequence[query]][:, None].unbind(2)
    first_window, stride, step, *_ = kind
    start = (first * block_size)[:, None]
    num_keys = -(-(length[query][:, None] - start) // (stride * step))

    q_offset, k_offset = layout.offsets
    owner = layout.tile_of_block[query]
    num_queries = (num_queries[:, None] - q_offset).clamp(max=sizes.queries)
    num_keys = (num_keys.clamp(max=block_size) - k_offset).clamp(max=sizes.keys)
    return _TilePairs(
        owner,
        layout.query_tiles[:, 0][owner],
        num_queries,
        first_window + start // stride + step * k_offset,
        num_keys,
        (number * block_size)[:, None] + (k_offset - q_offset),
        kind,
        (num_queries > 0) & (num_keys > 0),
    )


def _keys_of_queries(layout: _Layout, pairs: _TilePairs) -> TileLists:
    reach, sizes = layout.reach, layout.sizes
    first, token, sequence = layout.query_tiles.unbind(1)
    num_queries = (layout.lengths[sequence] - token).clamp(max=sizes.queries)
    block_end = layout.block_size - token % layout.block_size
    query_tiles = [first, torch.ones_like(first), torch.minimum(num_queries, block_end)]
    distance = _within_margin(pairs.distance, reach, sizes)
    met_from = torch.zeros_like(distance)
    entries = [pairs.key, pairs.kind[2], pairs.num_keys, distance, met_from, pairs.num_keys]
    is_far = (pairs.num_keys == sizes.keys) & ~_is_near(pairs.distance, reach, sizes)
    return _sort_entries(query_tiles, pairs.owner, entries, is_far, pairs.exists)


def _key_tiles(
    sizes: TileSizes,
    counts: Tensor,
    starts: Tensor,
    strides: Tensor,
    cuts: Tensor,
    gradient_starts: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Cut every level into tiles of windows that are one step apart: see `_Layout`.

    Nodes of the levels that are cut once may meet a tile in part.
    """
    step = (1 << torch.arange(len(strides))) // strides
    shift = sizes.keys // cuts  # from one cut to the next
    longest = -(-counts // step[:, None])  # windows a step apart
    runs = -(-(longest + (sizes.keys - shift)[:, None]) // sizes.keys)  # tiles of these
    num_tiles = (runs * (step * cuts)[:, None]).flatten()
    first_tile = (num_tiles.cumsum(0) - num_tiles).view_as(counts)
    of_level = (x[:, None].expand_as(counts) for x in (strides, step, shift))
    kinds = torch.stack([starts, *of_level, first_tile, runs], dim=2)

    kind = torch.arange(num_tiles.numel()).repeat_interleave(num_tiles)
    tile = torch.arange(int(num_tiles.sum())) - first_tile.flatten()[kind]
    level, sequence = kind // counts.shape[1], kind % counts.shape[1]
    run = runs.flatten()[kind]
    way, start = tile // run, tile % run * sizes.keys
    residue, cut = way % step[level], way // step[level]
    start -= -cut * shift[level] % sizes.keys
    end = start + sizes.keys
    start = start.clamp(min=0)
    place = residue + step[level] * start
    first_window = starts.flatten()[kind] + place
    key_tiles = [first_window, step[level], start, end, residue, level, sequence]
    first_row = gradient_starts.flatten()[kind] + place * cuts[level] + cut
    gradient_rows = torch.stack([first_row, step[level] * cuts[level]], dim=1)
    return kinds, torch.stack(key_tiles, dim=1), gradient_rows


def _queries_of_keys(layout: _Layout, pairs: _TilePairs) -> tuple[TileLists, Tensor]:
    """Find the query tiles of the key tiles, and the rows of these tiles' gradients."""
    reach, sizes = layout.reach, layout.sizes
    first_window, step, start, end, residue, level, sequence = layout.key_tiles.unbind(1)
    windows = -(-layout.lengths[sequence] // layout.kinds[level, sequence, 1])
    stop = torch.minimum(end, -(-(windows - residue) // step))
    key_tiles = [first_window, step, (stop - start).clamp(min=0)]

    first_window, _, step, shift, first_tile, runs = pairs.kind
    place = pairs.key - first_window
    residue, place = place % step, place // step
    cut = place % sizes.keys // shift
    place += -cut * shift % sizes.keys
    first_run, last_run = place // sizes.keys, (place + pairs.num_keys - 1) // sizes.keys
    run = torch.stack([first_run, last_run])  # a node may meet two tiles
    owner = first_tile + (cut * step + residue) * runs + run
    exists = torch.stack([pairs.exists, pairs.exists & (first_run != last_run)])
    before = place - run * sizes.keys
    distance = pairs.distance - before
    met_to = (before + pairs.num_keys).clamp(max=sizes.keys)
    is_far = ~_is_near(distance, reach, sizes)
    distance = _within_margin(distance, reach, sizes)
    one = torch.ones_like(pairs.query)
    entries = [pairs.query, one, pairs.num_queries, distance, before.clamp(min=0), met_to]
    lists = _sort_entries(key_tiles, owner, entries, is_far, exists)
    order = (lists.tiles[:, 5] - lists.tiles[:, 3]).argsort(descending=True)
    return TileLists(lists.tiles[order], lists.entries), layout.gradient_rows[order].int()


def _sort_entries(
    tiles: Sequence[Tensor],
    owner: Tensor,
    entries: Sequence[Tensor],
    is_far: Tensor,
    exists: Tensor,
) -> TileLists:
    """Sort entries by the tile that owns them, far ones last; those that do not exist are dropped.

    Tiles and entries are given by column.
    """
    end = 2 * len(tiles[0])
    rank = torch.where(exists, 2 * owner + is_far, end).int()
    rank, order = rank.flatten().sort(stable=True)
    places = torch.searchsorted(rank, torch.arange(end + 1, dtype=torch.int32, device=rank.device))
    bounds = torch.stack([places[:-1:2], places[1::2], places[2::2]])
    # Programs read the last entry of a tile even if it has none, so there must be one before it.
    bounds = bounds.where(bounds[0] < bounds[2], 1)
    order = order[: int(bounds[2].max())]
    return TileLists(_as_rows(*tiles, *bounds), _as_rows(*entries)[order])


def _as_rows(*columns: Tensor) -> Tensor:
    """Join columns, which are broadcast, to rows, int32."""
    return torch.stack(torch.broadcast_tensors(*columns), dim=-1).flatten(0, -2).int()


def _is_near(distance: Tensor, reach: int, sizes: TileSizes) -> Tensor:
    """Return whether any key of a pair of tiles is nearer than `reach` to any query."""
    if not reach:
        return torch.zeros_like(distance, dtype=torch.bool)
    return (distance - (sizes.queries - 1) < reach) & (distance + sizes.keys - 1 > -reach)


def _within_margin(distance: Tensor, reach: int, sizes: TileSizes) -> Tensor:
    """Move pairs of tiles that are beyond reach as near as possible, still beyond it."""
    return distance.clamp(1 - sizes.keys - reach, sizes.queries - 1 + reach)


def _halves_and_parents(
    lengths: Sequence[int], level: int, narrow: int, wide: int
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Find the windows of the level below that each window of a level joins, and the reverse.

    Args:
        lengths: Tokens of each sequence.
        level: The level.
        narrow: Tokens from a window of the level below to the next.
        wide: The same for the level.

    Returns:
        `Schedule.halves` and `Schedule.parents` of the level.
    """
    half = 1 << level - 1
    halves, shares, parents, parent_shares = [], [], [], []
    below = above = 0  # windows of the previous sequences
    for length in lengths:
        start = torch.arange(0, length, wide)
        begins = torch.stack([start, start + half], dim=1)
        tokens = (length - begins).clamp(0, half)
        halves.append(torch.where(begins < length, below + begins // narrow, 0))
        shares.append(tokens / tokens.sum(1, keepdim=True))

        start = torch.arange(0, length, narrow)
        begins = torch.stack([start, start - half], dim=1)
        exists = (begins >= 0) & (begins % wide == 0)
        tokens = (length - start).clamp(max=half)[:, None]
        parents.append(torch.where(exists, above + begins // wide, 0))
        parent_shares.append(exists * tokens / (length - begins).clamp(max=2 * half))
        below, above = below + len(start), above + len(halves[-1])
    return (
        (torch.cat(halves).int(), torch.cat(shares).float()),
        (torch.cat(parents).int(), torch.cat(parent_shares).float()),
    )
