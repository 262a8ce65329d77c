"""TreeBert and HDT, which read documents as trees, at any length."""

import os
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
from torch import Tensor, nn

from foveate.inference.onednn import use_onednn
from foveate.inference.runner import TEXTS_PER_CHUNK, Context, DocumentVectors, Runner
from foveate.inference.weights import note_loaded
from foveate.models.tree_bert_network import TreeBertNetwork, load_network
from foveate.models.utils import first_position
from foveate.ops.tree_attention import Tree
from foveate.preprocessing.collate import Features, fill_packs
from foveate.preprocessing.tree import Anchor, TreeNodes
from foveate.preprocessing.tree_builder import TreeTokenizer, load_tree_tokenizer
from foveate.progress import Advance, progress

if hasattr(os, "register_at_fork"):
    # A forked process has none of OpenMP's threads, and would wait for them without end.
    os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from foveate.preprocessing.hdt import HDTProcessor
    from foveate.preprocessing.tree_bert import TreeBertProcessor

Item = TypeVar("Item")
Prepared = TypeVar("Prepared")

_TOKENS_PER_BATCH_ON_CPU = 2048
"""Tokens of a packed batch on a CPU: enough to be busy, few enough to stay in cache."""

_TOKENS_PER_BATCH_ON_GPU = 65536

_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True)
class _AnchorSums:
    """A model's outputs for the anchors of a forest, in their order, float32 on the CPU.

    Attributes:
        vectors: `(anchors, dimension)`, the sum of the vectors that belong to each anchor.
        counts: `(anchors, 1)`, their number.
        salience: `(anchors,)`, None if the model has no head for it.
        tokens: The signs of the vectors of tokens, see `DocumentVectors`, anchor by anchor.
        num_tokens: `(anchors,)` int64, their number.
    """

    vectors: Tensor
    counts: Tensor
    salience: Tensor | None = None
    tokens: Tensor | None = None
    num_tokens: Tensor | None = None

    def add_to(self, sums: Tensor, counts: Tensor, owners: list[int]) -> None:
        """Add vectors to the sum `(owners, dimension)` and the count `(owners, 1)` of their owner.

        Args:
            sums: Changed in place.
            counts: Changed in place.
            owners: Which row each anchor belongs to.
        """
        owner = torch.tensor(owners)
        sums.index_add_(0, owner, self.vectors)
        counts.index_add_(0, owner, self.counts)

    def mean_salience(self, owners: list[int]) -> Tensor | None:
        """Average the salience of the pieces of each owner: `(owners,)`."""
        if self.salience is None:
            return None
        owner = torch.tensor(owners)
        sums = torch.zeros(int(owner.max()) + 1).index_add_(0, owner, self.salience)
        return sums / torch.bincount(owner)


