"""BERT and RoBERTa with VIP compression (VCC): the models of transformers, with patched layers.

A module becomes a VCC module by a change of its class: parameters, names and initialization stay.
"""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    BertModel,
    RobertaForMaskedLM,
    RobertaForQuestionAnswering,
    RobertaForSequenceClassification,
    RobertaModel,
)
from transformers.modeling_outputs import MaskedLMOutput
from transformers.models.bert.modeling_bert import BertLayer
from transformers.models.roberta.modeling_roberta import RobertaClassificationHead, RobertaLayer
from transformers.models.roberta_prelayernorm.modeling_roberta_prelayernorm import (
    RobertaPreLayerNormEncoder,
    RobertaPreLayerNormLayer,
)
from transformers.utils.generic import can_return_tuple

from foveate.models.masked_lm import masked_lm_output
from foveate.models.packing import PackedSequences
from foveate.models.projections import project_heads
from foveate.models.speed_ups.patching import Patch, apply_patches
from foveate.ops.relative_attention import relative_attention
from foveate.ops.vip_compression import CandidateSegments, CompressionLayout, vip_scores

from .configuration_vcc import VccBertConfig, VccRobertaConfig
from .modeling_vcc_shared import (
    AttentionInputs,
    CapturableVccEncoder,
    RecordedStates,
    VccEncoderOutput,
    VccLayout,
    reject_unsupported,
)


class _Layer(nn.Module):
    """A layer of BERT or RoBERTa on packed tokens."""

    attention: Any
    intermediate: Any
    output: Any

    def forward(
        self,
        hidden_states: Tensor,
        table: None,
        inputs: AttentionInputs,
        key_bias: Tensor | None,
    ) -> Tensor:
        """Apply the layer to `(tokens, d)`; BERT has no table of biases."""
        attention = self.attention.self
        layers = attention.query, attention.key, attention.value
        attending = self.norm_before_attention(hidden_states)
        q, k, v = project_heads(attending, attention.num_attention_heads, *layers)
        attended = relative_attention(
            q,
            k,
            v,
            q_lengths=inputs.lengths,
            key_bias=key_bias,
            scale=attention.attention_head_size**-0.5,
        )
        attended = self.attention.output(attended.flatten(1), hidden_states)
        output: Tensor = self.output(self.intermediate(attended), attended)
        return output

    def vip_scores(
        self, vips: Tensor, layout: CompressionLayout, bias: None, candidates: CandidateSegments
    ) -> Tensor:
        """Score the candidates by this layer's attention."""
        attention = self.attention.self
        means = self.norm_before_attention(candidates.means.to(vips.dtype))
        vips = self.norm_before_attention(vips)
        (q,) = project_heads(vips, attention.num_attention_heads, attention.query)
        (k,) = project_heads(means, attention.num_attention_heads, attention.key)
        return vip_scores(q, k, layout, candidates, scale=attention.attention_head_size**-0.5)

    def norm_before_attention(self, hidden_states: Tensor) -> Tensor:
        """Apply the norm of `(tokens, d)` before attention; here there is none."""
        return hidden_states


class VccBertLayer(_Layer, BertLayer):  # type: ignore[misc] # forward takes packed tokens
    """A layer of BERT on packed tokens."""


class VccRobertaLayer(_Layer, RobertaLayer):  # type: ignore[misc] # as above
    """A layer of RoBERTa on packed tokens."""


class VccRobertaPreLayerNormLayer(_Layer, RobertaPreLayerNormLayer):  # type: ignore[misc] # as above
    """A layer of RoBERTa on packed tokens, with its norms before attention and feed-forward."""

    def norm_before_attention(self, hidden_states: Tensor) -> Tensor:
        """Apply the norm of `(tokens, d)` before attention; `intermediate` has the other."""
        output: Tensor = self.attention.LayerNorm(hidden_states)
        return output


class _PatchedModel(nn.Module):
    """A model whose encoder is, or contains, a VCC encoder."""

    accepts_loss_kwargs = False  # the losses are means over a batch

    def __init__(self, config: Any, *args: Any, **kwargs: Any) -> None:
        config.check()  # from_pretrained sets fields after the configuration was validated
        super().__init__(config, *args, **kwargs)
        apply_patches(self, VCC_PATCHES)


