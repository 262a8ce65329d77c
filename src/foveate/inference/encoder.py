"""Vectors of documents, sections and sentences, in one pass, at any length."""

import os
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import accumulate, chain
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar, cast, overload

import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from foveate.cache import Cache
from foveate.checkpoints import check_name_or_path, checkpoint_file
from foveate.documents import Document, as_documents
from foveate.inference.default_model import default_model_path
from foveate.inference.devices import resolve_device, resolve_dtype
from foveate.inference.languages import trained_languages, warn_of_languages
from foveate.inference.onednn import use_onednn
from foveate.inference.weights import loaded_weights, note_loaded
from foveate.models.tree_bert_network import TreeBertNetwork, load_network
from foveate.ops.tree_attention import Tree
from foveate.preprocessing.collate import Features, fill_packs
from foveate.preprocessing.tree import Anchor, TreeNodes, outline
from foveate.preprocessing.tree_builder import TreeTokenizer, load_tree_tokenizer
from foveate.progress import progress

if hasattr(os, "register_at_fork"):
    # A forked process has none of OpenMP's threads, and would wait for them without end.
    os.register_at_fork(after_in_child=partial(torch.set_num_threads, 1))

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from foveate.preprocessing.hdt import HDTProcessor
    from foveate.preprocessing.tree_bert import TreeBertProcessor

Context = Literal["sentence", "document", "tree"]
Item = TypeVar("Item")
Prepared = TypeVar("Prepared")

_TOKENS_PER_BATCH_ON_CPU = 2048
"""Tokens of a packed batch on a CPU: enough to be busy, few enough to stay in cache."""

_TOKENS_PER_BATCH_ON_GPU = 65536

_CHARACTERS_PER_TOKEN = 4

_TEXTS_PER_CHUNK = 4096
"""Sentences that are tokenized and sorted by length together."""


