"""T5 with VIP compression in its encoder (VCC)."""

import copy
from typing import Any

import torch
from torch import Tensor, nn
from transformers import T5EncoderModel, T5ForConditionalGeneration
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.models.t5.modeling_t5 import T5Attention, T5Stack

from foveate.models.accelerate import accelerate
from foveate.models.accelerate.t5_layers import DerivedT5Model, FusedRMSNorm, FusedT5LayerFF
from foveate.ops.relative_attention import relative_attention
from foveate.ops.vip_compression import CandidateSegments, CompressionLayout, vip_scores

from .configuration import VccT5Config
from .cross import compress_cross_attention
from .encoding import Batch, Bias, Sight, Trace, VccEncoderOutput, encode, refuse


class VccT5Attention(T5Attention):
    """Attention of packed rows with T5's projections."""

    def forward(  # type: ignore[override]
        self, rows: Tensor, table: Tensor, sight: Sight
    ) -> Tensor:
        """Let rows `(rows, d_model)` attend what they see, biased by `(num_buckets, heads)`."""
        q, k, v = (self._heads(projection, rows) for projection in (self.q, self.k, self.v))
        attended = relative_attention(
            *(q, k, v),
            bias=table,
            q_positions=sight.positions,
            k_positions=sight.positions,
            q_lengths=sight.lengths,
            key_bias=sight.key_bias,
            max_distance=self.relative_attention_max_distance,
        )
        return self.o(attended.flatten(1))

    def vip_scores(
        self,
        vips: Tensor,
        means: Tensor,
        layout: CompressionLayout,
        bias: Bias,
        candidates: CandidateSegments,
    ) -> Tensor:
        """Say how much normalized VIP tokens attend to the candidates' normalized means."""
        q, k = self._heads(self.q, vips), self._heads(self.k, means)
        return vip_scores(q, k, layout, candidates, bias=bias.by_distance)

    def _heads(self, projection: nn.Module, rows: Tensor) -> Tensor:
        return projection(rows).unflatten(-1, (self.n_heads, -1))


class VccT5SelfAttentionLayer(nn.Module):
    """rows + dropout(attention(norm(rows)))."""

    def __init__(self, config: VccT5Config, has_relative_attention_bias: bool) -> None:
        super().__init__()
        self.SelfAttention = VccT5Attention(config, has_relative_attention_bias)
        self.layer_norm = FusedRMSNorm(config.d_model, eps=config.layer_norm_epsilon)
        self.dropout = nn.Dropout(config.dropout_rate)

    def forward(self, rows: Tensor, table: Tensor, sight: Sight) -> Tensor:
        """Add what attention gathers."""
        return rows + self.dropout(self.SelfAttention(self.layer_norm(rows), table, sight))


class VccT5Block(GradientCheckpointingLayer):
    """Attention, then feed-forward, each on normalized rows."""

    def __init__(self, config: VccT5Config, has_relative_attention_bias: bool) -> None:
        super().__init__()
        attention = VccT5SelfAttentionLayer(config, has_relative_attention_bias)
        self.layer = nn.ModuleList([attention, FusedT5LayerFF(config)])

    def forward(self, rows: Tensor, table: Tensor, sight: Sight) -> Tensor:
        """Apply both layers."""
        return self.layer[1](self.layer[0](rows, table, sight))

    def vip_scores(
        self, vips: Tensor, layout: CompressionLayout, bias: Bias, candidates: CandidateSegments
    ) -> Tensor:
        """Score the candidates by this block's attention."""
        attention: Any = self.layer[0]
        norm = attention.layer_norm
        means = candidates.means.to(vips.dtype)
        return attention.SelfAttention.vip_scores(norm(vips), norm(means), layout, bias, candidates)


class VccT5PreTrainedModel(DerivedT5Model):
    """What all VCC T5 models share."""

    config_class = VccT5Config
    _no_split_modules = ["VccT5Block", "T5Block"]  # noqa: RUF012


