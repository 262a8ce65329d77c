"""The encoders that answer questions in front of a text: they differ in their attention only.

All are made of T5's layers without position biases, so that a token has no position for anybody:
facts are found by what they say, and nothing has to be learned about lengths. HDT's layers, which
are T5's too, have a norm more, after the embeddings.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from transformers import LongT5Config, LongT5EncoderModel, T5Config, T5EncoderModel
from transformers.models.t5.modeling_t5 import T5Attention, T5LayerFF, T5LayerNorm

from fovea_arms import t5_sizes
from foveate.models.fovea import FoveaConfig, FoveaEncoderModel
from foveate.models.hdt import HDTConfig, HDTModel
from foveate.models.speed_ups import speed_up
from foveate.models.speed_ups.patching import apply_patches
from foveate.models.t5_models import T5_ENCODER_PATCHES, PackedT5Model
from foveate.models.vcc import VccT5Config, VccT5EncoderModel
from foveate.ops.window_attention import GlobalKeysValues, global_attention, window_attention
from needle_data import ANCHORS, Batch


@dataclass(frozen=True)
class Arm:
    """An encoder to train.

    Attributes:
        attention: "VCC", "Longformer", "transient-global", "Fovea", "HDT" or "dense".
        block: Of VCC, the tokens that are averaged into one.
        count: Of VCC, the blocks that are seen token by token.
        segment: Of VCC, the tokens that see each other in its first layers; those of the option
            --segment if None.
    """

    attention: str
    block: int = 32
    count: int = 8
    segment: int | None = None


MAIN = {
    name: Arm(name) for name in ("VCC", "Longformer", "transient-global", "Fovea", "HDT", "dense")
}
SWEEP = {
    f"VCC, {count} of {block}": Arm("VCC", block, count)
    for block, count in ((32, 2), (32, 32), (64, 8), (128, 2), (128, 8))
}
SEGMENTS = {f"VCC, segments of {size}": Arm("VCC", segment=size) for size in (128, 64, 32)}
SEGMENTS_SWEEP = {
    f"VCC, segments of 64, {count} of {block}": Arm("VCC", block, count, 64)
    for block, count in ((32, 2), (32, 32), (128, 8))
}
SWEEPS = SWEEP | SEGMENTS_SWEEP
ARMS = MAIN | SEGMENTS | SWEEPS


def compressed_length(arm: Arm, length: int, asked: int) -> int:
    """Return the number of tokens that a compressed layer of VCC has, of a text."""
    blocks = -(-(length - asked) // arm.block)
    fine = min(arm.count, blocks)
    return asked + blocks - fine + min(fine * arm.block, length - asked)


class Reader(nn.Module):
    """An encoder, and a linear layer on its outputs at the questions."""

    def __init__(self, arm: Arm, vocabulary: int, answers: int, options: Any) -> None:
        super().__init__()
        self.attention, self.asked = arm.attention, options.asked
        self.first_anchor = vocabulary - ANCHORS
        self.sentence = options.sentence
        self.encoder = build_encoder(arm, vocabulary, options)
        for name, parameter in self.encoder.named_parameters():
            if "relative_attention_bias" in name or "embed_positions" in name:
                nn.init.zeros_(parameter.requires_grad_(False))
            elif "pooler" in name:
                parameter.requires_grad_(False)  # of HDT; nothing reads it
        self.output = nn.Linear(options.width, answers)

    def forward(self, batch: Batch) -> Tensor:
        """Return `(texts, asked, answers)` float32."""
        ids, places = batch.ids, batch.places
        first_question = 0
        inputs: dict[str, Any] = {}
        if self.attention == "HDT":
            tree = anchored(ids.shape[1], self.asked, self.sentence, ids.device)
            template = tree.anchors + self.first_anchor
            ids = template.repeat(len(ids), 1).index_copy_(1, tree.tokens, ids)
            places, first_question = tree.tokens[places], 1
            inputs["parent_ids"] = tree.parents.expand(len(ids), -1)
        elif self.attention == "VCC":
            is_question = torch.arange(ids.shape[1], device=ids.device) < self.asked
            inputs["vip_mask"] = is_question.expand(len(ids), -1)
        elif self.attention == "Longformer":
            inputs["num_global"] = self.asked
        table = self.encoder.get_input_embeddings()
        values = table(batch.values)
        embedded = table(ids).scatter_add(1, places[..., None].expand_as(values), values)
        with torch.autocast(ids.device.type, torch.bfloat16, enabled=ids.is_cuda):
            states = self.encoder(inputs_embeds=embedded, **inputs).last_hidden_state
            logits: Tensor = self.output(states[:, first_question : first_question + self.asked])
        return logits.float()


def build_encoder(arm: Arm, vocabulary: int, options: Any) -> Any:
    """Build the encoder of an arm, with random weights."""
    sizes = t5_sizes(vocabulary, options)
    match arm.attention:
        case "VCC":
            sizes |= {"segment_size": arm.segment or options.segment}
            blocks = {"block_size": arm.block, "num_fine_blocks": arm.count}
            return VccT5EncoderModel(VccT5Config(**sizes, **blocks))
        case "Longformer":
            return LongformerT5Encoder(T5Config(**sizes), options.segment // 2)
        case "transient-global":
            config = LongT5Config(
                **sizes,
                encoder_attention_type="transient-global",
                local_radius=options.segment // 4 - 1,
            )
            return speed_up(LongT5EncoderModel(config))
        case "Fovea":
            neighbours = {"block_size": options.fovea_block, "k_neighbours": options.neighbours}
            return FoveaEncoderModel(FoveaConfig(**sizes, **neighbours))
        case "HDT":
            return HDTModel(HDTConfig(**sizes))
        case _:
            return speed_up(T5EncoderModel(T5Config(**sizes)))


# HDT's tree


@dataclass(frozen=True)
class AnchoredText:
    """Where the nodes of a text's tree are, in reading order.

    Attributes:
        parents: `(nodes,)` int64, -1 at the document's anchor, which is the first node.
        anchors: `(nodes,)` int64, 0 at the document's anchor, 1 at sentences'; anything at tokens.
        tokens: `(length,)` int64, the node of each token; questions are nodes 1, 2, …
    """

    parents: Tensor
    anchors: Tensor
    tokens: Tensor


@lru_cache(maxsize=32)
def anchored(length: int, asked: int, sentence: int, device: torch.device) -> AnchoredText:
    """Cut a text into sentences of `sentence` tokens: running text has no sections.

    The questions are children of the document's anchor, as the sentences are: this is the shortest
    way from a question to every sentence.
    """
    parents, anchors, tokens = [-1, *[0] * asked], [0] * (asked + 1), [*range(1, asked + 1)]
    for place in range(length - asked):
        if place % sentence == 0:
            anchor = len(parents)
            parents.append(0)
            anchors.append(1)
        tokens.append(len(parents))
        parents.append(anchor)
        anchors.append(0)
    return AnchoredText(
        *(torch.tensor(nodes, device=device) for nodes in (parents, anchors, tokens))
    )


# Longformer's attention in T5's layers


class GlobalTokensAttention(T5Attention):
    """Windows, and first tokens that all see and that see all by projections of their own."""

    def __init__(self, config: T5Config, radius: int) -> None:
        super().__init__(config, has_relative_attention_bias=False)
        self.radius = radius
        inner = self.n_heads * self.key_value_proj_dim
        self.q_global, self.k_global, self.v_global = (
            nn.Linear(config.d_model, inner, bias=False) for _ in range(3)
        )

    def forward(self, hidden_states: Tensor, texts: int, num_global: int) -> Tensor:
        """Attend within packed texts of one length, `(tokens, d_model)`."""
        lengths, numbers = [len(hidden_states) // texts] * texts, [num_global] * texts
        places = torch.arange(len(hidden_states), device=hidden_states.device) % lengths[0]
        is_global = places < num_global
        chosen = is_global.nonzero_static(size=texts * num_global)[:, 0]
        q, k, v = (self._heads(x, hidden_states) for x in (self.q, self.k, self.v))
        attended = window_attention(
            q,
            k,
            v,
            (self.radius, self.radius),
            global_keys_values=GlobalKeysValues(
                k.index_select(0, chosen), v.index_select(0, chosen), numbers
            ),
            masked_keys=is_global,
            lengths=lengths,
            scale=1.0,
        )
        of_global = global_attention(
            self._heads(self.q_global, hidden_states.index_select(0, chosen)),
            self._heads(self.k_global, hidden_states),
            self._heads(self.v_global, hidden_states),
            q_lengths=numbers,
            k_lengths=lengths,
            scale=1.0,
        )
        output: Tensor = self.o(attended.index_copy(0, chosen, of_global).flatten(1))
        return output

    def _heads(self, projection: nn.Module, hidden_states: Tensor) -> Tensor:
        heads: Tensor = projection(hidden_states).unflatten(-1, (self.n_heads, -1))
        return heads


class LongformerT5Layer(nn.Module):
    """Attention, then feed-forward, each on normalized inputs."""

    def __init__(self, config: T5Config, radius: int) -> None:
        super().__init__()
        self.norm = T5LayerNorm(config.d_model, eps=config.layer_norm_epsilon)
        self.attention = GlobalTokensAttention(config, radius)
        self.feed_forward = T5LayerFF(config)

    def forward(self, hidden_states: Tensor, texts: int, num_global: int) -> Tensor:
        """Apply both."""
        attended = self.attention(self.norm(hidden_states), texts, num_global)
        output: Tensor = self.feed_forward(hidden_states + attended)
        return output


@dataclass
class EncoderOutput:
    """Hidden states `(texts, length, d_model)`."""

    last_hidden_state: Tensor


class LongformerT5Encoder(PackedT5Model):
    """T5's encoder with the attention of Longformer."""

    config_class = T5Config

    def __init__(self, config: T5Config, radius: int) -> None:
        super().__init__(config)
        self.shared = nn.Embedding(config.vocab_size, config.d_model)
        self.layers = nn.ModuleList(
            LongformerT5Layer(config, radius) for _ in range(config.num_layers)
        )
        self.final_norm = T5LayerNorm(config.d_model, eps=config.layer_norm_epsilon)
        apply_patches(self, T5_ENCODER_PATCHES)
        self.post_init()
        for layer in self.layers:  # the global projections begin as copies, as Longformer's do
            attention: Any = layer.attention
            for name in ("q", "k", "v"):
                copied = getattr(attention, name).weight.data.clone()
                getattr(attention, f"{name}_global").weight.data = copied

    def get_input_embeddings(self) -> nn.Module:
        """Return the token embeddings."""
        return self.shared

    def forward(self, inputs_embeds: Tensor, num_global: int) -> EncoderOutput:
        """Encode texts of one length whose first tokens are global."""
        texts, length = inputs_embeds.shape[:2]
        hidden_states = inputs_embeds.flatten(0, 1)
        for layer in self.layers:
            hidden_states = layer(hidden_states, texts, num_global)
        return EncoderOutput(self.final_norm(hidden_states).unflatten(0, (texts, length)))