@dataclass(frozen=True)
class DocumentVectors:
    """A document's vectors, float32 on the CPU.

    Attributes:
        document: `(dimension,)`.
        sections: `(sections, dimension)`, in the order of `Document.walk`.
        sentences: `(sentences, dimension)`, in the order of `Document.sentences`.
        salience: `(sentences,)`, how much each sentence belongs in a summary, on a scale of the
            document's own; None if the model has no head for it.
        tokens: `(tokens, token_size / 8)` uint8, the signs of the vectors of the tokens of all
            sentences, in order, eight to a byte as `numpy.packbits` has them; None if the model has
            no head for it.
        num_tokens: `(sentences,)` int64, how many of them each sentence has.
    """

    document: Tensor
    sections: Tensor
    sentences: Tensor
    salience: Tensor | None = None
    tokens: Tensor | None = None
    num_tokens: Tensor | None = None

    def to_bytes(self) -> bytes:
        """Return the vectors as the content of a safetensors file."""
        tensors = {name: x for name, x in vars(self).items() if x is not None}
        return safetensors.torch.save({name: x.contiguous() for name, x in tensors.items()})

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Return the vectors that `to_bytes` saved."""
        return cls(**safetensors.torch.load(content))


_UNRELATED = (
    "The cat slept on the warm windowsill all afternoon.",
    "Prices rose by three percent in the last quarter.",
    "She plays the violin in the city orchestra.",
    "The river floods its banks every spring.",
    "Install the package before you run the command.",
    "The committee voted against the proposal.",
    "Photosynthesis turns light into chemical energy.",
    "He scored twice in the second half of the match.",
    "The function returns an error if the file is missing.",
    "Our method outperforms earlier work on three data sets.",
    "The treaty was signed in 1648.",
    "Mix the flour with two eggs and a little salt.",
    "Patients were given the drug for six weeks.",
    "The train to the coast leaves at noon.",
    "The court found that the contract was void.",
    "A proof of this theorem is given in the appendix.",
    "Thank you, I think we should move on to the next point.",
    "The telescope observed a distant galaxy.",
    "Workers demanded higher wages and shorter hours.",
    "The password must have at least twelve characters.",
    "Whales migrate thousands of kilometres each year.",
    "The painting was sold at an auction in London.",
    "Turn left at the church and follow the road.",
    "The new law protects the privacy of children.",
    "Steel is an alloy of iron and carbon.",
    "My grandmother told us stories before bed.",
    "The company announced its results on Monday.",
    "What time does the library close?",
    "Memory is freed when the last reference is gone.",
    "The temperature of the sea has increased.",
    "Farmers plant wheat in the autumn.",
    "Each vector is multiplied by a matrix.",
)


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


class Encoder:
    """An encoder of documents: a TreeBert, an HDT or, as a subclass, one of sentence-transformers.

    Args:
        model: The Transformer, in evaluation mode. A TreeBert that was loaded from a folder is a
            `TreeBertNetwork`, which needs no transformers.
        processor: Its tokenizer, the tokens of its anchors and the depth of its trees.
        context: "sentence" encodes every sentence by itself and builds sections and the document
            from their sentences; "tree" reads whole documents as the model was trained to.
        linear_dtype: Dtype of the model's linear layers; everything else is float32.
        languages: ISO 639 codes of the languages that the model was trained on; None if unknown.

    Attributes:
        dimension: Length of the vectors.
        options: The options of `from_pretrained` that the vectors depend on, if they were given:
            `dimensions`, `query_prompt` and `document_prompt`.
        cache: Where `encode` keeps the vectors of documents and looks for them first; by default
            None. It goes by the files that the model was loaded from: set it only for a model that
            has not been changed since.

    Raises:
        ValueError: `context` is neither "sentence" nor "tree", or the tokenizer puts no single
            token before a sentence.

    Example:
        >>> from foveate import Document, Encoder
        >>> encoder = Encoder.from_pretrained()
        >>> fish = [("Cod", "Cod swim. They eat."), ("Eel", "Eels are long.")]
        >>> document = Document.from_sections("Fish", fish)
        >>> vectors = encoder.encode(document)
        >>> vectors.document.shape, vectors.sections.shape, vectors.sentences.shape
        (torch.Size([384]), torch.Size([2, 384]), torch.Size([3, 384]))
    """

    def __init__(
        self,
        model: "PreTrainedModel | TreeBertNetwork | None" = None,
        processor: "HDTProcessor | TreeBertProcessor | TreeTokenizer | None" = None,
        context: Context = "tree",
        linear_dtype: torch.dtype = torch.float32,
        languages: Collection[str] | None = None,
    ) -> None:
        if model is None or processor is None:
            raise TypeError(
                "load an encoder with Encoder.from_pretrained(), which takes the name or path of a "
                "checkpoint, or nothing for foveate's own model"
            )
        if context not in ("sentence", "tree"):
            raise ValueError(f"context must be 'sentence' or 'tree', got {context!r}")
        positions = getattr(model.config, "max_position_embeddings", None)
        if positions and (processor.passage_tokens or 0) + _first_position(model) >= positions:
            raise ValueError(
                f"passages of {processor.passage_tokens} tokens are too long for a model of "
                f"{positions} positions: lower the processor's passage_tokens"
            )
        self.model = model
        self.processor = processor
        self.context: Context = context
        self.dimension = int(model.config.hidden_size)
        self.options: dict[str, Any] = {}
        self.languages = None if languages is None else frozenset(languages)
        self._is_tree_bert = model.config.model_type == "tree_bert"
        self._normalizes = self._is_tree_bert
        self._details: dict[str, Any] = {"runner": "foveate"}
        self._first_position = _first_position(model)
        self.linear_dtype = linear_dtype
        self.cache: Cache | None = None
        on_cpu = model.device.type == "cpu"
        self._batch_tokens = _TOKENS_PER_BATCH_ON_CPU if on_cpu else _TOKENS_PER_BATCH_ON_GPU

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | PathLike[str] | None = None,
        *,
        context: Context | None = None,
        device: str | torch.device | None = None,
        dtype: torch.dtype | str | None = None,
        dimensions: int | None = None,
        query_prompt: str | None = None,
        document_prompt: str | None = None,
        trust_remote_code: bool = False,
    ) -> "Encoder":
        """Load a checkpoint: of TreeBert, of HDT, or one that sentence-transformers runs.

        Args:
            name_or_path: A folder, or a name on the hub, which is then downloaded. None is the
                default model, see `default_model_path`.
            context: See the class; by default "tree" for TreeBert and HDT. Others read sentences by
                themselves or, with "document", in their document; see `SentenceEncoder`.
            device: By default CUDA if available, else the CPU.
            dtype: The dtype of the matrix products, by default float32. Vectors are float32.
            dimensions: How many dimensions of the vectors to keep, of a model that was trained for
                that. This and what follows is for checkpoints that sentence-transformers runs.
            query_prompt: What to put before queries; by default what the checkpoint says.
            document_prompt: What to put before sentences and titles; by default what the checkpoint
                says.
            trust_remote_code: Run Python code that comes with the checkpoint.

        Raises:
            ImportError: sentence-transformers runs the checkpoint, and is not installed.
            OSError: There is no such checkpoint, or it has no safetensors weights.
            ValueError: The checkpoint cannot be run as its authors mean it, or not with these
                options. This is checked before weights are downloaded.
        """
        path = str(name_or_path or default_model_path())
        options = {
            "dimensions": dimensions,
            "query_prompt": query_prompt,
            "document_prompt": document_prompt,
        }
        given = {name: value for name, value in options.items() if value is not None}
        if not Path(path).is_dir():
            check_name_or_path(path)
        device = resolve_device(device)
        linear_dtype = resolve_dtype(dtype or torch.float32, device)
        if checkpoint_file(path, "modules.json") is not None:
            from foveate.inference.sentence_encoder import load  # takes seconds

            return load(path, context, device, linear_dtype, given, trust_remote_code)
        if given:
            raise ValueError(
                f"{name_or_path or 'the default model'} has no {' and no '.join(given)} to set: "
                "those are options of models that sentence-transformers runs"
            )
        model, processor = _load(path)
        if linear_dtype != torch.float32:
            # Norms and the residual stream stay in float32: that halves the error for nothing.
            for module in model.modules():
                if isinstance(module, nn.Linear):
                    module.to(linear_dtype)
        if device.type == "cpu":
            use_onednn(model, linear_dtype)
        model = model.eval().to(device)
        note_loaded(model, path)
        return cls(model, processor, context or "tree", linear_dtype, trained_languages(path))

    @property
    def name(self) -> str:
        """The folder of the checkpoint, or its name on the hub; empty for a model in memory."""
        loaded = loaded_weights(self.model)
        return loaded.name if loaded else str(self.model.config.name_or_path or "")

    def describe(self) -> dict[str, Any]:
        """Describe how texts become vectors.

        Returns:
            `model`, its name; `context`, see the class; `dimension`; and `runner`, the library that
            runs it. Of models that sentence-transformers runs also `modules`, their names in
            order; `query_prompt`; `document_prompt`; `max_tokens`, above which texts are split;
            and `similarity`.
        """
        return {
            "model": self.name,
            "context": self.context,
            "dimension": self.dimension,
            **self._details,
        }

    @property
    def min_likely_score(self) -> float | None:
        """Score of a sentence below which nine of ten are wrong; None if that is not known."""
        return getattr(getattr(self.model, "config", None), "min_likely_score", None)

    @property
    def has_tokens(self) -> bool:
        """Whether it makes vectors of tokens."""
        return self.context == "tree" and getattr(self.model.config, "token_size", None) is not None

    @cached_property
    def unrelated(self) -> Tensor:
        """`(32, dimension)`, unit vectors of sentences on 32 subjects, to compare others with."""
        return F.normalize(self.encode_texts(_UNRELATED), dim=-1)

    @overload
    def encode(
        self, documents: Document, *, show_progress: bool | None = None
    ) -> DocumentVectors: ...

    @overload
    def encode(
        self, documents: Sequence[Document], *, show_progress: bool | None = None
    ) -> list[DocumentVectors]: ...

    def encode(
        self, documents: Document | Sequence[Document], *, show_progress: bool | None = None
    ) -> DocumentVectors | list[DocumentVectors]:
        """Encode a document, or several, whatever their length.

        Args:
            documents: One document or a sequence.
            show_progress: Show a bar if it takes over half a second; by default on a terminal.

        Returns:
            The vectors of the document or, for a sequence, a list with those of each.

        Warns:
            UserWarning: A document is in a language that the model was not trained on; once per
                process and language.
        """
        if isinstance(documents, Document):
            return self.encode([documents], show_progress=show_progress)[0]
        return self._encode_documents(as_documents(documents), show_progress)

    def _encode_documents(
        self, documents: Sequence[Document], show_progress: bool | None
    ) -> list[DocumentVectors]:
        warn_of_languages(documents, self.languages)
        outlines = [outline(document, levels=self.processor.levels) for document in documents]
        if self.cache is None:
            return self._encode_outlines(outlines, show_progress)
        keys = [self._key(anchors) for anchors in outlines]
        kept = [self.cache.get("vectors", key) for key in keys]
        new = [i for i, content in enumerate(kept) if content is None]
        encoded = iter(self._encode_outlines([outlines[i] for i in new], show_progress))
        vectors = []
        for key, content in zip(keys, kept, strict=True):
            if content is None:
                vectors.append(next(encoded))
                self.cache.put("vectors", key, vectors[-1].to_bytes())
            else:
                vectors.append(DocumentVectors.from_bytes(content))
        return vectors

    def _key(self, anchors: list[Anchor]) -> str:
        """Return the name in a cache of a document's vectors."""
        loaded = loaded_weights(self.model)
        processor = self.processor
        limits = processor.levels, processor.max_sentence_tokens, processor.passage_tokens
        settings = self.context, self.linear_dtype, limits, self.options, self._details
        return Cache.key(loaded and loaded.files, settings, [tuple(anchor) for anchor in anchors])

    def _encode_outlines(
        self, outlines: list[list[Anchor]], show_progress: bool | None
    ) -> list[DocumentVectors]:
        if self.context == "tree":
            return self._encode_trees(outlines, show_progress)
        sentences = [
            [anchor.text for anchor in anchors if anchor.sentence_idx is not None]
            for anchors in outlines
        ]
        titles = [
            [anchor.text for anchor in anchors if anchor.text and anchor.sentence_idx is None]
            for anchors in outlines
        ]
        return [
            self._from_sentences(anchors, sentence_vectors, title_vectors)
            for anchors, sentence_vectors, title_vectors in zip(
                outlines,
                self._encode_lists(sentences, show_progress),
                self._encode_lists(titles, show_progress),
                strict=True,
            )
        ]

    def encode_texts(
        self, texts: str | Sequence[str], *, show_progress: bool | None = None
    ) -> Tensor:
        """Encode texts, each by itself: `(texts, dimension)`; of a single string `(dimension,)`.

        A text longer than the model takes is split into pieces, and its vector is pooled over all
        of them. Vectors are float32 on the CPU.
        """
        if isinstance(texts, str):
            return self.encode_texts([texts], show_progress=show_progress)[0]
        sums = torch.zeros(len(texts), self.dimension)
        counts = torch.zeros(len(texts), 1)
        starts = range(0, len(texts), _TEXTS_PER_CHUNK)
        chunks = [texts[start : start + _TEXTS_PER_CHUNK] for start in starts]
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

    def encode_queries(self, queries: str | Sequence[str]) -> Tensor:
        """Encode queries, to be compared with the vectors of `encode`; see `encode_texts`."""
        return self.encode_texts(queries)

    @torch.inference_mode()
    def encode_query(self, query: str) -> tuple[Tensor, Tensor | None]:
        """Encode a query and its tokens, to be compared with the vectors of `encode`.

        Returns:
            `(dimension,)`, see `encode_texts`, and the vectors of its tokens `(tokens, token_size)`
            float32, of unit length; None if the model has no head for these.
        """
        if not self.has_tokens:
            return self.encode_queries(query), None
        pieces = self.processor.pieces([query])[1]
        output = self._run(**cast(Features, self.processor.forest(pieces)))
        total = output.embeddings.float().cpu().sum(0, keepdim=True)
        [vector] = self._finish(total, torch.tensor([[len(pieces)]]))
        return vector, output.token_vectors.float().cpu()

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

    def _encode_lists(
        self, lists: list[list[str]], show_progress: bool | None
    ) -> tuple[Tensor, ...]:
        """Encode lists of texts together."""
        vectors = self.encode_texts(list(chain.from_iterable(lists)), show_progress=show_progress)
        parts: tuple[Tensor, ...] = vectors.split([len(texts) for texts in lists])
        return parts

    def _encode_trees(
        self, outlines: list[list[Anchor]], show_progress: bool | None
    ) -> list[DocumentVectors]:
        """Encode every document as one tree; small ones together."""
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
                vectors += self._encode_forest(forest, nodes, owners)
                advance(sum(sizes[i] for i in pack))  # documents differ in length
        return vectors

    def _prepare(
        self, prepare: Callable[[Item], Prepared], items: Sequence[Item]
    ) -> Generator[Prepared, None, None]:
        """Prepare items for the model, each one while a GPU computes the one before.

        On a CPU a second thread would take cores from the model.
        """
        ahead = self.model.device.type == "cuda" and len(items) > 1
        return _one_ahead(prepare, items) if ahead else (prepare(item) for item in items)

    def _encode_forest(
        self, outlines: list[list[Anchor]], nodes: TreeNodes | Features, owners: list[int]
    ) -> list[DocumentVectors]:
        """Encode documents whose nodes are built; see `TreeBuilder.tree`."""
        starts = list(accumulate(map(len, outlines), initial=0))
        states = self._read(nodes)
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
    def _read(self, nodes: TreeNodes | Features) -> _AnchorSums:
        """Encode documents whose nodes are built."""
        return (
            self._read_tree(nodes) if isinstance(nodes, TreeNodes) else self._read_passages(nodes)
        )

    def _run(self, **inputs: Any) -> Any:
        """Run the model on one sequence; tensors are columns of it."""
        device, dtype = self.model.device, self.linear_dtype
        rows = {
            name: x[None].to(device) if isinstance(x, Tensor) else x for name, x in inputs.items()
        }
        with torch.autocast(device.type, dtype, enabled=dtype != torch.float32):
            return self.model(**rows)

    def _read_passages(self, passages: Features) -> _AnchorSums:
        """Encode documents with a TreeBert."""
        output = self._run(**passages)
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

    def _from_sentences(
        self, anchors: list[Anchor], sentences: Tensor, titles: Tensor
    ) -> DocumentVectors:
        """Compute the vectors of the document and its sections: means over sentences and titles."""
        upper = [i for i, anchor in enumerate(anchors) if anchor.kind != "sentence"]
        row_of = {i: row for row, i in enumerate(upper)}
        sums = torch.zeros(len(upper), self.dimension)
        counts = torch.zeros(len(upper), 1)
        for vectors, are_titles in ((sentences, False), (titles, True)):
            parents = torch.tensor(
                [
                    row_of[anchor.parent]
                    for anchor in anchors
                    if anchor.text and (anchor.sentence_idx is None) == are_titles
                ],
                dtype=torch.long,
            )
            sums.index_add_(0, parents, vectors)
            counts.index_add_(0, parents, torch.ones(len(parents), 1))
        for i in reversed(upper[1:]):  # sections come after what holds them
            sums[row_of[anchors[i].parent]] += sums[row_of[i]]
            counts[row_of[anchors[i].parent]] += counts[row_of[i]]
        vectors = self._finish(sums, counts)
        return DocumentVectors(vectors[0], vectors[1:], sentences)

    def _finish(self, sums: Tensor, counts: Tensor) -> Tensor:
        """Divide sums by counts and normalize if requested; in place, to save memory."""
        means = sums.div_(counts.clamp(min=1))  # sentences may be empty strings
        return F.normalize(means, dim=-1, out=means) if self._normalizes else means


