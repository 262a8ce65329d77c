"""The models of `convergence.py`, and the form in which each reads a piece: HDT, twins and HAT."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.hat import token_places
from document_nodes import (
    SENTENCE,
    TOKEN,
    Nodes,
    join_sentences,
    parents,
    pieces,
    pseudo_sections,
)
from foveate.models.hdt import HDTConfig, HDTForMaskedLM
from foveate.models.hdt.modeling_hdt import Rotation, sinusoids
from foveate.ops.rotary import rotary_angles
from foveate.ops.tree_attention import Tree
from small_encoders import SEGMENT, SequenceAttention, dense, hat_for_masked_lm, longformer

PASSAGES = {f"passages of {most}": most for most in (128, 256, 512)}  # in true sections
PSEUDO = "pseudo-sections"
TREES = ("true sections", PSEUDO, *PASSAGES, *(f"{PSEUDO} of {name}" for name in PASSAGES))
COPIES = ("same sentence", "next sentence", "farther", "nowhere")
"""Where the nearest other occurrence of a masked token is."""
MODELS = (
    *TREES,
    *(f"{name}, rotary" for name in TREES),
    "Longformer",
    "Longformer, rotary",
    "dense",
    "dense, rotary",
    "HAT",
    "HAT, rotary",
)
MASKED = 0.15  # of the tokens


class Batch(NamedTuple):
    """Pieces with masked tokens.

    Attributes:
        ids: `(nodes,)`; those of trees are in level order.
        tree: Their forest, or None.
        masked_index: Where the masked tokens are, `(masked,)`.
        truth: Which they were, `(masked,)`.
        masked: The masked tokens of each piece, counted without anchors, `(pieces, masked)`.
    """

    ids: Tensor
    tree: Tree | None
    masked_index: Tensor
    truth: Tensor
    masked: Tensor


class Data:
    """The pieces of all documents in the form that a model reads, on its device."""

    def __init__(self, file: Path, name: str, length: int, held_out: int, device: str) -> None:
        arrays = np.load(file)
        self.root, section, self.mask, self.vocabulary = arrays["special"].tolist()
        self.name, self.length, self.device = name.partition(", ")[0], length, device
        ends = arrays["sizes"].cumsum()[:-1]
        documents = zip(np.split(arrays["ids"], ends), np.split(arrays["types"], ends), strict=True)
        parts: tuple[list[Nodes], list[Nodes]] = ([], [])
        copies: list[np.ndarray] = []
        passages = PASSAGES.get(self.name.removeprefix(f"{PSEUDO} of "))
        for number, (ids, types) in enumerate(documents):
            if is_held_out := number % 20 == 0:
                copies += [nearest_copies(*piece) for piece in pieces(ids, types, length)]
            if self.name.startswith(PSEUDO):
                ids, types = pseudo_sections(ids, types, section)
            if passages:
                ids, types = join_sentences(ids, types, passages)
            parts[is_held_out].extend(pieces(ids, types, length))
        self.train = [self._form(*piece) for piece in parts[0]]
        self.held_out = [self._form(*piece) for piece in parts[1][:held_out]]
        self.copies = torch.from_numpy(np.stack(copies[:held_out])).to(device)

    def _form(self, ids: np.ndarray, types: np.ndarray) -> tuple[Tensor, ...]:
        """Return ids and the places of tokens among them; of a tree, parents besides.

        Without a tree the tokens follow a root; for HAT a root begins each segment.
        """
        places = np.flatnonzero(types == TOKEN)
        if self.name in TREES:
            return self._tensors(ids, places, parents(types))
        tokens = ids[places]
        segment = SEGMENT if self.name == "HAT" else 1 + len(tokens)
        places = token_places(len(tokens), segment)
        ids = np.full(-(-(places[-1] + 1) // segment) * segment, self.root)
        ids[places] = tokens
        return self._tensors(ids, places)

    def _tensors(self, *columns: np.ndarray) -> tuple[Tensor, ...]:
        return tuple(torch.from_numpy(x.astype(np.int64)).to(self.device) for x in columns)

    def batch(self, chosen: list[tuple[Tensor, ...]], seed: int) -> Batch:
        """Mask tokens, which depend on the seed and not on the model."""
        ids, tree, index = self._join(chosen)
        rng = torch.Generator().manual_seed(seed)
        number = round(MASKED * self.length)
        masked = torch.rand(len(chosen), self.length, generator=rng).topk(number).indices
        fate = torch.rand(masked.numel(), generator=rng)
        random = torch.randint(self.vocabulary, (masked.numel(),), generator=rng)
        masked, fate, random = map(self._copy, (masked, fate, random))
        masked_index = index.gather(1, masked).flatten()
        truth = ids[masked_index]
        kept = torch.where(fate < 0.9, random, truth)
        ids = ids.index_copy(0, masked_index, torch.where(fate < 0.8, self.mask, kept))
        return Batch(ids, tree, masked_index, truth, masked)

    def _join(self, chosen: list[tuple[Tensor, ...]]) -> tuple[Tensor, Tree | None, Tensor]:
        """Return ids `(nodes,)`, of trees in level order with their tree, and tokens' places.

        The places are `(pieces, length)`. Sequences have equal lengths.
        """
        ids, places, *above = zip(*chosen, strict=True)
        shifts = np.cumsum([0, *(len(piece) for piece in ids[:-1])]).tolist()
        index = torch.stack([its + shift for its, shift in zip(places, shifts, strict=True)])
        if not above:
            return torch.cat(ids), None, index
        pairs = zip(*above, shifts, strict=True)
        tree = Tree.from_parents(
            torch.cat([its.where(its < 0, its + shift) for its, shift in pairs])
        )
        return tree.to_level_order(torch.cat(ids)), tree.in_level_order, tree.to_level_index(index)

    def _copy(self, x: Tensor) -> Tensor:
        """Copy to the device without waiting for it."""
        return x.pin_memory().to(self.device, non_blocking=True) if self.device == "cuda" else x


def nearest_copies(ids: np.ndarray, types: np.ndarray) -> np.ndarray:
    """Return where each token of a piece occurs again, as an index into `COPIES`, `(tokens,)`."""
    tokens = types == TOKEN
    sentences, ids = np.cumsum(types == SENTENCE)[tokens], ids[tokens]
    order = np.argsort(ids, kind="stable")
    gaps = np.where(np.diff(ids[order]) == 0, np.diff(sentences[order]), len(ids))
    nearest = np.minimum(np.append(gaps, len(ids)), np.insert(gaps, 0, len(ids)))
    places = np.empty(len(ids), np.int64)
    places[order] = np.where(nearest == len(ids), 3, np.minimum(nearest, 2))
    return places


class Loader:
    """Loads batches while the GPU still computes on those before, on a stream of its own.

    The host waits for the structure of a tree, and would wait for the whole step before it.
    """

    def __init__(self, data: Data) -> None:
        self.data = data
        self.stream = torch.cuda.Stream() if data.device == "cuda" else None
        self.latest: Batch | None = None
        self.begun = None if self.stream is None else self.stream.record_event()

    def load(self, chosen: list[tuple[Tensor, ...]], seed: int) -> Batch:
        """Return the next batch; all work on the one before has been launched."""
        if self.stream is None:
            return self.data.batch(chosen, seed)
        # The new batch may take the memory of the one before the latest, which is read until here.
        self.stream.wait_event(self.begun)
        with torch.cuda.stream(self.stream):
            batch = self.data.batch(chosen, seed)
        self.begun = torch.cuda.current_stream().record_event()
        torch.cuda.current_stream().wait_stream(self.stream)
        self.latest = batch
        return batch


class SequencePositions(nn.Module):
    """Rotary positions of a batch of sequences of equal length."""

    def __init__(self, config: HDTConfig, length: int) -> None:
        super().__init__()
        angles = rotary_angles(torch.arange(length), config.d_kv, config.rope_theta)
        for name, table in zip(("cos", "sin"), angles, strict=True):
            self.register_buffer(name, table, persistent=False)

    def forward(self, batch: int) -> Rotation:
        """Return the angles of all tokens of so many sequences."""
        return self.cos.repeat(batch, 1), self.sin.repeat(batch, 1)


class Sinusoids(nn.Module):
    """HDT's positions for sequences: the sinusoids of the index, scaled by a learned number."""

    def __init__(self, d_model: int, length: int) -> None:
        super().__init__()
        self.scale_factor = nn.Parameter(torch.full((1,), d_model**-0.5))
        table = sinusoids(length, d_model, torch.device("cpu"), torch.float32)
        self.register_buffer("table", table, persistent=False)

    def forward(self, embeddings: Tensor, batch: int) -> Tensor:
        """Add the positions to the embeddings `(sequences * length, d_model)`."""
        sequences = embeddings.unflatten(0, (batch, -1))
        return (sequences + self.scale_factor * self.table).flatten(0, 1)


