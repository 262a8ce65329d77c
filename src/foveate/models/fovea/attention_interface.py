"""Fovea attention as an attention function of transformers, for encoders with absolute positions.

    import foveate.models.fovea

    model = AutoModel.from_pretrained(path, attn_implementation="foveate_fovea")
    model(input_ids, attention_mask)

`block_size`, `k_neighbours` and `coverage` are arguments of the model's forward, else fields of its
configuration, else the defaults of `FoveaConfig`.
"""

from typing import Any

from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface

from foveate.models.masks import PaddingMask, padding_mask
from foveate.models.packing import PackedSequences
from foveate.ops.fovea_attention import fovea_attention

from .configuration_fovea import FoveaConfig

FOVEA_ATTENTION = "foveate_fovea"


def fovea_attention_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: PaddingMask | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attend fine to coarse.

    Takes `(batch, heads, length, head_dim)` and returns `(batch, length, heads, head_dim)`. Padding
    is removed by packing, and zero in the output. Attention weights are never materialized, so
    they are neither returned nor dropped out.

    Raises:
        ValueError: The module is a decoder or cross attention, the mask is one of all pairs, or a
            size is below 1.
    """
    if query.shape != key.shape or getattr(module, "is_causal", False):
        raise ValueError(
            f"attn_implementation={FOVEA_ATTENTION!r} is for encoders: it supports neither causal "
            "nor cross attention"
        )
    if attention_mask is None:
        packed = PackedSequences.from_mask(None, (query.shape[0], query.shape[2]))
    elif isinstance(attention_mask, PaddingMask):
        packed = attention_mask.packed
    else:
        raise ValueError(
            f"attn_implementation={FOVEA_ATTENTION!r} takes an attention_mask (batch, length), "
            f"got {tuple(attention_mask.shape)}"
        )
    options = {
        name: kwargs.get(name, getattr(module.config, name, getattr(FoveaConfig, name)))
        for name in ("block_size", "k_neighbours", "coverage")
    }
    q, k, v = (packed.pack(x.transpose(1, 2)) for x in (query, key, value))
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    attended = fovea_attention(q, k, v, lengths=packed.lengths, scale=scale, **options)
    return packed.unpack(attended), None


def register() -> None:
    """Make `attn_implementation="foveate_fovea"` known to transformers."""
    AttentionInterface.register(FOVEA_ATTENTION, fovea_attention_forward)
    AttentionMaskInterface.register(FOVEA_ATTENTION, padding_mask)
