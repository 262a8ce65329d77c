"""Fovea: T5 whose encoder attends to nearby tokens one by one, and to averages of distant ones.

Inside the encoder, all sequences of a batch are packed: `(tokens, d_model)`.
"""

import warnings
from typing import Any

import torch
from torch import Tensor, nn
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutput, SequenceClassifierOutput
from transformers.models.t5.modeling_t5 import T5ClassificationHead
from transformers.utils.generic import can_return_tuple

from foveate.models.joint_layers import convert_parts, load_parts
from foveate.models.packing import PackedSequences
from foveate.models.speed_ups.cuda_graphs import CapturableEncoder
from foveate.models.speed_ups.t5_layers import bias_table
from foveate.models.t5_models import (
    PackedBlock,
    PackedT5Encoder,
    PackedT5EncoderModel,
    PackedT5ForConditionalGeneration,
    PackedT5Model,
)
from foveate.ops.fovea_attention import fovea_attention

from .configuration_fovea import FoveaConfig

_LONGT5_NAMES = {r"\.(Local|TransientGlobal)SelfAttention\.": ".SelfAttention."}


class FoveaAttention(nn.Module):
    """Fovea attention with T5's projections; no biases."""

    def __init__(self, config: FoveaConfig, has_relative_attention_bias: bool) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        inner = config.num_heads * config.d_kv
        self.q = nn.Linear(config.d_model, inner, bias=False)
        self.kv = nn.Linear(config.d_model, 2 * inner, bias=False)
        load_parts(self, "kv", ("k", "v"))
        self.o = nn.Linear(inner, config.d_model, bias=False)
        self.num_buckets = config.relative_attention_num_buckets
        if has_relative_attention_bias:
            self.relative_attention_bias = nn.Embedding(self.num_buckets, config.num_heads)
        self.max_distance = config.relative_attention_max_distance
        self.block_size = config.block_size
        self.k_neighbours = config.k_neighbours
        self.coverage = config.coverage
        self.size_bias = config.size_bias
        self.stop_level = config.stop_level

    def forward(
        self, hidden_states: Tensor, bias: Tensor | None, lengths: list[int]
    ) -> tuple[Tensor, Tensor]:
        """Let every token attend to its own sequence, fine to coarse.

        Args:
            hidden_states: `(tokens, d_model)`, sequence after sequence.
            bias: `(num_buckets, heads)`, the biases of block 0; None in block 0.
            lengths: Number of tokens of each sequence.

        Returns:
            The output `(tokens, d_model)`, and the biases.
        """
        q = self.q(hidden_states).unflatten(-1, (self.num_heads, -1))
        k, v = self.kv(hidden_states).unflatten(-1, (2, self.num_heads, -1)).unbind(-3)
        if bias is None:
            bias = bias_table(self.relative_attention_bias, self.num_buckets, q.device)
        attended = fovea_attention(
            q,
            k,
            v,
            block_size=self.block_size,
            k_neighbours=self.k_neighbours,
            coverage=self.coverage,
            bias=bias,
            lengths=lengths,
            max_distance=self.max_distance,
            size_bias=self.size_bias,
            stop_level=self.stop_level,
        )
        return self.o(attended.flatten(1)), bias


class FoveaBlock(PackedBlock):
    """A block, see `FoveaAttention.forward`; block 0 returns the biases of all."""

    def __init__(self, config: FoveaConfig, has_relative_attention_bias: bool) -> None:
        super().__init__(config, FoveaAttention(config, has_relative_attention_bias))


convert_parts(
    FoveaConfig.model_type,
    {"layer.0.SelfAttention.kv": ("layer.0.SelfAttention.k", "layer.0.SelfAttention.v")},
)


