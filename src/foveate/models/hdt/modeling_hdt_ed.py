"""HDT-ED: an HDT encoder and a decoder that attends to it, with the published parameter names.

The decoder is T5's with scaled scores; it runs on padded batches, `(batch, length, d_model)`.
"""

from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import DynamicCache, EncoderDecoderCache, GenerationMixin
from transformers import initialization as init
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import Seq2SeqLMOutput
from transformers.utils.generic import ModelOutput, can_return_tuple

from foveate.checkpoints import checkpoint_file
from foveate.models.decoding import decode_attention, find_cache, prefill_attention
from foveate.models.joint_layers import load_parts
from foveate.models.masks import mask_to_bias
from foveate.models.packing import PackedForest
from foveate.models.speed_ups.t5_layers import bias_table
from foveate.ops.compiling import uncompiled
from foveate.ops.precision import widened
from foveate.ops.relative_attention import buckets
from foveate.ops.tree_attention import Tree
from foveate.preprocessing.collate import IGNORE_INDEX
from foveate.preprocessing.loading import load_tokenizer

from .configuration_hdt import DECODE_ANCHORS, HDTConfig
from .modeling_hdt import (
    HDTEncoder,
    HDTFeedForwardLayer,
    HDTNorm,
    HDTPreTrainedModel,
)

_UNSUPPORTED = (
    "inputs_embeds",
    "decoder_inputs_embeds",
    "output_attentions",
    "assistant_model",
)


def _reject_unsupported(kwargs: dict[str, Any]) -> None:
    """Raise ValueError where an argument is given, and not None or False, that HDT-ED lacks."""
    for name in _UNSUPPORTED:
        if kwargs.get(name) is not None and kwargs[name] is not False:
            raise ValueError(f"HDT-ED does not support {name}: leave it out")


@uncompiled
def select_memory(hidden_states: Tensor, tree: Tree, decode_anchors: str) -> tuple[Tensor, Tensor]:
    """Select the hidden states of each document that the decoder attends to (HDT, 4.2).

    A sentence anchor is the parent of tokens (leaves), a section anchor the parent of other
    anchors; the anchor of the document is neither, and is selected only along with the tokens.

    Args:
        hidden_states: `(tokens, d_model)` in level order; each tree of the forest is a document.
        tree: The forest, in level order.
        decode_anchors: One of `DECODE_ANCHORS`.

    Returns:
        The memory `(documents, longest, d_model)`, zero at padding, and its mask `(documents,
        longest)`, false at padding. The states of a document are in level order.

    Raises:
        ValueError: `decode_anchors` is unknown, or a document has no such anchors.
    """
    if decode_anchors not in DECODE_ANCHORS:
        raise ValueError(f"decode_anchors must be one of {DECODE_ANCHORS}, got {decode_anchors!r}")
    root = _root_of_each_node(tree)
    selected = _is_selected(tree, decode_anchors)
    counts = torch.zeros(tree.level_sizes[0], dtype=torch.long, device=root.device)
    counts.index_add_(0, root, selected.long())
    # The only synchronization with the device.
    fewest, longest, total = torch.stack([counts.min(), counts.max(), counts.sum()]).tolist()
    if fewest == 0:
        empty = int((counts == 0).nonzero()[0])
        raise ValueError(
            f"document {empty} of the batch has no {decode_anchors} to decode from: "
            "give it sections and sentences, or decode from tokens"
        )
    document, order = torch.where(selected, root, len(counts)).sort(stable=True)
    document, order = document[:total], order[:total]
    position = torch.arange(len(document), device=document.device)
    position = position - (counts.cumsum(0) - counts)[document]
    memory = hidden_states.new_zeros(len(counts) * longest, hidden_states.shape[1])
    memory = memory.index_copy(0, document * longest + position, hidden_states[order])
    mask = torch.arange(longest, device=document.device) < counts[:, None]
    return memory.unflatten(0, (-1, longest)), mask


def _root_of_each_node(tree: Tree) -> Tensor:
    """Return the index of the root above each node, `(tokens,)`."""
    start = tree.level_sizes[0]
    roots = [torch.arange(start, device=tree.parent.device)]
    start_above = 0
    for size in tree.level_sizes[1:]:
        roots.append(roots[-1][tree.parent[start : start + size] - start_above])
        start_above, start = start, start + size
    return torch.cat(roots)


