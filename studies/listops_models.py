"""The models that learn ListOps: HDT over trees; dense attention, Longformer and HAT over text.

All have 12 layers of width 128, with 4 heads unless asked otherwise, HAT four layers across
segments besides. HDT reads trees without positions and answers at the outermost operator. The
others have BERT's layers and learned positions, read the sequence form, and answer at its first
token. A model takes what its `read` prepares on the CPU, and gives logits `(expressions, 10)`.
"""

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from benchmarks.hat import HATConfig, HATLayer, HATModel, initialize
from foveate.models.hdt import HDTConfig, HDTForSequenceClassification
from foveate.ops.tree_attention import Tree
from foveate.ops.window_attention import GlobalKeysValues, global_attention, window_attention
from listops_data import PADDING, START, VOCABULARY, Expressions

SIZES = {"hidden_size": 128, "intermediate_size": 512}
SEGMENT = WINDOW = 64
MAX_LENGTH = 1024
SHORT = 0.95
"""Share of a batch, its shorter expressions, that is padded separately: few are long."""

EDGES = {
    "all edges": ("parent", "siblings", "children"),
    "siblings and children": ("siblings", "children"),
    "children only": ("children",),
}
MODELS = ("dense", "Longformer", "HAT", *EDGES)


class ListOpsModel(Protocol):
    """A model of this module."""

    def read(self, data: Expressions, chosen: Tensor) -> Any:
        """Prepare expressions."""
        ...

    def __call__(self, inputs: Any) -> Tensor:
        """Compute the logits of ten digits for what `read` prepared."""
        ...


def build(name: str, num_layers: int, num_heads: int, seed: int) -> nn.Module:
    """Build one of `MODELS` with random weights."""
    torch.manual_seed(seed)
    if name in EDGES:
        return TreeClassifier(num_layers, num_heads, EDGES[name])
    config = HATConfig(
        VOCABULARY,
        **SIZES,
        num_hidden_layers=num_layers,
        num_attention_heads=num_heads,
        segment_length=SEGMENT,
        max_segments=MAX_LENGTH // SEGMENT,
    )
    return {"dense": Dense, "Longformer": Longformer, "HAT": HAT}[name](config)


class TreeClassifier(nn.Module):
    """HDT on trees of operators and digits, without positions."""

    def __init__(self, num_layers: int, num_heads: int, edges: tuple[str, ...]) -> None:
        super().__init__()
        config = HDTConfig(
            vocab_size=VOCABULARY,
            d_model=SIZES["hidden_size"],
            d_kv=SIZES["hidden_size"] // num_heads,
            d_ff=SIZES["intermediate_size"],
            num_layers=num_layers,
            num_heads=num_heads,
            edges=edges,
            num_labels=10,
            problem_type="single_label_classification",
            pad_token_id=PADDING,
        )
        self.hdt = HDTForSequenceClassification(config)
        positions = self.hdt.model.encoder.embed_positions.scale_factor
        positions.requires_grad_(False).zero_()

    def read(self, data: Expressions, chosen: Tensor) -> dict[str, Any]:
        """Pack the trees in level order."""
        tokens, parents = data.forest(chosen)
        tree = Tree.from_parents(parents)
        return {"input_ids": tree.to_level_order(tokens)[None], "tree": tree.in_level_order}

    def forward(self, inputs: dict[str, Any]) -> Tensor:
        """Classify trees."""
        logits: Tensor = self.hdt(**inputs).logits
        return logits


class Classifier(nn.Module):
    """BERT's head: a first token's hidden state, a layer with tanh, and ten digits."""

    def __init__(self, config: HATConfig) -> None:
        super().__init__()
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(config.hidden_size, 10)
        self.apply(initialize)

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Classify `(expressions, hidden_size)`."""
        logits: Tensor = self.output(self.dropout(torch.tanh(self.pooler(hidden_states))))
        return logits


class Embeddings(nn.Module):
    """Tokens and their positions, normalized."""

    def __init__(self, config: HATConfig) -> None:
        super().__init__()
        self.words = nn.Embedding(config.vocab_size, config.hidden_size)
        self.positions = nn.Embedding(MAX_LENGTH, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size)
        self.dropout = nn.Dropout(config.dropout)
        self.apply(initialize)

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Embed tokens at positions, both of one shape."""
        output: Tensor = self.dropout(self.norm(self.words(tokens) + self.positions(positions)))
        return output


