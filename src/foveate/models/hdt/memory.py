"""What the decoder of HDT-ED reads: the encoder's rows, or only its anchors (HDT, 4.2)."""

import torch
from torch import Tensor

from foveate.ops.tree_attention import Tree

from .configuration import READ


@torch.compiler.disable
def memory_of(rows: Tensor, tree: Tree, decode_anchors: str) -> tuple[Tensor, Tensor]:
    """Give each document's rows that the decoder reads.

    A sentence's anchor is one above a token (a leaf), a section's one above other anchors; the
    document's own belongs to neither and is read with the tokens only.

    Args:
        rows: `(tokens, d_model)` in level order, of documents that each are a tree.
        tree: their forest, in level order.
        decode_anchors: as `HDTConfig` has it.

    Returns:
        The memory `(documents, most rows, d_model)`, zero at padding, and its mask `(documents,
        most rows)`, false there. A document's rows are in level order.

    Raises:
        ValueError: an unknown `decode_anchors`, or a document without such anchors.
    """
    if decode_anchors not in READ:
        raise ValueError(f"decode_anchors must be one of {READ}, got {decode_anchors!r}")
    document = _roots(tree)
    read = _is_read(tree, decode_anchors).nonzero()[:, 0]
    owner, order = document[read].sort(stable=True)
    counts = torch.bincount(owner, minlength=tree.level_sizes[0])
    fewest, most = torch.stack([counts.min(), counts.max()]).tolist()
    if fewest == 0:
        lacking = int((counts == 0).nonzero()[0])
        raise ValueError(
            f"document {lacking} of the batch has no {decode_anchors} to decode from: "
            "give it sections and sentences, or decode from tokens"
        )
    place = torch.arange(len(owner), device=owner.device) - (counts.cumsum(0) - counts)[owner]
    memory = rows.new_zeros(len(counts) * most, rows.shape[1])
    memory = memory.index_copy(0, owner * most + place, rows[read[order]])
    mask = torch.arange(most, device=owner.device) < counts[:, None]
    return memory.unflatten(0, (-1, most)), mask


def _roots(tree: Tree) -> Tensor:
    """Row of the root above each node."""
    start = tree.level_sizes[0]
    roots = [torch.arange(start, device=tree.parent.device)]
    above = 0
    for size in tree.level_sizes[1:]:
        roots.append(roots[-1][tree.parent[start : start + size] - above])
        above, start = start, start + size
    return torch.cat(roots)


def _is_read(tree: Tree, decode_anchors: str) -> Tensor:
    leaf = tree.num_children == 0
    if decode_anchors == "token":
        return torch.ones_like(leaf)
    anchor = ~leaf & (tree.parent >= 0)
    if decode_anchors == "sentence":
        return anchor
    holds_anchors = torch.zeros_like(leaf)
    holds_anchors[tree.parent[anchor]] = True
    return anchor & holds_anchors
