"""TreeBert: BERT over the passages of a document, and heads that read the document as a tree.

The Transformer is BERT with BERT's parameter names, so BERT's weights load. A passage is a run of
whole sentences; the [SEP] that ends a sentence stands for it. Heads compute the vector of every
sentence, section and document, and the salience of every sentence. A sentence by itself is a
passage of one sentence.

Inside the model, all documents of a batch are packed in level order.

The layers need torch alone, so that a checkpoint can be read without importing transformers, which
takes longer than reading a document. `foveate.models.tree_bert` builds a transformers model from
them, for training and for the Auto classes.
"""

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, cast

import safetensors.torch
import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from foveate.models.joint_layers import load_parts
from foveate.models.packing import PackedForest
from foveate.models.projections import drop
from foveate.ops.compiling import uncompiled
from foveate.ops.precision import widened
from foveate.ops.tree_attention import Tree, tree_attention_qkv
from foveate.ops.tree_attention.dense import attend_families
from foveate.ops.tree_attention.families import FamilyBatch, batch_families
from foveate.preprocessing.tree import NODE_TYPES

_TOKEN, _SENTENCE, _PASSAGE = (NODE_TYPES[name] for name in ("token", "sentence", "passage"))

_TOKENS_PER_CHUNK = 16384
"""Tokens that go through a feed-forward layer at once in inference, to save memory."""

_TOKENS_IN_CACHE = 2048
"""Tokens of passages that go through all layers at once on a CPU."""

_ROWS = 128
"""What the rows of a batch are filled up to a multiple of: only blocks of few sizes are reused."""

_JSON_TYPES: dict[Any, tuple[type, ...]] = {
    int: (int,),
    float: (int, float),
    str: (str,),
    float | None: (int, float, type(None)),
    int | None: (int, type(None)),
}


@dataclass
class NetworkConfig:
    """The fields of a `TreeBertConfig` that inference depends on; see there."""

    model_type: ClassVar[str] = "tree_bert"

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    hidden_act: str
    hidden_dropout_prob: float
    max_position_embeddings: int
    type_vocab_size: int
    layer_norm_eps: float
    salience_size: int
    salience_dropout: float
    _name_or_path: str
    min_likely_score: float | None = None
    token_size: int | None = None

    @classmethod
    def from_fields(cls, values: Mapping[str, Any]) -> Self:
        """Take the fields from all those of a `TreeBertConfig`.

        Raises:
            KeyError: A field is missing.
            TypeError: The value of a field is of another type.
        """
        own = {
            field.name: values[field.name]
            for field in fields(cls)
            if field.name in values or field.default is MISSING
        }
        for field in fields(cls):
            if field.name in own and not isinstance(own[field.name], _JSON_TYPES[field.type]):
                raise TypeError(
                    f"{field.name} is {own[field.name]!r}, which is not of type {field.type}"
                )
        return cls(**own)

    @property
    def name_or_path(self) -> str:
        """Where the weights are from."""
        return self._name_or_path


