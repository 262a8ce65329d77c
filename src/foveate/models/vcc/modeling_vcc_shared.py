"""Shared by the VCC encoders of T5, BERT and RoBERTa: the layout of a batch, and how it runs.

The first layers see segments of a sequence, the others the sequence compressed. Inside the encoder,
all sequences of a batch are packed: `(tokens, d)`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from transformers.modeling_outputs import BaseModelOutputWithPooling

from foveate.models.accelerate.cuda_graphs import CapturableEncoder
from foveate.models.padding import PackedSequences
from foveate.ops.compiling import refuse_export
from foveate.ops.relative_attention import bias_by_distance
from foveate.ops.vip_compression import (
    CandidateSegments,
    CompressionLayout,
    SegmentTree,
    compress,
    count_vips,
    update,
)


class RelativePositionBias(NamedTuple):
    """T5's relative position bias.

    Attributes:
        table: `(num_buckets, heads)`.
        by_distance: `(heads, 2·reach + 1)`, the biases of the distances from -reach to reach.
    """

    table: Tensor
    by_distance: Tensor

    @classmethod
    def from_table(cls, table: Tensor, max_distance: int) -> "RelativePositionBias":
        """Look the distances up, once for all layers."""
        return cls(table, bias_by_distance(table, max_distance, bidirectional=True))


class AttentionInputs(NamedTuple):
    """Which tokens attend to each other.

    Attributes:
        lengths: The lengths of the runs of tokens that do, host integers.
        positions: `(tokens,)`; 0, 1, … in each run if None.
        key_bias: `(tokens,)`, added to the scores of a key; none if None.
    """

    lengths: tuple[int, ...]
    positions: Tensor | None = None
    key_bias: Tensor | None = None


class VccLayer(Protocol):
    """A layer on packed tokens."""

    def __call__(
        self, hidden_states: Tensor, table: Tensor | None, inputs: AttentionInputs, /
    ) -> Any:
        """Return the hidden states of the next layer."""

    def vip_scores(
        self,
        vips: Tensor,
        layout: CompressionLayout,
        bias: RelativePositionBias | None,
        candidates: CandidateSegments,
        /,
    ) -> Tensor:
        """Score the candidates by this layer's attention."""


def reject_unsupported(config: Any, kwargs: Mapping[str, Any]) -> None:
    """Reject unsupported keyword arguments.

    Arguments that are None or False are ignored: the heads of transformers pass such arguments on.

    Raises:
        TypeError: There is an unsupported argument.
        ValueError: It is `output_attentions`, which the configuration may also request, or
            `output_vip_scores` for a model that is not an encoder.
    """
    requested = {name: value for name, value in kwargs.items() if value is not None}
    if requested.pop("output_attentions", config.output_attentions):
        raise ValueError(
            "attention weights are never materialized: leave output_attentions out; an encoder's "
            "output_vip_scores say what it looked at"
        )
    if requested.pop("output_vip_scores", False):
        raise ValueError(
            "output_vip_scores is an argument of encoders only: call the encoder of this model, "
            "its `encoder`, `bert` or `roberta`"
        )
    unknown = [name for name, value in requested.items() if value is not False]
    if unknown:
        raise TypeError(f"unsupported keyword arguments: {', '.join(unknown)}")


@dataclass
class VccEncoderOutput(BaseModelOutputWithPooling):
    """Output of a VCC encoder.

    Attributes:
        last_hidden_state: `(batch, length, d)`, zero at padding.
        pooler_output: `(batch, d)`, of encoders that have a pooler.
        hidden_states: The input of every layer and the output of the last, if requested.
        vip_scores: With `output_vip_scores`, for each compressed layer the score `(batch, length)`
            of the coarsest segment that a token is in; 0 at VIP tokens.
        resolutions: With `output_vip_scores`, for each compressed layer the number of tokens
            `(batch, length)` in the segment in which it saw each token: 1 at VIP tokens and in
            split segments, 0 at padding.
    """

    vip_scores: tuple[Tensor, ...] | None = None
    resolutions: tuple[Tensor, ...] | None = None


@dataclass(frozen=True)
class RecordedStates:
    """What is recorded while the layers run; None where it was not requested.

    Attributes:
        hidden_states: The input `(tokens, d)` of every layer.
        scores: For each compressed layer, the score `(tokens,)` of each token's coarsest segment.
        resolutions: For each compressed layer, the number of tokens in the segment that each token
            is seen in.
    """

    hidden_states: list[Tensor] | None
    scores: list[Tensor] | None
    resolutions: list[Tensor] | None

    @classmethod
    def from_request(
        cls, config: Any, output_hidden_states: bool | None, output_vip_scores: bool
    ) -> "RecordedStates":
        """Record what the arguments of a forward, or else the configuration, request."""
        if output_hidden_states is None:
            output_hidden_states = bool(config.output_hidden_states)
        return cls(
            hidden_states=[] if output_hidden_states else None,
            scores=[] if output_vip_scores else None,
            resolutions=[] if output_vip_scores else None,
        )

    @property
    def are_wanted(self) -> bool:
        """Whether anything was requested."""
        return self.hidden_states is not None or self.scores is not None

    def to_output(
        self,
        packed: PackedSequences,
        hidden_states: Tensor,
        pool: Callable[[Tensor], Tensor] | None = None,
    ) -> VccEncoderOutput:
        """Return everything padded, with the last hidden states `(tokens, d)`.

        `pool` maps these, padded, to the `pooler_output`, which must be created with the output
        rather than added later, since the heads of transformers find it by its position there.
        """

        def unpack(recorded: list[Tensor] | None) -> tuple[Tensor, ...] | None:
            return None if recorded is None else tuple(map(packed.unpack, recorded))

        recorded = self.hidden_states
        last_hidden_state = packed.unpack(hidden_states)
        return VccEncoderOutput(
            last_hidden_state=last_hidden_state,
            pooler_output=None if pool is None else pool(last_hidden_state),
            hidden_states=unpack(None if recorded is None else [*recorded, hidden_states]),
            vip_scores=unpack(self.scores),
            resolutions=unpack(self.resolutions),
        )


