"""TreeBert: BERT over the passages of a document, and heads that read the document as a tree.

The Transformer is BERT with BERT's parameter names, so BERT's weights load. A passage is a run of
whole sentences; the [SEP] that ends a sentence stands for it. Heads compute the vector of every
sentence, section and document, and the salience of every sentence. A sentence by itself is a
passage of one sentence.

The layers need torch alone, so that a checkpoint can be read without importing transformers, which
takes longer than reading a document. `foveate.models.tree_bert` builds a transformers model from
them, for training and for the Auto classes.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, cast

import safetensors.torch
import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from foveate.models.joint_layers import load_parts
from foveate.models.packing import PackedSequences
from foveate.models.projections import drop
from foveate.ops.backends import choose
from foveate.ops.compiling import uncompiled
from foveate.ops.precision import widened
from foveate.ops.tree_attention import Tree, tree_attention_qkv
from foveate.ops.tree_attention.dense import attend_equal
from foveate.preprocessing.collate import fill_packs
from foveate.preprocessing.tree import NODE_TYPES

Layout = Tree | list[tuple[int, int]]
"""The passages of a batch: a forest for the kernels, see `Tree`, of which every tree is a passage,
its [CLS] the root; or, for passages one after another, runs of equal ones: their number and length.
"""

_BATCH_TOKENS_ON_CPU = 2048
"""Tokens of passages that go through all layers at once, so that they stay in cache."""

_BATCH_TOKENS = 65536
"""The same on a GPU, where it bounds the memory that a long document takes."""

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
    """Documents, sections and sentences as a forest, in reading order.

    Attributes:
        kinds: `(anchors,)` int64, see `NODE_TYPES`.
        parents: `(anchors,)` int64, the index of each one's parent, which precedes it; -1 at a
            root.
        begins_passage: `(anchors,)` int64, 1 at the first sentence of each passage, else 0.
    """

    kinds: Tensor
    parents: Tensor
    begins_passage: Tensor

    @property
    def is_sentence(self) -> Tensor:
        """`(anchors,)` bool."""
        return self.kinds == NODE_TYPES["sentence"]

    @property
    def section(self) -> Tensor:
        """`(anchors,)` int64, the section or document around each; a root itself."""
        every = torch.arange(len(self), device=self.parents.device)
        return torch.where(self.parents < 0, every, self.parents)

    @property
    def root(self) -> Tensor:
        """`(anchors,)` int64, the root above each; a root itself."""
        every = torch.arange(len(self), device=self.parents.device)
        return torch.where(self.parents < 0, every, 0).cummax(0).values

    @cached_property
    def ancestors(self) -> list[tuple[Tensor, Tensor]]:
        """Pairs of anchors and their parents, then of anchors and the parents of those, and so on.

        Raises:
            ValueError: A parent does not precede its child.
        """
        below, above = torch.arange(len(self), device=self.parents.device), self.parents
        if (above >= below).any():
            raise ValueError("anchor_parents must precede their children")
        pairs = []
        while len(found := (above >= 0).nonzero()[:, 0]):
            below, above = below[found], above[found]
            pairs.append((below, above))
            above = self.parents[above]
        return pairs

    def sum_below(self, values: Tensor) -> Tensor:
        """Sum the values `(anchors, ...)` of all anchors below each, and its own."""
        sums = values
        for below, above in self.ancestors:
            sums = sums.index_add(0, above, values[below])
        return sums

    def __len__(self) -> int:
        """Return the number of anchors."""
        return len(self.parents)


class Batch(NamedTuple):
    """Some passages that go through all layers together.

    Attributes:
        tokens: `(n,)` int64, the indices of their tokens among all.
        first: `(n,)` int64, the index of each one's [CLS] among these.
        layout: How passages follow each other.
    """

    tokens: Tensor
    first: Tensor
    layout: Layout


def batch_passages(position_ids: Tensor, max_tokens: int, *, as_tree: bool) -> Iterator[Batch]:
    """Divide passages into batches of up to `max_tokens` tokens; a longer one is one by itself.

    Args:
        position_ids: `(tokens,)` int64, counted from 0 in each passage.
        max_tokens: Tokens of a batch.
        as_tree: Whether the layout of a batch is a `Tree`.
    """
    device = position_ids.device
    starts = (position_ids == 0).nonzero()[:, 0]
    lengths = starts.diff(append=starts.new_tensor([len(position_ids)]))
    sizes = lengths.tolist()
    by_size = sorted(range(len(sizes)), key=sizes.__getitem__)
    for pack in fill_packs(by_size, sizes, max_tokens):
        chosen = torch.tensor(pack, device=device)
        number = lengths[chosen]
        first = (number.cumsum(0) - number).repeat_interleave(number)
        index = torch.arange(len(first), device=device)
        tokens = index - first + starts[chosen].repeat_interleave(number)
        if as_tree:
            tree = Tree.from_parents(torch.where(index == first, -1, first))
            root = torch.where(tree.parent < 0, index, tree.parent)
            yield Batch(tree.to_level_order(tokens), root, tree.in_level_order)
        else:
            runs = groupby(sizes[i] for i in pack)
            yield Batch(tokens, first, [(len([*run]), size) for size, run in runs])


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

    def forward(self, hidden_states: Tensor, passages: Layout) -> Tensor:
        """Let the tokens of every passage attend to each other."""
        qkv = self.qkv(hidden_states).unflatten(1, (3, self.num_heads, -1))
        if isinstance(passages, Tree):
            return tree_attention_qkv(qkv, passages).flatten(1)
        q, k, v = qkv.unbind(1)
        return attend_equal(q, k, v, passages).flatten(1)


class TreeBertResidual(nn.Module):
    """norm(input + dropout(dense(x)))."""

    def __init__(self, config: NetworkConfig, in_features: int) -> None:
        super().__init__()
        self.dense = nn.Linear(in_features, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_states: Tensor, residual: Tensor) -> Tensor:
        """Project `(tokens, in_features)` and add the input of the layer."""
        update = drop(self.dropout, self.dense(hidden_states))
        output: Tensor = self.LayerNorm(residual + update)
        return output


class TreeBertAttention(nn.Module):
    """Attention within passages and its output layer."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        self.self = TreeBertSelfAttention(config)
        self.output = TreeBertResidual(config, config.hidden_size)

    def forward(self, hidden_states: Tensor, passages: Layout) -> Tensor:
        """Attend, project and normalize."""
        output: Tensor = self.output(self.self(hidden_states, passages), hidden_states)
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

    def forward(self, hidden_states: Tensor, passages: Layout) -> Tensor:
        """Apply the layer to `(tokens, hidden_size)`."""
        hidden_states = self.attention(hidden_states, passages)
        output: Tensor = self.output(self.intermediate(hidden_states), hidden_states)
        return output


