"""The forest that tree attention runs on, in level order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from foveate.ops.backends import has_triton

if TYPE_CHECKING:
    from .triton.blocks import Blocks
    from .triton.survey import Survey


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
        if found := _surveyed(parents[None], None):
            order = found.rows if found.moved else None
            return cls._of(found, order)._ready()
        nodes = torch.arange(len(parents), device=parents.device)
        level, in_level_order = _levels(parents)
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

    @classmethod
    def from_padded(
        cls, parent_ids: Tensor, attention_mask: Tensor | None = None
    ) -> "tuple[Tree, Tensor, Tensor]":
        """Build the forest of a padded batch, without its padding.

        On a GPU the device is waited for once.

        Args:
            parent_ids: `(batch, length)` integers, the place of each node's parent within its row,
                -1 at a root, anything at padding.
            attention_mask: 0 at padding, same shape; None where there is none.

        Returns:
            The forest, for rows in level order; the place in the flattened batch of each of its
            rows, `(n,)` int64; and the row of each batch row's first node, `(batch,)` int64.

        Raises:
            ValueError: shapes that differ, a row without real nodes, a parent that is outside its
                row or padding, or nodes that are their own ancestors.
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
        if found := _surveyed(parent_ids, attention_mask):
            return cls._of(found, None)._ready(), found.rows, found.first
        length = parent_ids.shape[1]
        real = torch.ones_like(parent_ids) if attention_mask is None else attention_mask
        real = real.bool()
        has_parent = real & (parent_ids >= 0)
        inside = parent_ids.clamp(0, length - 1)
        if (empty := ~real.any(dim=1)).any():
            row = int(empty.nonzero()[0])
            raise ValueError(f"row {row} of the batch is all padding: give it at least one token")
        wrong = real & ((parent_ids < -1) | (parent_ids >= length))
        wrong |= has_parent & ~real.gather(1, inside)
        if wrong.any():
            row, place = wrong.nonzero()[0].tolist()
            raise ValueError(
                f"node {place} of row {row} has parent {int(parent_ids[row, place])}, "
                "which is padding or outside the row"
            )
        rows = real.flatten().nonzero()[:, 0]
        number = (real.flatten().cumsum(0) - 1).view_as(real)  # of each node among the real ones
        parents = torch.where(has_parent, number.gather(1, inside), -1)
        tree = cls.from_parents(parents.flatten()[rows])
        first = number.gather(1, real.int().argmax(dim=1, keepdim=True))[:, 0]
        return tree.in_level_order, tree.to_level_order(rows), tree.to_ranks(first)

    @classmethod
    def _of(cls, found: "Survey", order: Tensor | None) -> Self:
        tree = cls(found.parent, found.level, found.first_child, found.num_children, order)
        vars(tree).update(
            _level_blocks=found.blocks,
            level_sizes=found.level_sizes,
            largest_family=found.largest_family,
        )
        return tree

    def __len__(self) -> int:
        """Return the number of nodes."""
        return self.parent.shape[0]

    @cached_property
    def in_level_order(self) -> "Tree":
        """The same forest for rows that the caller has brought into level order."""
        if self.order is None:
            return self
        twin = replace(self, order=None)
        for name in ("_level_blocks", "level_sizes", "largest_family"):
            if name in vars(self):
                vars(twin)[name] = vars(self)[name]
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
    def plans(self) -> dict[frozenset[str], Any]:
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


def _surveyed(parents: Tensor, mask: Tensor | None) -> "Survey | None":
    """Let the device find the forest of a padded batch, where it can."""
    if not (parents.is_cuda and has_triton and parents.numel()):
        return None
    from .triton.survey import survey

    return survey(parents, mask)


def _levels(parents: Tensor) -> tuple[Tensor, bool]:
    """Depth of each node, and whether the rows already are in level order."""
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
    return _depths(parents), in_level_order


def _depths(parents: Tensor) -> Tensor:
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
