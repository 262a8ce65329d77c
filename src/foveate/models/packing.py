"""Padded rows to packed rows in level order, and back."""

from dataclasses import dataclass
from typing import Any

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
            ValueError: as `Tree.from_padded`.
        """
        tree, rows, first = Tree.from_padded(parent_ids, attention_mask)
        batch, length = parent_ids.shape
        return cls(tree, rows, first, (batch, length))

    def pack(self, padded: Tensor) -> Tensor:
        """`(batch, length, ...)` to `(tokens, ...)` in level order."""
        rows = padded.flatten(0, 1)
        return rows if self.rows is None else rows.index_select(0, self.rows)

    def unpack(self, packed: Tensor) -> Tensor:
        """`(tokens, ...)` in level order to `(batch, length, ...)`, zero at padding."""
        if self.rows is not None:
            batch, length = self.shape
            if len(self.rows) == batch * length:
                packed = _Scatter.apply(packed, self.rows)
            else:
                padded = packed.new_zeros(batch * length, *packed.shape[1:])
                packed = padded.index_copy_(0, self.rows, packed)
        return packed.unflatten(0, self.shape)


class _Scatter(torch.autograd.Function):
    """Row i to row `rows[i]` of a permutation: by gathers, several times faster than scatters."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        places = torch.arange(len(rows), device=rows.device)
        return x.index_select(0, torch.empty_like(rows).scatter_(0, rows, places))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad.index_select(0, ctx.saved_tensors[0]), None
