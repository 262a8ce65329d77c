"""Padded rows to packed rows in level order, and back."""

from dataclasses import dataclass

import torch
from torch import Tensor

from foveate.ops.tree_attention import Tree


@dataclass(frozen=True)
class Packing:
    """Where the real rows of a padded batch stand among its packed rows.

    Attributes:
        tree: the batch's forest, for rows in level order.
        rows: `(tokens,)`, which row of the flattened batch stands at each packed row, None where
            the batch was packed already.
        first: `(batch,)`, the packed row of each padded row's first real node.
        shape: `(batch, length)` of the padded batch.
    """

    tree: Tree
    rows: Tensor | None
    first: Tensor
    shape: tuple[int, int]

    @classmethod
    def of_tree(cls, tree: Tree) -> "Packing":
        """Take one row of documents that are packed already, in level order.

        Raises:
            ValueError: a tree for rows in another order.
        """
        if tree.order is not None:
            raise ValueError(
                "packed rows must be in level order: bring them there with tree.to_level_order "
                "and pass tree.in_level_order"
            )
        roots = torch.arange(tree.level_sizes[0], device=tree.parent.device)
        return cls(tree, None, roots, (1, len(tree)))

    @classmethod
    def of(cls, parent_ids: Tensor, attention_mask: Tensor | None) -> "Packing":
        """Pack a batch by its `parent_ids` and `attention_mask`, both `(batch, length)`.

        Raises:
            ValueError: shapes that differ, a row without real nodes, or a parent that is outside
                its row or padding.
        """
        if attention_mask is None:
            attention_mask = torch.ones_like(parent_ids)
        if parent_ids.dim() != 2 or parent_ids.shape != attention_mask.shape:
            raise ValueError(
                "parent_ids and attention_mask must share one shape (batch, length), "
                f"got {tuple(parent_ids.shape)} and {tuple(attention_mask.shape)}"
            )
        batch, length = parent_ids.shape
        real = attention_mask.bool()
        has_parent = real & (parent_ids >= 0)
        inside = parent_ids.clamp(0, length - 1)
        wrong = real & ((parent_ids < -1) | (parent_ids >= length))
        wrong |= has_parent & ~real.gather(1, inside)
        empty = ~real.any(dim=1)
        # Each answer that is waited for stops the device, so all are asked for together.
        tokens, any_empty, any_wrong = torch.stack(
            [real.sum(), empty.any().long(), wrong.any().long()]
        ).tolist()
        if any_empty:
            row = int(empty.nonzero()[0])
            raise ValueError(f"row {row} of the batch is all padding: give it at least one token")
        if any_wrong:
            row, place = wrong.nonzero()[0].tolist()
            raise ValueError(
                f"node {place} of row {row} has parent {int(parent_ids[row, place])}, "
                "which is padding or outside the row"
            )
        if tokens == batch * length:
            real_rows = torch.arange(tokens, device=real.device)
        else:
            real_rows = real.flatten().nonzero()[:, 0]
        number = (real.flatten().cumsum(0) - 1).view_as(real)  # of each node among the real ones
        parents = torch.where(has_parent, number.flatten()[_offset(inside)], -1)
        tree = Tree.from_parents(parents.flatten()[real_rows])
        first = number.gather(1, real.int().argmax(dim=1, keepdim=True))[:, 0]
        return cls(
            tree.in_level_order,
            tree.to_level_order(real_rows),
            tree.to_ranks(first),
            (batch, length),
        )

    def pack(self, padded: Tensor) -> Tensor:
        """`(batch, length, ...)` to `(tokens, ...)` in level order."""
        rows = padded.flatten(0, 1)
        return rows if self.rows is None else rows.index_select(0, self.rows)

    def unpack(self, packed: Tensor) -> Tensor:
        """`(tokens, ...)` in level order to `(batch, length, ...)`, zero at padding."""
        if self.rows is not None:
            batch, length = self.shape
            padded = packed.new_zeros(batch * length, *packed.shape[1:])
            packed = padded.index_copy(0, self.rows, packed)
        return packed.unflatten(0, self.shape)


def _offset(places: Tensor) -> Tensor:
    """Places within rows `(batch, length)` as places in the flattened batch."""
    batch, length = places.shape
    return places + length * torch.arange(batch, device=places.device)[:, None]
