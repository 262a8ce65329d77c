"""The forest that tree attention runs on, in level order."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from foveate.ops.backends import has_triton

from .families import GroupedFamilies, group_families

if TYPE_CHECKING:
    from .triton.forest import LevelOrderedForest
    from .triton.partition import ForestTiles

SIZE = 64
"""Slots of the tiles that the GPU kernels compute, for nodes of a family or several."""


@dataclass(frozen=True, eq=False)
class Tree:
    """A packed forest of n nodes.

    All index tensors are int64, have the shape `(n,)` and are in level order: sorted by level,
    stable. In level order the children of consecutive nodes are consecutive, so the children of a
    node are the nodes `first_child : first_child + num_children`.

    Attributes:
        parent: Index of each node's parent, -1 at a root.
        level: Depth of each node, 0 at a root.
        first_child: Index of each node's first child (meaningless for a leaf).
        num_children: Number of children of each node.
        level_sizes: Number of nodes on each level, from the roots down; empty in a `padded` forest.
        largest_family: Largest number of children of any node, or an upper bound of it.
        order: The caller's index of each node, or None if the caller's nodes already are in level
            order.
        level_order_tiles: How the GPU kernels divide the forest, in level order; None if the forest
            is not on a GPU.
    """

    parent: Tensor
    level: Tensor
    first_child: Tensor
    num_children: Tensor
    level_sizes: list[int]
    largest_family: int
    order: Tensor | None = None
    level_order_tiles: "ForestTiles | None" = None

    def __post_init__(self) -> None:
        """Renumber the tiles outside of any torch.compile or graph capture."""
        if self.order is not None and self.level_order_tiles is not None:
            _ = self.tiles, self.in_level_order

    @classmethod
    def from_parents(cls, parents: Tensor | Sequence[int]) -> Self:
        """Build the forest from the index of each node's parent.

        Args:
            parents: `(n,)` integers, -1 at a root. Nodes may come in any order, with the documents
                of a batch concatenated; siblings keep their order.

        Raises:
            ValueError: If `parents` is not a one-dimensional integer tensor, if a parent is outside
                [-1, n), or if a node is its own ancestor.
        """
        parents = torch.as_tensor(parents, dtype=None if len(parents) else torch.long)
        if parents.dim() != 1 or parents.is_floating_point() or parents.is_complex():
            raise ValueError(
                "parents must be a one-dimensional integer tensor, "
                f"got shape {tuple(parents.shape)} and dtype {parents.dtype}"
            )
        parents = parents.long()
        if forest := _build_on_gpu(parents[None], None):
            return cls._from_forest(forest, forest.positions if forest.reordered else None)
        nodes = torch.arange(len(parents), device=parents.device)
        _check_range(parents)
        level = _compute_depths(parents)
        parent, order = parents, None
        # Nodes after their parents and sorted by them are, by induction, sorted by level too.
        if not ((parents < nodes).all() and (parents.diff() >= 0).all()):
            order = torch.argsort(level, stable=True)
            level = level[order]
            while True:
                rank = torch.empty_like(order).scatter_(0, order, nodes)
                parent = _follow(rank, parents[order])
                # Siblings are consecutive once parents are sorted. Documents written depth first
                # are sorted by their levels alone; in other orders each pass sorts at least one
                # level more.
                if (parent.diff() >= 0).all():
                    break
                order = order[torch.argsort(parent, stable=True)]

        first_child = torch.searchsorted(parent, nodes)
        num_children = torch.searchsorted(parent, nodes, right=True) - first_child
        return cls(
            parent,
            level,
            first_child,
            num_children,
            level_sizes=torch.bincount(level).tolist(),
            largest_family=int(num_children.max()) if len(parents) else 0,
            order=order,
            level_order_tiles=_tile_on_gpu(parent, first_child, num_children),
        )

    @classmethod
    def from_padded(
        cls, parent_ids: Tensor, attention_mask: Tensor | None = None
    ) -> "tuple[Tree, Tensor, Tensor]":
        """Build the forest of a padded batch, leaving the padding out.

        On a GPU this synchronizes once.

        Args:
            parent_ids: `(batch, length)` integers, the position of each token's parent within its
                sequence, -1 at a root, anything at padding.
            attention_mask: 0 at padding, same shape; None if there is no padding.

        Returns:
            The forest, its nodes in level order; the position of each node in the flattened batch,
            `(n,)` int64; and the node of each sequence's first token, `(batch,)` int64.

        Raises:
            ValueError: If the shapes differ, if a sequence is all padding, if a parent is padding
                or outside its sequence, or if a node is its own ancestor.
        """
        if parent_ids.dim() != 2 or (
            attention_mask is not None and parent_ids.shape != attention_mask.shape
        ):
            shape = None if attention_mask is None else tuple(attention_mask.shape)
            raise ValueError(
                "parent_ids and attention_mask must share one shape (batch, length), "
                f"got {tuple(parent_ids.shape)} and {shape}"
            )
        parent_ids = parent_ids.long()
        if forest := _build_on_gpu(parent_ids, attention_mask):
            return cls._from_forest(forest, None), forest.positions, forest.first_nodes
        length = parent_ids.shape[1]
        real = torch.ones_like(parent_ids) if attention_mask is None else attention_mask
        real = real.bool()
        has_parent = real & (parent_ids >= 0)
        inside = parent_ids.clamp(0, length - 1)
        if (empty := ~real.any(dim=1)).any():
            sequence = int(empty.nonzero()[0])
            raise ValueError(
                f"sequence {sequence} of the batch is all padding: give it at least one token"
            )
        invalid = real & ((parent_ids < -1) | (parent_ids >= length))
        invalid |= has_parent & ~real.gather(1, inside)
        if invalid.any():
            sequence, node = invalid.nonzero()[0].tolist()
            raise ValueError(
                f"node {node} of sequence {sequence} has parent "
                f"{int(parent_ids[sequence, node])}, which is padding or outside the sequence"
            )
        positions = real.flatten().nonzero()[:, 0]
        packed_index = (real.flatten().cumsum(0) - 1).view_as(real)
        parents = torch.where(has_parent, packed_index.gather(1, inside), -1)
        tree = cls.from_parents(parents.flatten()[positions])
        first = packed_index.gather(1, real.int().argmax(dim=1, keepdim=True))[:, 0]
        return tree.in_level_order, tree.to_level_order(positions), tree.to_level_index(first)

    @classmethod
    def _from_forest(cls, forest: "LevelOrderedForest", order: Tensor | None) -> Self:
        """Build the tree from the GPU's forest."""
        return cls(
            forest.parent,
            forest.level,
            forest.first_child,
            forest.num_children,
            forest.level_sizes,
            forest.largest_family,
            order,
            forest.tiles,
        )

    def __len__(self) -> int:
        """Return the number of nodes."""
        return self.parent.shape[0]

    @cached_property
    def in_level_order(self) -> "Tree":
        """The same forest for inputs that the caller has brought into level order."""
        return self if self.order is None else replace(self, order=None)

    @cached_property
    def padded(self) -> "Tree":
        """The forest with roots without children at its end, for a CUDA graph; on a GPU only.

        There are only a few sizes and numbers of tiles, so that forests of similar size share a
        graph. The forest must be in level order.
        """
        from .triton.bucket import pad_forest

        assert self.order is None
        nodes = self.parent, self.level, self.first_child, self.num_children
        padded, tiles, largest_family = pad_forest(*nodes, self.tiles, self.largest_family)
        parent, level, first_child, num_children = padded
        return Tree(
            parent, level, first_child, num_children, [], largest_family, level_order_tiles=tiles
        )

    @cached_property
    def tiles(self) -> "ForestTiles":
        """How the GPU kernels divide the forest, in the caller's node order."""
        from .triton.partition import partition

        tiles = self.level_order_tiles
        if tiles is None:  # in Triton's interpreter
            tiles = partition(self.parent, self.first_child, self.num_children)
        return tiles if self.order is None else tiles.renumber(self.order)

    def group_families(self, edges: Collection[str]) -> GroupedFamilies:
        """Group the families for attention along `edges`; the result is cached."""
        key = frozenset(edges)
        if key not in self._grouped_families:
            self._grouped_families[key] = group_families(
                self.parent, self.first_child, self.num_children, key
            )
        return self._grouped_families[key]

    @cached_property
    def _grouped_families(self) -> dict[frozenset[str], GroupedFamilies]:
        return {}

    def to_level_order(self, x: Tensor) -> Tensor:
        """Bring `(n, ...)` from the caller's order into level order."""
        return x if self.order is None else x.index_select(0, self.order)

    def from_level_order(self, x: Tensor) -> Tensor:
        """Bring `(n, ...)` from level order back into the caller's order."""
        return x if self._level_index is None else x.index_select(0, self._level_index)

    def to_level_index(self, nodes: Tensor) -> Tensor:
        """Convert node indices in the caller's order to indices in level order."""
        return nodes if self._level_index is None else self._level_index[nodes]

    @cached_property
    def _level_index(self) -> Tensor | None:
        """The level-order index of each of the caller's nodes, the inverse of `order`."""
        if self.order is None:
            return None
        return torch.argsort(self.order)

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Self:
        """Return the forest with its tensors on `device`; on a GPU, this synchronizes once."""
        if self.parent.device == torch.device(device):
            return self
        moved = self._with_tensors(lambda x: x.to(device, non_blocking=non_blocking))
        tiles = _tile_on_gpu(moved.parent, moved.first_child, moved.num_children)
        return moved if tiles is None else replace(moved, level_order_tiles=tiles)

    def pin_memory(self) -> Self:
        """Return the forest in pinned memory, from which a `DataLoader` has it copied."""
        return self._with_tensors(Tensor.pin_memory)

    def _with_tensors(self, change: Callable[[Tensor], Tensor]) -> Self:
        """Return the forest with changed tensors of nodes, and without tiles."""
        return replace(
            self,
            parent=change(self.parent),
            level=change(self.level),
            first_child=change(self.first_child),
            num_children=change(self.num_children),
            order=None if self.order is None else change(self.order),
            level_order_tiles=None,
        )


