"""Packing and unpacking of padded batches, of sequences and of trees."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from foveate.ops.compiling import uncompiled
from foveate.ops.tree_attention import Tree


class PackedIndices:
    """The positions in a padded batch that packed tokens come from.

    Attributes:
        indices: `(tokens,)`, the position of each packed token in the flattened batch; None where
            both hold the same tokens in the same order.
        shape: `(batch, length)` of the padded batch.
    """

    indices: Tensor | None
    shape: tuple[int, int]

    def pack(self, padded: Tensor) -> Tensor:
        """Gather `(batch, length, ...)` to `(tokens, ...)`.

        Raises:
            ValueError: The batch has another shape.
        """
        if padded.shape[:2] != self.shape:
            raise ValueError(
                "all inputs of a batch must share one shape (batch, length), "
                f"got {tuple(padded.shape[:2])} and {tuple(self.shape)}"
            )
        flat = padded.flatten(0, 1)
        return flat if self.indices is None else flat.index_select(0, self.indices)

    def embed(self, embeddings: nn.Module, input_ids: Tensor) -> Tensor:
        """Embed ids `(batch, length)` and pack them to `(tokens, d)`."""
        if embeddings._forward_hooks:  # NEFTune's takes a padded batch, and scales by its length
            return self.pack(embeddings(input_ids))
        embedded: Tensor = embeddings(self.pack(input_ids))
        return embedded

    def unpack(self, packed: Tensor) -> Tensor:
        """Scatter `(tokens, ...)` to `(batch, length, ...)`, zero at padding."""
        batch, length = self.shape
        flat = packed
        if self.indices is not None and len(self.indices) == batch * length:
            flat = _Permute.apply(packed, self.indices)
        elif self.indices is not None:
            zeros = packed.new_zeros(batch * length, *packed.shape[1:])
            flat = zeros.index_copy_(0, self.indices, packed)
        padded: Tensor = flat.unflatten(0, self.shape)
        return padded


class _Permute(torch.autograd.Function):
    """Move entry i to position `indices[i]`; gathers are several times faster than scatters."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, indices: Tensor) -> Tensor:
        ctx.save_for_backward(indices)
        positions = torch.arange(len(indices), device=indices.device)
        return x.index_select(0, torch.empty_like(indices).scatter_(0, indices, positions))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad.index_select(0, ctx.saved_tensors[0]), None


@dataclass(frozen=True)
class PackedSequences(PackedIndices):
    """The real tokens of a padded batch, sequence after sequence.

    Attributes:
        lengths: Number of real tokens of each sequence that has any, host integers.
        indices: `(tokens,)`, the position of each packed token in the flattened batch; None where
            the batch has no padding.
        has_gaps: Whether there is padding between the real tokens of a sequence.
        shape: `(batch, length)` of the padded batch.
    """

    lengths: list[int]
    indices: Tensor | None
    has_gaps: bool
    shape: tuple[int, int]

    @classmethod
    def from_mask(cls, real: Tensor | None, shape: tuple[int, int]) -> "PackedSequences":
        """Pack a batch by its attention mask; synchronizes once if there is a mask.

        Args:
            real: `(batch, length)`, not 0 at real tokens; None where all tokens are real.
            shape: `(batch, length)`.

        Raises:
            ValueError: The mask has another shape.
        """
        batch, length = shape
        if real is not None:
            check_mask_shape(real, shape)
        if real is None or real.numel() == 0:
            return cls([length] * batch if length else [], None, False, shape)
        real = real.bool()
        column = torch.arange(length, device=real.device)
        first = torch.where(real, column, length).amin(1)
        last = torch.where(real, column, -1).amax(1)
        # The only synchronization with the device.
        counts, extents = torch.stack([real.sum(1), last - first + 1]).tolist()
        lengths = [count for count in counts if count]
        if sum(lengths) == batch * length:
            return cls(lengths, None, False, shape)
        indices = torch.nonzero_static(real.flatten(), size=sum(lengths))[:, 0]
        has_gaps = any(count < extent for count, extent in zip(counts, extents, strict=True))
        return cls(lengths, indices, has_gaps, shape)

    @property
    def positions(self) -> Tensor | None:
        """Positions `(tokens,)` of the tokens in their sequences, None if they count from 0.

        Padding on the left shifts all positions of a sequence equally, which changes no distance.
        """
        return self.indices % self.shape[1] if self.indices is not None and self.has_gaps else None


pytree.register_dataclass(PackedSequences)


def check_mask_shape(real: Tensor, shape: tuple[int, int]) -> None:
    """Raise ValueError unless an attention mask has the shape of the tokens."""
    if tuple(real.shape) != shape:
        raise ValueError(
            f"attention_mask must have the shape {shape} of the tokens, got {tuple(real.shape)}"
        )


@dataclass(frozen=True)
class PackedForest(PackedIndices):
    """The nodes of a padded batch of trees, packed in level order.

    Attributes:
        tree: The forest of the batch, for nodes in level order.
        indices: `(tokens,)`, the position of each packed node in the flattened batch; None where
            the batch was packed already.
        first: `(batch,)`, the packed index of the first real node of each sequence.
        shape: `(batch, length)` of the padded batch.
    """

    tree: Tree
    indices: Tensor | None
    first: Tensor
    shape: tuple[int, int]

    @classmethod
    @uncompiled
    def from_inputs(
        cls, tree: Tree | None, parent_ids: Tensor | None, attention_mask: Tensor | None
    ) -> "PackedForest":
        """Pack documents that are given as a tree or by their parents.

        Raises:
            ValueError: Neither a tree nor parents, or see `from_tree` and `from_parent_ids`.
        """
        if tree is not None:
            return cls.from_tree(tree)
        if parent_ids is not None:
            return cls.from_parent_ids(parent_ids, attention_mask)
        raise ValueError("parent_ids are missing: prepare documents with the model's processor")

    @classmethod
    def from_tree(cls, tree: Tree) -> "PackedForest":
        """Take one sequence of documents that are packed in level order already.

        Raises:
            ValueError: The tree is for nodes in another order.
        """
        if tree.order is not None:
            raise ValueError(
                "packed nodes must be in level order: reorder them with tree.to_level_order "
                "and pass tree.in_level_order"
            )
        roots = torch.arange(tree.level_sizes[0], device=tree.parent.device)
        return cls(tree, None, roots, (1, len(tree)))

    @classmethod
    def from_parent_ids(cls, parent_ids: Tensor, attention_mask: Tensor | None) -> "PackedForest":
        """Pack a batch by its `parent_ids` and `attention_mask`, both `(batch, length)`.

        Raises:
            ValueError: See `Tree.from_padded`.
        """
        tree, indices, first = Tree.from_padded(parent_ids, attention_mask)
        batch, length = parent_ids.shape
        return cls(tree, indices, first, (batch, length))
