"""Vectors of documents, sections and sentences from any encoder, in one pass, at any length."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from os import PathLike
from typing import Literal, Self, overload

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoModel, PreTrainedModel, PreTrainedTokenizerBase

from foveate.documents import Document, as_documents
from foveate.inference.default import default_model_path
from foveate.inference.onednn import use_onednn
from foveate.inference.pooling import Pooling
from foveate.models.device import device_named, dtype_named
from foveate.models.hdt.attention_interface import TREE_ATTENTION, register
from foveate.ops.tree_attention import Tree
from foveate.preprocessing.hdt import HDTProcessor
from foveate.preprocessing.tree import Anchor, Nodes, outline, parents_of_pieces, split_long
from foveate.progress import progress

Context = Literal["sentence", "tree"]

_ROWS_ON_CPU = 2048
"""Rows of a packed batch on a CPU: enough to be busy, few enough to stay in cache."""

_ROWS_ON_GPU = 65536

_TEXTS_AT_ONCE = 4096
"""Sentences that are tokenized and sorted by length together."""


@dataclass(frozen=True)
class DocumentVectors:
    """A document's vectors, float32 on the CPU.

    Attributes:
        document: `(dimension,)`.
        sections: `(sections, dimension)`, in the order of `Document.walk`.
        sentences: `(sentences, dimension)`, in the order of `Document.sentences`.
    """

    document: Tensor
    sections: Tensor
    sentences: Tensor


class Encoder:
    """An encoder of documents on top of any Hugging Face checkpoint.

    Args:
        model: the Transformer, in evaluation mode.
        tokenizer: its tokenizer.
        context: "sentence" encodes every sentence by itself and builds sections and the document
            from their sentences; "tree" lets anchors exchange across the hierarchy (HDT).
        pooling: how rows become a vector.
        product_dtype: dtype of the model's linear layers; everything else is float32.

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
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        context: Context,
        pooling: Pooling,
        product_dtype: torch.dtype = torch.float32,
    ) -> None:
        if context not in ("sentence", "tree"):
            raise ValueError(f"context must be 'sentence' or 'tree', got {context!r}")
        self.model = model
        self.tokenizer = tokenizer
        self.context = context
        self.pooling = pooling
        self._anchor_ids = HDTProcessor(tokenizer).anchor_ids()
        self._suffix = [] if _is_hdt(model) else _suffix(tokenizer)
        self._first_position = _first_position(model)
        self._max_tokens = self._sentence_limit()
        self._product_dtype = product_dtype
        self._rows_at_once = _ROWS_ON_CPU if model.device.type == "cpu" else _ROWS_ON_GPU

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | PathLike[str] | None = None,
        *,
        context: Context | None = None,
        device: str | torch.device | None = None,
        dtype: torch.dtype | str | None = None,
    ) -> Self:
        """Load a checkpoint.

        Args:
            name_or_path: a folder, or a name on the hub, which then is downloaded. None is
                all-MiniLM-L6-v2, from its package.
            context: see the class; by default "tree" for HDT and "sentence" for the others.
            device: by default CUDA if there is one, else the CPU.
            dtype: of the matrix products, by default float32. Vectors are float32.

        Raises:
            OSError: there is no such checkpoint, or it has no safetensors weights.
            ValueError: a checkpoint that Encoder cannot run.
        """
        from foveate.models.loading import load_config, load_model, load_tokenizer

        register()
        path = str(name_or_path or default_model_path())
        if (kind := load_config(path).model_type).startswith("vcc"):
            raise ValueError(
                f"{path} is a {kind} model, which reads with a question and gives no vectors: "
                "name an encoder"
            )
        model = load_model(AutoModel, path, dtype=torch.float32)
        if _is_hdt(model):
            pooling = Pooling(first_row=True)
        else:
            pooling = Pooling.of(path)
            _use_tree_attention(model, path)
        device = device_named(device)
        product_dtype = dtype_named(dtype or torch.float32)
        if product_dtype != torch.float32:
            # Norms and the residual stream stay in float32: that halves the error for nothing.
            for module in model.modules():
                if isinstance(module, nn.Linear):
                    module.to(product_dtype)
        elif device.type == "cpu":
            use_onednn(model)
        return cls(
            model.eval().to(device),
            load_tokenizer(path),
            context or ("tree" if _is_hdt(model) else "sentence"),
            pooling,
            product_dtype,
        )

    @property
    def dimension(self) -> int:
        """Length of the vectors."""
        return self.model.config.hidden_size

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
            documents: one, or a sequence.
            show_progress: show a bar if it takes over two seconds; by default on a terminal.

        Returns:
            The vectors of the one document, or a list of them.
        """
        if isinstance(documents, Document):
            return self.encode([documents], show_progress=show_progress)[0]
        # HDT was trained on three levels; to other checkpoints all depths are equally new.
        levels = 3 if _is_hdt(self.model) else None
        outlines = [outline(one, levels=levels) for one in as_documents(documents)]
        if self.context == "tree":
            with progress("Encoding", len(outlines), show_progress) as advance:
                vectors = []
                for anchors in outlines:
                    vectors.append(_by_kind(anchors, self._encode_tree(anchors)))
                    advance()
                return vectors
        sentences = [
            [anchor.text for anchor in anchors if anchor.sentence is not None]
            for anchors in outlines
        ]
        titles = [
            [anchor.text for anchor in anchors if anchor.text and anchor.sentence is None]
            for anchors in outlines
        ]
        return [
            self._build_up(anchors, *own)
            for anchors, *own in zip(
                outlines,
                self._encode_lists(sentences, show_progress),
                self._encode_lists(titles, show_progress),
                strict=True,
            )
        ]

    def _encode_lists(
        self, lists: list[list[str]], show_progress: bool | None
    ) -> tuple[Tensor, ...]:
        """Encode lists of texts together."""
        vectors = self.encode_texts(list(chain.from_iterable(lists)), show_progress=show_progress)
        return vectors.split([len(texts) for texts in lists])

    def encode_texts(
        self, texts: str | Sequence[str], *, show_progress: bool | None = None
    ) -> Tensor:
        """Encode texts, each by itself: `(texts, dimension)`; of a single string `(dimension,)`.

        A text longer than the model takes is read in pieces, of which nothing is lost, and its
        vector is pooled over all of them.
        """
        if isinstance(texts, str):
            return self.encode_texts([texts], show_progress=show_progress)[0]
        sums = torch.zeros(len(texts), self.dimension)
        counts = torch.zeros(len(texts), 1)
        with progress("Encoding", len(texts), show_progress) as advance:
            for start in range(0, len(texts), _TEXTS_AT_ONCE):
                owners, pieces = self._pieces(texts[start : start + _TEXTS_AT_ONCE])
                for batch in _batches(pieces, self._rows_at_once):
                    ids = [self._anchor_ids["sentence"]] * len(batch)
                    nodes = Nodes.of(ids, [-1] * len(batch), [pieces[i] for i in batch])
                    owner = torch.tensor([start + owners[i] for i in batch])[nodes.anchor]
                    self._pool(self._rows(nodes), nodes.position == 0, owner, sums, counts)
                    advance(len(batch))
        return self._finish(sums, counts)

    def _encode_tree(self, anchors: list[Anchor]) -> Tensor:
        """Encode a document as one tree; `(anchors, dimension)`."""
        owners, pieces = self._pieces([anchor.text for anchor in anchors])
        above = [anchor.parent for anchor in anchors]
        nodes = Nodes.of(
            [self._anchor_ids[anchors[owner].kind] for owner in owners],
            parents_of_pieces(owners, above),
            [
                piece if anchors[owner].text else []
                for owner, piece in zip(owners, pieces, strict=True)
            ],
        )
        rows, owner = self._rows(nodes), torch.tensor(owners)[nodes.anchor]
        is_anchor = nodes.position == 0
        sums = torch.zeros(len(anchors), self.dimension)
        counts = torch.zeros(len(anchors), 1)
        self._pool(rows, is_anchor, owner, sums, counts)
        if not self.pooling.first_row:  # an anchor's children are rows of its own as well
            child = is_anchor & (nodes.parents >= 0)
            parent = torch.tensor(above)[owner[child]]
            self._pool(rows[child], is_anchor[child], parent, sums, counts)
        return self._finish(sums, counts)

    def _pool(
        self, rows: Tensor, is_anchor: Tensor, owner: Tensor, sums: Tensor, counts: Tensor
    ) -> None:
        """Add rows to the sum, and to the count, that each one's `owner` names."""
        if self.pooling.first_row:
            rows, owner = rows[is_anchor], owner[is_anchor]
        sums.index_add_(0, owner, rows)
        counts.index_add_(0, owner, torch.ones(len(owner), 1))

    @torch.inference_mode()
    def _rows(self, nodes: Nodes) -> Tensor:
        """Last hidden states `(nodes, dimension)`, float32 on the CPU."""
        device, dtype = self.model.device, self._product_dtype
        tree = Tree.from_parents(nodes.parents)
        ids = tree.to_level_order(nodes.input_ids)
        positions = tree.to_level_order(nodes.position) + self._first_position
        with torch.autocast(device.type, dtype, enabled=dtype != torch.float32):
            output = self.model(
                input_ids=ids[None].to(device),
                position_ids=positions[None].to(device),
                tree=tree.in_level_order.to(device),
            )
        return tree.from_level_order(output.last_hidden_state[0].float().cpu())

    def _build_up(
        self, anchors: list[Anchor], sentences: Tensor, titles: Tensor
    ) -> DocumentVectors:
        """Build the document and its sections: the means of all sentences and titles in them."""
        upper = [i for i, anchor in enumerate(anchors) if anchor.kind != "sentence"]
        row = {i: place for place, i in enumerate(upper)}
        sums = torch.zeros(len(upper), self.dimension)
        counts = torch.zeros(len(upper), 1)
        for vectors, are_titles in ((sentences, False), (titles, True)):
            parents = torch.tensor(
                [
                    row[anchor.parent]
                    for anchor in anchors
                    if anchor.text and (anchor.sentence is None) == are_titles
                ],
                dtype=torch.long,
            )
            sums.index_add_(0, parents, vectors)
            counts.index_add_(0, parents, torch.ones(len(parents), 1))
        for i in reversed(upper[1:]):  # sections stand behind what holds them
            sums[row[anchors[i].parent]] += sums[row[i]]
            counts[row[anchors[i].parent]] += counts[row[i]]
        vectors = self._finish(sums, counts)
        return DocumentVectors(vectors[0], vectors[1:], sentences)

    def _finish(self, sums: Tensor, counts: Tensor) -> Tensor:
        """Means, of length 1 if the checkpoint says so; in place, since vectors fill memory."""
        means = sums.div_(counts.clamp(min=1))  # nothing stands in an empty section
        return F.normalize(means, dim=-1, out=means) if self.pooling.normalize else means

    def _pieces(self, texts: Sequence[str]) -> tuple[list[int], list[list[int]]]:
        """Which text each piece is of, and its token ids, at most as many as the model takes."""
        # verbose=False: a long text is no reason for the tokenizer to warn, it is split here.
        ids = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        owners, pieces = split_long(ids, self._max_tokens)
        return owners, [piece + self._suffix for piece in pieces]

    def _sentence_limit(self) -> int:
        """Tokens of a sentence that the model takes, its anchor and end not counted."""
        limits = [
            self.pooling.max_tokens,
            getattr(self.model.config, "max_position_embeddings", None),
            self.tokenizer.model_max_length,
        ]
        longest = min(limit for limit in limits if limit is not None)
        return longest - self._first_position - 1 - len(self._suffix)


