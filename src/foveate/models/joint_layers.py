"""Layers that are one here and several in checkpoints, such as those of queries, keys and values.

A checkpoint is loaded from, and saved in, the published names. `from_pretrained` and
`save_pretrained` convert the weights as transformers does, and `load_state_dict`, by which
`Trainer` resumes, takes the published names, too. `state_dict` returns the names of the modules.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn


def load_parts(module: nn.Module, joint: str, parts: Sequence[str]) -> None:
    """Let `load_state_dict` fill a layer of a module from layers that are published separately.

    Args:
        module: The module.
        joint: The name of its layer.
        parts: The published names of the layers whose outputs it concatenates, in this order.
    """
    module.register_load_state_dict_pre_hook(partial(_join, joint=joint, parts=tuple(parts)))


def _join(
    module: nn.Module,
    state: dict[str, Tensor],
    prefix: str,
    *others: Any,
    joint: str,
    parts: tuple[str, ...],
) -> None:
    for kind in ("weight", "bias"):
        names = [f"{prefix}{part}.{kind}" for part in parts]
        if all(name in state for name in names):
            state[f"{prefix}{joint}.{kind}"] = torch.cat([state.pop(name) for name in names])


def convert_parts(
    model_type: str, layers: Mapping[str, Sequence[str]], *, has_biases: bool = False
) -> None:
    """Let transformers convert the checkpoints of a type of models.

    Args:
        model_type: The type.
        layers: The ends of the published names of layers, by the end of the joint layer's name.
        has_biases: Whether the layers have biases.
    """
    from transformers.conversion_mapping import register_checkpoint_conversion_mapping
    from transformers.core_model_loading import Concatenate, WeightConverter, WeightRenaming

    kinds = ("weight", "bias") if has_biases else ("weight",)
    converters: list[WeightConverter | WeightRenaming] = [
        WeightConverter(
            [f"{part}.{kind}" for part in parts], f"{joint}.{kind}", operations=[Concatenate(0)]
        )
        for joint, parts in layers.items()
        for kind in kinds
    ]
    register_checkpoint_conversion_mapping(model_type, converters)