class VccT5Encoder(VccT5PreTrainedModel):
    """The blocks, on packed rows."""

    config: Any
    block: Any

    def __init__(self, config: VccT5Config) -> None:
        config.check()  # fields may have been set since
        super().__init__(config)
        self.embed_tokens: nn.Module = nn.Embedding(config.vocab_size, config.d_model)
        self.block = nn.ModuleList(
            VccT5Block(config, has_relative_attention_bias=i == 0) for i in range(config.num_layers)
        )
        self.final_layer_norm = FusedRMSNorm(config.d_model, eps=config.layer_norm_epsilon)
        self.dropout = nn.Dropout(config.dropout_rate)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        vip_mask: Tensor | None = None,
        output_hidden_states: bool | None = None,
        output_vip_scores: bool = False,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> VccEncoderOutput | tuple[Tensor, ...]:
        """Encode sequences; see `VccT5EncoderModel.forward`."""
        refuse(self.config, kwargs)
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds")
        tokens = inputs_embeds if input_ids is None else input_ids
        assert tokens is not None
        shape = (tokens.shape[0], tokens.shape[1])
        batch = Batch.of(attention_mask, vip_mask, shape, self.config, tokens.device)
        rows = batch.packed.pack(tokens)
        rows = self.dropout(self.embed_tokens(rows) if inputs_embeds is None else rows)
        trace = Trace.of(self.config, output_hidden_states, output_vip_scores)
        rows = encode(
            rows,
            batch,
            list(self.block),
            self.config.num_segment_layers,
            self._bias(),
            explore=self.training,
            trace=trace,
        )
        rows = self.dropout(self.final_layer_norm(rows))
        output = trace.output(batch.packed, rows)
        as_dict = self.config.return_dict if return_dict is None else return_dict
        return output if as_dict else output.to_tuple()

    def _bias(self) -> Bias:
        """The biases of block 0, for all."""
        attention = self.block[0].layer[0].SelfAttention
        buckets = torch.arange(self.config.relative_attention_num_buckets, device=self.device)
        # A copy, by the module's own forward: one that is sharded gathers it by a hook.
        table = attention.relative_attention_bias(buckets)
        return Bias.of(table, self.config.relative_attention_max_distance)

    def get_input_embeddings(self) -> nn.Module:
        """Return the token embeddings."""
        return self.embed_tokens

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the token embeddings."""
        self.embed_tokens = value


class VccT5EncoderModel(VccT5PreTrainedModel, T5EncoderModel):
    """The VCC T5 encoder; loads any T5 folder.

    Example:
        >>> import torch
        >>> from foveate import VccT5Config, VccT5EncoderModel
        >>> config = VccT5Config(vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_fine_blocks=2)
        >>> model = VccT5EncoderModel(config).eval()
        >>> ids = torch.arange(1000)[None] % 50
        >>> question = torch.arange(1000)[None] < 9
        >>> model(ids, vip_mask=question).last_hidden_state.shape
        torch.Size([1, 1000, 16])
    """

    _keys_to_ignore_on_load_unexpected = ["decoder", "lm_head"]  # noqa: RUF012

    encoder: Any

    def __init__(self, config: VccT5Config) -> None:
        config = copy.deepcopy(config)
        config.use_cache = config.is_encoder_decoder = False
        super(T5EncoderModel, self).__init__(config)
        self.shared = nn.Embedding(config.vocab_size, config.d_model)
        self.encoder = VccT5Encoder(config)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        vip_mask: Tensor | None = None,
        **kwargs: Any,
    ) -> VccEncoderOutput | tuple[Tensor, ...]:
        """Encode sequences.

        Args:
            input_ids: `(batch, length)` int64.
            attention_mask: `(batch, length)`, 0 at padding, which may be anywhere and is dropped.
            inputs_embeds: `(batch, length, d_model)`, where `input_ids` is None.
            vip_mask: `(batch, length)`, not 0 at VIP tokens, at least one in each sequence. By
                default the first token of each is one.
            kwargs: `output_hidden_states`, `output_vip_scores`, `return_dict`.

        Raises:
            TypeError: another argument.
            ValueError: neither or both of ids and embeddings, masks of another shape, a sequence
                without VIP token, or attention weights are asked for.
        """
        return self.encoder(input_ids, attention_mask, inputs_embeds, vip_mask, **kwargs)


class VccT5ForConditionalGeneration(VccT5PreTrainedModel, T5ForConditionalGeneration):
    """T5 with the VCC encoder; loads any T5 folder, and is called and trained as T5 is.

    Example:
        >>> import torch
        >>> from foveate import VccT5Config, VccT5ForConditionalGeneration
        >>> config = VccT5Config(
        ...     vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=2, decoder_start_token_id=0
        ... )
        >>> model = VccT5ForConditionalGeneration(config).eval()
        >>> ids = torch.arange(1000)[None] % 50
        >>> question = torch.arange(1000)[None] < 9
        >>> model.generate(ids, vip_mask=question, max_new_tokens=5, min_new_tokens=5).shape
        torch.Size([1, 6])
    """

    encoder: Any
    decoder: Any

    def __init__(self, config: VccT5Config) -> None:
        super(T5ForConditionalGeneration, self).__init__(config)
        self.model_dim = config.d_model
        self.shared = nn.Embedding(config.vocab_size, config.d_model)
        of_encoder: Any = copy.deepcopy(config)
        of_decoder: Any = copy.deepcopy(config)
        of_encoder.use_cache = False
        of_decoder.is_decoder = True
        of_decoder.num_layers = config.num_decoder_layers
        self.encoder = VccT5Encoder(of_encoder)
        self.decoder = accelerate(T5Stack(of_decoder))
        if config.compress_cross_attention:
            compress_cross_attention(self.decoder)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: Any = None,
        past_key_values: Any = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        vip_mask: Tensor | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Score or generate, as `transformers.T5ForConditionalGeneration.forward`.

        Args:
            input_ids: as of `VccT5EncoderModel.forward`.
            attention_mask: likewise.
            decoder_input_ids: `(batch, targets)` int64; by default the labels, shifted.
            decoder_attention_mask: `(batch, targets)`, 0 at padding.
            encoder_outputs: of the encoder, in place of what it reads.
            past_key_values: the decoder's cache.
            inputs_embeds: as of `VccT5EncoderModel.forward`.
            decoder_inputs_embeds: `(batch, targets, d_model)`, in place of ids.
            labels: `(batch, targets)` int64, -100 where there is no loss.
            use_cache: whether to return a cache.
            vip_mask: as of `VccT5EncoderModel.forward`.
            output_hidden_states: also return the rows before every layer.
            return_dict: False for a tuple.
            kwargs: what `generate` passes on, which must be None or False.

        Raises:
            TypeError: another argument.
            ValueError: as of `VccT5EncoderModel.forward`.
        """
        refuse(self.config, kwargs)
        if encoder_outputs is None:
            encoder_outputs = self.encoder(
                input_ids,
                attention_mask,
                inputs_embeds,
                vip_mask,
                output_hidden_states=output_hidden_states,
                return_dict=True,
            )
        return super().forward(
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            encoder_outputs=encoder_outputs,
            past_key_values=past_key_values,
            decoder_inputs_embeds=decoder_inputs_embeds,
            labels=labels,
            use_cache=use_cache,
            output_hidden_states=output_hidden_states,
            return_dict=return_dict,
        )
