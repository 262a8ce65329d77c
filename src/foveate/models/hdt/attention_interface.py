"""Tree attention as an attention function of transformers: any encoder can be a tree encoder.

A batch is packed into one row in level order, and the tree is passed to the model's forward:

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

    Attention weights are never formed, so they are not returned and not dropped out; a mask is not
    used, since a packed row holds no padding.

    Raises:
        ValueError: no `tree` among the arguments of the model's forward, or more than one row.
    """
    if tree is None:
        raise ValueError(
            f"attn_implementation={TREE_ATTENTION!r} needs a tree: "
            "call the model with tree=Tree.from_parents(parents)"
        )
    if len(query) != 1:
        raise ValueError(f"tree attention takes one packed row, got a batch of {len(query)}")
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    return tree_attention(q, k, v, tree, edges=edges, scale=scaling)[None], None


def _no_mask(*args: Any, **kwargs: Any) -> None:
    """Tell transformers to build no mask: the tree says who sees whom."""


def register() -> None:
    """Make `attn_implementation="foveate_tree"` known to transformers."""
    AttentionInterface.register(TREE_ATTENTION, tree_attention_forward)
    AttentionMaskInterface.register(TREE_ATTENTION, _no_mask)
