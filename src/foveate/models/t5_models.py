"""What Fovea and VCC share: models built of T5's layers, with another attention in the encoder.

Inside the encoder, all sequences of a batch are packed: `(tokens, d_model)`.
"""

import copy
from typing import Any

from torch import Tensor, nn
from transformers import T5EncoderModel, T5ForConditionalGeneration
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.models.t5.modeling_t5 import (
    T5DenseActDense,
    T5DenseGatedActDense,
    T5LayerFF,
    T5LayerNorm,
    T5PreTrainedModel,
    T5Stack,
)

from foveate.models.speed_ups import speed_up
from foveate.models.speed_ups.patching import Patch, apply_patches
from foveate.models.speed_ups.t5_layers import (
    FusedT5DenseActDense,
    FusedT5DenseGatedActDense,
    RMSNorm,
)


class PreciseT5LayerNorm(RMSNorm, T5LayerNorm):
    """T5's norm, in float64 throughout in float64 models."""


T5_ENCODER_PATCHES = (
    Patch(T5LayerNorm, PreciseT5LayerNorm),
    Patch(T5DenseActDense, FusedT5DenseActDense),
    Patch(T5DenseGatedActDense, FusedT5DenseGatedActDense),
)
"""What the encoders swap in their own layers for good."""


class PackedSelfAttention(nn.Module):
    """x + dropout(attention(norm(x)))."""

    def __init__(self, config: Any, attention: nn.Module) -> None:
        super().__init__()
        self.SelfAttention = attention
        self.layer_norm = T5LayerNorm(config.d_model, eps=config.layer_norm_epsilon)
        self.dropout = nn.Dropout(config.dropout_rate)

    def forward(self, hidden_states: Tensor, *arguments: Any) -> tuple[Tensor, ...]:
        """Apply the layer to `(tokens, d_model)`; other outputs of the attention are returned."""
        attended, *others = self.SelfAttention(self.layer_norm(hidden_states), *arguments)
        return hidden_states + self.dropout(attended), *others


class PackedBlock(GradientCheckpointingLayer):
    """Attention, then feed-forward, each on normalized inputs."""

    def __init__(self, config: Any, attention: nn.Module) -> None:
        super().__init__()
        self.layer = nn.ModuleList([PackedSelfAttention(config, attention), T5LayerFF(config)])

    def forward(self, hidden_states: Tensor, *arguments: Any) -> tuple[Tensor, ...]:
        """Apply both layers, see `PackedSelfAttention.forward`."""
        hidden_states, *others = self.layer[0](hidden_states, *arguments)
        return self.layer[1](hidden_states), *others


class PackedT5Model(T5PreTrainedModel):
    """Base class of all models."""

    accepts_loss_kwargs = False  # the losses are means over a batch

    @classmethod
    def is_custom_code(cls) -> bool:
        """Return False, so that T5's initialization reaches the layers of this model."""
        return False


class PackedT5Encoder(nn.Module):
    """The base class of encoders, a mixin for a class with a `block` for each layer."""

    config: Any
    post_init: Any
    block_class: type[nn.Module]
    """Takes the configuration, and whether it is the first, which has the table of biases."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        config.check()  # from_pretrained sets fields after the configuration was validated
        self.embed_tokens: nn.Module = nn.Embedding(config.vocab_size, config.d_model)
        self.block = nn.ModuleList(
            self.block_class(config, layer_idx == 0) for layer_idx in range(config.num_layers)
        )
        self.final_layer_norm = T5LayerNorm(config.d_model, eps=config.layer_norm_epsilon)
        self.dropout = nn.Dropout(config.dropout_rate)
        apply_patches(self, T5_ENCODER_PATCHES)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """Return the token embeddings."""
        return self.embed_tokens

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the token embeddings."""
        self.embed_tokens = value


class PackedT5EncoderModel(T5EncoderModel):
    """The base class of models with an encoder alone."""

    _keys_to_ignore_on_load_unexpected = ["decoder", "lm_head"]  # noqa: RUF012
    encoder_class: Any
    encoder: Any

    def __init__(self, config: Any) -> None:
        config = copy.deepcopy(config)
        config.use_cache = config.is_encoder_decoder = False
        super(T5EncoderModel, self).__init__(config)  # skips its own, which builds T5
        self.shared = nn.Embedding(config.vocab_size, config.d_model)
        self.encoder = self.encoder_class(config)
        self.set_input_embeddings(self.shared)  # one module, whose hooks run wherever it is used
        self.post_init()


class PackedT5ForConditionalGeneration(T5ForConditionalGeneration):
    """The base class of models with T5's decoder, which is sped up."""

    encoder_class: Any
    encoder: Any
    decoder: Any

    def __init__(self, config: Any) -> None:
        super(T5ForConditionalGeneration, self).__init__(config)  # as above
        self.model_dim = config.d_model
        self.shared = nn.Embedding(config.vocab_size, config.d_model)
        encoder_config, decoder_config = copy.deepcopy(config), copy.deepcopy(config)
        encoder_config.use_cache = False
        decoder_config.is_decoder = True
        decoder_config.num_layers = config.num_decoder_layers or config.num_layers
        self.encoder = self.encoder_class(encoder_config)
        self.decoder = speed_up(T5Stack(decoder_config))
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.set_input_embeddings(self.shared)  # as above
        self.post_init()
