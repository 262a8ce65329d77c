"""Other people's trained models made faster in place: same parameters, same outputs.

A module is accelerated by a change of class: a subclass in `FASTER` or `BESIDE` computes what its
base computes from the same parameters, so that nothing else of the model changes, and changing back
restores it. Copies, pickles and replicas of an accelerated model are accelerated too.
"""

from copy import copy
from typing import Any, TypeVar

from torch import nn
from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention

from foveate.models.accelerate.cuda_graphs import release

from . import layers, longformer, longt5, t5

__all__ = ["BESIDE", "FASTER", "MASKS", "accelerate", "accelerated", "restore"]

FASTER: dict[type[nn.Module], type[nn.Module]] = {**longformer.FASTER, **longt5.FASTER, **t5.FASTER}
"""Attention of transformers, and the subclass of each that is faster."""

BESIDE: dict[type[nn.Module], type[nn.Module]] = layers.FASTER
"""Other layers, likewise, in models that have such attention: alone they would gain too little."""

MASKS: dict[type[nn.Module], str] = {**longformer.MASKS, **t5.MASKS}
"""Models whose masks are built for other modules now, and the name of the function that does."""

_ALL = FASTER | BESIDE
_SLOWER = {faster: slower for slower, faster in _ALL.items()}
_BEFORE = "_config_before_acceleration"

Model = TypeVar("Model", bound=nn.Module)


def accelerate(model: Model) -> Model:
    """Make a model of transformers faster, alone or as a part of a larger model.

    Parameters and their names stay, outputs and gradients are equal within rounding, in evaluation
    and training, with padding on any side, and in `generate` with its cache and beams. Two things
    differ: attention weights are never formed, so that they are not dropped out in training, and
    rows of padding in an encoder's output hold other values, which nothing reads. Where attention
    weights are asked for, the model computes as before, with a warning.

    Args:
        model: changed in place; accelerated modules are passed over.

    Returns:
        The model.

    Raises:
        ValueError: there is nothing in the model that could be accelerated.

    Example:
        >>> from transformers import T5Config, T5ForConditionalGeneration
        >>> from foveate import accelerate, restore
        >>> config = T5Config(vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2)
        >>> model = accelerate(T5ForConditionalGeneration(config))
        >>> type(model.encoder.block[0].layer[0].SelfAttention).__name__
        'RelativeT5Attention'
        >>> type(restore(model).encoder.block[0].layer[0].SelfAttention).__name__
        'T5Attention'
    """
    modules: list[Any] = list(model.modules())
    if not _can_accelerate(model):
        if any(type(module) is BigBirdBlockSparseAttention for module in modules):
            raise ValueError(
                f"a {type(model).__name__} with block-sparse attention cannot be accelerated: each "
                "of its layers draws blocks at random, which no window covers; use a Longformer, "
                "an LED or a LongT5"
            )
        known = ", ".join(sorted(module.__name__ for module in FASTER))
        raise ValueError(
            f"there is nothing to accelerate in a {type(model).__name__}: "
            f"it has none of the modules {known} of transformers"
        )
    for module in modules:
        if type(module) in MASKS and not hasattr(module, _BEFORE):
            setattr(module, _BEFORE, module.config)
            own = copy(module.config)  # other models may share it
            own._attn_implementation = MASKS[type(module)]
            _configure(module, own)
        module.__class__ = _ALL.get(type(module), type(module))
    return model


def accelerated(model: Model) -> Model:
    """Accelerate a model if it can be; others stay as they are."""
    return accelerate(model) if _can_accelerate(model) else model


def _can_accelerate(model: nn.Module) -> bool:
    """Whether a model has attention that `accelerate` replaces, or has replaced."""
    known_types = {*FASTER, *FASTER.values()}
    return any(type(module) in known_types for module in model.modules())


def restore(model: Model) -> Model:
    """Undo `accelerate`, in place, and `capture`; other models stay as they are."""
    modules: list[Any] = list(release(model).modules())
    for module in modules:
        module.__class__ = _SLOWER.get(type(module), type(module))
        if hasattr(module, _BEFORE):
            _configure(module, getattr(module, _BEFORE))
            delattr(module, _BEFORE)
    return model


def _configure(module: Any, config: Any) -> None:
    """Give a module, and all of it that has the same configuration, another one."""
    before = module.config
    for part in module.modules():
        if getattr(part, "config", None) is before:
            part.config = config
