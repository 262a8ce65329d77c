"""In-place speed-ups for pretrained transformers models: same parameters, same outputs."""

from typing import TypeVar

from torch import nn
from transformers.models.led.modeling_led import (
    LEDEncoder,
    LEDEncoderSelfAttention,
)
from transformers.models.longformer.modeling_longformer import (
    LongformerEncoder,
    LongformerModel,
    LongformerSelfAttention,
)
from transformers.models.longt5.modeling_longt5 import (
    LongT5DenseGatedActDense,
    LongT5LayerNorm,
    LongT5LocalAttention,
    LongT5Stack,
    LongT5TransientGlobalAttention,
)
from transformers.models.t5.modeling_t5 import (
    T5Attention,
    T5DenseActDense,
    T5DenseGatedActDense,
    T5LayerNorm,
    T5Stack,
)

from . import longformer, longt5, t5, t5_layers
from .cuda_graphs import capture, release
from .patching import Patch, apply_patches

__all__ = [
    "ATTENTION_PATCHES",
    "LAYER_PATCHES",
    "MODEL_PATCHES",
    "ORIGINALS",
    "Patch",
    "capture",
    "patches",
    "release",
    "restore",
    "speed_up",
    "speed_up_if_possible",
]

ATTENTION_PATCHES = (
    Patch(LongformerSelfAttention, longformer.WindowedLongformerAttention),
    Patch(LEDEncoderSelfAttention, longformer.WindowedLEDAttention),
    Patch(LongT5LocalAttention, longt5.WindowedLongT5LocalAttention),
    Patch(LongT5TransientGlobalAttention, longt5.WindowedLongT5TransientGlobalAttention),
    Patch(T5Attention, t5.RelativeT5Attention),
)
"""Attention; a model can be sped up if it has one of these."""

MODEL_PATCHES = (
    Patch(LongformerModel, LongformerModel, attn_implementation=longformer.ONE_QUERY_MASK),
    Patch(LongformerEncoder, longformer.WindowedLongformerEncoder),
    Patch(LEDEncoder, longformer.WindowedLEDEncoder),
    Patch(LongT5Stack, longt5.WindowedLongT5Encoder, applies_to=lambda stack: not stack.is_decoder),
    Patch(T5Stack, T5Stack, attn_implementation=t5.RELATIVE_ATTENTION),
)
"""What gives the attention its masks and layouts."""

LAYER_PATCHES = (
    Patch(T5LayerNorm, t5_layers.FusedT5LayerNorm),
    Patch(LongT5LayerNorm, t5_layers.FusedLongT5LayerNorm),
    Patch(T5DenseActDense, t5_layers.FusedT5DenseActDense),
    Patch(T5DenseGatedActDense, t5_layers.FusedT5DenseGatedActDense),
    Patch(LongT5DenseGatedActDense, t5_layers.FusedLongT5DenseGatedActDense),
)
"""Other layers, which are patched only along with attention: alone they would gain too little."""

_PATCHES = ATTENTION_PATCHES + MODEL_PATCHES + LAYER_PATCHES

ORIGINALS = {patch.replacement: patch for patch in _PATCHES}
"""The patch that each class comes from, by which it is restored."""

Model = TypeVar("Model", bound=nn.Module)


def speed_up(model: Model) -> Model:
    """Speed up a transformers model, alone or as part of a larger model.

    Parameters and their names stay, and outputs and gradients are equal within rounding: in
    evaluation and training, with padding on any side, and in `generate` with its cache and beams.
    Two things differ. Attention weights are never materialized, so there is no dropout on them in
    training. In an encoder's output, values at padding differ, but nothing reads them. Where
    attention weights are requested, the model computes as before, with a warning.
    `set_attn_implementation` has no effect on what is sped up until it is restored.

    Args:
        model: The model, changed in place. Modules that are already sped up are left unchanged.

    Returns:
        The model.

    Raises:
        ValueError: The model has nothing that can be sped up.

    Example:
        >>> from transformers import T5Config, T5ForConditionalGeneration
        >>> from foveate.models.speed_ups import restore, speed_up
        >>> config = T5Config(vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2)
        >>> model = speed_up(T5ForConditionalGeneration(config))
        >>> type(model.encoder.block[0].layer[0].SelfAttention).__name__
        'RelativeT5Attention'
        >>> type(restore(model).encoder.block[0].layer[0].SelfAttention).__name__
        'T5Attention'
    """
    if not _can_speed_up(model):
        known = ", ".join(sorted(patch.original.__name__ for patch in ATTENTION_PATCHES))
        raise ValueError(
            f"there is nothing to speed up in a {type(model).__name__}: "
            f"it has none of the modules {known} of transformers"
        )
    apply_patches(model, _PATCHES)
    return model


def speed_up_if_possible(model: Model) -> Model:
    """Speed up a model if `speed_up` supports it; leave other models unchanged."""
    return speed_up(model) if _can_speed_up(model) else model


def restore(model: Model) -> Model:
    """Undo `speed_up` and `capture` in place; leave other models unchanged."""
    release(model)
    for name, patch in patches(model).items():
        patch.revert(model.get_submodule(name))
    return model


def patches(model: nn.Module) -> dict[str, Patch]:
    """List what `speed_up` swapped in a model.

    Returns:
        The patch of every patched module, by the module's name in the model ("" for the model).

    Example:
        >>> from transformers import T5Config, T5EncoderModel
        >>> from foveate.models.speed_ups import patches, speed_up
        >>> config = T5Config(vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2)
        >>> model = T5EncoderModel(config)
        >>> patches(model)
        {}
        >>> patches(speed_up(model))["encoder.block.0.layer.0.SelfAttention"].original.__name__
        'T5Attention'
    """
    return {
        name: patch
        for name, module in model.named_modules()
        if (patch := ORIGINALS.get(type(module))) is not None and patch.is_applied_to(module)
    }


def _can_speed_up(model: nn.Module) -> bool:
    """Return whether a model has attention that `speed_up` replaces, or has replaced."""
    known = {kind for patch in ATTENTION_PATCHES for kind in (patch.original, patch.replacement)}
    return any(type(module) in known for module in model.modules())