def _is_selected(tree: Tree, decode_anchors: str) -> Tensor:
    """Return whether the decoder attends to each node, `(tokens,)` bool."""
    is_leaf = tree.num_children == 0
    if decode_anchors == "token":
        return torch.ones_like(is_leaf)
    is_anchor = ~is_leaf & (tree.parent >= 0)
    if decode_anchors == "sentence":
        return is_anchor
    # Nodes that are not anchors mark an entry beyond the last node.
    has_anchors = is_leaf.new_zeros(len(tree) + 1)
    has_anchors.index_fill_(0, torch.where(is_anchor, tree.parent, len(tree)), True)
    return is_anchor & has_anchors[:-1]


def _beginning(name_or_path: str) -> int | None:
    """Return the id of a checkpoint's `<s>`; None if it has none, or no tokenizer."""
    if checkpoint_file(name_or_path, "tokenizer_config.json") is None:
        return None
    tokenizer = load_tokenizer(name_or_path)
    token_id = tokenizer.bos_token_id
    return tokenizer.get_vocab().get("<s>") if token_id is None else int(token_id)


class RelativeBias(nn.Embedding):
    """T5's relative position bias: one value per bucket of distances and head."""

    def __init__(self, config: HDTConfig) -> None:
        super().__init__(config.relative_attention_num_buckets, config.num_heads)
        self.max_distance = config.relative_attention_max_distance

    def for_queries(self, num_queries: int, past: int, device: torch.device) -> Tensor:
        """Return the biases, at least in float32, as the scores are.

        Returns:
            For several queries the table `(num_buckets, heads)`; for a single one, after `past`
            other tokens, the biases of all keys, `(heads, 1, past + 1)`.
        """
        table = bias_table(self, self.num_embeddings, device)
        table = widened(table)
        if num_queries > 1:
            return table
        distance = torch.arange(-past, 1, device=device)
        bucket = buckets(distance, self.num_embeddings, self.max_distance, bidirectional=False)
        return table[bucket].T[:, None]


class _DecoderAttention(nn.Module):
    """Base class of the decoder's attention; no biases."""

    def __init__(self, config: HDTConfig) -> None:
        super().__init__()
        self.num_heads, self.scale = config.num_heads, config.d_kv**-0.5
        self.max_distance = config.relative_attention_max_distance
        self.o = nn.Linear(config.num_heads * config.d_kv, config.d_model, bias=False)

    def heads(self, projected: Tensor, number: int) -> tuple[Tensor, ...]:
        """Separate several projections to `(batch, heads, length, d_kv)` each."""
        heads: Tensor = projected.unflatten(-1, (number, self.num_heads, -1))
        return heads.permute(2, 0, 3, 1, 4).unbind(0)

    def forward(
        self,
        q: Tensor,
        keys: Tensor,
        values: Tensor,
        key_bias: Tensor | None,
        bias: Tensor | None = None,
        past: int | None = None,
    ) -> Tensor:
        """Attend to all keys, or causally after `past` keys; see `RelativeBias.for_queries`."""
        if q.shape[2] == 1:
            out = decode_attention(q, keys, values, bias=bias, key_bias=key_bias, scale=self.scale)
        else:
            out = prefill_attention(
                q,
                keys,
                values,
                table=bias,
                key_bias=key_bias,
                past=past,
                max_distance=self.max_distance,
                scale=self.scale,
            )
        output: Tensor = self.o(out.flatten(2))
        return output


class HDTDecoderSelfAttention(_DecoderAttention):
    """Attention over the decoder's own tokens."""

    def __init__(self, config: HDTConfig) -> None:
        super().__init__(config)
        self.qkv = nn.Linear(config.d_model, 3 * self.o.in_features, bias=False)
        load_parts(self, "qkv", ("q", "k", "v"))

    def project(self, hidden_states: Tensor) -> tuple[Tensor, ...]:
        """Compute queries, keys and values `(batch, heads, length, d_kv)`."""
        return self.heads(self.qkv(hidden_states), 3)