@dataclass(frozen=True)
class Anchors:
    """Sentences, passages, sections and documents of a packed forest, as a forest of their own.

    Attributes:
        nodes: `(anchors,)` int64, their indices among all nodes, ascending.
        kinds: `(anchors,)` int64, see `NODE_TYPES`.
        parent: `(anchors,)` int64, the index of each one's parent among the anchors, -1 at a root.
        sibling_idx: `(anchors,)` int64, the index of each one among the anchors that are its
            siblings; 0 at a root.
        level_sizes: How many there are on each level, from the roots down.
        num_passages: How many of them are passages.
    """

    nodes: Tensor
    kinds: Tensor
    parent: Tensor
    sibling_idx: Tensor
    level_sizes: list[int]
    num_passages: int

    @classmethod
    @uncompiled  # the number of anchors depends on the data
    def from_tree(cls, tree: Tree, node_types: Tensor) -> "Anchors":
        """Find the anchors of a forest by the `node_types` `(nodes,)` of its nodes.

        Raises:
            ValueError: A token or sentence is not in a passage, a passage or section is in one, or
                a passage does not end with a sentence's last token.
        """
        is_anchor = node_types > _TOKEN
        has_parent = tree.parent >= 0
        is_in_passage = has_parent & (node_types[tree.parent] == _PASSAGE)
        is_below = (node_types == _TOKEN) | (node_types == _SENTENCE)
        is_misplaced = (is_below != is_in_passage) | (has_parent & is_below[tree.parent])
        is_passage = node_types == _PASSAGE
        last_child = tree.first_child + tree.num_children - 1
        is_open = is_passage & (node_types[last_child] != _SENTENCE)
        per_level = is_anchor.new_zeros(len(tree.level_sizes), dtype=torch.long)
        per_level = per_level.index_add(0, tree.level, is_anchor.long())
        counts = torch.stack([is_passage.sum(), is_misplaced.sum(), is_open.sum()])
        # The only time that the host waits for the device.
        *level_sizes, num_passages, num_misplaced, num_open = torch.cat(
            [per_level, counts]
        ).tolist()
        if num_misplaced:
            raise ValueError(
                f"{num_misplaced} nodes are misplaced: tokens and sentences belong into passages, "
                "and these into sections and documents; check parent_ids and node_types"
            )
        if num_open:
            raise ValueError(
                f"{num_open} passages do not end with the last token of a sentence: "
                "check node_types"
            )
        nodes = torch.nonzero_static(is_anchor, size=sum(level_sizes))[:, 0]
        index = torch.full_like(tree.parent, -1)
        index[nodes] = torch.arange(len(nodes), device=nodes.device)
        parent = tree.parent[nodes]
        is_root = parent < 0
        parent = torch.where(is_root, -1, index[parent])
        # In level order parents ascend, so siblings are consecutive.
        number = torch.arange(len(nodes), device=nodes.device)
        return cls(
            nodes=nodes,
            kinds=node_types[nodes],
            parent=parent,
            sibling_idx=torch.where(is_root, 0, number - torch.searchsorted(parent, parent)),
            level_sizes=[size for size in level_sizes if size],
            num_passages=num_passages,
        )

    @property
    def is_sentence(self) -> Tensor:
        """`(anchors,)` bool."""
        return self.kinds == _SENTENCE

    @property
    def without_passages(self) -> Tensor:
        """The indices of all but passages, int64."""
        number = len(self.nodes) - self.num_passages
        return torch.nonzero_static(self.kinds != _PASSAGE, size=number)[:, 0]

    @property
    def section(self) -> Tensor:
        """`(anchors,)` int64, the index of the section or document around each; at a root itself.

        A passage that is a root stands for both.
        """
        index = torch.arange(len(self.nodes), device=self.nodes.device)
        above = torch.where(self.parent < 0, index, self.parent)
        return torch.where(self.is_sentence, above[above], above)

    def sum_below(self, values: Tensor) -> Tensor:
        """Sum the values `(anchors, ...)` of all anchors below each, and its own."""
        levels = list(values.split(self.level_sizes))
        for level, parent in reversed([*enumerate(self._parents_on_level())]):
            levels[level] = levels[level].index_add(0, parent, levels[level + 1])
        return torch.cat(levels)

    def sum_above(self, values: Tensor) -> Tensor:
        """Sum the values `(anchors, ...)` of all ancestors of each anchor, and its own."""
        levels = list(values.split(self.level_sizes))
        for level, parent in enumerate(self._parents_on_level()):
            levels[level + 1] = levels[level + 1] + levels[level][parent]
        return torch.cat(levels)

    @property
    def root(self) -> Tensor:
        """`(anchors,)` int64, the index of each one's root among the anchors."""
        levels = [torch.arange(self.level_sizes[0], device=self.parent.device)]
        for parent in self._parents_on_level():
            levels.append(levels[-1][parent])
        return torch.cat(levels)

    def _parents_on_level(self) -> list[Tensor]:
        """For each level but the first, its anchors' parents by their places on the level above."""
        starts = accumulate(self.level_sizes, initial=0)
        below = self.parent.split(self.level_sizes)[1:]
        return [parent - start for parent, start in zip(below, starts, strict=False)]


