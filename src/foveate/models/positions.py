"""Longer tables of position embeddings, made by repeating those of a checkpoint."""

from typing import Any, TypeVar

import torch
from torch import nn
from transformers import PreTrainedModel

Model = TypeVar("Model", bound=PreTrainedModel)


def repeat_positions(model: Model, max_position_embeddings: int) -> Model:
    """Extend BERT's or RoBERTa's position embeddings by repeating them (VCC, 6.6.1).

    The first positions stay exactly as they are, and the rest start as copies of them, as in the
    Longformer that was made from RoBERTa.

    Args:
        model: A model with BERT's or RoBERTa's embeddings, which is changed in place.
        max_position_embeddings: Number of rows of the new table. RoBERTa numbers positions from
            `pad_token_id + 1`, so that 4,096 positions need 4,098 rows; only those of positions
            are repeated.

    Returns:
        The model.

    Raises:
        ValueError: The model has no such table, or it has more rows than that.

    Example:
        >>> import transformers
        >>> sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> config = transformers.RobertaConfig(**sizes, max_position_embeddings=514)
        >>> model = repeat_positions(transformers.RobertaModel(config), 4098)
        >>> model.embeddings.position_embeddings.weight.shape
        torch.Size([4098, 8])
    """
    embeddings: Any = getattr(model.base_model, "embeddings", None)
    table = getattr(embeddings, "position_embeddings", None)
    if not isinstance(table, nn.Embedding):
        raise ValueError(
            f"a {type(model).__name__} has no table of positions that can be repeated: choose a "
            "BERT or RoBERTa"
        )
    if max_position_embeddings < table.num_embeddings:
        raise ValueError(
            f"max_position_embeddings must be at least {table.num_embeddings:,}, the size of the "
            f"checkpoint's table, got {max_position_embeddings:,}"
        )
    first = 0 if table.padding_idx is None else table.padding_idx + 1
    size = table.num_embeddings - first
    positions = torch.arange(max_position_embeddings - first) % size + first
    rows = torch.cat([torch.arange(first), positions]).to(table.weight.device)
    embeddings.position_embeddings = nn.Embedding.from_pretrained(
        table.weight.detach()[rows],
        freeze=not table.weight.requires_grad,
        padding_idx=table.padding_idx,
    )
    # The embeddings' other buffers, for batches without position ids and token types.
    indices = torch.arange(max_position_embeddings, device=table.weight.device)[None]
    buffers = {"position_ids": indices, "token_type_ids": torch.zeros_like(indices)}
    for name in buffers.keys() & dict(embeddings.named_buffers()).keys():
        embeddings.register_buffer(name, buffers[name], persistent=False)
    model.config.max_position_embeddings = max_position_embeddings
    return model
