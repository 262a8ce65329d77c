"""What the layers of all VCC encoders run on: first segments, then compressed sequences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers.modeling_outputs import BaseModelOutputWithPooling

from foveate.models.padding import Packed
from foveate.ops.relative_attention import bias_by_distance
from foveate.ops.vip_compression import CompressionLayout, SegmentTree, compress, update


class Bias(NamedTuple):
    """T5's relative position bias.

    Attributes:
        table: `(num_buckets, heads)`.
        by_distance: `(heads, 2·reach + 1)`, the same for distances from -reach to reach.
    """

    table: Tensor
    by_distance: Tensor

    @classmethod
    def of(cls, table: Tensor, max_distance: int) -> "Bias":
        """Look the distances up, once for all layers."""
        return cls(table, bias_by_distance(table, max_distance, bidirectional=True))


class Sight(NamedTuple):
    """Which rows attend each other.

    Attributes:
        lengths: of the runs of rows that do, host integers.
        positions: `(rows,)`; 0, 1, … in each run if None.
        key_bias: `(rows,)`, added to the scores of a key; none if None.
    """

    lengths: tuple[int, ...]
    positions: Tensor | None = None
    key_bias: Tensor | None = None


def refuse(config: Any, others: Mapping[str, Any]) -> None:
    """Refuse what a forward pass was given besides its arguments, and would leave out.

    None and False ask for nothing, and the heads of transformers pass them on.

    Raises:
        TypeError: there is something.
        ValueError: it is `output_attentions`, which the configuration may ask for as well, or
            `output_vip_scores`, for what is not an encoder.
    """
    asked = {name: value for name, value in others.items() if value is not None}
    if asked.pop("output_attentions", config.output_attentions):
        raise ValueError(
            "attention weights are never formed: leave output_attentions out; what an encoder "
            "looked at is in its output_vip_scores"
        )
    if asked.pop("output_vip_scores", False):
        raise ValueError(
            "output_vip_scores is an argument of encoders alone: call the one of this model, its "
            "`encoder`, `bert` or `roberta`"
        )
    unknown = [name for name, value in asked.items() if value is not False]
    if unknown:
        raise TypeError(f"forward takes no {' and no '.join(unknown)}: leave it out")


@dataclass
class VccEncoderOutput(BaseModelOutputWithPooling):
    """What a VCC encoder returns.

    Attributes:
        last_hidden_state: `(batch, length, d)`, zero at padding.
        pooler_output: `(batch, d)`, from encoders that have a pooler.
        hidden_states: before every layer and after the last, if asked for.
        vip_scores: if asked for by `output_vip_scores`, for each compressed layer the score
            `(batch, length)` of the coarsest segment that a token is in; 0 at VIP tokens.
        resolutions: with them, of how many tokens the segment is that the layer saw a token in
            `(batch, length)`: 1 at VIP tokens and where it looked closely, 0 at padding.
    """

    vip_scores: tuple[Tensor, ...] | None = None
    resolutions: tuple[Tensor, ...] | None = None


@dataclass(frozen=True)
class Trace:
    """What is kept of the way through the layers; None where it is not asked for.

    Attributes:
        states: rows `(tokens, d)` before every layer.
        scores: for each compressed layer, of each token's coarsest segment `(tokens,)`.
        resolutions: likewise, of how many tokens the segment is that a token is seen in.
    """

    states: list[Tensor] | None
    scores: list[Tensor] | None
    resolutions: list[Tensor] | None

    @classmethod
    def of(cls, config: Any, output_hidden_states: bool | None, output_vip_scores: bool) -> "Trace":
        """Keep what is asked for."""
        if output_hidden_states is None:
            output_hidden_states = bool(config.output_hidden_states)
        states: list[Tensor] | None = [] if output_hidden_states else None
        return cls(states, *([], []) if output_vip_scores else (None, None))

    def output(self, packed: Packed, rows: Tensor) -> VccEncoderOutput:
        """Give what was kept, padded, and the last rows `(tokens, d)`."""

        def padded(kept: list[Tensor] | None) -> tuple[Tensor, ...] | None:
            return None if kept is None else tuple(map(packed.unpack, kept))

        states = None if self.states is None else [*self.states, rows]
        return VccEncoderOutput(
            last_hidden_state=packed.unpack(rows),
            hidden_states=padded(states),
            vip_scores=padded(self.scores),
            resolutions=padded(self.resolutions),
        )


@dataclass(frozen=True)
class Batch:
    """Where the rows of a batch stand: in the padded batch, in segments, in its compression."""

    packed: Packed
    segments: tuple[int, ...]
    layout: CompressionLayout

    @classmethod
    def of(
        cls,
        attention_mask: Tensor | None,
        vip_mask: Tensor | None,
        shape: tuple[int, int],
        config: Any,
        device: torch.device,
    ) -> "Batch":
        """Lay out a padded batch `(batch, length)` by its masks, which have this shape.

        Raises:
            ValueError: a mask of another shape, or a sequence without VIP token.
        """
        packed = Packed.of(attention_mask, shape)
        vip = None
        if vip_mask is not None:
            if vip_mask.shape != shape:
                raise ValueError(
                    f"vip_mask must have the shape {tuple(shape)} of the tokens, "
                    f"got {tuple(vip_mask.shape)}"
                )
            vip = packed.pack(vip_mask.bool())
        size, lengths = config.segment_size, packed.lengths
        segments = [min(size, n - start) for n in lengths for start in range(0, n, size)]
        layout = CompressionLayout.from_mask(
            vip, lengths, config.resolutions, config.num_vip_slots, device
        )
        return cls(packed, tuple(segments), layout)


def encode(
    rows: Tensor,
    batch: Batch,
    blocks: Sequence[Any],
    num_segment_layers: int,
    bias: Bias | None = None,
    *,
    explore: bool = False,
    trace: Trace,
) -> Tensor:
    """Run packed rows `(tokens, d)` through the layers: segments first, then compressed.

    Args:
        rows: embeddings.
        batch: where they stand.
        blocks: the layers: `block(rows, table, sight)` gives the next layer's rows, and
            `block.vip_scores(vips, layout, bias, candidates)` scores of segments.
        num_segment_layers: how many of them see segments.
        bias: T5's, whose table each layer gets.
        explore: as in training, see `foveate.ops.vip_compression.compress`.
        trace: takes what is to be kept.
    """
    table, layout = None if bias is None else bias.table, batch.layout
    for block in blocks[:num_segment_layers]:
        if trace.states is not None:
            trace.states.append(rows)
        rows = block(rows, table, Sight(batch.segments))
    if num_segment_layers >= len(blocks):
        return rows
    vips, tokens = layout.separate(rows)
    tree = SegmentTree.from_tokens(tokens, layout.token_counts)
    for block in blocks[num_segment_layers:]:
        if trace.states is not None:
            trace.states.append(layout.combine(vips, tree.to_tokens(vips.dtype)))
        score = partial(block.vip_scores, vips, layout, bias)
        seen = compress(vips, tree, layout, score, explore=explore)
        sight = Sight(seen.lengths, seen.positions, seen.key_bias)
        vips, tree = update(seen, block(seen.hidden_states, table, sight))
        if trace.scores is not None and trace.resolutions is not None:
            trace.scores.append(seen.scores)
            trace.resolutions.append(seen.resolution)
    return layout.combine(vips, tree.to_tokens(vips.dtype))
