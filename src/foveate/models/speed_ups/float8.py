"""Tree encoders with linear layers in 8-bit floating point, for inference on recent GPUs."""

from typing import TypeVar

import torch
from torch import nn

from foveate.models.float8 import Float8Linear
from foveate.models.projections import lay_out_weights
from foveate.models.tree_bert_network import TreeBertEncoder
from foveate.ops.float8 import FEATURE_MULTIPLE

from .cuda_graphs import CapturableTreeEncoder

Model = TypeVar("Model", bound=nn.Module)


@torch.inference_mode(False)  # which could not lay out the weights that it made
def use_float8(model: Model) -> Model:
    """Run the linear layers of HDT or TreeBert in 8-bit floating point (FP8, e4m3).

    Every linear layer in the encoder's blocks is replaced by a `Float8Linear`. Weights are rounded
    once and hidden states before each product, each row with its own scale; everything between
    products stays as it is. The model cannot be trained, loaded or saved any more, and is set to
    evaluation mode. This saves time where matrix products take most of it, on a GPU of compute
    capability 8.9 or later, in wide models with many tokens in a batch; elsewhere it may be slower.
    `docs/numbers/hdt.md` has times and errors.

    Args:
        model: A model with an encoder of HDT or TreeBert, changed in place; with its weights, on
            its device and in its dtype. Layers whose features are not multiples of 16 are left
            unchanged, and so are those that are already replaced.

    Returns:
        The model.

    Raises:
        ValueError: The model has no layer that can be replaced.

    Example:
        >>> from foveate.models.speed_ups import use_float8
        >>> from foveate.models.hdt import HDTConfig, HDTModel
        >>> config = HDTConfig(vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=1)
        >>> type(use_float8(HDTModel(config)).encoder.block[0].layer[1].DenseReluDense.wi).__name__
        'Float8Linear'
    """
    kinds = (CapturableTreeEncoder, TreeBertEncoder)
    encoders = [module for module in model.modules() if isinstance(module, kinds)]
    for encoder in encoders:
        for parent in list(encoder.modules()):
            _replace_layers(parent)
        lay_out_weights(encoder)
    if not any(type(part) is Float8Linear for encoder in encoders for part in encoder.modules()):
        raise ValueError(
            f"there is no linear layer of HDT or TreeBert in a {type(model).__name__}, at least "
            f"none whose numbers of features are multiples of {FEATURE_MULTIPLE}; on a CPU an "
            "Encoder has replaced them with others"
        )
    return model.eval().requires_grad_(False)


def _replace_layers(parent: nn.Module) -> None:
    """Replace the linear layers that a module calls itself."""
    for name, layer in list(parent.named_children()):
        if type(layer) is nn.Linear and not any(n % FEATURE_MULTIPLE for n in layer.weight.shape):
            setattr(parent, name, Float8Linear(layer))