pytree.register_dataclass(Tree)


def _build_on_gpu(parents: Tensor, mask: Tensor | None) -> "LevelOrderedForest | None":
    """Build the forest of a padded batch with GPU kernels, or return None where they cannot."""
    if not (parents.is_cuda and has_triton and parents.numel()):
        return None
    from .triton.forest import build_forest

    return build_forest(parents, mask)


def _tile_on_gpu(parent: Tensor, first_child: Tensor, num_children: Tensor) -> "ForestTiles | None":
    """Divide a forest on a GPU for the kernels, or return None where there are none."""
    if not (parent.is_cuda and has_triton and len(parent)):
        return None
    from .triton.partition import partition

    return partition(parent, first_child, num_children)


def _check_range(parents: Tensor) -> None:
    """Raise a ValueError for the first parent that is outside [-1, n)."""
    invalid = (parents < -1) | (parents >= len(parents))
    if invalid.any():
        node = int(invalid.nonzero()[0])
        raise ValueError(
            f"node {node} has parent {int(parents[node])}, "
            f"which is outside -1 (a root) to {len(parents) - 1} (the last node)"
        )


def _compute_depths(parents: Tensor) -> Tensor:
    """Compute the depth of each node by pointer doubling, in log2(depth) passes."""
    level = (parents >= 0).long()
    ancestor = parents
    for _ in range(len(parents).bit_length() + 1):
        if (ancestor < 0).all():
            return level
        level = level + torch.where(ancestor >= 0, level[ancestor], 0)
        ancestor = _follow(ancestor, ancestor)
    node = int((ancestor >= 0).nonzero()[0])
    raise ValueError(f"node {node} is among its own ancestors: parents must form a forest")


def _follow(pointers: Tensor, index: Tensor) -> Tensor:
    """Return `pointers[index]`, and -1 where the index is -1."""
    return torch.where(index >= 0, pointers[index], -1)
