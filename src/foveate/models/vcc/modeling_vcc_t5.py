"""T5 with VIP compression in its encoder (VCC)."""

from typing import Any, cast

import torch
from torch import Tensor
from transformers import GenerationMixin
from transformers.models.t5.modeling_t5 import T5Attention
from transformers.utils.generic import can_return_tuple

from foveate.models.packing import PackedSequences
from foveate.models.projections import project_heads
from foveate.models.speed_ups.t5_layers import bias_table
from foveate.models.t5_models import (
    PackedBlock,
    PackedT5Encoder,
    PackedT5EncoderModel,
    PackedT5ForConditionalGeneration,
    PackedT5Model,
)
from foveate.ops.relative_attention import relative_attention
from foveate.ops.vip_compression import CandidateSegments, CompressionLayout, vip_scores

from .configuration_vcc import VccT5Config
from .modeling_vcc_shared import (
    AttentionInputs,
    CapturableVccEncoder,
    RecordedStates,
    RelativePositionBias,
    VccEncoderOutput,
    VccLayout,
    reject_unsupported,
)


class VccT5Attention(T5Attention):
    """Attention of packed tokens with T5's projections."""

    def forward(  # type: ignore[override] # takes packed tokens, and lengths in place of a mask
        self,
        hidden_states: Tensor,
        table: Tensor,
        inputs: AttentionInputs,
        key_bias: Tensor | None,
    ) -> tuple[Tensor]:
        """Attend `(tokens, d_model)`, with the biases `(num_buckets, heads)`."""
        q, k, v = project_heads(hidden_states, self.n_heads, self.q, self.k, self.v)
        attended = relative_attention(
            q,
            k,
            v,
            bias=table,
            q_positions=inputs.positions,
            k_positions=inputs.positions,
            q_lengths=inputs.lengths,
            key_bias=key_bias,
            max_distance=self.relative_attention_max_distance,
        )
        return (self.o(attended.flatten(1)),)

    def vip_scores(
        self,
        vips: Tensor,
        means: Tensor,
        layout: CompressionLayout,
        bias: RelativePositionBias,
        candidates: CandidateSegments,
    ) -> Tensor:
        """Score how much normalized VIP tokens attend to the candidates' normalized means."""
        (q,) = project_heads(vips, self.n_heads, self.q)
        (k,) = project_heads(means, self.n_heads, self.k)
        return vip_scores(q, k, layout, candidates, bias=bias.by_distance)


class VccT5Block(PackedBlock):
    """A block, see `VccT5Attention.forward`."""

    def __init__(self, config: VccT5Config, has_relative_attention_bias: bool) -> None:
        super().__init__(config, VccT5Attention(config, has_relative_attention_bias))

    def forward(self, hidden_states: Tensor, *arguments: Any) -> Tensor:  # type: ignore[override] # returns one output
        """Apply both layers."""
        (output,) = super().forward(hidden_states, *arguments)
        return output

    def vip_scores(
        self,
        vips: Tensor,
        layout: CompressionLayout,
        bias: RelativePositionBias,
        candidates: CandidateSegments,
    ) -> Tensor:
        """Score the candidates by this block's attention."""
        layer: Any = self.layer[0]
        means = layer.layer_norm(candidates.means.to(vips.dtype))
        scores: Tensor = layer.SelfAttention.vip_scores(
            layer.layer_norm(vips), means, layout, bias, candidates
        )
        return scores


class VccT5PreTrainedModel(PackedT5Model):
    """Base class of all VCC T5 models."""

    config_class = VccT5Config
    _no_split_modules = ["VccT5Block", "T5Block"]  # noqa: RUF012


class VccT5Encoder(PackedT5Encoder, CapturableVccEncoder, VccT5PreTrainedModel):
    """The blocks, on packed tokens."""

    block_class = VccT5Block
    block: Any

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        vip_mask: Tensor | None = None,
        output_hidden_states: bool | None = None,
        output_vip_scores: bool = False,
        **kwargs: Any,
    ) -> VccEncoderOutput:
        """Encode sequences; see `VccT5EncoderModel.forward`."""
        reject_unsupported(self.config, kwargs)
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds")
        tokens = inputs_embeds if input_ids is None else input_ids
        assert tokens is not None
        shape = (tokens.shape[0], tokens.shape[1])
        packed = PackedSequences.from_mask(attention_mask, shape)
        layout = VccLayout.from_mask(packed, vip_mask, self.config)
        if inputs_embeds is None:
            hidden_states = packed.embed(self.embed_tokens, tokens)
        else:
            hidden_states = packed.pack(tokens)
        recorded = RecordedStates.from_request(self.config, output_hidden_states, output_vip_scores)
        hidden_states = self.run(self.dropout(hidden_states), layout, recorded)
        hidden_states = self.dropout(self.final_layer_norm(hidden_states))
        return recorded.to_output(packed, hidden_states)

    @property
    def packed_layers(self) -> list[Any]:
        """The blocks, which take packed tokens."""
        return list(self.block)

    def relative_position_bias(self, device: torch.device) -> RelativePositionBias:
        """Look up the biases of block 0, for all blocks."""
        attention = self.block[0].layer[0].SelfAttention
        table = bias_table(
            attention.relative_attention_bias, self.config.relative_attention_num_buckets, device
        )
        max_distance = self.config.relative_attention_max_distance
        return RelativePositionBias.from_table(table, max_distance)