class FoveaPreTrainedModel(PackedT5Model):
    """Base class of all Fovea models."""

    config_class = FoveaConfig
    _no_split_modules = ["FoveaBlock", "T5Block"]  # noqa: RUF012

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, FoveaAttention):  # as T5's
            factor, size = self.config.initializer_factor, self.config.d_model
            init.normal_(module.q.weight, std=factor * (size * self.config.d_kv) ** -0.5)
            init.normal_(module.kv.weight, std=factor * size**-0.5)
            init.normal_(module.o.weight, std=factor * module.o.in_features**-0.5)
            if hasattr(module, "relative_attention_bias"):
                init.normal_(module.relative_attention_bias.weight, std=factor * size**-0.5)
        else:
            super()._init_weights(module)

    @classmethod
    def from_pretrained(
        cls,
        *args: Any,
        key_mapping: dict[str, str] | None = None,
        output_loading_info: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Load a checkpoint of Fovea, T5 or LongT5, from a folder or the hub.

        All parameters of Fovea are among theirs. Those of LongT5's global attention are dropped,
        which is logged.

        Args:
            args: See `PreTrainedModel.from_pretrained`.
            key_mapping: See there.
            output_loading_info: See there.
            kwargs: See there; `block_size`, `k_neighbours` and `coverage` override the
                configuration.

        Warns:
            UserWarning: Parameters that the checkpoint lacks are random.
        """
        loaded: Any = super().from_pretrained(
            *args,
            key_mapping=_LONGT5_NAMES | (key_mapping or {}),
            output_loading_info=True,
            **kwargs,
        )
        model, info = loaded
        model._weight_conversions = None  # else save_pretrained would use LongT5's names
        if missing := sorted(info["missing_keys"]):
            warnings.warn(
                f"the checkpoint lacks {len(missing)} parameters of {cls.__name__}, which are "
                f"random: {missing[0]}" + (", ..." if len(missing) > 1 else ""),
                stacklevel=2,
            )
        return (model, info) if output_loading_info else model


class FoveaEncoder(PackedT5Encoder, CapturableEncoder, FoveaPreTrainedModel):
    """The blocks, on packed tokens."""

    block_class = FoveaBlock

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        **kwargs: Any,
    ) -> BaseModelOutput:
        """Encode sequences; see `FoveaEncoderModel`."""
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds")
        if output_attentions or (output_attentions is None and self.config.output_attentions):
            warnings.warn(
                "Fovea's encoder never materializes attention weights: it returns none",
                stacklevel=2,
            )
        if output_hidden_states is None:
            output_hidden_states = bool(self.config.output_hidden_states)
        tokens = inputs_embeds if input_ids is None else input_ids
        assert tokens is not None
        states: list[Tensor] | None = [] if output_hidden_states else None
        like: Any = self.embed_tokens.weight
        num_elements = tokens.shape[0] * tokens.shape[1] * like.shape[1]
        run_layers, _ = self.layer_runner(like, num_elements, states)
        packed = PackedSequences.from_mask(attention_mask, (tokens.shape[0], tokens.shape[1]))
        # The embeddings have no name here, so that they can be freed after the first block.
        hidden_states = run_layers(
            self.dropout(
                packed.embed(self.embed_tokens, tokens)
                if inputs_embeds is None
                else packed.pack(tokens)
            ),
            packed.lengths,
            states,
        )
        last = packed.unpack(self.dropout(self.final_layer_norm(hidden_states)))
        return BaseModelOutput(
            last_hidden_state=last,
            hidden_states=None if states is None else (*map(packed.unpack, states), last),
        )

    def run_layers(
        self, hidden_states: Tensor, layout: Any, all_hidden_states: list[Tensor] | None = None
    ) -> Tensor:
        """Apply all blocks to packed tokens; the layout is the lengths of the sequences."""
        bias = None
        for block in self.block:
            if all_hidden_states is not None:
                all_hidden_states.append(hidden_states)
            hidden_states, bias = block(hidden_states, bias, layout)
        return hidden_states


class FoveaEncoderModel(FoveaPreTrainedModel, PackedT5EncoderModel):
    """The Fovea encoder, called like `transformers.T5EncoderModel`.

    Batches are packed: padding, wherever `attention_mask` has it, is dropped at the input, and is
    zero in `last_hidden_state` `(batch, length, d_model)` and `hidden_states`. The output of a
    sequence depends neither on padding nor on the other sequences of the batch.

    Example:
        >>> import torch
        >>> from foveate.models.fovea import FoveaConfig, FoveaEncoderModel
        >>> config = FoveaConfig(vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=2)
        >>> model = FoveaEncoderModel(config).eval()
        >>> model(torch.arange(40)[None]).last_hidden_state.shape
        torch.Size([1, 40, 16])
    """

    encoder_class = FoveaEncoder


class FoveaForConditionalGeneration(FoveaPreTrainedModel, PackedT5ForConditionalGeneration):
    """Fovea with T5's decoder, called and trained like `transformers.T5ForConditionalGeneration`.

    See `FoveaEncoderModel` for the encoder. The decoder is sped up.

    Example:
        >>> import torch
        >>> from foveate.models.fovea import FoveaConfig, FoveaForConditionalGeneration
        >>> config = FoveaConfig(
        ...     vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=2, decoder_start_token_id=0
        ... )
        >>> model = FoveaForConditionalGeneration(config).eval()
        >>> model.generate(torch.arange(40)[None], max_new_tokens=5, min_new_tokens=5).shape
        torch.Size([1, 6])
    """

    encoder_class = FoveaEncoder


class FoveaForSequenceClassification(FoveaPreTrainedModel, PackedT5EncoderModel):
    """The Fovea encoder with T5's classification head on the mean of a sequence's tokens.

    Example:
        >>> import torch
        >>> from foveate.models.fovea import FoveaConfig, FoveaForSequenceClassification
        >>> config = FoveaConfig(vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_labels=3)
        >>> model = FoveaForSequenceClassification(config).eval()
        >>> model(torch.arange(40)[None]).logits.shape
        torch.Size([1, 3])
    """

    encoder_class = FoveaEncoder

    def __init__(self, config: FoveaConfig) -> None:
        super().__init__(config)
        self.classification_head = T5ClassificationHead(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput:
        """Classify sequences.

        Args:
            input_ids: `(batch, length)` int64.
            attention_mask: `(batch, length)`, 0 at padding, which may be anywhere and is dropped.
            inputs_embeds: `(batch, length, d_model)`, in place of `input_ids`.
            labels: `(batch,)` int64 for exclusive labels, `(batch, num_labels)` floats 0 or 1 for
                independent ones, `(batch,)` floats for a number. `config.problem_type` says
                which; the first labels set it.
            kwargs: Other arguments of `FoveaEncoderModel.forward`.

        Returns:
            `logits` `(batch, num_labels)` and, with labels, the `loss`.
        """
        encoded = self.encoder(
            input_ids, attention_mask, inputs_embeds, **{**kwargs, "return_dict": True}
        )
        total = encoded.last_hidden_state.sum(1)  # padding is zero
        if attention_mask is None:
            count: Any = encoded.last_hidden_state.shape[1]
        else:
            count = attention_mask.bool().sum(1, keepdim=True)
        logits = self.classification_head(total / count)
        loss = None
        if labels is not None:
            loss = self.loss_function(labels=labels, pooled_logits=logits, config=self.config)
        return SequenceClassifierOutput(
            loss=loss, logits=logits, hidden_states=encoded.hidden_states
        )