class RobertaCheckpoint:
    """Loads checkpoints of RoBERTa and of transformers' RobertaPreLayerNorm; a mixin."""

    @classmethod
    def from_pretrained(
        cls, *args: Any, key_mapping: dict[str, str] | None = None, **kwargs: Any
    ) -> Any:
        """Load a checkpoint; see `PreTrainedModel.from_pretrained`.

        The models of RobertaPreLayerNorm call their encoder `roberta_prelayernorm`.
        """
        names = {"^roberta_prelayernorm": "roberta"} | (key_mapping or {})
        loaded: Any = super().from_pretrained(*args, key_mapping=names, **kwargs)  # type: ignore[misc]
        model = loaded[0] if kwargs.get("output_loading_info") else loaded
        model._weight_conversions = None  # else save_pretrained would rename it back
        return loaded


class _PatchedRoberta(RobertaCheckpoint, _PatchedModel):
    """A RoBERTa whose norms may come first, as in transformers' RobertaPreLayerNorm."""

    base_model: Any
    init_weights: Callable[[], None]

    def __init__(self, config: VccRobertaConfig, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, *args, **kwargs)
        if config.norm_first:
            encoder = RobertaPreLayerNormEncoder(config)
            apply_patches(encoder, VCC_PATCHES)
            self.base_model.encoder = encoder
            self.base_model.LayerNorm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
            self.init_weights()  # of the modules that are new


class _Encoder(CapturableVccEncoder, _PatchedModel):
    """The encoder; `first_position` is where its table of positions begins."""

    first_position = 0
    config: Any
    embeddings: Any
    encoder: Any
    pooler: Any
    training: bool

    @can_return_tuple
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
        **kwargs: Any,
    ) -> VccEncoderOutput:
        """Encode sequences.

        Args:
            input_ids: `(batch, length)` int64.
            attention_mask: `(batch, length)`, 0 at padding, which may be anywhere and is dropped.
            token_type_ids: `(batch, length)` int64.
            position_ids: `(batch, length)` int64; by default those of the checkpoint's table, which
                starts again where it ends (VCC, 6.6.1).
            inputs_embeds: `(batch, length, d)`, in place of `input_ids`.
            vip_mask: `(batch, length)`, not 0 at VIP tokens, at least one in each sequence. By
                default the first token of each sequence, which is CLS.
            output_hidden_states: Whether to return the input of every layer too.
            output_vip_scores: Whether to return `vip_scores` and `resolutions`.
            kwargs: `return_dict`, False for a tuple; and what the heads of transformers pass on.

        Raises:
            ValueError: There are neither or both of ids and embeddings, a mask has another shape, a
                sequence has no VIP token, or attention weights are requested.
        """
        reject_unsupported(self.config, kwargs)
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds")
        tokens = inputs_embeds if input_ids is None else input_ids
        assert tokens is not None
        shape = (tokens.shape[0], tokens.shape[1])
        packed = PackedSequences.from_mask(attention_mask, shape)
        layout = VccLayout.from_mask(packed, vip_mask, self.config)

        def pack(padded: Tensor | None) -> Tensor | None:
            return None if padded is None else packed.pack(padded)[None]

        positions = pack(position_ids)
        if positions is None:
            positions = self._positions(packed.lengths, tokens.device)
        (hidden_states,) = self.embeddings(
            token_type_ids=pack(token_type_ids),
            position_ids=positions,
            inputs_embeds=pack(inputs_embeds)
            if input_ids is None
            else packed.embed(self.embeddings.word_embeddings, input_ids)[None],
        )
        recorded = RecordedStates.from_request(self.config, output_hidden_states, output_vip_scores)
        hidden_states = self.run(hidden_states, layout, recorded)
        return recorded.to_output(
            packed, hidden_states, None if self.pooler is None else self._pool
        )

    @property
    def packed_layers(self) -> list[Any]:
        """The layers, which take packed tokens."""
        return list(self.encoder.layer)

    def _pool(self, hidden_states: Tensor) -> Tensor:
        """Pool the first real token of each sequence, `(batch, d)`."""
        pooled: Tensor = self.pooler(first_tokens(hidden_states))
        return pooled

    def _positions(self, lengths: Sequence[int], device: torch.device) -> Tensor:
        """Return the position ids, entries of the table of positions, `(1, tokens)`."""
        size = self.config.max_position_embeddings - self.first_position
        positions = [torch.arange(n, device=device) % size for n in lengths]
        return torch.cat(positions)[None] + self.first_position


class VccBertModel(_Encoder, BertModel):
    """The VCC BERT encoder; loads any BERT checkpoint.

    Example:
        >>> import torch
        >>> from foveate.models.vcc import VccBertConfig, VccBertModel
        >>> config = VccBertConfig(
        ...     vocab_size=50, hidden_size=16, num_attention_heads=2, intermediate_size=32,
        ...     num_fine_blocks=2,
        ... )
        >>> model = VccBertModel(config).eval()
        >>> model(torch.arange(1000)[None] % 50).last_hidden_state.shape
        torch.Size([1, 1000, 16])
    """

    config_class = VccBertConfig