class VccT5EncoderModel(VccT5PreTrainedModel, PackedT5EncoderModel):
    """The VCC T5 encoder; loads any T5 checkpoint.

    Example:
        >>> import torch
        >>> from foveate.models.vcc import VccT5Config, VccT5EncoderModel
        >>> config = VccT5Config(vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_fine_blocks=2)
        >>> model = VccT5EncoderModel(config).eval()
        >>> ids = torch.arange(1000)[None] % 50
        >>> question = torch.arange(1000)[None] < 9
        >>> model(ids, vip_mask=question).last_hidden_state.shape
        torch.Size([1, 1000, 16])
    """

    encoder_class = VccT5Encoder

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
            inputs_embeds: `(batch, length, d_model)`, in place of `input_ids`.
            vip_mask: `(batch, length)`, not 0 at VIP tokens, at least one in each sequence. By
                default the first token of each sequence.
            kwargs: `output_hidden_states`, `output_vip_scores`, `return_dict`.

        Raises:
            ValueError: There are neither or both of ids and embeddings, a mask has another shape, a
                sequence has no VIP token, or attention weights are requested.
        """
        output: VccEncoderOutput | tuple[Tensor, ...] = self.encoder(
            input_ids, attention_mask, inputs_embeds, vip_mask, **kwargs
        )
        return output


class VccT5ForConditionalGeneration(VccT5PreTrainedModel, PackedT5ForConditionalGeneration):
    """T5 with the VCC encoder; loads any T5 checkpoint, and is called and trained like T5.

    Example:
        >>> import torch
        >>> from foveate.models.vcc import VccT5Config, VccT5ForConditionalGeneration
        >>> config = VccT5Config(
        ...     vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=2, decoder_start_token_id=0
        ... )
        >>> model = VccT5ForConditionalGeneration(config).eval()
        >>> ids = torch.arange(1000)[None] % 50
        >>> question = torch.arange(1000)[None] < 9
        >>> model.generate(ids, vip_mask=question, max_new_tokens=5, min_new_tokens=5).shape
        torch.Size([1, 6])
    """

    encoder_class = VccT5Encoder

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: Any = None,
        *,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        vip_mask: Tensor | None = None,
        output_hidden_states: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Predict the next token after every token of the target.

        Args:
            input_ids: See `VccT5EncoderModel.forward`.
            attention_mask: See `VccT5EncoderModel.forward`.
            decoder_input_ids: `(batch, targets)` int64; by default the labels, shifted.
            decoder_attention_mask: `(batch, targets)`, 0 at padding.
            encoder_outputs: The encoder's output, in place of its inputs.
            inputs_embeds: See `VccT5EncoderModel.forward`.
            labels: `(batch, targets)` int64, -100 where there is no loss.
            vip_mask: See `VccT5EncoderModel.forward`.
            output_hidden_states: Whether to return the input of every layer too.
            kwargs: Other arguments of `transformers.T5ForConditionalGeneration.forward`.

        Returns:
            See `transformers.T5ForConditionalGeneration.forward`.

        Raises:
            ValueError: See `VccT5EncoderModel.forward`.
        """
        reject_unsupported(self.config, kwargs)
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
            labels=labels,
            output_hidden_states=output_hidden_states,
            **kwargs,
        )

    def generate(self, *args: Any, labels: Tensor | None = None, **kwargs: Any) -> Any:
        """Generate text, see `GenerationMixin.generate`.

        Args:
            args: See there.
            labels: Ignored; `Seq2SeqTrainer` passes a whole batch.
            kwargs: Among others, those of `VccT5EncoderModel.forward`.
        """
        return GenerationMixin.generate(cast(Any, self), *args, **kwargs)