@dataclass(frozen=True)
class Passages:
    """The passages of a packed forest and their tokens, as a forest of two levels.

    Attributes:
        nodes: `(n,)` int64, their indices among all nodes: passages first, then their tokens.
        tree: The forest of these n nodes, in level order.
        position: `(n,)` int64, 0 at a passage, and its tokens counted from 1.
        anchor: `(n,)` int64, the index among the anchors of the sentence that a token belongs to,
            and of the passage itself.
        is_anchor: `(n,)` bool, true at passages and at the last token of each sentence.
    """

    nodes: Tensor
    tree: Tree
    position: Tensor
    anchor: Tensor
    is_anchor: Tensor

    @classmethod
    @uncompiled  # the number of nodes depends on the data
    def from_tree(cls, tree: Tree, node_types: Tensor, anchors: Anchors) -> "Passages":
        """Take the passages and their tokens out of a forest with other nodes above them."""
        device = tree.parent.device
        is_passage = node_types == _PASSAGE
        passages = torch.nonzero_static(is_passage, size=anchors.num_passages)[:, 0]
        is_below = (node_types == _TOKEN) | (node_types == _SENTENCE)
        tokens = is_below.nonzero()[:, 0]
        number = torch.empty_like(tree.parent)
        number[passages] = torch.arange(len(passages), device=device)
        parent = number[tree.parent[tokens]]
        forest = Tree.from_parents(torch.cat([torch.full_like(passages, -1), parent]))
        first = forest.first_child[parent]
        position = torch.arange(len(tokens), device=device) + len(passages) - first + 1
        is_anchor = node_types[tokens] == _SENTENCE
        # In level order, a token belongs to the next sentence that ends.
        index = torch.empty_like(tree.parent)
        index[anchors.nodes] = torch.arange(len(anchors.nodes), device=device)
        sentences = index[tokens[is_anchor]]
        before = is_anchor.cumsum(0) - is_anchor.long()
        return cls(
            nodes=torch.cat([passages, tokens]),
            tree=forest,
            position=torch.cat([torch.zeros_like(passages), position]),
            anchor=torch.cat([index[passages], sentences[before]]),
            is_anchor=torch.cat([torch.ones_like(passages, dtype=torch.bool), is_anchor]),
        )


def activation(name: str) -> nn.Module:
    """Create the activation that transformers calls by this name."""
    if name == "gelu":
        return nn.GELU()
    from transformers.activations import ACT2FN  # takes seconds

    return cast(nn.Module, ACT2FN[name])


def _in_place(module: nn.Module) -> bool:
    """Return whether hidden states may be overwritten: in inference, where it saves memory."""
    return not (module.training or torch.is_grad_enabled())


class TreeBertEmbeddings(nn.Module):
    """BERT's embeddings: of words, positions, and the first type."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        size = config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, size)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, size)
        self.LayerNorm = nn.LayerNorm(size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, words: Tensor, position: Tensor) -> Tensor:
        """Complete the embeddings of words `(tokens, hidden_size)` at positions `(tokens,)`."""
        first_type = self.token_type_embeddings(torch.zeros_like(position[:1]))
        embeddings = words + self.position_embeddings(position) + first_type
        output: Tensor = self.dropout(self.LayerNorm(embeddings))
        return output


class TreeBertSelfAttention(nn.Module):
    """Multi-head attention within passages."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        load_parts(self, "qkv", ("query", "key", "value"))

    def forward(self, hidden_states: Tensor, tree: Tree) -> Tensor:
        """Let the tokens of every passage, its anchor among them, attend to each other."""
        return tree_attention_qkv(self.project(hidden_states), tree).flatten(1)

    def project(self, hidden_states: Tensor) -> Tensor:
        """Compute queries, keys and values `(nodes, 3, heads, head_dim)`."""
        projected: Tensor = self.qkv(hidden_states).unflatten(1, (3, self.num_heads, -1))
        return projected


class TreeBertResidual(nn.Module):
    """norm(input + dropout(dense(x)))."""

    def __init__(self, config: NetworkConfig, in_features: int) -> None:
        super().__init__()
        self.dense = nn.Linear(in_features, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_states: Tensor, residual: Tensor) -> Tensor:
        """Project `(nodes, in_features)` and add the input of the layer."""
        update = drop(self.dropout, self.dense(hidden_states))
        output: Tensor = self.LayerNorm(residual + update)
        return output


