"""Who attends whom, as lists of tiles that the kernels read.

Rows are numbered as in one long tensor: first the tokens, which are the windows of level 0, then
the windows of level 1 of all sequences, those of level 2, and so on. A *tile* is a run of some of
them, `first, first + step, …`. A query tile has a list of the key tiles that it attends, and a key
tile one of the query tiles that attend it. Both say how far the key tile's first row is from the
query tile's, counted in rows of the nodes laid end to end.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import gcd
from typing import NamedTuple

import torch
from torch import Tensor

from foveate.ops.relative_attention.buckets import bias_by_distance, bucket_starts, buckets

RUN = 64
"""Tokens that one program averages over the windows of all levels that they hold."""


class Tiles(NamedTuple):
    """Rows of a tile of queries, and of a tile of keys."""

    queries: int
    keys: int

    @classmethod
    def of(cls, block_size: int) -> "Tiles":
        """As many as the matrix units like, but not more than a block has."""
        rows = max(16, 1 << (block_size - 1).bit_length())
        return cls(min(rows, 128), min(rows, 64))


class Lists(NamedTuple):
    """Tiles and what each of them meets.

    Attributes:
        tiles: first row, step and rows; where the tile's entries begin, where the plain ones among
            them do, and where they end. `(tiles, 6)` int32. Plain are those beyond reach of the
            bias, of query tiles only if the tile of keys is full.
        entries: first row, step and rows of the other tile; distance from the query tile's first
            row to the key tile's; which of the key tile's rows are met, from and to.
            `(entries, 6)` int32.
    """

    tiles: Tensor
    entries: Tensor


class Near(NamedTuple):
    """Pairs of tiles that are not plain, which the bias may tell apart, in runs of one distance.

    Attributes:
        pairs: first row and rows of the queries; first row, step and rows of the keys; distance.
            `(pairs, 6)` int32, sorted by distance.
        runs: where a run begins and ends. `(runs, 2)` int32.
        of_distance: 1 where a run is of a distance, `(distances, runs)` float32.
        diagonals: 1 where a diagonal of a pair, of which there are queries + keys - 1 for each
            distance, has a bucket of the bias: `(diagonals, buckets)` float32.
        sides: the same of plain pairs, with keys before the queries and after. `(2, buckets)`.
    """

    pairs: Tensor
    runs: Tensor
    of_distance: Tensor
    diagonals: Tensor
    sides: Tensor


class Tables(NamedTuple):
    """All that the kernels must know of a batch.

    Attributes:
        tiles: their sizes.
        ends: how many rows there are up to the end of each level.
        runs: of up to RUN tokens, in which the windows of the first levels lie side by side: for
            each level, 0 among them, the first row, and last the number of tokens. int32.
        halves: for each level above these, the two windows below that a window joins, numbered
            within their level, `(rows, 2)` int32, and their shares in it, float32.
        parents: for the windows below each of these levels, the windows above that they are halves
            of, and their shares in them, likewise. Where there is none the share is 0.
        keys: the key tiles of the query tiles.
        queries: the query tiles of the key tiles, those with many first.
        near: the pairs that are not plain; None where there is no bias.
    """

    tiles: Tiles
    ends: tuple[int, ...]
    runs: Tensor
    halves: list[tuple[Tensor, Tensor]]
    parents: list[tuple[Tensor, Tensor]]
    keys: Lists
    queries: Lists
    near: Near | None


class _Pairs(NamedTuple):
    """Tiles of queries and tiles of keys that meet, `(pairs,)` int64 each."""

    query: Tensor
    queries: Tensor
    key: Tensor
    step: Tensor
    keys: Tensor
    distance: Tensor
    level: Tensor
    sequence: Tensor


class Plan(NamedTuple):
    """What the tables of a batch depend on; arguments of `fovea_attention`.

    `num_buckets` is 0 where there is no bias.
    """

    lengths: tuple[int, ...]
    block_size: int
    k_neighbours: int
    coverage: str
    max_distance: int
    num_buckets: int

    @classmethod
    def of(
        cls,
        bias: Tensor | None,
        lengths: Sequence[int],
        block_size: int,
        k_neighbours: int,
        coverage: str,
        max_distance: int,
        *_: float,
    ) -> "Plan":
        """Gather the arguments of the torch op."""
        num_buckets = 0 if bias is None else len(bias)
        return cls(tuple(lengths), block_size, k_neighbours, coverage, max_distance, num_buckets)

    @property
    def reach(self) -> int:
        """Distance from which on the bias is constant; 0 where there is no bias."""
        if not self.num_buckets:
            return 0
        return bucket_starts(self.num_buckets, self.max_distance, True)[-1]

    def by_distance(self, bias: Tensor | None) -> Tensor | None:
        """Bias of every distance within reach, `(heads, 2 · reach + 1)` float32."""
        if bias is None:
            return None
        return bias_by_distance(bias.float(), self.max_distance, bidirectional=True).contiguous()


def rows_of(lengths: Sequence[int], block_size: int, k_neighbours: int) -> int:
    """Rows of all levels that a batch needs: level q, if the first node of level q fits."""
    furthest = max(-(-length // block_size) for length in lengths) - 1
    rows = sum(lengths)
    level = 1
    while k_neighbours * ((1 << level) - 1) + (1 << level) <= furthest:
        rows += sum(-(-length // gcd(1 << level, block_size)) for length in lengths)
        level += 1
    return rows


@lru_cache(maxsize=16)  # the layers of a model ask for the same ones
def tables(plan: Plan, device: torch.device) -> Tables:
    """Plan the attention of packed sequences."""
    lengths, block_size, k_neighbours, coverage = plan[:4]
    tiles = Tiles.of(block_size)
    selected = [select(-(-length // block_size), k_neighbours, coverage) for length in lengths]
    strides = [
        gcd(1 << level, block_size) for level in range(1 + max(int(s[1].max()) for s in selected))
    ]
    sizes = torch.tensor([[-(-length // stride) for length in lengths] for stride in strides])
    first_rows = sizes.flatten().cumsum(0).view_as(sizes) - sizes
    found = [
        _tile_pairs(i, lengths[i], block_size, selected[i], first_rows[:, i], strides, tiles)
        for i in range(len(lengths))
    ]
    pairs = _Pairs(*map(torch.cat, zip(*found, strict=True)))
    runs = _runs(lengths, strides, first_rows)
    halves, parents = [], []
    for level in range(runs.shape[1] - 1, len(strides)):
        up, down = _joins(lengths, level, strides[level - 1], strides[level])
        halves.append(up)
        parents.append(down)
    result = Tables(
        tiles,
        tuple(sizes.sum(1).cumsum(0).tolist()),
        runs,
        halves,
        parents,
        _keys_of_queries(pairs, plan.reach, tiles),
        _queries_of_keys(pairs, plan.reach, tiles, sizes, first_rows, strides),
        _near(pairs, plan, tiles),
    )
    return _moved(result, device)


def select(num_blocks: int, k_neighbours: int, coverage: str) -> tuple[Tensor, ...]:
    """Select all blocks' nodes at once, as `plan` does one by one.

    Returns:
        Each node's query block, level, first block, and number among the nodes of its query block,
        counted from the block itself: negative to the left. `(nodes,)` int64 each.
    """
    block = torch.arange(num_blocks)
    parts = [(block, 0 * block, block, 0 * block)]
    for room, side in ((num_blocks - 1 - block, 1), (block, -1)):
        levels, after, number = _outwards(room, k_neighbours, coverage)
        query, node = (levels >= 0).nonzero(as_tuple=True)
        level, end = levels[query, node], after[query, node]
        first = query + 1 + end - (1 << level) if side > 0 else query - end
        parts.append((query, level, first, side * number[query, node]))
    return tuple(map(torch.cat, zip(*parts, strict=True)))


def _outwards(room: Tensor, k_neighbours: int, coverage: str) -> tuple[Tensor, Tensor, Tensor]:
    """Levels of the nodes that lie end to end in so many blocks, -1 for none: `(rooms, nodes)`.

    Likewise the blocks up to the end of each node, and the number of nodes up to it.
    """
    most = int(room.max()).bit_length()
    regular = torch.arange(most).repeat_interleave(k_neighbours)
    fits = (1 << regular).cumsum(0) <= room[:, None]
    levels = torch.where(fits, regular, -1)
    if coverage == "full":
        rest = room - (fits << regular).sum(1)
        binary = torch.arange(most).flip(0)
        digits = torch.where((rest[:, None] >> binary & 1).bool(), binary, -1)
        levels = torch.cat([levels, digits], dim=1)
    real = levels >= 0
    return levels, (real << levels.clamp(min=0)).cumsum(1), real.cumsum(1)


def _tile_pairs(
    sequence: int,
    length: int,
    block_size: int,
    selected: tuple[Tensor, ...],
    first_rows: Tensor,
    strides: Sequence[int],
    tiles: Tiles,
) -> _Pairs:
    """Cut a sequence's query blocks and their nodes into tiles."""
    block, level, start, number = selected
    stride, window = torch.tensor(strides)[level], 1 << level
    step = window // stride
    key = first_rows[level] + start * block_size // stride
    keys = (-(-(length - start * block_size) // window)).clamp(max=block_size)
    queries = (length - block * block_size).clamp(max=block_size)

    parts = (torch.arange(0, block_size, rows) for rows in tiles)
    query_part, key_part = (x.flatten() for x in torch.meshgrid(*parts, indexing="ij"))
    shape = (len(block), len(query_part))
    pairs = _Pairs(
        query=int(first_rows[0]) + (block * block_size)[:, None] + query_part,
        queries=(queries[:, None] - query_part).clamp(max=tiles.queries),
        key=key[:, None] + step[:, None] * key_part,
        step=step[:, None].expand(shape),
        keys=(keys[:, None] - key_part).clamp(max=tiles.keys),
        distance=(number * block_size)[:, None] + key_part - query_part,
        level=level[:, None].expand(shape),
        sequence=torch.full(shape, sequence),
    )
    real = (pairs.queries > 0) & (pairs.keys > 0)
    return _Pairs(*(x[real] for x in pairs))


def _keys_of_queries(pairs: _Pairs, reach: int, tiles: Tiles) -> Lists:
    query, owner = pairs.query.unique(return_inverse=True)
    queries = torch.empty_like(query).scatter_(0, owner, pairs.queries)
    query_tiles = torch.stack([query, torch.ones_like(query), queries], dim=1)
    none = torch.zeros_like(pairs.key)
    entries = torch.stack(
        [pairs.key, pairs.step, pairs.keys, pairs.distance, none, pairs.keys], dim=1
    )
    return _listed(query_tiles, owner, entries, _is_plain(pairs, reach, tiles))


def _queries_of_keys(
    pairs: _Pairs,
    reach: int,
    tiles: Tiles,
    sizes: Tensor,
    first_rows: Tensor,
    strides: Sequence[int],
) -> Lists:
    """Cut every level into tiles of rows a step apart, which nodes may meet in part."""
    step = (1 << torch.arange(len(strides))) // torch.tensor(strides)
    longest = -(-sizes // step[:, None])  # rows a step apart
    runs = -(-longest // tiles.keys)  # tiles of these
    counts = (runs * step[:, None]).flatten()
    first_tile = (counts.cumsum(0) - counts).view_as(sizes)

    kind = torch.arange(counts.numel()).repeat_interleave(counts)
    tile = torch.arange(int(counts.sum())) - first_tile.flatten()[kind]
    level, run = kind // sizes.shape[1], runs.flatten()[kind]
    residue, start = tile // run, tile % run * tiles.keys
    rows = -(-(sizes.flatten()[kind] - residue) // step[level]) - start
    first = first_rows.flatten()[kind] + residue + step[level] * start
    key_tiles = torch.stack([first, step[level], rows.clamp(0, tiles.keys)], dim=1)

    place = pairs.key - first_rows[pairs.level, pairs.sequence]
    residue, place = place % pairs.step, place // pairs.step
    owners: list[Tensor] = []
    entries: list[Tensor] = []
    for run in (place // tiles.keys, (place + pairs.keys - 1) // tiles.keys):
        before = place - run * tiles.keys
        owner = first_tile[pairs.level, pairs.sequence] + run
        owner += residue * runs[pairs.level, pairs.sequence]
        met = (
            *(pairs.query, torch.ones_like(place), pairs.queries, pairs.distance - before),
            *(before.clamp(min=0), (before + pairs.keys).clamp(max=tiles.keys)),
        )
        new = (run != place // tiles.keys) if owners else torch.ones_like(run, dtype=torch.bool)
        owners.append(owner[new])
        entries.append(torch.stack(met, dim=1)[new])
    entry = torch.cat(entries)
    lists = _listed(key_tiles, torch.cat(owners), entry, ~_is_near(entry[:, 3], reach, tiles))
    work = lists.tiles[:, 5] - lists.tiles[:, 3]
    return Lists(lists.tiles[work.argsort(descending=True)], lists.entries)


def _listed(bare: Tensor, owner: Tensor, entries: Tensor, plain: Tensor) -> Lists:
    """Bring each tile's entries together, plain ones last."""
    order = (2 * owner + plain).argsort(stable=True)
    ends = torch.bincount(owner, minlength=len(bare)).cumsum(0)
    begins = torch.cat([ends[:1] * 0, ends[:-1]])
    bounds = [begins, ends - torch.bincount(owner[plain], minlength=len(bare)), ends]
    return Lists(torch.cat([bare, torch.stack(bounds, dim=1)], dim=1).int(), entries[order].int())


def _is_near(distance: Tensor, reach: int, tiles: Tiles) -> Tensor:
    """Whether some row of the keys is nearer than `reach` to some row of the queries."""
    if not reach:
        return torch.zeros_like(distance, dtype=torch.bool)
    return (distance - (tiles.queries - 1) < reach) & (distance + tiles.keys - 1 > -reach)


def _is_plain(pairs: _Pairs, reach: int, tiles: Tiles) -> Tensor:
    """Whether a query tile meets a full tile of keys, beyond reach of the bias."""
    return (pairs.keys == tiles.keys) & ~_is_near(pairs.distance, reach, tiles)


def _near(pairs: _Pairs, plan: Plan, tiles: Tiles) -> Near | None:
    if not plan.num_buckets:
        return None
    near = (~_is_plain(pairs, plan.reach, tiles)).nonzero()[:, 0]
    near = near[pairs.distance[near].argsort(stable=True)]
    rows = torch.stack(
        [
            getattr(pairs, name)[near]
            for name in ("query", "queries", "key", "step", "keys", "distance")
        ],
        dim=1,
    )
    distances, counts = rows[:, 5].unique_consecutive(return_counts=True)
    longest = max(16, len(near) // 256)  # enough runs to fill a GPU, few enough to sum up
    starts = [torch.arange(0, count, longest) for count in counts.tolist()]
    ends = counts.cumsum(0)
    runs = [
        torch.stack([start, (start + longest).clamp(max=count)], dim=1) + end - count
        for start, count, end in zip(starts, counts, ends, strict=True)
    ]
    group = torch.arange(len(starts)).repeat_interleave(torch.tensor([*map(len, starts)]).long())
    diagonal = torch.arange(1 - tiles.queries, tiles.keys)
    place = (distances[:, None] + diagonal).flatten()
    return Near(
        rows.int(),
        torch.cat([rows[:0, :2], *runs]).int(),
        (torch.arange(len(distances))[:, None] == group).float(),
        _one_hot(place, plan),
        _one_hot(torch.tensor([-plan.reach, plan.reach]), plan),
    )


def _one_hot(distance: Tensor, plan: Plan) -> Tensor:
    """1 where a distance is of a bucket, `(distances, buckets)` float32."""
    bucket = buckets(distance, plan.num_buckets, plan.max_distance, bidirectional=True)
    return (bucket[:, None] == torch.arange(plan.num_buckets)).float()


def _runs(lengths: Sequence[int], strides: Sequence[int], first_rows: Tensor) -> Tensor:
    """Cut sequences into runs of tokens; see `Tables`."""
    side_by_side = [level for level, stride in enumerate(strides) if stride == 1 << level <= RUN]
    runs = []
    for sequence, length in enumerate(lengths):
        token = torch.arange(0, length, RUN)
        rows = [first_rows[level, sequence] + (token >> level) for level in side_by_side]
        runs.append(torch.stack([*rows, (length - token).clamp(max=RUN)], dim=1))
    return torch.cat(runs).int()


def _joins(
    lengths: Sequence[int], level: int, narrow: int, wide: int
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Which windows of the level below each window of a level joins, and the other way round."""
    half = 1 << level - 1
    halves, shares, parents, parent_shares = [], [], [], []
    below = above = 0  # rows of the sequences before
    for length in lengths:
        start = torch.arange(0, length, wide)
        begins = torch.stack([start, start + half], dim=1)
        tokens = (length - begins).clamp(0, half)
        halves.append(torch.where(tokens > 0, below + begins // narrow, 0))
        shares.append(tokens / tokens.sum(1, keepdim=True))

        start = torch.arange(0, length, narrow)
        begins = torch.stack([start, start - half], dim=1)
        tokens = (length - start).clamp(max=half)[:, None]
        whole = (length - begins).clamp(max=2 * half)
        real = (begins >= 0) & (begins % wide == 0)
        parents.append(torch.where(real, above + begins // wide, 0))
        parent_shares.append(real * tokens / whole)
        below, above = below + len(start), above + len(halves[-1])
    up = torch.cat(halves).int(), torch.cat(shares).float()
    return up, (torch.cat(parents).int(), torch.cat(parent_shares).float())


def _moved(value, device):  # type: ignore[no-untyped-def]
    """Return nested tuples and lists with their tensors on a device."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, list):
        return [_moved(some, device) for some in value]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_moved(some, device) for some in value))
    return tuple(_moved(some, device) for some in value) if isinstance(value, tuple) else value
