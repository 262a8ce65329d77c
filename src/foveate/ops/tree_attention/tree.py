"""The forest that tree attention runs on, in level order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor

from foveate.ops.backends import has_triton

if TYPE_CHECKING:
    from .families import Plan
    from .triton.blocks import Blocks


@dataclass(frozen=True, eq=False)
class Tree:
    """A packed forest of n nodes. All index tensors are int64, shape `(n,)`, and in level order.

    In level order (sorted by level, stable) the children of consecutive nodes are consecutive, so
    a node's children are the rows `first_child : first_child + num_children`.

    Attributes:
        parent: row of each node's parent, -1 at a root.
        level: depth of each node, 0 at a root.
        first_child: row of each node's first child (meaningless where it has none).
        num_children: number of children of each node.
        order: row of the caller's order that stands at each level-order row, or None where the
            caller's rows already are in level order.
    """

    parent: Tensor
    level: Tensor
    first_child: Tensor
    num_children: Tensor
    order: Tensor | None = None

    @classmethod
    def from_parents(cls, parents: Tensor | Sequence[int]) -> Self:
        """Build the forest from the row of each node's parent, `(n,)` integers, -1 at a root.

        Rows may come in any order, several documents one after the other; siblings keep theirs.

        Raises:
            ValueError: a parent outside [-1, n), or nodes that are their own ancestors.
        """
        parents = torch.as_tensor(parents, dtype=None if len(parents) else torch.long)
        if parents.dim() != 1 or parents.is_floating_point() or parents.is_complex():
            raise ValueError(
                "parents must be a one-dimensional integer tensor, "
                f"got shape {tuple(parents.shape)} and dtype {parents.dtype}"
            )
        parents = parents.long()
        nodes = torch.arange(len(parents), device=parents.device)
        level, in_level_order = _survey(parents)
        parent, order = parents, None
        if not in_level_order:
            order = torch.argsort(level, stable=True)
            level = level[order]
            while True:
                rank = torch.empty_like(order).scatter_(0, order, nodes)
                parent = _follow(rank, parents[order])
                # Sorted parents make siblings consecutive. Documents written depth first are
                # sorted by their levels alone; in other orders each pass settles at least one
                # level more.
                if (parent.diff() >= 0).all():
                    break
                order = order[torch.argsort(parent, stable=True)]

        first_child = torch.searchsorted(parent, nodes)
        num_children = torch.searchsorted(parent, nodes, right=True) - first_child
        return cls(parent, level, first_child, num_children, order)._ready()

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.parent)

    @cached_property
    def in_level_order(self) -> "Tree":
        """The same forest for rows that the caller has brought into level order."""
        if self.order is None:
            return self
        twin = replace(self, order=None)
        if "_level_blocks" in vars(self):
            vars(twin)["_level_blocks"] = self._level_blocks
        return twin._ready()

    @cached_property
    def blocks(self) -> "Blocks":
        """The forest cut into tiles for the GPU's kernels, rows numbered as the caller's."""
        blocks = self._level_blocks
        return blocks if self.order is None else blocks.renumbered(self.order)

    @cached_property
    def _level_blocks(self) -> "Blocks":
        from .triton.blocks import cut

        return cut(self.parent, self.first_child, self.num_children)

    def _ready(self) -> Self:
        """Build what the kernels need before a compiler or a graph capture looks on."""
        if self.parent.is_cuda and has_triton and len(self):
            _ = self.blocks, self.in_level_order
        return self

    @cached_property
    def level_sizes(self) -> list[int]:
        """Number of nodes at each level, from the roots down."""
        return torch.bincount(self.level).tolist()

    @cached_property
    def largest_family(self) -> int:
        """The most children that any node has."""
        return int(self.num_children.max()) if len(self) else 0

    @cached_property
    def position(self) -> Tensor:
        """Index of each node among its siblings, from 1; 0 at a root. `(n,)`, level order."""
        nodes = torch.arange(len(self), device=self.parent.device)
        return torch.where(self.parent < 0, 0, nodes - self.first_child[self.parent] + 1)

    @cached_property
    def plans(self) -> "dict[frozenset[str], Plan]":
        """What the torch backend has planned for this forest, by edges."""
        return {}

    def to_level_order(self, rows: Tensor) -> Tensor:
        """Bring `(n, ...)` rows from the caller's order into level order."""
        return rows if self.order is None else rows.index_select(0, self.order)

    def from_level_order(self, rows: Tensor) -> Tensor:
        """Bring `(n, ...)` rows from level order back into the caller's order."""
        return rows if self._inverse is None else rows.index_select(0, self._inverse)

    def to_ranks(self, rows: Tensor) -> Tensor:
        """Numbers of rows in the caller's order as their numbers in level order."""
        return rows if self._inverse is None else self._inverse[rows]

    @cached_property
    def _inverse(self) -> Tensor | None:
        if self.order is None:
            return None
        return torch.argsort(self.order)

    def to(self, device: torch.device | str) -> Self:
        """Return the forest with its tensors on `device`."""
        if self.parent.device == torch.device(device):
            return self
        order = None if self.order is None else self.order.to(device)
        return type(self)(
            self.parent.to(device),
            self.level.to(device),
            self.first_child.to(device),
            self.num_children.to(device),
            order,
        )._ready()


def _survey(parents: Tensor) -> tuple[Tensor, bool]:
    """Depth of each node, and whether the rows already are in level order."""
    if parents.is_cuda and has_triton and len(parents):
        from .triton.climb import climb

        level, right, in_level_order = climb(parents)
        if right:
            return level, in_level_order

    nodes = torch.arange(len(parents), device=parents.device)
    wrong = (parents < -1) | (parents >= len(parents))
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise ValueError(
            f"node {row} has parent {int(parents[row])}, "
            f"which is outside -1 (a root) to {len(parents) - 1} (the last node)"
        )
    # Behind their parents and sorted by them: then, by induction, sorted by level too.
    in_level_order = bool((parents < nodes).all() and (parents.diff() >= 0).all())
    return _levels(parents), in_level_order


def _levels(parents: Tensor) -> Tensor:
    """Depth of each node, by pointer doubling: log2(depth) passes."""
    level = (parents >= 0).long()
    ancestor = parents
    for _ in range(len(parents).bit_length() + 1):
        if (ancestor < 0).all():
            return level
        level = level + torch.where(ancestor >= 0, level[ancestor], 0)
        ancestor = _follow(ancestor, ancestor)
    row = int((ancestor >= 0).nonzero()[0])
    raise ValueError(f"node {row} is among its own ancestors: parents must form a forest")


def _follow(target: Tensor, index: Tensor) -> Tensor:
    """`target[index]`, and -1 where the index is -1."""
    return torch.where(index >= 0, target[index], -1)