class HDTCrossAttention(_DecoderAttention):
    """Attention over a memory."""

    def __init__(self, config: HDTConfig) -> None:
        super().__init__(config)
        self.q = nn.Linear(config.d_model, self.o.in_features, bias=False)
        self.kv = nn.Linear(config.d_model, 2 * self.o.in_features, bias=False)
        load_parts(self, "kv", ("k", "v"))

    def queries(self, hidden_states: Tensor) -> Tensor:
        """Compute queries `(batch, heads, length, d_kv)`."""
        return self.heads(self.q(hidden_states), 1)[0]

    def keys_and_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Compute keys and values `(batch, heads, length, d_kv)`."""
        keys, values = self.heads(self.kv(memory), 2)
        return keys, values


class HDTDecoderSelfAttentionLayer(nn.Module):
    """x + dropout(attention(norm(x))), where each token sees itself and those before it."""

    def __init__(self, config: HDTConfig, layer_idx: int) -> None:
        super().__init__()
        self.layer_idx = layer_idx
        self.SelfAttention = HDTDecoderSelfAttention(config)
        if layer_idx == 0:  # all blocks use the bias of the first
            self.SelfAttention.relative_attention_bias = RelativeBias(config)
        self.layer_norm = HDTNorm(config.d_model, eps=config.layer_norm_epsilon)
        self.dropout = nn.Dropout(config.dropout_rate)

    def forward(
        self,
        hidden_states: Tensor,
        bias: Tensor | None,
        key_bias: Tensor | None,
        past_key_values: EncoderDecoderCache | None,
    ) -> tuple[Tensor, Tensor]:
        """Apply the layer; new keys and values are added to the cache.

        The first layer computes the bias and returns it for the others: parameters sharded by
        block can only be read within their block.
        """
        normed = self.layer_norm(hidden_states)
        q, keys, values = self.SelfAttention.project(normed)
        if past_key_values is not None:
            cache = past_key_values.self_attention_cache
            keys, values = cache.update(keys, values, self.layer_idx)
        past = keys.shape[2] - hidden_states.shape[1]
        if bias is None:
            relative_bias = cast(RelativeBias, self.SelfAttention.relative_attention_bias)
            bias = relative_bias.for_queries(hidden_states.shape[1], past, normed.device)
        attended = self.SelfAttention(q, keys, values, key_bias, bias, past)
        return hidden_states + self.dropout(attended), bias


class HDTCrossAttentionLayer(nn.Module):
    """x + dropout(attention(norm(x), memory))."""

    def __init__(self, config: HDTConfig, layer_idx: int) -> None:
        super().__init__()
        self.layer_idx = layer_idx
        self.EncDecAttention = HDTCrossAttention(config)
        self.layer_norm = HDTNorm(config.d_model, eps=config.layer_norm_epsilon)
        self.dropout = nn.Dropout(config.dropout_rate)

    def forward(
        self,
        hidden_states: Tensor,
        memory: Tensor,
        memory_bias: Tensor,
        past_key_values: EncoderDecoderCache | None,
    ) -> Tensor:
        """Apply the layer; keys and values of the memory are computed once per cache."""
        if past_key_values is None:
            keys, values = self.EncDecAttention.keys_and_values(memory)
        elif past_key_values.is_updated.get(self.layer_idx):
            cached: Any = past_key_values.cross_attention_cache.layers[self.layer_idx]
            keys, values = cached.keys, cached.values
        else:
            keys, values = past_key_values.cross_attention_cache.update(
                *self.EncDecAttention.keys_and_values(memory), self.layer_idx
            )
            past_key_values.is_updated[self.layer_idx] = True
        q = self.EncDecAttention.queries(self.layer_norm(hidden_states))
        attended: Tensor = self.dropout(self.EncDecAttention(q, keys, values, memory_bias))
        return hidden_states + attended


class HDTDecoderBlock(GradientCheckpointingLayer):
    """Causal attention, attention to the memory, feed-forward, each on normalized inputs."""

    def __init__(self, config: HDTConfig, layer_idx: int) -> None:
        super().__init__()
        self.layer = nn.ModuleList(
            [
                HDTDecoderSelfAttentionLayer(config, layer_idx),
                HDTCrossAttentionLayer(config, layer_idx),
                HDTFeedForwardLayer(config),
            ]
        )

    def forward(
        self,
        hidden_states: Tensor,
        bias: Tensor | None,
        key_bias: Tensor | None,
        memory: Tensor,
        memory_bias: Tensor,
        cache: EncoderDecoderCache | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Apply the layers; the first block, with `bias` None, returns the bias of all blocks."""
        hidden_states, bias = self.layer[0](hidden_states, bias, key_bias, cache)
        hidden_states = self.layer[1](hidden_states, memory, memory_bias, cache)
        hidden_states, update = self.layer[2](hidden_states)
        return hidden_states + update, cast(Tensor, bias)