class TreeRunner(Runner):
    """A TreeBert or an HDT.

    Args:
        model: The Transformer, in evaluation mode. A TreeBert that was loaded from a folder is a
            `TreeBertNetwork`, which needs no transformers.
        processor: Its tokenizer, the tokens of its anchors and the depth of its trees.
        context: "sentence" or "tree", see `foveate.inference.Encoder`.
        linear_dtype: See `Runner`.

    Raises:
        ValueError: `context` is something else, or passages are too long for the model.
    """

    def __init__(
        self,
        model: "PreTrainedModel | TreeBertNetwork",
        processor: "HDTProcessor | TreeBertProcessor | TreeTokenizer",
        context: Context = "tree",
        linear_dtype: torch.dtype = torch.float32,
    ) -> None:
        if context not in ("sentence", "tree"):
            raise ValueError(f"context must be 'sentence' or 'tree', got {context!r}")
        positions = getattr(model.config, "max_position_embeddings", None)
        if positions and (processor.passage_tokens or 0) + first_position(model) >= positions:
            raise ValueError(
                f"passages of {processor.passage_tokens} tokens are too long for a model of "
                f"{positions} positions: lower the processor's passage_tokens"
            )
        super().__init__(
            model,
            processor,
            context,
            int(model.config.hidden_size),
            linear_dtype,
            normalizes=model.config.model_type == "tree_bert",
            details={"runner": "foveate"},
        )
        self.has_tokens = (
            context == "tree" and getattr(model.config, "token_size", None) is not None
        )
        self._first_position = first_position(model)
        on_cpu = model.device.type == "cpu"
        self._batch_tokens = _TOKENS_PER_BATCH_ON_CPU if on_cpu else _TOKENS_PER_BATCH_ON_GPU

    def encode_texts(self, texts: Sequence[str], show_progress: bool | None = None) -> Tensor:
        """See `Runner.encode_texts`."""
        sums = torch.zeros(len(texts), self.dimension)
        counts = torch.zeros(len(texts), 1)
        starts = range(0, len(texts), TEXTS_PER_CHUNK)
        chunks = [texts[start : start + TEXTS_PER_CHUNK] for start in starts]
        with (
            progress("Encoding", sum(map(len, texts)), show_progress) as advance,
            closing(self._prepare(self._batches, chunks)) as prepared,
        ):
            for start, chunk, batches in zip(starts, chunks, prepared, strict=True):
                num_tokens = sum(tokens for _, _, tokens in batches)
                for nodes, owners, tokens in batches:
                    self._read(nodes).add_to(sums, counts, [start + owner for owner in owners])
                    # In proportion to tokens: the shortest texts come first, many at a time.
                    advance(sum(map(len, chunk)) * tokens // num_tokens)
        return self._finish(sums, counts)

    @torch.inference_mode()
    def encode_query(self, query: str) -> tuple[Tensor, Tensor | None]:
        """See `Runner.encode_query`."""
        if not self.has_tokens:
            return super().encode_query(query)
        pieces = self.processor.pieces([query])[1]
        output = self._run(**cast(Features, self.processor.forest(pieces)))
        total = output.embeddings.float().cpu().sum(0, keepdim=True)
        [vector] = self._finish(total, torch.tensor([[len(pieces)]]))
        return vector, output.token_vectors.float().cpu()

    def encode_outlines(
        self, outlines: list[list[Anchor]], show_progress: bool | None = None
    ) -> list[DocumentVectors]:
        """Encode every document as one tree, small ones together; or see `Runner`."""
        if self.context != "tree":
            return super().encode_outlines(outlines, show_progress)
        sizes = [sum(len(anchor.text) for anchor in anchors) for anchors in outlines]
        limit = self._batch_tokens * _CHARACTERS_PER_TOKEN
        packs = list(fill_packs(range(len(outlines)), sizes, limit))
        forests = [[outlines[i] for i in pack] for pack in packs]
        vectors: list[DocumentVectors] = []
        with (
            progress("Encoding", sum(sizes), show_progress) as advance,
            closing(
                self._prepare(lambda outlines: self.processor.tree(*outlines), forests)
            ) as prepared,
        ):
            for pack, forest, (nodes, owners) in zip(packs, forests, prepared, strict=True):
                states = self._read(nodes, _in_parts(advance, sum(sizes[i] for i in pack), nodes))
                vectors += self._vectors(forest, states, owners)
        return vectors

    def _batches(self, texts: Sequence[str]) -> list[tuple[TreeNodes | Features, list[int], int]]:
        """Build forests of texts of similar length.

        Returns:
            Each forest, the text that each of its trees is from, and its number of tokens.
        """
        owners, pieces = self.processor.pieces(texts)
        sizes = [1 + len(piece) for piece in pieces]
        by_length = sorted(range(len(pieces)), key=sizes.__getitem__)
        return [
            (
                self.processor.forest([pieces[i] for i in batch]),
                [owners[i] for i in batch],
                sum(sizes[i] for i in batch),
            )
            for batch in fill_packs(by_length, sizes, self._batch_tokens)
        ]

    def _prepare(
        self, prepare: Callable[[Item], Prepared], items: Sequence[Item]
    ) -> Generator[Prepared, None, None]:
        """Prepare items for the model, each one while a GPU computes the one before.

        On a CPU a second thread would take cores from the model.
        """
        ahead = self.model.device.type == "cuda" and len(items) > 1
        return _one_ahead(prepare, items) if ahead else (prepare(item) for item in items)

    def _vectors(
        self, outlines: list[list[Anchor]], states: _AnchorSums, owners: list[int]
    ) -> list[DocumentVectors]:
        """Return the vectors of documents that have been read together."""
        starts = list(accumulate(map(len, outlines), initial=0))
        sums = torch.zeros(starts[-1], self.dimension)
        counts = torch.zeros(starts[-1], 1)
        states.add_to(sums, counts, owners)
        vectors = self._finish(sums, counts)
        salience = states.mean_salience(owners)
        found = [
            _by_kind(anchors, vectors[start:end], None if salience is None else salience[start:end])
            for anchors, start, end in zip(outlines, starts, starts[1:], strict=False)
        ]
        if states.tokens is None or states.num_tokens is None:
            return found
        of_anchors = torch.zeros(starts[-1], dtype=torch.long)
        of_anchors.index_add_(0, torch.tensor(owners), states.num_tokens)
        num_tokens = of_anchors.split([len(anchors) for anchors in outlines])
        tokens = states.tokens.split([int(numbers.sum()) for numbers in num_tokens])
        return [
            replace(one, **_tokens_of_sentences(anchors, its_tokens, numbers))
            for one, anchors, its_tokens, numbers in zip(
                found, outlines, tokens, num_tokens, strict=True
            )
        ]

    @torch.inference_mode()
    def _read(
        self, nodes: TreeNodes | Features, on_read: Callable[[int], None] = lambda tokens: None
    ) -> _AnchorSums:
        """Encode documents whose nodes are built, see `TreeBuilder.tree`.

        `on_read` is called with numbers of tokens that have been read.
        """
        if isinstance(nodes, TreeNodes):
            states = self._read_tree(nodes)
            on_read(len(nodes.input_ids))
        elif isinstance(self.model, TreeBertNetwork):
            states = self._read_passages(nodes, on_read=on_read)
        else:
            states = self._read_passages(nodes)
            on_read(len(nodes["input_ids"]))
        return states

    def _run(self, **inputs: Any) -> Any:
        """Run the model on one sequence; tensors are columns of it."""
        device, dtype = self.model.device, self.linear_dtype
        rows = {
            name: x[None].to(device) if isinstance(x, Tensor) else x for name, x in inputs.items()
        }
        with torch.autocast(device.type, dtype, enabled=dtype != torch.float32):
            return self.model(**rows)

    def _read_passages(self, passages: Features, **options: Any) -> _AnchorSums:
        """Encode documents with a TreeBert."""
        output = self._run(**passages, **options)
        vectors = output.embeddings.float().cpu()
        found = _AnchorSums(vectors, torch.ones(len(vectors), 1), output.salience.float().cpu())
        if output.token_vectors is None:
            return found
        anchor_ids = passages["anchor_ids"]
        num_tokens = anchor_ids[anchor_ids >= 0].bincount(minlength=len(vectors))
        return replace(found, tokens=_pack_signs(output.token_vectors).cpu(), num_tokens=num_tokens)

    def _read_tree(self, nodes: TreeNodes) -> _AnchorSums:
        """Encode documents with an HDT."""
        device = self.model.device
        builder = device if device.type == "cuda" else torch.device("cpu")  # of the tree
        tree = Tree.from_parents(nodes.parent_ids.to(builder))
        forest = tree.in_level_order.to(device)

        def reorder(x: Tensor) -> Tensor:
            return tree.to_level_order(x.to(builder)).to(device)

        positions, piece_idx = reorder(nodes.positions), reorder(nodes.piece_idx)
        output = self._run(
            tree=forest,
            input_ids=reorder(nodes.input_ids),
            position_ids=positions + self._first_position,
        )
        sums = torch.zeros(int(nodes.piece_idx[-1]) + 1, self.dimension, device=device)
        counts = sums.new_zeros(len(sums), 1)

        def add(vectors: Tensor, owner: Tensor) -> None:
            sums.index_add_(0, owner, vectors.float())
            counts.index_add_(0, owner, counts.new_ones(len(owner), 1))

        hidden_states = output.last_hidden_state[0]
        is_anchor = positions == 0
        add(hidden_states[is_anchor], piece_idx[is_anchor])
        # The anchor of a passage belongs to its first sentence; here the others get it, too.
        is_first = ~is_anchor & (piece_idx != piece_idx.roll(1))
        is_later = is_first & (piece_idx != piece_idx[forest.parent])
        add(hidden_states[forest.parent[is_later]], piece_idx[is_later])
        return _AnchorSums(sums.cpu(), counts.cpu())


def load(
    path: str, context: Context | None, device: torch.device, linear_dtype: torch.dtype
) -> TreeRunner:
    """Load a checkpoint of a TreeBert or an HDT; see `Encoder.from_pretrained`."""
    model, processor = _load_model(path)
    if linear_dtype != torch.float32:
        # Norms and the residual stream stay in float32: that halves the error for nothing.
        for module in model.modules():
            if isinstance(module, nn.Linear):
                module.to(linear_dtype)
    if device.type == "cpu":
        use_onednn(model, linear_dtype)
    model = model.eval().to(device)
    note_loaded(model, path)
    return TreeRunner(model, processor, context or "tree", linear_dtype)


def _load_model(
    path: str,
) -> "tuple[PreTrainedModel | TreeBertNetwork, HDTProcessor | TreeBertProcessor | TreeTokenizer]":
    """Load a checkpoint in float32, without transformers if it is a TreeBert in a folder."""
    processor = load_tree_tokenizer(Path(path))
    network = None if processor is None else load_network(Path(path))
    if processor is not None and network is not None:
        return network, processor
    from foveate.inference.loading import load_checkpoint  # takes seconds

    return load_checkpoint(path)


def _one_ahead(
    prepare: Callable[[Item], Prepared], items: Iterable[Item]
) -> Generator[Prepared, None, None]:
    """Prepare each item in a thread while the caller uses the one before."""
    thread = ThreadPoolExecutor(1)
    waiting: Future[Prepared] | None = None
    try:
        for item in items:
            ready, waiting = waiting, thread.submit(prepare, item)
            if ready is not None:
                yield ready.result()
        if waiting is not None:
            yield waiting.result()
    finally:  # after an error, do not wait for an item that nobody will use
        thread.shutdown(wait=False, cancel_futures=True)


def _in_parts(advance: Advance, steps: int, nodes: TreeNodes | Features) -> Callable[[int], None]:
    """Return what advances by some steps in all, in proportion to the tokens that it is told of."""
    input_ids = nodes.input_ids if isinstance(nodes, TreeNodes) else nodes["input_ids"]
    total, read = len(input_ids), 0

    def on_read(tokens: int) -> None:
        nonlocal read
        before, read = steps * read // total, read + tokens
        advance(steps * read // total - before)

    return on_read


def _pack_signs(vectors: Tensor) -> Tensor:
    """Return which entries of vectors `(n, size)` are positive: `(n, size / 8)` uint8."""
    is_positive = (vectors > 0).unflatten(1, (-1, 8))
    powers = 2 ** torch.arange(7, -1, -1, device=vectors.device)
    signs: Tensor = (is_positive * powers).sum(-1).to(torch.uint8)
    return signs


def _tokens_of_sentences(
    anchors: list[Anchor], tokens: Tensor, num_tokens: Tensor
) -> dict[str, Tensor]:
    """Leave out the tokens of titles.

    Args:
        anchors: The outline.
        tokens: Those of all anchors, one after another.
        num_tokens: `(anchors,)`.

    Returns:
        `tokens` and `num_tokens` of `DocumentVectors`.
    """
    is_sentence = torch.tensor([anchor.sentence_idx is not None for anchor in anchors])
    kept = tokens[is_sentence.repeat_interleave(num_tokens)]
    return {"tokens": kept, "num_tokens": num_tokens[is_sentence]}


def _by_kind(anchors: list[Anchor], vectors: Tensor, salience: Tensor | None) -> DocumentVectors:
    """Split the vectors of an outline into document, sections and sentences, without titles."""
    is_section = torch.tensor([anchor.kind == "section" for anchor in anchors])
    is_sentence = torch.tensor([anchor.sentence_idx is not None for anchor in anchors])
    return DocumentVectors(
        vectors[0],
        vectors[is_section],
        vectors[is_sentence],
        None if salience is None else salience[is_sentence],
    )