class MaskedLM(nn.Module):
    """HDT or a twin of it with its head of masked language modelling."""

    def __init__(self, name: str, config: HDTConfig, length: int) -> None:
        super().__init__()
        architecture, _, positions = name.partition(", ")
        if positions:
            config.position_embedding_type = positions
        hdt = HDTForMaskedLM(config)
        self.encoder, self.predictions = hdt.model.encoder, hdt.cls.predictions
        self.embeddings = hdt.model.shared
        if architecture in TREES:
            return
        self.length = length = length + 1  # with the root
        if positions:
            self.encoder.rotary_positions = SequencePositions(config, length)
        else:
            self.encoder.embed_positions = Sinusoids(config.d_model, length)
        attend = {"dense": dense, "Longformer": longformer}[architecture]
        for block in self.encoder.block:
            layer = block.layer[0]
            layer.SelfAttention = SequenceAttention(layer.SelfAttention, attend)

    def forward(self, ids: Tensor, tree: Tree | None) -> Tensor:
        """Encode nodes `(nodes,)`."""
        layout = len(ids) // self.length if tree is None else tree
        encoded: Tensor = self.encoder(self.embeddings(ids), layout)
        return encoded


class HATMaskedLM(nn.Module):
    """HAT with the same head."""

    def __init__(self, name: str, config: HDTConfig, length: int) -> None:
        super().__init__()
        number = -(-length // (SEGMENT - 1))
        self.hat, self.predictions = hat_for_masked_lm(
            config, rotary=name == "HAT, rotary", max_segments=number
        )
        self.hat.compile()
        self.num_tokens = number * SEGMENT

    def forward(self, ids: Tensor, tree: None) -> Tensor:
        """Encode tokens `(tokens,)`; the padding of the last segment counts as tokens."""
        encoded: Tensor = self.hat(ids.unflatten(0, (-1, self.num_tokens))).last_hidden_state
        return encoded.flatten(0, 1)


def build(name: str, config: HDTConfig, length: int) -> nn.Module:
    """Return a model with random weights for pieces of so many tokens."""
    if name.startswith("HAT"):
        return HATMaskedLM(name, config, length)
    return MaskedLM(name, config, length)
