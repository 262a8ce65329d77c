"""BERT and RoBERTa with VIP compression (VCC): those of transformers, their layers changed.

A module becomes one of VCC by a change of class: parameters, names and initialization stay.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    BertForMaskedLM,
    BertForMultipleChoice,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertModel,
    RobertaForMaskedLM,
    RobertaForMultipleChoice,
    RobertaForQuestionAnswering,
    RobertaForSequenceClassification,
    RobertaModel,
)
from transformers.models.bert.modeling_bert import BertLayer
from transformers.models.roberta.modeling_roberta import RobertaClassificationHead, RobertaLayer

from foveate.ops.relative_attention import relative_attention
from foveate.ops.vip_compression import CandidateSegments, CompressionLayout, vip_scores

from .configuration import VccBertConfig, VccRobertaConfig
from .encoding import Batch, Sight, Trace, VccEncoderOutput, encode, refuse


class _Layer(nn.Module):
    """A layer of BERT or RoBERTa on packed rows."""

    attention: Any
    intermediate: Any
    output: Any

    def forward(self, rows: Tensor, table: None, sight: Sight) -> Tensor:
        """Turn rows `(rows, d)` into the next layer's; BERT has no table of biases."""
        own = self.attention.self
        attended = relative_attention(
            *(self._heads(projection, rows) for projection in (own.query, own.key, own.value)),
            q_lengths=sight.lengths,
            key_bias=sight.key_bias,
            scale=own.attention_head_size**-0.5,
        )
        attended = self.attention.output(attended.flatten(1), rows)
        return self.output(self.intermediate(attended), attended)

    def vip_scores(
        self, vips: Tensor, layout: CompressionLayout, bias: None, candidates: CandidateSegments
    ) -> Tensor:
        """Score the candidates by this layer's attention."""
        own = self.attention.self
        q = self._heads(own.query, vips)
        k = self._heads(own.key, candidates.means.to(vips.dtype))
        return vip_scores(q, k, layout, candidates, scale=own.attention_head_size**-0.5)

    def _heads(self, projection: nn.Module, rows: Tensor) -> Tensor:
        return projection(rows).unflatten(-1, (-1, self.attention.self.attention_head_size))


class VccBertLayer(_Layer, BertLayer):  # type: ignore[misc] # forward takes packed rows
    """A layer of BERT on packed rows."""


class VccRobertaLayer(_Layer, RobertaLayer):  # type: ignore[misc] # as above
    """A layer of RoBERTa on packed rows."""


class _Compressed(nn.Module):
    """A model whose encoder is, or contains, one of VCC."""

    accepts_loss_kwargs = False  # losses are means, which Trainer divides by the steps it gathers

    def __init__(self, config: Any, *args: Any, **kwargs: Any) -> None:
        config.check()  # fields may have been set since
        super().__init__(config, *args, **kwargs)
        for module in self.modules():
            module.__class__ = _VCC.get(type(module), type(module))


class _Encoder(_Compressed):
    """The encoder; `first_position` is where its table of positions begins."""

    first_position = 0
    config: Any
    embeddings: Any
    encoder: Any
    pooler: Any
    training: bool

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        vip_mask: Tensor | None = None,
        output_hidden_states: bool | None = None,
        output_vip_scores: bool = False,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> VccEncoderOutput | tuple[Tensor, ...]:
        """Encode sequences.

        Args:
            input_ids: `(batch, length)` int64.
            attention_mask: `(batch, length)`, 0 at padding, which may be anywhere and is dropped.
            token_type_ids: `(batch, length)` int64.
            position_ids: `(batch, length)` int64; by default those of the checkpoint's table, which
                begins again where it ends (VCC, 6.6.1).
            inputs_embeds: `(batch, length, d)`, where `input_ids` is None.
            vip_mask: `(batch, length)`, not 0 at VIP tokens, at least one in each sequence; in
                multiple choice, as the ids there, `(batch, choices, length)`. By default the first
                token of each is one, which is CLS.
            output_hidden_states: also return the rows before every layer.
            output_vip_scores: also return what was looked at closely.
            return_dict: False for a tuple.
            kwargs: what decoders take, and the heads of transformers pass on, which must be None.

        Raises:
            TypeError: another argument.
            ValueError: neither or both of ids and embeddings, masks of another shape, a sequence
                without VIP token, or attention weights are asked for.
        """
        refuse(self.config, kwargs)
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds")
        tokens = inputs_embeds if input_ids is None else input_ids
        assert tokens is not None
        if vip_mask is not None and vip_mask.dim() == 3:
            vip_mask = vip_mask.flatten(0, 1)
        shape = (tokens.shape[0], tokens.shape[1])
        batch = Batch.of(attention_mask, vip_mask, shape, self.config, tokens.device)

        def packed(padded: Tensor | None) -> Tensor | None:
            return None if padded is None else batch.packed.pack(padded)[None]

        (rows,) = self.embeddings(
            input_ids=packed(input_ids),
            token_type_ids=packed(token_type_ids),
            position_ids=self._positions(batch) if position_ids is None else packed(position_ids),
            inputs_embeds=packed(inputs_embeds),
        )
        trace = Trace.of(self.config, output_hidden_states, output_vip_scores)
        rows = encode(
            rows,
            batch,
            list(self.encoder.layer),
            self.config.num_segment_layers,
            explore=self.training,
            trace=trace,
        )
        output = trace.output(batch.packed, rows)
        if self.pooler is not None:
            assert output.last_hidden_state is not None
            output.pooler_output = self.pooler(_first_rows(output.last_hidden_state))
        as_dict = self.config.return_dict if return_dict is None else return_dict
        return output if as_dict else output.to_tuple()

    def _positions(self, batch: Batch) -> Tensor:
        """Rows of the table of positions `(1, tokens)`."""
        size = self.config.max_position_embeddings - self.first_position
        device = self.encoder.layer[0].output.dense.weight.device
        places = [torch.arange(length, device=device) % size for length in batch.packed.lengths]
        return torch.cat(places)[None] + self.first_position


