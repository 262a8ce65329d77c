"""Padded batches of trees to packed rows in level order."""

from dataclasses import dataclass

import torch
from torch import Tensor

from foveate.models.padding import Places
from foveate.ops.tree_attention import Tree


@dataclass(frozen=True)
class PackedForest(Places):
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
    def of_tree(cls, tree: Tree) -> "PackedForest":
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
    def of(cls, parent_ids: Tensor, attention_mask: Tensor | None) -> "PackedForest":
        """Pack a batch by its `parent_ids` and `attention_mask`, both `(batch, length)`.

        Raises:
            ValueError: as `Tree.from_padded`.
        """
        tree, rows, first = Tree.from_padded(parent_ids, attention_mask)
        batch, length = parent_ids.shape
        return cls(tree, rows, first, (batch, length))