def as_encoder(model: Encoder | str | PathLike[str] | None, **options: Any) -> Encoder:
    """Return a loaded encoder unchanged, or load one by its name.

    Args:
        model: A loaded encoder, the name or path of a checkpoint, or None for the default encoder,
            which without options is loaded once per process.
        options: Options of `Encoder.from_pretrained` for a model that is not loaded yet.

    Raises:
        ImportError: See `Encoder.from_pretrained`.
        OSError: See `Encoder.from_pretrained`.
        TypeError: `model` is neither an encoder nor the name or path of a checkpoint.
        ValueError: See `Encoder.from_pretrained`.
    """
    if isinstance(model, Encoder):
        return model
    if model is None and not options:
        return _default_encoder()
    return Encoder.from_pretrained(model, **options)


class _Writer(Protocol):
    @classmethod
    def from_pretrained(cls, name_or_path: str | PathLike[str], /) -> Self: ...


Writer = TypeVar("Writer", bound=_Writer)


def as_encoder_or(
    writer: type[Writer], model: Writer | Encoder | str | PathLike[str]
) -> Writer | Encoder:
    """Return a loaded model unchanged, or load one by its name.

    Args:
        writer: The class that loads an encoder-decoder's checkpoint, such as `Summarizer`.
        model: A loaded model of that class, a loaded encoder, or the name or path of a checkpoint.

    Raises:
        TypeError: See `as_encoder`.
        OSError: See `from_pretrained` of the class that loads the checkpoint.
        ValueError: See `from_pretrained` of the class that loads the checkpoint.
    """
    if isinstance(model, writer):
        return model
    if isinstance(model, Encoder):
        return model
    name_or_path = cast(str | PathLike[str], model)  # mypy does not narrow by type[Writer]
    return (
        writer.from_pretrained(name_or_path)
        if is_writer(name_or_path)
        else as_encoder(name_or_path)
    )


def is_writer(name_or_path: str | PathLike[str]) -> bool:
    """Return whether a checkpoint is that of an encoder-decoder, and of no encoder made from it.

    Raises:
        OSError: There is no such checkpoint.
        TypeError: `name_or_path` is neither a name nor a path.
    """
    from foveate.models.loading import load_config  # takes seconds

    check_name_or_path(name_or_path)
    return (
        checkpoint_file(name_or_path, "modules.json") is None
        and load_config(name_or_path).is_encoder_decoder
    )


@cache
def _default_encoder() -> Encoder:
    return Encoder.from_pretrained()


def _load(
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


def _first_position(model: nn.Module) -> int:
    """Return the first position id: RoBERTa and models like it begin after the padding id."""
    padding = getattr(getattr(model, "embeddings", None), "padding_idx", None)
    return 0 if padding is None else int(padding) + 1