class VccBertModel(_Encoder, BertModel):
    """The VCC BERT encoder; loads any BERT folder.

    Example:
        >>> import torch
        >>> from foveate import VccBertConfig, VccBertModel
        >>> config = VccBertConfig(
        ...     vocab_size=50, hidden_size=16, num_attention_heads=2, intermediate_size=32,
        ...     num_fine_blocks=2,
        ... )
        >>> model = VccBertModel(config).eval()
        >>> model(torch.arange(1000)[None] % 50).last_hidden_state.shape
        torch.Size([1, 1000, 16])
    """

    config_class = VccBertConfig


class VccRobertaModel(_Encoder, RobertaModel):
    """The VCC RoBERTa encoder; loads any RoBERTa folder."""

    config_class = VccRobertaConfig

    @property
    def first_position(self) -> int:  # type: ignore[override] # a constant elsewhere
        """The row of the table after that of padding."""
        return int(self.config.pad_token_id) + 1


class VccRobertaClassificationHead(RobertaClassificationHead):
    """The head, of the first row that is real."""

    def forward(self, features: Tensor, **kwargs: Any) -> Tensor:
        """Classify `(batch, length, d)`."""
        logits: Tensor = super().forward(_first_rows(features), **kwargs)
        return logits


def _first_rows(rows: Tensor) -> Tensor:
    """The first row `(batch, 1, d)` that is not padding, which is zero, of `(batch, length, d)`."""
    first = rows.detach().any(-1).byte().argmax(1)
    return rows[torch.arange(len(rows), device=rows.device), first][:, None]


_VCC: dict[type[nn.Module], type[nn.Module]] = {
    BertLayer: VccBertLayer,
    BertModel: VccBertModel,
    RobertaClassificationHead: VccRobertaClassificationHead,
    RobertaLayer: VccRobertaLayer,
    RobertaModel: VccRobertaModel,
}


class _Head(_Compressed):
    """A model that learns labels; Trainer passes what the signature names, so it names all."""

    config: Any

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        vip_mask: Tensor | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run as the head of transformers does, and with `vip_mask`: see `VccBertModel.forward`."""
        refuse(self.config, kwargs)
        return super().forward(
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            labels=labels,
            vip_mask=vip_mask,
            output_hidden_states=output_hidden_states,
            return_dict=return_dict,
        )


class _SpanHead(_Compressed):
    """Likewise, of a model that learns where answers begin and end."""

    config: Any

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        *,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        vip_mask: Tensor | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run as the head of transformers does, and with `vip_mask`: see `VccBertModel.forward`."""
        refuse(self.config, kwargs)
        return super().forward(
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            start_positions=start_positions,
            end_positions=end_positions,
            vip_mask=vip_mask,
            output_hidden_states=output_hidden_states,
            return_dict=return_dict,
        )


class VccBertForMaskedLM(_Head, BertForMaskedLM):
    """As `transformers.BertForMaskedLM`, with `vip_mask`: mark the masked tokens."""

    config_class = VccBertConfig


class VccBertForSequenceClassification(_Head, BertForSequenceClassification):
    """As `transformers.BertForSequenceClassification`, with `vip_mask`."""

    config_class = VccBertConfig


class VccBertForMultipleChoice(_Head, BertForMultipleChoice):
    """As `transformers.BertForMultipleChoice`, with `vip_mask`: mark question and choice."""

    config_class = VccBertConfig


class VccBertForQuestionAnswering(_SpanHead, BertForQuestionAnswering):
    """As `transformers.BertForQuestionAnswering`, with `vip_mask`: mark the question."""

    config_class = VccBertConfig


class VccRobertaForMaskedLM(_Head, RobertaForMaskedLM):
    """As `transformers.RobertaForMaskedLM`, with `vip_mask`: mark the masked tokens."""

    config_class = VccRobertaConfig


class VccRobertaForSequenceClassification(_Head, RobertaForSequenceClassification):
    """As `transformers.RobertaForSequenceClassification`, with `vip_mask`."""

    config_class = VccRobertaConfig


class VccRobertaForMultipleChoice(_Head, RobertaForMultipleChoice):
    """As `transformers.RobertaForMultipleChoice`, with `vip_mask`: mark question and choice."""

    config_class = VccRobertaConfig


class VccRobertaForQuestionAnswering(_SpanHead, RobertaForQuestionAnswering):
    """As `transformers.RobertaForQuestionAnswering`, with `vip_mask`: mark the question."""

    config_class = VccRobertaConfig