class HDTDecoder(nn.Module):
    """The decoder's blocks, between norms."""

    def __init__(self, config: HDTConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.d_model)
        self.emb_norm = HDTNorm(config.d_model, eps=config.layer_norm_epsilon)
        self.block = nn.ModuleList(
            HDTDecoderBlock(config, layer_idx)
            for layer_idx in range(config.num_decoder_layers or 0)
        )
        self.final_layer_norm = HDTNorm(config.d_model, eps=config.layer_norm_epsilon)
        self.dropout = nn.Dropout(config.dropout_rate)

    def forward(
        self,
        embeddings: Tensor,
        memory: Tensor,
        memory_mask: Tensor,
        attention_mask: Tensor | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        all_hidden_states: list[Tensor] | None = None,
    ) -> Tensor:
        """Decode token embeddings `(batch, length, d_model)` with attention to a memory.

        Args:
            embeddings: Embeddings of the tokens that are not in the cache.
            memory: `(batch, memory_length, d_model)`.
            memory_mask: `(batch, memory_length)`, false at padding.
            attention_mask: `(batch, all tokens)`, 0 at padding, which may be on either side.
            past_key_values: Cache with the keys and values of the previous tokens, to which those
                of the new ones are added.
            all_hidden_states: A list to which the input of every block is added.

        Raises:
            ValueError: The cache has a fixed length, or the mask has another shape.
        """
        if past_key_values is not None and past_key_values.is_compileable:
            raise ValueError(
                "HDT-ED needs a cache that grows, not one of a fixed length: "
                "leave out cache_implementation, or make it 'dynamic'"
            )
        past = 0 if past_key_values is None else int(past_key_values.get_seq_length())
        shape = (len(embeddings), past + embeddings.shape[1])
        if attention_mask is not None and attention_mask.shape != shape:
            raise ValueError(
                f"decoder_attention_mask must be {shape}, with a number for every token, cached "
                f"or new, got {tuple(attention_mask.shape)}"
            )
        key_bias = None if attention_mask is None else mask_to_bias(attention_mask)
        memory_bias, bias = mask_to_bias(memory_mask), None
        hidden_states: Tensor = self.dropout(self.emb_norm(embeddings))
        for block in self.block:
            if all_hidden_states is not None:
                all_hidden_states.append(hidden_states)
            hidden_states, bias = block(
                hidden_states,
                bias,
                key_bias,
                memory,
                memory_bias,
                cache=past_key_values,  # by name: dropped if the block is checkpointed
            )
        hidden_states = self.dropout(self.final_layer_norm(hidden_states))
        return hidden_states


@dataclass
class HDTMemory(ModelOutput):
    """Output of `HDTForConditionalGeneration.encode`, which the decoder attends to.

    Attributes:
        last_hidden_state: `(batch, length, d_model)`, all tokens in their order, zero at padding.
        memory: `(documents, longest, d_model)`, what the decoder attends to.
        memory_mask: `(documents, longest)`, false at padding.
        hidden_states: On request, the input of every encoder block, and `last_hidden_state`.
    """

    # A ModelOutput allows only one field without a default.
    last_hidden_state: Tensor
    memory: Tensor = None  # type: ignore[assignment] # a ModelOutput's fields have defaults
    memory_mask: Tensor = None  # type: ignore[assignment] # as above
    hidden_states: tuple[Tensor, ...] | None = None