class VccRobertaModel(_Encoder, _PatchedRoberta, RobertaModel):
    """The VCC RoBERTa encoder; loads any checkpoint of RoBERTa or RobertaPreLayerNorm."""

    config_class = VccRobertaConfig
    LayerNorm: nn.LayerNorm

    def run(self, hidden_states: Tensor, layout: VccLayout, recorded: RecordedStates) -> Tensor:
        """Run the layers on embeddings `(tokens, d)`, and the last norm where norms come first."""
        hidden_states = super().run(hidden_states, layout, recorded)
        return self.LayerNorm(hidden_states) if self.config.norm_first else hidden_states

    @property
    def first_position(self) -> int:  # type: ignore[override] # a constant elsewhere
        """The position after that of padding."""
        return int(self.config.pad_token_id) + 1


class VccRobertaClassificationHead(RobertaClassificationHead):
    """The head, on the first real token."""

    def forward(self, features: Tensor, **kwargs: Any) -> Tensor:
        """Classify `(batch, length, d)`."""
        logits: Tensor = super().forward(first_tokens(features), **kwargs)
        return logits


def first_tokens(hidden_states: Tensor) -> Tensor:
    """Return the first hidden state `(batch, 1, d)` that is not padding, which is zero."""
    first = hidden_states.detach().any(-1).byte().argmax(1)
    return hidden_states[torch.arange(len(first), device=first.device), first][:, None]


VCC_PATCHES = (
    Patch(BertLayer, VccBertLayer),
    Patch(BertModel, VccBertModel),
    Patch(RobertaClassificationHead, VccRobertaClassificationHead),
    Patch(RobertaLayer, VccRobertaLayer),
    Patch(RobertaModel, VccRobertaModel),
    Patch(RobertaPreLayerNormLayer, VccRobertaPreLayerNormLayer),
)
"""What VCC swaps in models of transformers for good."""


def _with_vip_mask(head: type[nn.Module]) -> Callable[..., Any]:
    """Return the forward of a head of transformers, with the `vip_mask` of `VccBertModel.forward`.

    A Trainer passes to a model the columns that its signature names.
    """

    def forward(self: Any, *args: Any, vip_mask: Tensor | None = None, **kwargs: Any) -> Any:
        reject_unsupported(self.config, kwargs)  # the encoder would compute scores for nothing
        return head.forward(self, *args, vip_mask=vip_mask, **kwargs)

    signature = inspect.signature(head.forward)
    *named, others = signature.parameters.values()
    vip_mask = inspect.Parameter("vip_mask", inspect.Parameter.KEYWORD_ONLY, default=None)
    vars(forward)["__signature__"] = signature.replace(parameters=[*named, vip_mask, others])
    return forward


class VccRobertaForMaskedLM(_PatchedRoberta, RobertaForMaskedLM):
    """Like `transformers.RobertaForMaskedLM`, with a `vip_mask` of the masked tokens.

    With labels and `config.sparse_prediction`, its `logits` `(labelled tokens, vocab_size)` are
    those of the tokens whose label counts, in their order.
    """

    config_class = VccRobertaConfig

    @can_return_tuple
    def forward(  # type: ignore[override] # has no inputs of decoders
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        vip_mask: Tensor | None = None,
        **kwargs: Any,
    ) -> MaskedLMOutput:
        """Predict tokens; the other inputs are those of `VccBertModel.forward`."""
        reject_unsupported(self.config, kwargs)
        inputs = input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, vip_mask
        encode = partial(self.roberta, *inputs, return_dict=True, **kwargs)
        return masked_lm_output(encode, self.lm_head, labels, sparse=self.config.sparse_prediction)


class VccRobertaForSequenceClassification(_PatchedRoberta, RobertaForSequenceClassification):
    """Like `transformers.RobertaForSequenceClassification`, with a `vip_mask`."""

    config_class = VccRobertaConfig
    forward = _with_vip_mask(RobertaForSequenceClassification)


class VccRobertaForQuestionAnswering(_PatchedRoberta, RobertaForQuestionAnswering):
    """Like `transformers.RobertaForQuestionAnswering`, with a `vip_mask` of the question."""

    config_class = VccRobertaConfig
    forward = _with_vip_mask(RobertaForQuestionAnswering)
