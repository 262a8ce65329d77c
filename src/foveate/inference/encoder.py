"""Vectors of documents, sections and sentences from any encoder, in one pass, at any length."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, chain
from os import PathLike
from typing import Literal, Protocol, Self, TypeVar, cast, overload

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoModel, PreTrainedModel, PreTrainedTokenizerBase

from foveate.documents import Document, as_documents
from foveate.inference.default_model import default_model_path
from foveate.inference.languages import trained_languages, warn_of_languages
from foveate.models.hdt.attention_interface import TREE_ATTENTION, register
from foveate.models.loading import load_config, load_model
from foveate.models.utils import resolve_device, resolve_dtype
from foveate.ops.tree_attention import Tree
from foveate.preprocessing import HDTProcessor, TreeBertProcessor, load_processor
from foveate.preprocessing.collate import fill_packs
from foveate.preprocessing.factory import load_checkpoint_json
from foveate.preprocessing.tree import Anchor, TreeNodes, outline
from foveate.progress import progress

Context = Literal["sentence", "tree"]

_TOKENS_PER_BATCH_ON_CPU = 2048
"""Tokens of a packed batch on a CPU: enough to be busy, few enough to stay in cache."""

_TOKENS_PER_BATCH_ON_GPU = 65536

_CHARACTERS_PER_TOKEN = 4

_TEXTS_PER_CHUNK = 4096
"""Sentences that are tokenized and sorted by length together."""


@dataclass(frozen=True)
class Pooling:
    """How a sentence-transformers checkpoint turns hidden states into one vector.

    Attributes:
        takes_first_token: Take the first token's hidden state (CLS) instead of the mean of all.
        normalize: Scale vectors to length 1.
        max_tokens: Longest sentence in tokens, None if the checkpoint does not say.
    """

    takes_first_token: bool = False
    normalize: bool = False
    max_tokens: int | None = None

    @classmethod
    def from_pretrained(cls, name_or_path: str) -> Self:
        """Read the pooling of a checkpoint, by default the mean of all tokens.

        Raises:
            ValueError: The checkpoint has layers other than pooling and normalization, or an
                unsupported pooling mode.
        """
        modules = load_checkpoint_json(name_or_path, "modules.json")
        if modules is None:
            return cls()
        sizes = load_checkpoint_json(name_or_path, "sentence_bert_config.json") or {}
        takes_first_token = normalize = False
        for module in modules:
            match module["type"].rpartition(".")[2]:
                case "Transformer":
                    pass
                case "Normalize":
                    normalize = True
                case "Pooling":
                    takes_first_token = _takes_first_token(name_or_path, module["path"])
                case other:
                    raise ValueError(
                        f"{name_or_path} ends in a {other} layer, which Encoder cannot apply: "
                        "use a checkpoint that ends in Pooling and Normalize"
                    )
        return cls(takes_first_token, normalize, sizes.get("max_seq_length"))


@dataclass(frozen=True)
class DocumentVectors:
    """A document's vectors, float32 on the CPU.

    Attributes:
        document: `(dimension,)`.
        sections: `(sections, dimension)`, in the order of `Document.walk`.
        sentences: `(sentences, dimension)`, in the order of `Document.sentences`.
        salience: `(sentences,)`, how much each sentence belongs in a summary, on a scale of the
            document's own; None if the model has no head for it.
    """

    document: Tensor
    sections: Tensor
    sentences: Tensor
    salience: Tensor | None = None


@dataclass(frozen=True)
class _States:
    """What a model says of the anchors of a forest, float32 on the CPU.

    Attributes:
        vectors: `(states, dimension)`; an anchor's vector is the mean of its states.
        anchor_idx: `(states,)` int64, the anchor that each state belongs to.
        salience: `(states,)`, None if the model has no head for it.
    """

    vectors: Tensor
    anchor_idx: Tensor
    salience: Tensor | None = None

    def add_to(self, sums: Tensor, counts: Tensor, owners: list[int]) -> None:
        """Add vectors to the sum `(owners, dimension)` and the count `(owners, 1)` of their owner.

        Args:
            sums: Changed in place.
            counts: Changed in place.
            owners: Which row each anchor belongs to.
        """
        owner = torch.tensor(owners)[self.anchor_idx]
        sums.index_add_(0, owner, self.vectors)
        counts.index_add_(0, owner, torch.ones(len(owner), 1))

    def mean_salience(self, owners: list[int]) -> Tensor | None:
        """Average the salience of the pieces of each owner: `(owners,)`."""
        if self.salience is None:
            return None
        owner = torch.tensor(owners)[self.anchor_idx]
        sums = torch.zeros(int(owner.max()) + 1).index_add_(0, owner, self.salience)
        return sums / torch.bincount(owner)


class Encoder:
    """An encoder of documents on top of any Hugging Face checkpoint.

    Args:
        model: The Transformer, in evaluation mode.
        processor: Its tokenizer, the tokens of its anchors and the depth of its trees.
        context: "sentence" encodes every sentence by itself and builds sections and the document
            from their sentences; "tree" lets anchors exchange across the hierarchy.
        pooling: How hidden states become a vector.
        linear_dtype: Dtype of the model's linear layers; everything else is float32.
        languages: ISO 639 codes of the languages that the model was trained on; None if nobody
            says.

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
        model: PreTrainedModel,
        processor: HDTProcessor,
        context: Context,
        pooling: Pooling,
        linear_dtype: torch.dtype = torch.float32,
        languages: Collection[str] | None = None,
    ) -> None:
        if context not in ("sentence", "tree"):
            raise ValueError(f"context must be 'sentence' or 'tree', got {context!r}")
        self.model = model
        self.processor = processor
        self.tokenizer = processor.tokenizer
        self.context = context
        self.pooling = pooling
        self.languages = None if languages is None else frozenset(languages)
        self._is_tree_bert = model.config.model_type == "tree_bert"
        self._first_position = _first_position(model)
        self.linear_dtype = linear_dtype
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
    ) -> Self:
        """Load a checkpoint.

        Args:
            name_or_path: A folder, or a name on the hub, which is then downloaded. None is the
                default model, see `default_model_path`.
            context: See the class; by default "tree" for models that read trees, TreeBert and HDT,
                and "sentence" for all others.
            device: By default CUDA if available, else the CPU.
            dtype: The dtype of the matrix products, by default float32. Vectors are float32.

        Raises:
            OSError: There is no such checkpoint, or it has no safetensors weights.
            ValueError: `Encoder` cannot run this kind of checkpoint.
        """
        register()
        path = str(name_or_path or default_model_path())
        if (kind := load_config(path).model_type).startswith("vcc"):
            raise ValueError(
                f"{path} is a {kind} model, which reads with a question and gives no vectors: "
                "name an encoder"
            )
        model = load_model(AutoModel, path, dtype=torch.float32)
        if model.config.model_type == "tree_bert":
            pooling = Pooling(normalize=True)
        elif model.config.model_type == "hdt":
            pooling = Pooling(takes_first_token=True)
        else:
            pooling = Pooling.from_pretrained(path)
            _use_tree_attention(model, path)
        device = resolve_device(device)
        linear_dtype = resolve_dtype(dtype or torch.float32)
        if linear_dtype != torch.float32:
            # Norms and the residual stream stay in float32: that halves the error for nothing.
            for module in model.modules():
                if isinstance(module, nn.Linear):
                    module.to(linear_dtype)
        elif device.type == "cpu":
            _use_onednn(model)
        processor = load_processor(path, model.config)
        is_tree_bert = model.config.model_type == "tree_bert"
        if is_tree_bert and load_checkpoint_json(path, "processor_config.json") is None:
            raise ValueError(
                f"{path} has no processor_config.json, which says how documents become trees: "
                "save the TreeBertProcessor that the model was trained with there"
            )
        if not isinstance(processor, HDTProcessor):
            tokenizer = processor.tokenizer
            longest = _longest_sentence(model, tokenizer, pooling)
            processor = TreeBertProcessor(tokenizer, max_sentence_tokens=longest)
        reads_trees = model.config.model_type in ("hdt", "tree_bert")
        return cls(
            model.eval().to(device),
            processor,
            context or ("tree" if reads_trees else "sentence"),
            pooling,
            linear_dtype,
            trained_languages(path),
        )

    @property
    def dimension(self) -> int:
        """Length of the vectors."""
        return int(self.model.config.hidden_size)

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
            show_progress: Show a bar if it takes over two seconds; by default on a terminal.

        Returns:
            The vectors of the one document, or a list of them.

        Warns:
            UserWarning: A document is in a language that the model was not trained on; once per
                process and language.
        """
        if isinstance(documents, Document):
            return self.encode([documents], show_progress=show_progress)[0]
        warn_of_languages(as_documents(documents), self.languages)
        outlines = [
            outline(document, levels=self.processor.levels) for document in as_documents(documents)
        ]
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
        with progress("Encoding", len(texts), show_progress) as advance:
            for start in range(0, len(texts), _TEXTS_PER_CHUNK):
                owners, pieces = self.processor.pieces(texts[start : start + _TEXTS_PER_CHUNK])
                sizes = [1 + len(piece) for piece in pieces]
                by_length = sorted(range(len(pieces)), key=sizes.__getitem__)
                for batch in fill_packs(by_length, sizes, self._batch_tokens):
                    states = self._read(self.processor.forest([pieces[i] for i in batch]))
                    states.add_to(sums, counts, [start + owners[i] for i in batch])
                    advance(len(batch))
        return self._finish(sums, counts)

    def encode_queries(self, queries: str | Sequence[str]) -> Tensor:
        """Encode queries, to be compared with the vectors of `encode`; see `encode_texts`."""
        return self.encode_texts(queries)

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
        vectors: list[DocumentVectors] = []
        with progress("Encoding", len(outlines), show_progress) as advance:
            for batch in fill_packs(range(len(outlines)), sizes, limit):
                vectors += self._encode_forest([outlines[i] for i in batch])
                advance(len(batch))
        return vectors

    def _encode_forest(self, outlines: list[list[Anchor]]) -> list[DocumentVectors]:
        """Encode documents as one forest."""
        starts = [0, *accumulate(map(len, outlines))]
        forest = [
            anchor._replace(parent=anchor.parent + start) if anchor.parent >= 0 else anchor
            for anchors, start in zip(outlines, starts, strict=False)
            for anchor in anchors
        ]
        nodes, owners = self.processor.tree(forest)
        states = self._read(nodes)
        sums = torch.zeros(len(forest), self.dimension)
        counts = torch.zeros(len(forest), 1)
        states.add_to(sums, counts, owners)
        vectors = self._finish(sums, counts)
        salience = states.mean_salience(owners)
        return [
            _by_kind(anchors, vectors[start:end], None if salience is None else salience[start:end])
            for anchors, start, end in zip(outlines, starts, starts[1:], strict=False)
        ]

    @torch.inference_mode()
    def _read(self, nodes: TreeNodes) -> "_States":
        """Run the model on the nodes of a forest."""
        device, dtype = self.model.device, self.linear_dtype
        tree = Tree.from_parents(nodes.parent_ids)
        inputs = {"input_ids": nodes.input_ids}
        if self._is_tree_bert:
            inputs["node_types"] = nodes.node_types
        else:
            inputs["position_ids"] = nodes.positions + self._first_position
        with torch.autocast(device.type, dtype, enabled=dtype != torch.float32):
            output = self.model(
                tree=tree.in_level_order.to(device),
                **{name: tree.to_level_order(x)[None].to(device) for name, x in inputs.items()},
            )
        if self._is_tree_bert:
            indices = output.anchor_indices.cpu()
            anchor_idx = tree.to_level_order(nodes.anchor_idx)[indices]
            return _States(output.embeddings.cpu(), anchor_idx, output.salience.cpu())
        hidden_states = tree.from_level_order(output.last_hidden_state[0].float().cpu())
        is_anchor = nodes.positions == 0
        if self.pooling.takes_first_token:
            return _States(hidden_states[is_anchor], nodes.anchor_idx[is_anchor])
        # The mean of an anchor, its tokens and, in a tree, the anchors below it.
        is_child = is_anchor & (nodes.parent_ids >= 0)
        parents = nodes.anchor_idx[nodes.parent_ids[is_child]]
        return _States(
            torch.cat([hidden_states, hidden_states[is_child]]),
            torch.cat([nodes.anchor_idx, parents]),
        )

    def _from_sentences(
        self, anchors: list[Anchor], sentences: Tensor, titles: Tensor
    ) -> DocumentVectors:
        """Compute the document and its sections: the means of all sentences and titles in them."""
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
        means = sums.div_(counts.clamp(min=1))  # a section may be empty
        return F.normalize(means, dim=-1, out=means) if self.pooling.normalize else means


def as_encoder(model: Encoder | str | PathLike[str] | None) -> Encoder:
    """Return a loaded encoder as it is, and load one that is named.

    Args:
        model: A loaded encoder, the name or path of a checkpoint, or None for the default encoder,
            which is loaded once per process.

    Raises:
        OSError: See `Encoder.from_pretrained`.
        TypeError: `model` is neither an encoder nor the name or path of a checkpoint.
        ValueError: See `Encoder.from_pretrained`.
    """
    if isinstance(model, Encoder):
        return model
    return _default_encoder() if model is None else Encoder.from_pretrained(model)


class _Writer(Protocol):
    @classmethod
    def from_pretrained(cls, name_or_path: str | PathLike[str], /) -> Self: ...


Writer = TypeVar("Writer", bound=_Writer)


def as_encoder_or(
    writer: type[Writer], model: Writer | Encoder | str | PathLike[str] | None
) -> Writer | Encoder:
    """Return a loaded model as it is, and load one that is named.

    Args:
        writer: The class that loads an encoder-decoder's checkpoint, such as `Summarizer`.
        model: A loaded model of that class, or any argument of `as_encoder`.

    Raises:
        TypeError: See `as_encoder`.
        OSError: See `from_pretrained` of the class that loads the checkpoint.
        ValueError: See `from_pretrained` of the class that loads the checkpoint.
    """
    if isinstance(model, writer):
        return model
    if model is None or isinstance(model, Encoder):
        return as_encoder(model)
    name_or_path = cast(str | PathLike[str], model)  # mypy does not narrow by type[Writer]
    if load_config(name_or_path).is_encoder_decoder:
        return writer.from_pretrained(name_or_path)
    return as_encoder(name_or_path)


@cache
def _default_encoder() -> Encoder:
    return Encoder.from_pretrained()


def _longest_sentence(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, pooling: Pooling
) -> int:
    """Return how many tokens fit between the two that enclose a sentence."""
    limits = [
        pooling.max_tokens,
        getattr(model.config, "max_position_embeddings", None),
        tokenizer.model_max_length,
    ]
    return min(limit for limit in limits if limit is not None) - _first_position(model) - 2


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


class OneDNNLinear(nn.Module):
    """A linear layer for inference in float32 on a CPU.

    torch gives such products to MKL, which leaves half of what some processors can do unused (an
    AMD EPYC with AVX-512: 200 instead of 400 GFLOP/s on two cores). The operator that torch's own
    compiler uses gives them to oneDNN. Results agree within float32's rounding.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), None)
        self.bias = None if linear.bias is None else linear.bias.detach()

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Apply the layer to `(..., in_features)`."""
        output: Tensor = torch.ops.mkldnn._linear_pointwise(
            hidden_states, self.weight, self.bias, "none", [], ""
        )
        return output


def _use_onednn(model: nn.Module) -> None:
    """Replace a model's linear layers in place, where torch was built with oneDNN."""
    if not torch.backends.mkldnn.is_available():
        return
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if isinstance(child, nn.Linear):
                setattr(parent, name, OneDNNLinear(child))


def _first_position(model: PreTrainedModel) -> int:
    """Return the first position id: RoBERTa and models like it begin after the padding id."""
    padding = getattr(getattr(model, "embeddings", None), "padding_idx", None)
    return 0 if padding is None else int(padding) + 1


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


def _takes_first_token(name_or_path: str, folder: str) -> bool:
    options = load_checkpoint_json(name_or_path, f"{folder}/config.json") or {}
    prefix = "pooling_mode_"
    modes = {
        key.removeprefix(prefix) for key, on in options.items() if key.startswith(prefix) and on
    }
    if isinstance(mode := options.get("pooling_mode"), str):
        modes = {mode}
    if modes <= {"mean_tokens", "mean"}:
        return False
    if modes <= {"cls_token", "cls"}:
        return True
    raise ValueError(
        f"{name_or_path} pools by {sorted(modes)}: Encoder knows the mean and the first token"
    )
