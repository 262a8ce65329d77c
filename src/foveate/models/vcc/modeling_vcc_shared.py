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

from foveate.models.masks import mask_to_bias
from foveate.models.packing import PackedSequences
from foveate.models.speed_ups.cuda_graphs import CapturableEncoder
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
    """

    lengths: tuple[int, ...]
    positions: Tensor | None = None


class VccLayer(Protocol):
    """A layer on packed tokens."""

    def __call__(
        self,
        hidden_states: Tensor,
        table: Tensor | None,
        inputs: AttentionInputs,
        key_bias: Tensor | None,
        /,
    ) -> Any:
        """Return the hidden states of the next layer; `key_bias` is added to a key's scores.

        What needs a gradient is an argument of its own, as gradient checkpointing requires.
        """

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
    """Reject requests for outputs that a model does not have.

    Raises:
        ValueError: `output_attentions` are requested, which the configuration may also do, or
            `output_vip_scores` of a model that is not an encoder.
    """
    requested = kwargs.get("output_attentions")
    if config.output_attentions if requested is None else requested:
        raise ValueError(
            "attention weights are never materialized: leave output_attentions out; an encoder's "
            "output_vip_scores say what it looked at"
        )
    if kwargs.get("output_vip_scores"):
        raise ValueError(
            "output_vip_scores is an argument of encoders only: call the encoder of this model, "
            "its `encoder`, `bert` or `roberta`"
        )


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
        lengths: The number of tokens of each sequence, host integers.
        vip_counts: The number of VIP tokens of each sequence, host integers.
        is_vip: `(tokens,)` bool, the VIP tokens, and the padding that fills their slots; None for
            the first token of each sequence.
        is_real: `(tokens,)` bool, false at padding, which is at the end of sequences of one length;
            None if all tokens are real.
    """

    lengths: tuple[int, ...]
    vip_counts: tuple[int, ...]
    is_vip: Tensor | None
    is_real: Tensor | None = None

    @classmethod
    def from_mask(
        cls, packed: PackedSequences, vip_mask: Tensor | None, config: Any
    ) -> "VccLayout":
        """Lay out the real tokens of a batch; synchronizes once if there is a mask.

        Raises:
            ValueError: The mask has not the shape of the batch, a sequence has no VIP token, or
                there are no tokens.
        """
        if not packed.lengths:
            raise ValueError("the batch has no tokens: give it at least one that is not padding")
        is_vip = None
        if vip_mask is not None:
            if vip_mask.shape != packed.shape:
                raise ValueError(
                    f"vip_mask must have the shape {tuple(packed.shape)} of the tokens, "
                    f"got {tuple(vip_mask.shape)}"
                )
            is_vip = packed.pack(vip_mask.bool())
        counts = count_vips(is_vip, packed.lengths, config.num_vip_slots)
        return cls(tuple(packed.lengths), counts, is_vip)

    def in_rows(
        self, size: int, vip_slots: int, device: torch.device
    ) -> tuple["VccLayout", Tensor]:
        """Pad every sequence to as many tokens, with as many VIP tokens, some of which are padding.

        Args:
            size: At least the number of tokens of each sequence and of its free VIP slots.
            vip_slots: At least the number of VIP tokens of each sequence. Where `is_vip` is None,
                the first tokens fill the slots, and after them padding.
            device: The device of the tokens.

        Returns:
            The layout, and the place of each token in it, `(tokens,)`.
        """

        def spans(begins: Sequence[int], ends: Sequence[int]) -> Tensor:
            """Return the places from begin to end in each row."""
            rows = enumerate(zip(begins, ends, strict=True))
            return torch.cat([torch.arange(a, b, device=device) + i * size for i, (a, b) in rows])

        places = spans((0,) * len(self.lengths), self.lengths)
        no_token = torch.zeros(len(self.lengths) * size, dtype=torch.bool, device=device)
        is_vip = None
        if self.is_vip is not None:
            counts = zip(self.lengths, self.vip_counts, strict=True)
            free = spans(self.lengths, [length + vip_slots - count for length, count in counts])
            is_vip = no_token.index_copy(0, places, self.is_vip).index_fill_(0, free, True)
        lengths, vip_counts = ((n,) * len(self.lengths) for n in (size, vip_slots))
        return VccLayout(lengths, vip_counts, is_vip, no_token.index_fill(0, places, True)), places

    def segments(self, size: int) -> tuple[AttentionInputs, Tensor | None]:
        """Divide sequences into segments of up to `size` tokens, which the first layers see.

        Returns:
            The segments and, if there is padding, the bias that hides it as keys.
        """
        lengths = tuple(min(size, n - start) for n in self.lengths for start in range(0, n, size))
        if self.is_real is None:
            return AttentionInputs(lengths), None
        place = torch.arange(len(self.is_real), device=self.is_real.device)
        first = place - place % self.lengths[0] % size
        # Where all is padding, it attends to itself, because a softmax over nothing is not finite.
        is_hidden = ~self.is_real & self.is_real[first]
        return AttentionInputs(lengths), mask_to_bias(~is_hidden)

    def compression(self, config: Any, device: torch.device) -> CompressionLayout:
        """Locate VIP tokens and the segments of all resolutions, without synchronizing."""
        return CompressionLayout.from_mask(
            self.is_vip,
            self.lengths,
            config.resolutions,
            config.num_vip_slots,
            device,
            self.vip_counts,
            self.is_real,
        )


