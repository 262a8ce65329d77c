"""Tree encoders with products in 8-bit floating point, for inference on recent GPUs."""

from typing import TypeVar

from torch import nn

from foveate.models.float8 import Float8Linear
from foveate.models.tree_bert_network import TreeBertEncoder
from foveate.ops.float8 import MULTIPLE

from .cuda_graphs import CapturableTreeEncoder

Model = TypeVar("Model", bound=nn.Module)


def use_float8(model: Model) -> Model:
    """Multiply by the weights of HDT or TreeBert in 8-bit floating point, faster but less exact.

    Every linear layer in the encoder's blocks is replaced by a `Float8Linear`. Weights are rounded
    once and hidden states before each product, rows by scales of their own; everything between
    products stays as it is. The model cannot be trained or saved any more, and is set to
    evaluation mode. It can only pay where products take the time: on a GPU of compute capability
    8.9 or later, with layers at least 768 wide and some ten thousand tokens in a batch. Elsewhere
    it is slower. `docs/numbers/hdt.md` has times and errors.

    Args:
        model: A model with an encoder of HDT or TreeBert, changed in place; on its device and in
            its dtype. Layers whose features are no multiples of 16 stay as they are.

    Returns:
        The model.

    Raises:
        ValueError: The model has no layer that can be replaced.

    Example:
        >>> from foveate.models.accelerate import use_float8
        >>> from foveate.models.hdt import HDTConfig, HDTModel
        >>> config = HDTConfig(vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=1)
        >>> type(use_float8(HDTModel(config)).encoder.block[0].layer[1].DenseReluDense.wi).__name__
        'Float8Linear'
    """
    kinds = (CapturableTreeEncoder, TreeBertEncoder)
    encoders = [module for module in model.modules() if isinstance(module, kinds)]
    parents = {parent: None for encoder in encoders for parent in encoder.modules()}
    layers = [
        (parent, name, layer)
        for parent in parents
        for name, layer in parent.named_children()
        if type(layer) is nn.Linear and not any(size % MULTIPLE for size in layer.weight.shape)
    ]
    if not layers:
        raise ValueError(
            f"there is no linear layer of HDT or TreeBert in a {type(model).__name__}, at least "
            f"none whose numbers of features are multiples of {MULTIPLE}; on a CPU an Encoder has "
            "replaced them already"
        )
    for parent, name, layer in layers:
        setattr(parent, name, Float8Linear(layer))
    return model.eval().requires_grad_(False)