class HDTForConditionalGeneration(HDTPreTrainedModel, GenerationMixin):
    """HDT that reads documents and generates text: summaries, answers, masked passages.

    Example:
        >>> import torch
        >>> from foveate.models.hdt import HDTConfig, HDTForConditionalGeneration
        >>> config = HDTConfig(
        ...     vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_decoder_layers=2
        ... )
        >>> model = HDTForConditionalGeneration(config).eval()
        >>> ids = torch.tensor([[1, 2, 3, 10, 11, 3, 12]])  # doc, sec, sent, two tokens, sent, one
        >>> parents = torch.tensor([[-1, 0, 1, 2, 2, 1, 5]])
        >>> model.generate(
        ...     ids, parent_ids=parents, num_beams=2, min_new_tokens=4, max_new_tokens=4
        ... ).shape
        torch.Size([1, 5])
    """

    _no_split_modules = ["HDTBlock", "HDTDecoderBlock"]  # noqa: RUF012
    _keys_to_ignore_on_load_unexpected = [r"pooler\."]  # noqa: RUF012
    _tied_weights_keys = {  # noqa: RUF012
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
        "lm_head.weight": "shared.weight",
    }

    def __init__(self, config: HDTConfig) -> None:
        super().__init__(config)
        if config.num_decoder_layers is None:
            raise ValueError(
                "this configuration has no decoder: give it num_decoder_layers (6 in HDT-ED)"
            )
        self.shared = nn.Embedding(config.vocab_size, config.d_model)
        self.encoder = HDTEncoder(config)
        self.decoder = HDTDecoder(config)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.post_init()

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> Any:
        """Load a checkpoint, see `HDTPreTrainedModel.from_pretrained`.

        If its configuration has no `decoder_start_token_id`, its tokenizer says what that is.
        """
        loaded = super().from_pretrained(*args, **kwargs)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        if model.config.decoder_start_token_id is None:
            model.config.decoder_start_token_id = _beginning(model.name_or_path)
        return loaded

    @property
    def start_token_id(self) -> int:
        """The token that every written text begins with."""
        token_id: int | None = self.config.decoder_start_token_id
        return cast(int, self.config.pad_token_id) if token_id is None else token_id

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Embedding) and not isinstance(module, RelativeBias):
            # As in T5: hidden states are scaled before the product with the embeddings.
            init.normal_(module.weight, std=self.config.initializer_factor)
        else:
            super()._init_weights(module)

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the token embeddings."""
        return self.shared

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the token embeddings."""
        assert isinstance(value, nn.Embedding)
        self.shared = self.encoder.embed_tokens = self.decoder.embed_tokens = value

    def encode(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        parent_ids: Tensor | None = None,
        tree: Tree | None = None,
        decode_anchors: str | None = None,
        output_hidden_states: bool | None = None,
    ) -> HDTMemory:
        """Encode documents once for everything to be generated from them.

        The arguments and errors are those of `forward`.
        """
        packed = PackedForest.from_inputs(tree, parent_ids, attention_mask)
        if input_ids is None:
            raise ValueError("HDT needs input_ids")
        embeddings = packed.embed(self.shared, input_ids)
        states = self._recorded(output_hidden_states)
        hidden_states = self.encoder(embeddings, packed.tree, states)
        memory, mask = select_memory(
            hidden_states, packed.tree, decode_anchors or self.config.decode_anchors
        )
        last = packed.unpack(hidden_states)
        recorded = None if states is None else (*map(packed.unpack, states), last)
        return HDTMemory(last, memory, mask, recorded)

    def _recorded(self, output_hidden_states: bool | None) -> list[Tensor] | None:
        """Return a list for hidden states if they are requested, by the configuration if None."""
        if output_hidden_states is None:
            output_hidden_states = bool(self.config.output_hidden_states)
        return [] if output_hidden_states else None

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        parent_ids: Tensor | None = None,
        tree: Tree | None = None,
        decode_anchors: str | None = None,
        encoder_outputs: HDTMemory | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        output_hidden_states: bool | None = None,
        **kwargs: Any,
    ) -> Seq2SeqLMOutput:
        """Predict the next token after every token of the target.

        Args:
            input_ids: `(batch, length)` int64, the documents. Every tree of the forest is one, so
                a sequence may hold several.
            attention_mask: `(batch, length)`, 0 at padding.
            parent_ids: `(batch, length)` int64, see `HDTModel.forward`.
            tree: In place of `attention_mask` and `parent_ids`, for documents that are packed into
                one sequence of ids `(1, tokens)` in level order.
            decode_anchors: What the decoder attends to: "section" anchors, section and "sentence"
                anchors, or every "token"; by default that of the configuration.
            encoder_outputs: Output of `encode`, in place of all of the above.
            decoder_input_ids: `(documents, tokens)` int64; by default the labels, shifted by one.
            decoder_attention_mask: `(documents, tokens)`, 0 at padding; with a cache, it covers the
                previous tokens too.
            labels: `(documents, tokens)` int64, -100 where the loss does not count.
            use_cache: Whether to return a cache for the next call; ignored with labels.
            output_hidden_states: Whether to return the input of every block too.
            kwargs: `return_dict`, False for a tuple; and `cache` (before transformers 5.24,
                `past_key_values`), a growing cache of the previous tokens, which
                `decoder_input_ids` then does not repeat.

        Returns:
            `logits` `(documents, tokens, vocab_size)`, with labels the mean cross-entropy `loss`
            (0 where no label counts), and `encoder_last_hidden_state` `(batch, length, d_model)`.
            On request `encoder_hidden_states` `(batch, length, d_model)` and
            `decoder_hidden_states` `(documents, tokens, d_model)`, the input of every block and the
            output of the last, normalized.

        Raises:
            ValueError: There is no document or no target, their numbers differ, `decode_anchors`
                is unknown or a document has no such anchors, `decoder_attention_mask` has another
                shape, the cache has a fixed length, or an argument is not supported: embeddings,
                attention weights.
        """
        _reject_unsupported(kwargs)
        if encoder_outputs is None:
            encoder_outputs = self.encode(
                input_ids, attention_mask, parent_ids, tree, decode_anchors, output_hidden_states
            )
        memory, memory_mask = encoder_outputs.memory, encoder_outputs.memory_mask
        if decoder_input_ids is None:
            if labels is None:
                raise ValueError("HDT-ED needs decoder_input_ids or labels, or call generate")
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        if len(decoder_input_ids) != len(memory):
            raise ValueError(
                "the numbers of targets and documents differ: "
                f"{len(decoder_input_ids)} targets, {len(memory)} documents"
            )
        use_cache = self.config.use_cache if use_cache is None else use_cache
        cache: Any = find_cache(*kwargs.values())
        if use_cache and labels is None and cache is None:
            cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        states = self._recorded(output_hidden_states)
        hidden_states = self.decoder(
            self.shared(decoder_input_ids),
            memory,
            memory_mask,
            decoder_attention_mask,
            cache,
            states,
        )
        logits = self.lm_head(hidden_states * self.config.d_model**-0.5)
        loss = None
        if labels is not None:
            wide = widened(logits).flatten(0, 1)
            total = F.cross_entropy(wide, labels.flatten(), reduction="sum")
            loss = total / (labels != IGNORE_INDEX).sum().clamp(min=1)
        return Seq2SeqLMOutput(  # the name of the cache depends on the version of transformers
            loss,
            logits,
            cache,
            decoder_hidden_states=None if states is None else (*states, hidden_states),
            encoder_last_hidden_state=encoder_outputs.last_hidden_state,
            encoder_hidden_states=encoder_outputs.hidden_states,
        )

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """Shift labels `(documents, tokens)` by one, after the start token."""
        start = labels.new_full((len(labels), 1), self.start_token_id)
        shifted = labels[:, :-1]
        shifted = shifted.masked_fill(shifted == IGNORE_INDEX, self.config.pad_token_id)
        return torch.cat([start, shifted], dim=1)

    @torch.no_grad()
    def generate(self, inputs: Tensor | None = None, *args: Any, **kwargs: Any) -> Any:
        """Generate text for every document.

        Args:
            inputs: `(batch, length)` int64, the documents, with the other arguments of `encode`;
                or `encoder_outputs`, what `encode` returned.
            args: See `GenerationMixin.generate`.
            kwargs: See `GenerationMixin.generate`.

        Returns:
            `(documents, tokens)` int64, a sequence for each document, however many documents a
            sequence of `inputs` holds.
        """
        _reject_unsupported(kwargs)
        if inputs is None:
            inputs = kwargs.pop("input_ids", None)
        settings = kwargs.get("generation_config") or self.generation_config
        if settings.decoder_start_token_id is None:
            kwargs.setdefault("decoder_start_token_id", self.start_token_id)
        names = ("attention_mask", "parent_ids", "tree", "decode_anchors")
        encoder_arguments = {name: kwargs.pop(name) for name in names if name in kwargs}
        # transformers would encode one document for each of its inputs.
        if kwargs.get("encoder_outputs") is None:
            kwargs["encoder_outputs"] = self.encode(
                inputs,
                **encoder_arguments,
                output_hidden_states=kwargs.get(
                    "output_hidden_states", settings.output_hidden_states
                ),
            )
        num_documents = len(kwargs["encoder_outputs"].memory)
        if inputs is None or len(inputs) != num_documents:
            # transformers generates one sequence for each of its inputs: here, for each document.
            inputs = torch.full((num_documents, 1), IGNORE_INDEX, device=self.device)
        return GenerationMixin.generate(cast(Any, self), inputs, *args, **kwargs)
