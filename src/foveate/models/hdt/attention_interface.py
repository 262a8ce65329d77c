"""Tree attention as an attention function of transformers: any encoder can be a tree encoder.

A batch is packed into one sequence in level order, and the tree is an argument of the forward:

    import foveate.models.hdt

    model = AutoModel.from_pretrained(path, attn_implementation="foveate_tree")
    model(input_ids=ids[None], position_ids=positions[None], tree=tree)
"""

from typing import Any

from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface

from foveate.ops.tree_attention import EDGES, Tree, tree_attention

TREE_ATTENTION = "foveate_tree"


def tree_attention_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    *,
    tree: Tree | None = None,
    edges: tuple[str, ...] = EDGES,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attend along the tree: `(1, heads, tokens, head_dim)` in, `(1, tokens, heads, head_dim)` out.

    Attention weights are never materialized, so they are neither returned nor dropped out. The
    mask is ignored, since a packed sequence has no padding.

    Raises:
        ValueError: The model's forward was called without `tree`, or with more than one sequence.
    """
    if tree is None:
        raise ValueError(
            f"attn_implementation={TREE_ATTENTION!r} needs a tree: "
            "call the model with tree=Tree.from_parents(parents)"
        )
    if len(query) != 1:
        raise ValueError(
            f"tree attention takes one packed sequence, got a batch of {len(query)}: pack the "
            "documents into one sequence"
        )
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    return tree_attention(q, k, v, tree, edges=edges, scale=scaling)[None], None


def _no_mask(*args: Any, **kwargs: Any) -> None:
    """Build no mask: the tree determines which tokens see each other."""


def register() -> None:
    """Make `attn_implementation="foveate_tree"` known to transformers."""
    AttentionInterface.register(TREE_ATTENTION, tree_attention_forward)
    AttentionMaskInterface.register(TREE_ATTENTION, _no_mask)
