"""Who attends whom, as lists of tiles that the kernels read.

Rows are numbered as in one long tensor: first the tokens, which are the windows of level 0, then
the windows of level 1 of all sequences, those of level 2, and so on. A *tile* is a run of some of
them, `first, first + step, …`. A query tile has a list of the key tiles that it attends, and a key
tile one of the query tiles that attend it. Both say how far the key tile's first row is from the
query tile's, counted in rows of the nodes laid end to end.

Nodes of a level begin at every 2^-level-th part of a block, so that few of them begin where a key
tile does. Hence the levels that a run holds are cut into tiles more than once, from every place
within a tile where nodes begin, and nodes meet no tile in part. Each of these *cuts* has rows of
its own for its gradients, which are summed later: as many rows again as there are tokens for every
second level. Higher levels, and blocks of less than two tiles, are cut once.
"""

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

import torch
from torch import Tensor

from foveate.ops._triton.cache import cached_for_graphs

from .distances import MARGIN, Distances, distances
from .launch import row_bytes

RUN = 64
"""Tokens that one program averages over the windows of all levels that they hold."""


class Tiles(NamedTuple):
    """Rows of a tile of queries, and of a tile of keys."""

    queries: int
    keys: int

    @classmethod
    def of(cls, block_size: int, row: int) -> "Tiles":
        """As many as the matrix units like, but not more than a block has.

        Args:
            block_size: B.
            row: bytes of a row, by which shared memory counts.
        """
        rows = max(16, 1 << (block_size - 1).bit_length())
        queries, keys = (128, 64) if row <= 256 else (64, 32)
        return cls(min(rows, queries), min(rows, keys))


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
        targets: where the gradients of the key tiles go: first row and step, `(tiles, 2)` int32.
        target_ends: how many rows of gradients there are up to the end of each level. Those of all
            cuts of a row are side by side.
        target_runs: as `runs`, in rows of gradients.
        unit: key tiles between nodes of level 0, such that a level has 2^level / unit cuts.
        distances: buckets by distance; None where there is no bias.
    """

    tiles: Tiles
    ends: tuple[int, ...]
    runs: Tensor
    halves: list[tuple[Tensor, Tensor]]
    parents: list[tuple[Tensor, Tensor]]
    keys: Lists
    queries: Lists
    targets: Tensor
    target_ends: tuple[int, ...]
    target_runs: Tensor
    unit: int
    distances: Distances | None

    def cuts(self, level: int) -> int:
        """How often a level is cut into key tiles."""
        return _cuts(level, self.unit)

    @property
    def reach(self) -> int:
        """Distance from which on the bias is constant; 0 where there is no bias."""
        return self.distances.reach if self.distances else 0

    @property
    def furthest(self) -> int:
        """Largest distance that has an entry in the bias."""
        return self.reach + MARGIN if self.distances else 0

    def by_distance(self, bias: Tensor | None) -> Tensor | None:
        """Bias in base 2 of every distance up to `furthest`, `(heads, distances)` float32."""
        return self.distances.bias(bias) if self.distances and bias is not None else None


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

    `num_buckets` is 0 where there is no bias, `row` the bytes that a row of a head has in a tile.
    """

    lengths: tuple[int, ...]
    block_size: int
    k_neighbours: int
    coverage: str
    max_distance: int
    num_buckets: int
    row: int

    @classmethod
    def of(
        cls,
        q: Tensor,
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
        sizes = block_size, k_neighbours, coverage, max_distance
        return cls(tuple(lengths), *sizes, num_buckets, row_bytes(q))


def rows_of(lengths: Sequence[int], block_size: int, k_neighbours: int) -> int:
    """Rows of all levels that a batch needs: level q, if the first node of level q fits."""
    furthest = max(-(-length // block_size) for length in lengths) - 1
    rows = sum(lengths)
    level = 1
    while k_neighbours * ((1 << level) - 1) + (1 << level) <= furthest:
        rows += sum(-(-length // gcd(1 << level, block_size)) for length in lengths)
        level += 1
    return rows


@cached_for_graphs(16)  # the layers of a model ask for the same ones
def tables(plan: Plan, device: torch.device) -> Tables:
    """Plan the attention of packed sequences."""
    lengths, block_size, k_neighbours, coverage, max_distance, num_buckets, row = plan
    found = distances(num_buckets, max_distance, device) if num_buckets else None
    reach = found.reach if found else 0
    tiles = Tiles.of(block_size, row)
    selected = [select(-(-length // block_size), k_neighbours, coverage) for length in lengths]
    strides = [
        gcd(1 << level, block_size) for level in range(1 + max(int(s[1].max()) for s in selected))
    ]
    sizes = torch.tensor([[-(-length // stride) for length in lengths] for stride in strides])
    first_rows = _first_rows(sizes)
    met = [
        _tile_pairs(i, lengths[i], block_size, selected[i], first_rows[:, i], strides, tiles)
        for i in range(len(lengths))
    ]
    pairs = _Pairs(*map(torch.cat, zip(*met, strict=True)))
    unit = (block_size & -block_size) // tiles.keys
    unit = unit if unit > 1 else RUN
    cuts = torch.tensor([_cuts(level, unit) for level in range(len(strides))])
    targets = _first_rows(sizes * cuts[:, None])
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
        _keys_of_queries(pairs, reach, tiles),
        *_queries_of_keys(pairs, reach, tiles, sizes, first_rows, strides, cuts, targets),
        tuple((sizes.sum(1) * cuts).cumsum(0).tolist()),
        _runs(lengths, strides, targets, cuts),
        unit,
        None,
    )
    return _moved(result, device)._replace(distances=found)


def _first_rows(sizes: Tensor) -> Tensor:
    """Where levels of sequences begin whose sizes are `(levels, sequences)`."""
    return sizes.flatten().cumsum(0).view_as(sizes) - sizes


def _cuts(level: int, unit: int) -> int:
    return max(1, (1 << level) // unit) if 1 << level <= RUN else 1


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
    distance = _within_margin(pairs.distance, reach, tiles)
    entries = torch.stack([pairs.key, pairs.step, pairs.keys, distance, none, pairs.keys], dim=1)
    plain = (pairs.keys == tiles.keys) & ~_is_near(pairs.distance, reach, tiles)
    return _listed(query_tiles, owner, entries, plain)


def _queries_of_keys(
    pairs: _Pairs,
    reach: int,
    tiles: Tiles,
    sizes: Tensor,
    first_rows: Tensor,
    strides: Sequence[int],
    cuts: Tensor,
    targets: Tensor,
) -> tuple[Lists, Tensor]:
    """Cut every level into tiles of rows a step apart; `Tables.queries` and `Tables.targets`.

    Nodes of the levels that are cut once may meet a tile in part.
    """
    step = (1 << torch.arange(len(strides))) // torch.tensor(strides)
    shift = tiles.keys // cuts  # from a cut to the next
    longest = -(-sizes // step[:, None])  # rows a step apart
    runs = -(-(longest + (tiles.keys - shift)[:, None]) // tiles.keys)  # tiles of these
    counts = (runs * (step * cuts)[:, None]).flatten()
    first_tile = (counts.cumsum(0) - counts).view_as(sizes)

    kind = torch.arange(counts.numel()).repeat_interleave(counts)
    tile = torch.arange(int(counts.sum())) - first_tile.flatten()[kind]
    level, run = kind // sizes.shape[1], runs.flatten()[kind]
    way, start = tile // run, tile % run * tiles.keys
    residue, cut = way % step[level], way // step[level]
    start -= -cut * shift[level] % tiles.keys
    stop = torch.minimum(start + tiles.keys, -(-(sizes.flatten()[kind] - residue) // step[level]))
    start = start.clamp(min=0)
    place = residue + step[level] * start
    first, rows = first_rows.flatten()[kind] + place, (stop - start).clamp(min=0)
    key_tiles = torch.stack([first, step[level], rows], dim=1)
    first = targets.flatten()[kind] + place * cuts[level] + cut
    target = torch.stack([first, step[level] * cuts[level]], dim=1)

    place = pairs.key - first_rows[pairs.level, pairs.sequence]
    residue, place = place % pairs.step, place // pairs.step
    cut = place % tiles.keys // shift[pairs.level]
    place += -cut * shift[pairs.level] % tiles.keys
    owners: list[Tensor] = []
    entries: list[Tensor] = []
    for run in (place // tiles.keys, (place + pairs.keys - 1) // tiles.keys):
        before = place - run * tiles.keys
        owner = first_tile[pairs.level, pairs.sequence] + run
        owner += (cut * pairs.step + residue) * runs[pairs.level, pairs.sequence]
        met = (
            *(pairs.query, torch.ones_like(place), pairs.queries, pairs.distance - before),
            *(before.clamp(min=0), (before + pairs.keys).clamp(max=tiles.keys)),
        )
        new = (run != place // tiles.keys) if owners else torch.ones_like(run, dtype=torch.bool)
        owners.append(owner[new])
        entries.append(torch.stack(met, dim=1)[new])
    entry = torch.cat(entries)
    plain = ~_is_near(entry[:, 3], reach, tiles)
    entry[:, 3] = _within_margin(entry[:, 3], reach, tiles)
    lists = _listed(key_tiles, torch.cat(owners), entry, plain)
    order = (lists.tiles[:, 5] - lists.tiles[:, 3]).argsort(descending=True)
    return Lists(lists.tiles[order], lists.entries), target[order].int()


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


def _within_margin(distance: Tensor, reach: int, tiles: Tiles) -> Tensor:
    """Bring pairs of tiles beyond reach as near as leaves them there."""
    return distance.clamp(1 - tiles.keys - reach, tiles.queries - 1 + reach)


def _runs(
    lengths: Sequence[int], strides: Sequence[int], first_rows: Tensor, cuts: Tensor | None = None
) -> Tensor:
    """Cut sequences into runs of tokens; see `Tables`."""
    side_by_side = [level for level, stride in enumerate(strides) if stride == 1 << level <= RUN]
    runs = []
    for sequence, length in enumerate(lengths):
        token = torch.arange(0, length, RUN)
        rows = [
            first_rows[level, sequence] + (token >> level) * (1 if cuts is None else cuts[level])
            for level in side_by_side
        ]
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