class TreeBertAttention(nn.Module):
    """Attention within passages and its output layer."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.self = TreeBertSelfAttention(config)
        self.output = TreeBertResidual(config, config.hidden_size)

    def forward(self, hidden_states: Tensor, tree: Tree) -> Tensor:
        """Attend, project and normalize."""
        output: Tensor = self.output(self.self(hidden_states, tree), hidden_states)
        return output


class TreeBertIntermediate(nn.Module):
    """The first half of a feed-forward layer."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.intermediate_size)
        self.activation = activation(config.hidden_act)

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Expand every hidden state."""
        output: Tensor = self.activation(self.dense(hidden_states))
        return output


class TreeBertLayer(nn.Module):
    """One layer: attention, then feed-forward, each normalized after its residual (BERT)."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.attention = TreeBertAttention(config)
        self.intermediate = TreeBertIntermediate(config)
        self.output = TreeBertResidual(config, config.intermediate_size)

    def forward(self, hidden_states: Tensor, tree: Tree) -> Tensor:
        """Apply the layer to `(nodes, hidden_size)`."""
        hidden_states = self.attention(hidden_states, tree)
        if not _in_place(self):
            return self.feed_forward(hidden_states)
        for chunk in hidden_states.split(_TOKENS_PER_CHUNK):
            chunk.copy_(self.feed_forward(chunk))
        return hidden_states

    def project(self, hidden_states: Tensor) -> tuple[Tensor, ...]:
        """Compute queries, keys and values `(nodes, heads, head_dim)`."""
        return self.attention.self.project(hidden_states).unbind(1)

    def finish(self, attended: Tensor, hidden_states: Tensor) -> Tensor:
        """Apply what follows the attention `(nodes, heads, head_dim)`, to every node by itself."""
        output: Tensor = self.attention.output(attended.flatten(1), hidden_states)
        return self.feed_forward(output)

    def feed_forward(self, hidden_states: Tensor) -> Tensor:
        """Transform every hidden state independently."""
        output: Tensor = self.output(self.intermediate(hidden_states), hidden_states)
        return output


class TreeBertEncoder(nn.Module):
    """The layers."""

    def __init__(self, config: NetworkConfig, layer_class: type[TreeBertLayer]) -> None:
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.layer = nn.ModuleList(layer_class(config) for _ in range(config.num_hidden_layers))

    def forward(self, hidden_states: Tensor, tree: Tree) -> Tensor:
        """Apply all layers to passages `(nodes, hidden_size)`, without gradients in place."""
        for layer in self.layer:
            hidden_states = layer(hidden_states, tree)
        return hidden_states

    def read(self, hidden_states: Tensor, batch: FamilyBatch) -> Tensor:
        """Apply all layers to the passages of a batch, without gradients."""
        for layer in cast(list[TreeBertLayer], self.layer):
            q, k, v = layer.project(hidden_states)
            hidden_states = layer.finish(attend_families(q, k, v, batch), hidden_states)
        return hidden_states


class TreeBertPooling(nn.Module):
    """The vector of every anchor.

    That of a sentence s is the mean of its tokens t, its [SEP] among them, and of the anchor p of
    its passage, as MiniLM was trained; that of a passage, section or document x is a weighted mean
    of all sentences in it:

        e(s) = unit(mean(h(p), h(t) for its tokens t)),
        e(x) = unit(Σ_s w(s) e(s)),    w(s) = sigmoid(a · h(s) + b),

    where h(s) is the state of the sentence's [SEP]. With new weights a and b are 0: the mean of its
    sentences.
    """

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.sentence = nn.Parameter(torch.empty(config.hidden_size))
        self.bias = nn.Parameter(torch.empty(1))

    def forward(self, sums: Tensor, own: Tensor, anchors: Anchors) -> Tensor:
        """Compute the vectors of anchors, `(anchors, hidden_size)`, of unit length.

        Args:
            sums: `(anchors, hidden_size)`, the sum over the tokens of each sentence.
            own: `(anchors, hidden_size)`, the state of each sentence's [SEP] and each passage's
                anchor; 0 at others.
            anchors: The anchors.
        """
        is_sentence = anchors.is_sentence[:, None]
        # The mean has the direction of the sum.
        sentences = F.normalize(sums + own[anchors.parent], dim=-1) * is_sentence
        weight = torch.sigmoid(own @ self.sentence.to(own) + self.bias)[:, None]
        larger = F.normalize(anchors.sum_below(weight * sentences), dim=-1)
        return torch.where(is_sentence, sentences, larger)