pytree.register_dataclass(VccLayout)


class CapturableVccEncoder(CapturableEncoder):
    """An encoder that compresses packed tokens; a mixin.

    Sequences are padded to one of a few lengths and numbers of VIP tokens, so that a graph is not
    tied to theirs, unless the batch is large.
    """

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
        width = hidden_states.shape[1]
        num_elements = len(layout.lengths) * max(layout.lengths) * width
        run_layers, pads = self.layer_runner(hidden_states, num_elements, states)
        if not pads:
            return run_layers(hidden_states, layout, states)
        from foveate.ops._triton.math import bucket_size  # where there are graphs, there is Triton

        slots = self._vip_slots(max(layout.vip_counts))
        counts = zip(layout.lengths, layout.vip_counts, strict=True)
        size = bucket_size(max(length + slots - count for length, count in counts))
        if min(layout.lengths) == size and min(layout.vip_counts) == slots:
            return run_layers(hidden_states, layout, states)
        rows, places = layout.in_rows(size, slots, hidden_states.device)
        padded = hidden_states.new_zeros(len(rows.lengths) * size, width)
        padded = padded.index_copy(0, places, hidden_states)
        return run_layers(padded, rows, states).index_select(0, places)

    def _vip_slots(self, most: int) -> int:
        """Return to how many VIP tokens those of sequences with at most so many are padded."""
        from foveate.ops._triton.math import cdiv, next_power_of_2

        if most == 1 or self.config.num_vip_slots is not None:
            return most  # there are hardly any other numbers
        step = max(16, next_power_of_2(most) // 8)
        return cdiv(most, step) * step

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
        segments = layout.segments(self.config.segment_size)
        compression: CompressionLayout = layout.compression(self.config, hidden_states.device)
        for layer in layers[:num_segment_layers]:
            if recorded.hidden_states is not None:
                recorded.hidden_states.append(hidden_states)
            hidden_states = layer(hidden_states, table, *segments)
        if num_segment_layers >= len(layers):
            return hidden_states
        vips, others = compression.separate(hidden_states)
        tree = SegmentTree.from_tokens(others, compression.token_counts)
        for layer in layers[num_segment_layers:]:
            if recorded.hidden_states is not None:
                recorded.hidden_states.append(compression.combine(vips, tree.to_tokens(vips.dtype)))
            score = partial(layer.vip_scores, vips, compression, bias)
            explore = self.config.explore_prob if self.training else 0.0
            compressed = compress(vips, tree, compression, score, explore=explore)
            inputs = AttentionInputs(compressed.lengths, compressed.positions)
            output = layer(compressed.hidden_states, table, inputs, compressed.key_bias)
            vips, tree = update(compressed, output)
            if recorded.scores is not None and recorded.resolutions is not None:
                recorded.scores.append(compressed.scores)
                recorded.resolutions.append(compressed.resolution)
        return compression.combine(vips, tree.to_tokens(vips.dtype))