class TreeBertEncoder(nn.Module):
    """The layers."""

    def __init__(self, config: NetworkConfig, layer_class: type[TreeBertLayer]) -> None:
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.layer = nn.ModuleList(layer_class(config) for _ in range(config.num_hidden_layers))

    def forward(self, hidden_states: Tensor, passages: Layout) -> Tensor:
        """Apply all layers to the tokens of passages `(tokens, hidden_size)`."""
        number = len(hidden_states)
        if not isinstance(passages, Tree):
            hidden_states = F.pad(hidden_states, (0, 0, 0, -number % _ROWS))
        for layer in self.layer:
            hidden_states = layer(hidden_states, passages)
        return hidden_states[:number]


class TreeBertPooling(nn.Module):
    """The vector of every anchor.

    That of a sentence s is the mean of its tokens t, its [SEP] among them, and of the [CLS] p of
    its passage, as MiniLM was trained; that of a section or document x is a weighted mean of all
    sentences in it:

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
            sums: `(anchors, hidden_size)`, the sum over the tokens of each sentence and the [CLS]
                of its passage.
            own: `(anchors, hidden_size)`, the state of each sentence's [SEP].
            anchors: The anchors.
        """
        is_sentence = anchors.is_sentence[:, None]
        # The mean has the direction of the sum.
        sentences = F.normalize(sums, dim=-1) * is_sentence
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
        document, in which a passage is a node before its first sentence; and the logarithm of the
        document's length.
    """
    section, root = anchors.section, anchors.root
    every = torch.arange(len(anchors), device=section.device)
    group = torch.where(anchors.parents < 0, len(every) + every, section)
    place = torch.empty_like(every)
    place[(2 * group + (~anchors.is_sentence).long()).argsort(stable=True)] = every
    zeros = group.new_zeros(2 * len(every))
    size = zeros.index_add(0, group, torch.ones_like(group))
    index = place - (size.cumsum(0) - size)[group]

    def in_group(x: Tensor) -> list[Tensor]:
        i, number = index[x], size[group[x]]
        return [i / (number - 1).clamp(min=1), 1 / (1 + i), 1 / (number - i)]

    nodes = 1 + anchors.begins_passage
    last = nodes.cumsum(0)
    order = last - (last - nodes)[root]
    length = torch.zeros_like(nodes).index_add(0, root, nodes)[root]
    features = [*in_group(every), *in_group(section), order / length, length.log() / 5]
    return torch.stack([feature.float() for feature in features], dim=-1)


class NetworkOutput(NamedTuple):
    """Output of the layers; see `foveate.models.tree_bert.TreeBertOutput`."""

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
        position_ids: Tensor | None = None,
        anchor_ids: Tensor | None = None,
        anchor_parents: Tensor | None = None,
        anchor_kinds: Tensor | None = None,
        on_read: Callable[[int], None] | None = None,
    ) -> NetworkOutput:
        """Encode documents; see `foveate.models.tree_bert.TreeBertModel.forward`.

        `on_read` is called as passages have been read, with the number of their tokens.
        """
        if position_ids is None or anchor_ids is None:
            raise ValueError(
                "position_ids or anchor_ids are missing: prepare documents with a TreeBertProcessor"
            )
        if anchor_parents is None or anchor_kinds is None:
            raise ValueError(
                "anchor_parents or anchor_kinds are missing: prepare documents with a "
                "TreeBertProcessor"
            )
        packed = PackedSequences.from_mask(attention_mask, (*input_ids.shape,))
        words, ids = self.embeddings.word_embeddings, packed.pack(input_ids)
        # NEFTune's hook takes a padded batch, and scales by its length.
        embedded = packed.pack(words(input_ids)) if words._forward_hooks else None
        position_ids = packed.pack(position_ids)
        is_anchor = anchor_kinds >= 0
        num_anchors = is_anchor.sum(1, keepdim=True)
        before = num_anchors.cumsum(0) - num_anchors  # in the rows above
        owner = packed.pack(torch.where(anchor_ids < 0, -1, anchor_ids + before))
        parents = torch.where(anchor_parents < 0, -1, anchor_parents + before)[is_anchor]
        begins_passage = torch.zeros_like(parents)
        begins_passage[owner[position_ids == 1]] = 1
        anchors = Anchors(anchor_kinds[is_anchor], parents, begins_passage)
        _ = anchors.ancestors  # for which the host waits, before it has given a GPU much to do
        of_anchor = (owner >= 0).nonzero()[:, 0]
        is_end = (owner >= 0) & (owner != F.pad(owner[1:], (0, 1), value=-1))

        dtype = widened(words.weight[:0]).dtype
        sums = torch.zeros(len(anchors) + 1, words.embedding_dim, dtype=dtype, device=ids.device)
        own = torch.zeros_like(sums[1:])
        token_vectors, read = [], []
        for tokens, first, layout in self._batches(position_ids):
            ends = is_end[tokens].nonzero()[:, 0]
            owner_of_end = owner[tokens[ends]]
            some = words(ids[tokens]) if embedded is None else embedded[tokens]
            states = self.encoder(self.embeddings(some, position_ids[tokens]), layout)
            if self.token_head is not None:
                token_vectors.append(F.normalize(widened(self.token_head(states)), dim=-1))
                read.append(tokens)
            states = widened(states)
            own.index_add_(0, owner_of_end, states[ends])
            sums.index_add_(0, 1 + owner[tokens], states)  # those of [CLS] into the first row
            sums.index_add_(0, 1 + owner_of_end, states[first[ends]])
            if on_read is not None:
                on_read(len(states))
        vectors = self.pooling(sums[1:], own, anchors)
        in_order = torch.cat(read).argsort()[of_anchor] if read else None
        return NetworkOutput(
            embeddings=vectors,
            salience=self.salience(own, vectors, anchors),
            token_vectors=None if in_order is None else torch.cat(token_vectors)[in_order],
        )

    @uncompiled  # the number of passages depends on the data
    def _batches(self, position_ids: Tensor) -> Iterator[Batch]:
        """Divide passages: so few on a CPU that they stay in cache, on a GPU that they fit."""
        weight = self.embeddings.word_embeddings.weight
        head = weight[:0, : weight.shape[1] // self.encoder.num_heads]
        max_tokens = _BATCH_TOKENS_ON_CPU if position_ids.device.type == "cpu" else _BATCH_TOKENS
        return batch_passages(position_ids, max_tokens, as_tree=choose(None, head) != "eager")


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