class TreeBertSalience(nn.Module):
    """How much each sentence belongs in a summary.

    It sees the hidden state of the sentence's [SEP], the vectors of the sentence, its section and
    the document, their cosines, and the place of the sentence.
    """

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        num_features = 4 * config.hidden_size + 2 + NUM_PLACES
        self.norm = nn.LayerNorm(num_features)
        self.dense = nn.Linear(num_features, config.salience_size)
        self.dropout = nn.Dropout(config.salience_dropout)
        self.activation = activation(config.hidden_act)
        self.output = nn.Linear(config.salience_size, 1)

    def forward(self, hidden_states: Tensor, embeddings: Tensor, anchors: Anchors) -> Tensor:
        """Score anchors `(anchors,)`.

        Args:
            hidden_states: `(anchors, hidden_size)`.
            embeddings: `(anchors, hidden_size)`.
            anchors: The anchors.
        """
        section, root = anchors.section, anchors.root
        scale = embeddings.shape[-1] ** 0.5  # unit vectors have small entries
        of_section, of_document = embeddings[section], embeddings[root]
        features = [
            widened(hidden_states),
            scale * embeddings,
            scale * of_section,
            scale * of_document,
            (embeddings * of_section).sum(-1, keepdim=True),
            (embeddings * of_document).sum(-1, keepdim=True),
            places(anchors),
        ]
        normed = self.norm(torch.cat(features, dim=-1).to(self.norm.weight.dtype))
        salience = self.output(self.dropout(self.activation(self.dense(normed))))[:, 0]
        return widened(salience) * anchors.is_sentence


NUM_PLACES = 8
"""Number of features that `places` gives."""


def places(anchors: Anchors) -> Tensor:
    """Describe the places of anchors: in their section, in the document, and how long that is.

    Returns:
        `(anchors, 8)` float32, each feature of about unit size: for the sentence and then for its
        section the relative place among the sentences and then the sections of what contains it,
        and how close that is to either end; the relative place in the reading order of the
        document; and the logarithm of its length. Passages do not count.
    """
    section, root = anchors.section, anchors.root
    every = torch.arange(len(section), device=section.device)
    group = torch.where(anchors.parent < 0, len(every) + every, section)
    place = torch.empty_like(every)
    place[(group * (_PASSAGE + 1) + anchors.kinds).argsort(stable=True)] = every
    zeros = group.new_zeros(2 * len(every))
    size = zeros.index_add(0, group, (anchors.kinds != _PASSAGE).long())
    first = (zeros + len(every)).scatter_reduce(0, group, place, "amin")

    def in_group(x: Tensor) -> list[Tensor]:
        index = place[x] - first[group[x]]
        number = torch.maximum(size[group[x]], index + 1)  # passages come last
        return [index / (number - 1).clamp(min=1), 1 / (1 + index), 1 / (number - index)]

    counts = anchors.sum_below(torch.ones_like(section))
    # In level order siblings are consecutive: the sum over those before an anchor is a difference.
    before = counts.cumsum(0) - counts
    earlier = torch.where(anchors.parent < 0, 0, before - before[every - anchors.sibling_idx])
    order = anchors.sum_above(1 + earlier)  # depth first: all that came before, and the ancestors
    length = counts[root]
    features = [*in_group(every), *in_group(section), order / length, length.log() / 5]
    return torch.stack([feature.float() for feature in features], dim=-1)


class NetworkOutput(NamedTuple):
    """Output of the layers; see `foveate.models.tree_bert.TreeBertOutput`."""

    anchor_indices: Tensor
    embeddings: Tensor
    salience: Tensor
    token_vectors: Tensor | None


