"""Vectors of documents, sections and sentences, in one pass, at any length."""

from collections.abc import Collection, Sequence
from functools import cache, cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, Self, TypedDict, TypeVar, Unpack, cast, overload

import torch
import torch.nn.functional as F
from torch import Tensor

from foveate.cache import Cache
from foveate.checkpoints import check_name_or_path, checkpoint_file
from foveate.documents import Document, as_documents
from foveate.inference import tree_runner
from foveate.inference.default_model import default_model_path
from foveate.inference.devices import resolve_device, resolve_dtype
from foveate.inference.kept import Kept
from foveate.inference.languages import trained_languages, warn_of_languages
from foveate.inference.parts import nothing_read, outlines_of_parts, with_parts
from foveate.inference.runner import Context, DocumentVectors, Runner
from foveate.inference.weights import loaded_weights
from foveate.preprocessing.tree import Anchor, outline

_KEPT_BYTES = 2**28
"""Vectors of some 130,000 sentences."""

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


class EncoderOptions(TypedDict, total=False):
    """Options of `Encoder.from_pretrained`, which says what they are."""

    context: Context | None
    device: str | torch.device | None
    dtype: torch.dtype | str | None
    dimensions: int | None
    query_prompt: str | None
    document_prompt: str | None
    trust_remote_code: bool