class Dense(nn.Module):
    """BERT."""

    def __init__(self, config: HATConfig) -> None:
        super().__init__()
        self.embeddings = Embeddings(config)
        self.layers = nn.ModuleList(HATLayer(config) for _ in range(config.num_hidden_layers))
        self.classifier = Classifier(config)
        self.layers.apply(initialize)

    def read(self, data: Expressions, chosen: Tensor) -> tuple[list[Tensor], Tensor]:
        """Pad the short expressions and the long ones: their tokens, and how to restore order."""
        parts = by_length(data, chosen)
        return [data.sequences(chosen[part]) for part in parts], torch.cat(parts).argsort()

    def forward(self, inputs: tuple[list[Tensor], Tensor]) -> Tensor:
        """Classify padded sequences."""
        parts, order = inputs
        return self.classifier(torch.cat([self.first_tokens(tokens) for tokens in parts])[order])

    def first_tokens(self, tokens: Tensor) -> Tensor:
        """Encode `(expressions, length)` and return the first hidden states."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        hidden_states = self.embeddings(tokens, positions)
        for layer in self.layers:
            hidden_states = layer(hidden_states, tokens != PADDING)
        first: Tensor = hidden_states[:, 0]
        return first


class HAT(nn.Module):
    """HAT, whose segments hold 63 tokens after one of their own."""

    def __init__(self, config: HATConfig) -> None:
        super().__init__()
        self.hat = HATModel(config)
        self.classifier = Classifier(config)

    def read(self, data: Expressions, chosen: Tensor) -> tuple[list[Tensor], Tensor]:
        """As `Dense.read`, with a first token in each segment."""
        parts = by_length(data, chosen)
        segmented = [in_segments(data.sequences(chosen[part])[:, 1:]) for part in parts]
        return segmented, torch.cat(parts).argsort()

    def forward(self, inputs: tuple[list[Tensor], Tensor]) -> Tensor:
        """Classify padded sequences of segments."""
        parts, order = inputs
        first = [self.hat(tokens, tokens != PADDING).last_hidden_state[:, 0] for tokens in parts]
        return self.classifier(torch.cat(first)[order])


def in_segments(tokens: Tensor) -> Tensor:
    """Cut `(expressions, length)` into segments, each after START; empty ones are padding."""
    inner = SEGMENT - 1
    padded = nn.functional.pad(tokens, (0, -tokens.shape[1] % inner), value=PADDING)
    segments = padded.unflatten(1, (-1, inner))
    empty = (segments == PADDING).all(-1, keepdim=True)
    first = torch.where(empty, PADDING, START)
    return torch.cat([first, segments], dim=-1).flatten(1)


def by_length(data: Expressions, chosen: Tensor) -> list[Tensor]:
    """Divide a batch into its short and its long expressions, by their places in the batch."""
    order = data.lengths[chosen].argsort()
    return [part for part in order.tensor_split([int(SHORT * len(order))]) if len(part)]


class Packed(NamedTuple):
    """Sequences laid end to end.

    Attributes:
        tokens: `(tokens,)`.
        positions: `(tokens,)`, from 0 in each sequence.
        first: `(sequences,)`, where each begins.
        lengths: Tokens of each, START included.
    """

    tokens: Tensor
    positions: Tensor
    first: Tensor
    lengths: list[int]


class LongformerLayer(HATLayer):
    """Windows, and a first token that all see and that sees all by projections of its own."""

    def __init__(self, config: HATConfig) -> None:
        super().__init__(config)
        self.global_query = nn.Linear(config.hidden_size, config.hidden_size)
        self.global_key_value = nn.Linear(config.hidden_size, 2 * config.hidden_size)

    def attend(self, hidden_states: Tensor, layout: Any) -> Tensor:
        """Attend within packed sequences `(tokens, hidden_size)`."""
        q, k, v = (
            self.query_key_value(hidden_states).unflatten(-1, (3, self.num_heads, -1)).unbind(1)
        )
        lengths, first = layout.lengths, layout.first
        ones = [1] * len(lengths)
        attended = window_attention(
            q,
            k,
            v,
            (WINDOW // 2, WINDOW // 2),
            global_keys_values=GlobalKeysValues(k[first], v[first], ones),
            masked_keys=layout.positions == 0,
            lengths=lengths,
        )
        global_q = self.global_query(hidden_states[first]).unflatten(-1, (self.num_heads, -1))
        global_kv = self.global_key_value(hidden_states).unflatten(-1, (2, self.num_heads, -1))
        of_first = global_attention(
            global_q, *global_kv.unbind(1), q_lengths=ones, k_lengths=lengths
        )
        return attended.index_copy(0, first, of_first).flatten(1)


class Longformer(nn.Module):
    """Longformer with windows of 64 tokens and a global first token."""

    def __init__(self, config: HATConfig) -> None:
        super().__init__()
        self.embeddings = Embeddings(config)
        number = config.num_hidden_layers
        self.layers = nn.ModuleList(LongformerLayer(config) for _ in range(number))
        self.classifier = Classifier(config)
        self.layers.apply(initialize)

    def read(self, data: Expressions, chosen: Tensor) -> Packed:
        """Lay the sequence forms end to end, each after START."""
        padded = data.sequences(chosen)
        rows, positions = (padded != PADDING).nonzero(as_tuple=True)
        return Packed(
            padded[rows, positions],
            positions,
            (positions == 0).nonzero()[:, 0],
            torch.bincount(rows).tolist(),
        )

    def forward(self, inputs: Packed) -> Tensor:
        """Classify packed sequences."""
        hidden_states = self.embeddings(inputs.tokens, inputs.positions)
        for layer in self.layers:
            hidden_states = layer(hidden_states, inputs)
        return self.classifier(hidden_states[inputs.first])