class TreeBertLayers(nn.Module):
    """The base class of all TreeBert models: the layers and heads, and what they compute."""

    config: Any

    def add_layers(self, config: NetworkConfig, encoder: TreeBertEncoder) -> None:
        """Add layers and heads, with random weights.

        Args:
            config: Their sizes.
            encoder: The Transformer's layers, of these sizes.
        """
        self.embeddings = TreeBertEmbeddings(config)
        self.encoder = encoder
        self.pooling = TreeBertPooling(config)
        self.salience = TreeBertSalience(config)
        self.token_head: nn.Linear | None = None
        if config.token_size is not None:
            self.token_head = nn.Linear(config.hidden_size, config.token_size, bias=False)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        parent_ids: Tensor | None = None,
        node_types: Tensor | None = None,
        tree: Tree | None = None,
    ) -> NetworkOutput:
        """Encode documents; see `foveate.models.tree_bert.TreeBertModel.forward`."""
        if node_types is None:
            raise ValueError("node_types are missing: prepare documents with a TreeBertProcessor")
        packed = PackedForest.from_inputs(tree, parent_ids, attention_mask)
        types = packed.pack(node_types)
        anchors = Anchors.from_tree(packed.tree, types)
        passages = Passages.from_tree(packed.tree, types, anchors)
        if input_ids.device.type == "cpu" and _in_place(self):
            ids = packed.pack(input_ids)[passages.nodes]
            sums, own, tokens = self._read_in_batches(ids, passages, anchors)
        else:
            words = packed.embed(self.embeddings.word_embeddings, input_ids)[passages.nodes]
            hidden_states = self.encoder(self.embeddings(words, passages.position), passages.tree)
            tokens = self._token_vectors(hidden_states[anchors.num_passages :])
            hidden_states = widened(hidden_states)
            zeros = hidden_states.new_zeros(len(anchors.nodes), hidden_states.shape[1])
            sums = zeros.index_add(0, passages.anchor, hidden_states)
            ends = passages.is_anchor.nonzero()[:, 0]
            own = zeros.index_copy(0, passages.anchor[ends], hidden_states[ends])
        vectors = self.pooling(sums, own, anchors)
        salience = self.salience(own, vectors, anchors)
        shown = anchors.without_passages
        nodes = anchors.nodes[shown]
        return NetworkOutput(
            anchor_indices=nodes if packed.indices is None else packed.indices[nodes],
            embeddings=vectors[shown],
            salience=salience[shown],
            token_vectors=tokens,
        )

    def _token_vectors(self, hidden_states: Tensor) -> Tensor | None:
        """Project hidden states `(tokens, hidden_size)` to unit vectors `(tokens, token_size)`."""
        if self.token_head is None:
            return None
        return F.normalize(widened(self.token_head(hidden_states)), dim=-1)

    def _read_in_batches(
        self, input_ids: Tensor, passages: Passages, anchors: Anchors
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Read some passages at a time, so that no more of their states are kept than is pooled.

        Args:
            input_ids: `(n,)`, of the nodes of the passages.
            passages: The passages.
            anchors: The anchors.

        Returns:
            `sums` and `own`, see `TreeBertPooling`; and the vectors of tokens.
        """
        words = self.embeddings.word_embeddings
        dtype = widened(words.weight[:0]).dtype
        sums, own = torch.zeros(2, len(anchors.nodes), words.embedding_dim, dtype=dtype)
        num_passages = anchors.num_passages
        tokens = None
        if self.config.token_size is not None:
            tokens = sums.new_empty(len(input_ids) - num_passages, self.config.token_size)
        tree = passages.tree
        families = tree.parent, tree.first_child, tree.num_children
        for batch in batch_families(*families, _TOKENS_IN_CACHE):
            position = passages.position[batch.nodes]
            states = self.embeddings(words(input_ids[batch.nodes]), position)
            missing = -len(states) % _ROWS
            states = self.encoder.read(F.pad(states, (0, 0, 0, missing)), batch)
            states = states[: len(batch.nodes)]
            if tokens is not None:
                is_token = batch.nodes >= num_passages
                vectors = cast(Tensor, self._token_vectors(states[is_token]))
                tokens.index_copy_(0, batch.nodes[is_token] - num_passages, vectors)
            states = widened(states)
            index, is_end = passages.anchor[batch.nodes], passages.is_anchor[batch.nodes]
            sums.index_add_(0, index, states)
            own.index_copy_(0, index[is_end], states[is_end])
        return sums, own, tokens


class TreeBertNetwork(TreeBertLayers):
    """TreeBert for inference, without transformers.

    Args:
        config: The sizes of its layers.
    """

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.config = config
        self.add_layers(config, TreeBertEncoder(config, TreeBertLayer))

    @property
    def device(self) -> torch.device:
        """The device of its weights."""
        return self.embeddings.word_embeddings.weight.device


class _WithoutInitialization(TorchFunctionMode):
    """Skip the initialization of new layers, because loaded weights replace their parameters."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"]
        return func(*args, **kwargs)


def load_network(folder: Path) -> TreeBertNetwork | None:
    """Load a checkpoint of TreeBert in float32, in evaluation mode.

    Returns:
        The network; None if the folder is not a checkpoint of TreeBert, or an incomplete or damaged
        one: transformers, which knows more forms of checkpoints, loads it or says what is wrong.
    """
    try:
        values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if values["model_type"] != NetworkConfig.model_type:
            return None
        config = NetworkConfig.from_fields({**values, "_name_or_path": str(folder)})
        weights = safetensors.torch.load_file(folder / "model.safetensors")
    except (OSError, ValueError, KeyError, TypeError, SafetensorError):
        return None
    with _WithoutInitialization():
        network = TreeBertNetwork(config)
    try:
        network.load_state_dict(weights, assign=True)
    except RuntimeError:  # other weights, or weights of other shapes
        return None
    return network.float().eval()