@dataclass(frozen=True)
class VccLayout:
    """The layout of a batch, as far as the host has to know it before the layers run.

    Attributes:
        packed: The real tokens.
        is_vip: `(tokens,)` bool, the VIP tokens; None for the first token of each sequence.
        vip_counts: The number of VIP tokens of each sequence, host integers.
    """

    packed: PackedSequences
    is_vip: Tensor | None
    vip_counts: tuple[int, ...]

    @classmethod
    def from_masks(
        cls,
        attention_mask: Tensor | None,
        vip_mask: Tensor | None,
        shape: tuple[int, int],
        config: Any,
    ) -> "VccLayout":
        """Lay out a padded batch `(batch, length)` by its masks, which have this shape.

        Synchronizes once for each mask.

        Raises:
            ValueError: A mask has another shape, a sequence has no VIP token, or there are no
                tokens.
        """
        packed = PackedSequences.from_mask(attention_mask, shape)
        if not packed.lengths:
            raise ValueError("the batch has no tokens: give it at least one that is not padding")
        is_vip = None
        if vip_mask is not None:
            if vip_mask.shape != shape:
                raise ValueError(
                    f"vip_mask must have the shape {tuple(shape)} of the tokens, "
                    f"got {tuple(vip_mask.shape)}"
                )
            refuse_export("vip_mask")
            is_vip = packed.pack(vip_mask.bool())
        return cls(packed, is_vip, count_vips(is_vip, packed.lengths, config.num_vip_slots))

    def segments(self, size: int) -> tuple[int, ...]:
        """Return the lengths of the segments of up to `size` tokens that the first layers see."""
        lengths = self.packed.lengths
        return tuple(min(size, n - start) for n in lengths for start in range(0, n, size))

    def compression(self, config: Any, device: torch.device) -> CompressionLayout:
        """Locate VIP tokens and the segments of all resolutions, without synchronizing."""
        return CompressionLayout.from_mask(
            self.is_vip,
            self.packed.lengths,
            config.resolutions,
            config.num_vip_slots,
            device,
            self.vip_counts,
        )


pytree.register_dataclass(VccLayout)


class CapturableVccEncoder(CapturableEncoder):
    """An encoder that compresses packed tokens; its graphs include their layout; a mixin."""

    config: Any

    @property
    def packed_layers(self) -> Sequence[VccLayer]:
        """The layers, which take packed tokens."""
        raise NotImplementedError

    def relative_position_bias(self, device: torch.device) -> RelativePositionBias | None:
        """Return T5's bias, whose table each layer gets; None in other models."""
        return None

    def run(self, hidden_states: Tensor, layout: VccLayout, recorded: RecordedStates) -> Tensor:
        """Run the layers on embeddings `(tokens, d)`, from a graph where that is possible."""
        states = recorded if recorded.are_wanted else None
        run_layers, _ = self.layer_runner(hidden_states, hidden_states.numel(), states)
        return run_layers(hidden_states, layout, states)

    def run_layers(
        self, hidden_states: Tensor, layout: Any, all_hidden_states: Any = None
    ) -> Tensor:
        """Run packed tokens through the layers, first in segments, then compressed.

        Args:
            hidden_states: Embeddings `(tokens, d)`.
            layout: A `VccLayout`.
            all_hidden_states: A `RecordedStates`, None to record nothing.

        Returns:
            `(tokens, d)`.
        """
        recorded = all_hidden_states or RecordedStates(None, None, None)
        layers, num_segment_layers = self.packed_layers, self.config.num_segment_layers
        bias = self.relative_position_bias(hidden_states.device)
        table = None if bias is None else bias.table
        segments = AttentionInputs(layout.segments(self.config.segment_size))
        compression: CompressionLayout = layout.compression(self.config, hidden_states.device)
        for layer in layers[:num_segment_layers]:
            if recorded.hidden_states is not None:
                recorded.hidden_states.append(hidden_states)
            hidden_states = layer(hidden_states, table, segments)
        if num_segment_layers >= len(layers):
            return hidden_states
        vips, others = compression.separate(hidden_states)
        tree = SegmentTree.from_tokens(others, compression.token_counts)
        for layer in layers[num_segment_layers:]:
            if recorded.hidden_states is not None:
                recorded.hidden_states.append(compression.combine(vips, tree.to_tokens(vips.dtype)))
            score = partial(layer.vip_scores, vips, compression, bias)
            compressed = compress(vips, tree, compression, score, explore=self.training)
            inputs = AttentionInputs(compressed.lengths, compressed.positions, compressed.key_bias)
            vips, tree = update(compressed, layer(compressed.hidden_states, table, inputs))
            if recorded.scores is not None and recorded.resolutions is not None:
                recorded.scores.append(compressed.scores)
                recorded.resolutions.append(compressed.resolution)
        return compression.combine(vips, tree.to_tokens(vips.dtype))
