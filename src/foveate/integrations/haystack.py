"""Foveate in Haystack: embedders of documents in context, and of queries."""

from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from typing import Any

if not find_spec("haystack"):
    raise ImportError("this module needs Haystack: run `pip install 'foveate[haystack]'`")

from haystack import Document, component

from foveate.inference import Encoder, as_encoder
from foveate.integrations.chunks import encode_chunks


class _Embedder:
    """What is loaded when it is first used. Haystack stores the arguments by their names."""

    def __init__(self, model: str | None = None, options: dict[str, Any] | None = None) -> None:
        self.model = model
        self.options = options

    @cached_property
    def _encoder(self) -> Encoder:
        return as_encoder(self.model, **(self.options or {}))

    def warm_up(self) -> None:
        """Load the model."""
        self._encoder  # noqa: B018


@component
class FoveateDocumentEmbedder(_Embedder):
    """Embeds documents in context: those of one source together, in their order.

    The documents that a splitter cut from one source, which share the value of a metadata field,
    are read as the sections of one document, so the vector of each depends on the others. All
    documents of a source therefore belong in one call. They are taken in the order of `split_id`,
    if they have one, or else in the given order. A document without the field is encoded by itself.

    Args:
        model: Name or path of the encoder's checkpoint; by default foveate's own model.
        source_field: The metadata field that names a document's source; splitters of Haystack
            write "source_id", converters "file_path".
        heading_field: The metadata field with the heading above a document, if there is one.
        options: Options of `Encoder.from_pretrained`, such as `{"device": "cpu"}`.

    Example:
        >>> from haystack import Document
        >>> from foveate.integrations.haystack import FoveateDocumentEmbedder
        >>> chunks = ["Cod swim in cold seas.", "They eat herring."]
        >>> documents = [Document(content=text, meta={"source_id": "fish"}) for text in chunks]
        >>> embedded = FoveateDocumentEmbedder().run(documents)["documents"]
        >>> [len(document.embedding) for document in embedded]
        [384, 384]
    """

    def __init__(
        self,
        model: str | None = None,
        source_field: str = "source_id",
        heading_field: str | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        _Embedder.__init__(self, model, options)  # Haystack makes another class of this one
        self.source_field = source_field
        self.heading_field = heading_field

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, list[Document]]:
        """Embed documents.

        Args:
            documents: The documents; those without text are embedded as empty texts.

        Returns:
            `documents`: copies with an `embedding`, in the same order.

        Raises:
            TypeError: One of them is not a document but, for example, a string.
        """
        for document in documents:
            if not isinstance(document, Document):
                raise TypeError(
                    f"expected Haystack documents, got {type(document).__name__}: "
                    "embed a query with FoveateTextEmbedder"
                )
        sources: dict[Any, list[int]] = {}
        for i, document in enumerate(documents):
            source = document.meta.get(self.source_field)
            sources.setdefault(("alone", i) if source is None else ("source", source), []).append(i)
        for places in sources.values():
            if all("split_id" in documents[i].meta for i in places):
                places.sort(key=lambda i: documents[i].meta["split_id"])
        encoded = encode_chunks(
            self._encoder,
            [[documents[i].content or "" for i in places] for places in sources.values()],
            [[self._heading(documents[i]) for i in places] for places in sources.values()],
        )
        embedded = list(documents)
        for places, vectors in zip(sources.values(), encoded, strict=True):
            for i, vector in zip(places, vectors.tolist(), strict=True):
                embedded[i] = replace(documents[i], embedding=vector)
        return {"documents": embedded}

    def _heading(self, document: Document) -> str:
        return str(document.meta.get(self.heading_field) or "") if self.heading_field else ""


@component
class FoveateTextEmbedder(_Embedder):
    """Embeds queries, to be compared with the vectors of `FoveateDocumentEmbedder`.

    Args:
        model: Name or path of the encoder's checkpoint; by default foveate's own model.
        options: Options of `Encoder.from_pretrained`, such as `{"device": "cpu"}`.

    Example:
        >>> from foveate.integrations.haystack import FoveateTextEmbedder
        >>> len(FoveateTextEmbedder().run("Where do cod live?")["embedding"])
        384
    """

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, list[float]]:
        """Embed a query.

        Args:
            text: The query.

        Returns:
            `embedding`: its vector.

        Raises:
            TypeError: It is not a string but, for example, a list of documents.
        """
        if not isinstance(text, str):
            raise TypeError(
                f"expected a string, got {type(text).__name__}: "
                "embed documents with FoveateDocumentEmbedder"
            )
        return {"embedding": self._encoder.encode_queries(text).tolist()}