class Encoder:
    """An encoder of documents: a TreeBert, an HDT or one that sentence-transformers runs.

    What it has encoded last it keeps in memory, so that the same `Document` is encoded once: at
    most 256 MiB of vectors, some 130,000 sentences, and the documents that they are of. For a model
    whose weights have changed, make another one.

    Args:
        runner: The model with its tokenizer, such as a `foveate.inference.tree_runner.TreeRunner`.
        languages: ISO 639 codes of the languages that the model was trained on; None if unknown.

    Attributes:
        model: The model.
        processor: Its tokenizer, and how it reads documents.
        context: "sentence" encodes every sentence by itself and builds sections and the document
            from their sentences; "document" reads as many sentences at once as the model takes;
            "tree" reads whole documents as the model was trained to.
        dimension: Length of the vectors.
        linear_dtype: Dtype of the model's linear layers; everything else is float32.
        options: The options of `from_pretrained` that the vectors depend on, if they were given:
            `dimensions`, `query_prompt` and `document_prompt`.
        cache: Where `encode` keeps the vectors of documents on the disk and looks for them first;
            by default None. It goes by the files that the model was loaded from: set it only for a
            model that has not been changed since.

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
        self, runner: Runner | None = None, languages: Collection[str] | None = None
    ) -> None:
        if not isinstance(runner, Runner):
            raise TypeError(
                "load an encoder with Encoder.from_pretrained(), which takes the name or path of a "
                "checkpoint, or nothing for foveate's own model"
            )
        self.runner = runner
        self.model = runner.model
        self.processor = runner.processor
        self.context = runner.context
        self.dimension = runner.dimension
        self.linear_dtype = runner.linear_dtype
        self.options = runner.options
        self.languages = None if languages is None else frozenset(languages)
        self.cache: Cache | None = None
        self.kept: Kept[DocumentVectors] = Kept(_KEPT_BYTES)

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
    ) -> Self:
        """Load a checkpoint: of TreeBert, of HDT, or one that sentence-transformers runs.

        Args:
            name_or_path: A folder, or a name on the hub, which is then downloaded. None is the
                default model, see `default_model_path`.
            context: See the class; by default "tree" for TreeBert and HDT. Others read sentences by
                themselves or, with "document", in their document; see `SentenceRunner`.
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
            from foveate.inference import sentence_runner  # takes seconds

            loaded = sentence_runner.load(
                path, context, device, linear_dtype, given, trust_remote_code
            )
            return cls(loaded, trained_languages(path))
        if given:
            raise ValueError(
                f"{name_or_path or 'the default model'} has no {' and no '.join(given)} to set: "
                "those are options of models that sentence-transformers runs"
            )
        runner = tree_runner.load(path, context, device, linear_dtype)
        return cls(runner, trained_languages(path))

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
            **self.runner.details,
        }

    @property
    def min_likely_score(self) -> float | None:
        """Score of a sentence below which nine of ten are wrong; None if that is not known."""
        return getattr(getattr(self.model, "config", None), "min_likely_score", None)

    @property
    def has_tokens(self) -> bool:
        """Whether it makes vectors of tokens."""
        return self.runner.has_tokens

    @property
    def reads_parts(self) -> bool:
        """Whether parts of a document can be encoded by themselves, as passages of TreeBert can."""
        return self.runner.reads_parts

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
        known = self.known(documents)
        new = [i for i, vectors in enumerate(known) if vectors is None or vectors.read is not None]
        outlines = [self._outline(documents[i]) for i in new]
        for i, anchors, vectors in zip(
            new, outlines, self.runner.encode_outlines(outlines, show_progress), strict=True
        ):
            self._keep(documents[i], "vectors", anchors, vectors)
            known[i] = vectors
        return cast(list[DocumentVectors], known)

    def known(self, documents: Sequence[Document]) -> list[DocumentVectors | None]:
        """Return what has been encoded of documents: the whole of each, parts of it, or nothing."""
        known = [self.kept.get(document) for document in documents]
        for i, document in enumerate(documents):
            if known[i] is None and self.cache is not None:
                key = self._key(self._outline(document))
                for kind in ("vectors", "parts"):
                    if (content := self.cache.get(kind, key)) is not None:
                        known[i] = vectors = DocumentVectors.from_bytes(content)
                        self.kept.put(document, vectors)
                        break
        return known

    def encode_parts(
        self,
        documents: Sequence[Document],
        parts: Sequence[Sequence[range]],
        known: Sequence[DocumentVectors | None],
    ) -> list[DocumentVectors]:
        """Encode parts of documents, each by itself, besides what is known of them.

        Args:
            documents: The documents.
            parts: For each, runs of sentences of a section, as indices of `Document.sentences`,
                which are not read yet.
            known: For each, what is known of it, see `known`.
        """
        warn_of_languages(documents, self.languages)
        vectors = [
            nothing_read(document, self.dimension) if one is None else one
            for document, one in zip(documents, known, strict=True)
        ]
        outlines = {
            i: self._outline(documents[i]) for i, its_parts in enumerate(parts) if its_parts
        }
        texts = [
            text for i, anchors in outlines.items() for text in outlines_of_parts(anchors, parts[i])
        ]
        encoded = iter(self.runner.encode_outlines(texts))
        for i, anchors in outlines.items():
            its_vectors = [next(encoded) for _ in parts[i]]
            vectors[i] = with_parts(anchors, vectors[i], parts[i], its_vectors)
            self._keep(documents[i], "parts", anchors, vectors[i])
        return vectors

    def _outline(self, document: Document) -> list[Anchor]:
        return outline(document, levels=self.processor.levels)

    def _keep(
        self, document: Document, kind: str, anchors: list[Anchor], vectors: DocumentVectors
    ) -> None:
        """Keep the vectors of a document in memory and, if there is a cache, on the disk."""
        self.kept.put(document, vectors)
        if self.cache is not None:
            self.cache.put(kind, self._key(anchors), vectors.to_bytes())

    def forget(self, document: Document) -> None:
        """Drop the vectors of a document that are kept in memory."""
        self.kept.forget(document)

    def _key(self, anchors: list[Anchor]) -> str:
        """Return the name in a cache of a document's vectors."""
        loaded = loaded_weights(self.model)
        processor = self.processor
        limits = processor.levels, processor.max_sentence_tokens, processor.passage_tokens
        settings = self.context, self.linear_dtype, limits, self.options, self.runner.details
        return Cache.key(loaded and loaded.files, settings, [tuple(anchor) for anchor in anchors])

    def encode_texts(
        self, texts: str | Sequence[str], *, show_progress: bool | None = None
    ) -> Tensor:
        """Encode texts, each by itself: `(texts, dimension)`; of a single string `(dimension,)`.

        A text longer than the model takes is split into pieces, and its vector is pooled over all
        of them. Vectors are float32 on the CPU.
        """
        if isinstance(texts, str):
            return self.encode_texts([texts], show_progress=show_progress)[0]
        return self.runner.encode_texts(texts, show_progress)

    def encode_queries(self, queries: str | Sequence[str]) -> Tensor:
        """Encode queries, to be compared with the vectors of `encode`; see `encode_texts`."""
        if isinstance(queries, str):
            return self.encode_queries([queries])[0]
        return self.runner.encode_queries(queries)

    def encode_query(self, query: str) -> tuple[Tensor, Tensor | None]:
        """Encode a query and its tokens, to be compared with the vectors of `encode`.

        Returns:
            `(dimension,)`, see `encode_texts`, and the vectors of its tokens `(tokens, token_size)`
            float32, of unit length; None if the model has no head for these.
        """
        return self.runner.encode_query(query)


def as_encoder(
    model: Encoder | str | PathLike[str] | None, **options: Unpack[EncoderOptions]
) -> Encoder:
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
