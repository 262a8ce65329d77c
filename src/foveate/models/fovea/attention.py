"""Fovea attention as an attention function of transformers, for encoders with absolute positions.

    import foveate.models.fovea

    model = AutoModel.from_pretrained(path, attn_implementation="foveate_fovea")
    model(input_ids, attention_mask)

What a query sees is `block_size`, `k_neighbours` and `coverage` of the model's configuration or,
before those, of the arguments of its forward; `FoveaConfig` says their defaults.
"""

from typing import Any

from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface

from foveate.models.padding import Packed, Padding, padding
from foveate.ops.fovea_attention import fovea_attention

from .configuration import FoveaConfig

FOVEA_ATTENTION = "foveate_fovea"


def fovea_attention_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Padding | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attend fine to coarse: `(batch, heads, length, head_dim)` in, heads and length swapped out.

    Padding is packed away; its rows are zero. Attention weights are never formed, so they are not
    returned and not dropped out.

    Raises:
        ValueError: a decoder or cross attention, a mask of all pairs, or sizes below 1.
    """
    if query.shape != key.shape or getattr(module, "is_causal", False):
        raise ValueError(
            f"attn_implementation={FOVEA_ATTENTION!r} is for encoders: it is neither causal nor "
            "for cross attention"
        )
    if attention_mask is None:
        packed = Packed.of(None, (query.shape[0], query.shape[2]))
    elif isinstance(attention_mask, Padding):
        packed = attention_mask.packed
    else:
        raise ValueError(
            f"attn_implementation={FOVEA_ATTENTION!r} takes an attention_mask (batch, length), "
            f"got {tuple(attention_mask.shape)}"
        )
    sees = {
        name: kwargs.get(name, getattr(module.config, name, getattr(FoveaConfig, name)))
        for name in ("block_size", "k_neighbours", "coverage")
    }
    q, k, v = (packed.pack(x.transpose(1, 2)) for x in (query, key, value))
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    attended = fovea_attention(q, k, v, lengths=packed.lengths, scale=scale, **sees)
    return packed.unpack(attended), None


def register() -> None:
    """Make `attn_implementation="foveate_fovea"` known to transformers."""
    AttentionInterface.register(FOVEA_ATTENTION, fovea_attention_forward)
    AttentionMaskInterface.register(FOVEA_ATTENTION, padding)