def _is_hdt(model: PreTrainedModel) -> bool:
    return model.config.model_type == "hdt"


def _use_tree_attention(model: PreTrainedModel, path: str) -> None:
    try:
        model.set_attn_implementation(TREE_ATTENTION)
        supported = model._supports_attention_backend
    except ValueError:
        supported = False
    if not supported or model.config.is_encoder_decoder:
        raise ValueError(
            f"{path} is a {model.config.model_type} model, whose attention transformers does not "
            "let us replace: use an encoder such as BERT, RoBERTa, MiniLM or ModernBERT"
        )


def _suffix(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Ids that the tokenizer puts behind a sentence, [SEP] or the like."""
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    whole = tokenizer("a")["input_ids"]
    if len(whole) < len(bare) + 1 or whole[1 : 1 + len(bare)] != bare:
        raise ValueError(
            "the tokenizer does not put exactly one token (CLS) before a sentence, "
            "as an encoder with anchors needs"
        )
    return whole[1 + len(bare) :]


def _first_position(model: PreTrainedModel) -> int:
    """RoBERTa and its kin count positions from behind the padding token's id."""
    padding = getattr(getattr(model, "embeddings", None), "padding_idx", None)
    return 0 if padding is None else padding + 1


def _batches(pieces: list[list[int]], rows_at_once: int) -> Iterator[list[int]]:
    """Indices of pieces of like lengths, so many that they and their anchors fill the rows."""
    batch: list[int] = []
    rows = 0
    for i in sorted(range(len(pieces)), key=lambda i: len(pieces[i])):
        if batch and rows + 1 + len(pieces[i]) > rows_at_once:
            yield batch
            batch, rows = [], 0
        batch.append(i)
        rows += 1 + len(pieces[i])
    if batch:
        yield batch


def _by_kind(anchors: list[Anchor], vectors: Tensor) -> DocumentVectors:
    """Sort the vectors of an outline into document, sections and (titles left out) sentences."""
    sections = torch.tensor([anchor.kind == "section" for anchor in anchors])
    sentences = torch.tensor([anchor.sentence is not None for anchor in anchors])
    return DocumentVectors(vectors[0], vectors[sections], vectors[sentences])
