"""Foveate in LlamaIndex: a node parser that keeps the hierarchy, embeddings, and a retriever."""

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import chain, islice, pairwise
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if not find_spec("llama_index"):
    raise ImportError("this module needs LlamaIndex: run `pip install 'foveate[llama-index]'`")

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.callbacks import CallbackManager
from llama_index.core.node_parser import NodeParser
from llama_index.core.node_parser.node_utils import default_id_func
from llama_index.core.schema import (
    BaseNode,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.schema import Document as LlamaDocument
from llama_index.core.utils import get_tqdm_iterable

from foveate.documents import FORMATS, Document, Section, Span
from foveate.documents.recognition import format_from_name
from foveate.inference import Encoder, as_encoder
from foveate.integrations.chunks import encode_chunks
from foveate.integrations.results import find, span_metadata, texts_of
from foveate.tasks.arguments import Unit, check_unit
from foveate.tasks.passages import join_spans

if TYPE_CHECKING:
    from foveate.index import Index  # which needs the extra `index`

_PLACE = ("title", "authors", "date", "section_path", "page", "place", "speaker")
"""Metadata of a place, beside its offsets."""

_FOR_PROGRAMS = ("kind", "depth", "start", "end")
"""Metadata that mean nothing to a model."""


class FoveateNodeParser(NodeParser):
    """A node parser that keeps the hierarchy of documents.

    The nodes of a document are in reading order: one for the whole document, one for each section
    and subsection, and one for each passage, which are neighbouring sentences of a section. A node
    is the `PARENT` of the nodes directly in it. `PREVIOUS` and `NEXT` lead from passage to passage
    through the document, and from section to section within their parent. `SOURCE` is the
    document that was given.

    The text of a node is exactly that of the document between `start_char_idx` and `end_char_idx`,
    unless `keep_markup` is off. (LaTeX, notebooks and JSON are rewritten as running text, and their
    nodes have no such places.) The metadata are those of the document and `kind` ("document",
    "section" or "passage"), `depth` (0 for the document), `title`, `authors`, `date`,
    `section_path` (the titles of all sections around it), and `page`, `place` and `speaker`, as far
    as they are known.

    A blank document has no nodes; one that cannot be read, such as a page of HTML without a
    sentence, raises a `DocumentError` with its name.

    `get_leaf_nodes` gives the passages. `AutoMergingRetriever` finds the sections around them.

    Attributes:
        format: Name of the documents' format in `foveate.documents.FORMATS`; by default that of
            the `file_name` or `file_path` in their metadata, or else plain text.
        max_characters: Longest passage, unless one sentence alone is longer.
        keep_markup: Keep the text as it is in the document; otherwise, nodes have only its
            words, a line for each paragraph, as is better for HTML, XML and subtitles.

    Example:
        >>> from llama_index.core.schema import Document
        >>> from foveate.integrations.llama_index import FoveateNodeParser
        >>> sea = "# Sea\\n\\n## Fish\\n\\nSome are long.\\n\\n### Cod\\n\\nCod swim. They eat."
        >>> parser = FoveateNodeParser(format="markdown")
        >>> for node in parser.get_nodes_from_documents([Document(text=sea)])[1:]:
        ...     print(node.metadata["kind"], "|", node.metadata["section_path"], "|", [node.text])
        section | Fish | ['Some are long.\\n\\n### Cod\\n\\nCod swim. They eat.']
        passage | Fish | ['Some are long.']
        section | Fish › Cod | ['Cod swim. They eat.']
        passage | Fish › Cod | ['Cod swim. They eat.']
    """

    format: str | None = Field(default=None, description="Name of the documents' format.")
    max_characters: int = Field(default=800, gt=0, description="Longest passage in characters.")
    keep_markup: bool = Field(default=True, description="Keep the text as it stands.")

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which it is stored."""
        return "FoveateNodeParser"

    def _parse_nodes(
        self, nodes: Sequence[BaseNode], show_progress: bool = False, **kwargs: Any
    ) -> list[BaseNode]:
        parsed: list[BaseNode] = []
        for node in get_tqdm_iterable(nodes, show_progress, "Parsing nodes"):
            text = _text(node)
            if text.strip():
                name = _file_name(node)
                document = Document.from_text(
                    text, format=self.format or _text_format(name), source=name or node.node_id
                )
                parsed += self._tree(document, node)
        return parsed

    def _postprocess_parsed_nodes(
        self, nodes: list[BaseNode], parent_doc_map: dict[str, LlamaDocument]
    ) -> list[BaseNode]:
        # The inherited method looks for the text of each node again, and finds the first of equal
        # ones; metadata and relationships are complete, too.
        return nodes

    def _tree(self, document: Document, source: BaseNode) -> list[BaseNode]:
        """Return the nodes of a document, in reading order."""
        parts = list(_parts(document, self.max_characters))
        nodes = self._nodes(document, source, parts)
        related = [node.as_related_node_info() for node in nodes]
        children: list[list[int]] = [[] for _ in parts]
        for i, part in enumerate(parts):
            if part.parent >= 0:
                children[part.parent].append(i)
                nodes[i].relationships[NodeRelationship.PARENT] = related[part.parent]
        for node, own in zip(nodes, children, strict=True):
            if own:
                node.relationships[NodeRelationship.CHILD] = [related[i] for i in own]
        if self.include_prev_next_rel:
            passages = [i for i, part in enumerate(parts) if part.kind == "passage"]
            sections = ([i for i in own if parts[i].kind == "section"] for own in children)
            for i, following in chain.from_iterable(map(pairwise, (passages, *sections))):
                nodes[i].relationships[NodeRelationship.NEXT] = related[following]
                nodes[following].relationships[NodeRelationship.PREVIOUS] = related[i]
        return list(nodes)

    def _nodes(
        self, document: Document, source: BaseNode, parts: Sequence["_NodePart"]
    ) -> list[TextNode]:
        """Return the nodes of the parts of a document, not yet related to each other."""
        spans = [part.span for part in parts]
        if self.keep_markup:
            texts = [document.text[span.start : span.end] for span in spans]
        else:
            texts = texts_of(document, spans)
        is_exact = document.text == _text(source)
        inherited = dict(source.metadata) if self.include_metadata else {}
        related = source.source_node or RelatedNodeInfo(
            node_id=source.node_id, node_type=source.get_type(), hash=source.hash
        )
        make_id = default_id_func if self.id_func is None else self.id_func  # None in version 0.12
        nodes = []
        for i, (part, text) in enumerate(zip(parts, texts, strict=True)):
            place = span_metadata(part.span, document)
            own = {name: place[name] for name in _PLACE if name in place}
            node = TextNode(
                id_=make_id(i, source),
                text=text,
                start_char_idx=part.span.start if is_exact else None,
                end_char_idx=part.span.end if is_exact else None,
                metadata={**inherited, **own, "kind": part.kind, "depth": part.depth},
                excluded_embed_metadata_keys=[
                    *source.excluded_embed_metadata_keys,
                    *_FOR_PROGRAMS,
                ],
                excluded_llm_metadata_keys=[*source.excluded_llm_metadata_keys, *_FOR_PROGRAMS],
                relationships={NodeRelationship.SOURCE: related},
            )
            nodes.append(node)
        return nodes


class FoveateEmbedding(BaseEmbedding):
    """Embeddings of texts and, in context, of nodes.

    `get_text_embedding` and the like encode every text by itself. Called on nodes, as in an
    `IngestionPipeline`, it encodes those of each source document together, in the given order, so
    the vector of each depends on the others. Only the texts of nodes count, and the `section_path`
    in their metadata, which is read as their heading; nodes with children are encoded by
    themselves. A `VectorStoreIndex` keeps the vectors that nodes have.

    Args:
        model: An encoder, or the name or path of its checkpoint; by default foveate's own model.
        options: Fields of `BaseEmbedding`.

    Example:
        >>> from llama_index.core.schema import TextNode
        >>> from foveate.integrations.llama_index import FoveateEmbedding
        >>> [node] = FoveateEmbedding()([TextNode(text="Cod swim in cold seas.")])
        >>> len(node.embedding)
        384
    """

    _encoder: Encoder = PrivateAttr()

    def __init__(self, model: Encoder | str | PathLike[str] | None = None, **options: Any) -> None:
        encoder = as_encoder(model)
        name = Path(encoder.name).name
        super().__init__(**{"model_name": name or "foveate", **options})
        self._encoder = encoder

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which it is stored."""
        return "FoveateEmbedding"

    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> Sequence[BaseNode]:
        """Encode nodes, those of each source document together, and set their `embedding`."""
        sources: dict[str, list[BaseNode]] = {}
        alone = []
        for node in nodes:
            if node.child_nodes:
                alone.append(node)
            else:
                sources.setdefault(node.ref_doc_id or node.node_id, []).append(node)
        texts = [[_text(node) for node in own] for own in sources.values()]
        headings = [
            [str(node.metadata.get("section_path", "")) for node in own] for own in sources.values()
        ]
        encoded = encode_chunks(self._encoder, texts, headings)
        pairs = zip(
            chain.from_iterable(sources.values()), chain.from_iterable(encoded), strict=True
        )
        vectors = self._encoder.encode_texts([_text(node) for node in alone])
        for node, vector in chain(pairs, zip(alone, vectors, strict=True)):
            node.embedding = vector.tolist()
        return nodes

    async def acall(self, nodes: Sequence[BaseNode], **kwargs: Any) -> Sequence[BaseNode]:
        """Encode nodes in another thread; see `__call__`."""
        return await asyncio.to_thread(self, nodes, **kwargs)

    def _get_query_embedding(self, query: str) -> list[float]:
        vector: list[float] = self._encoder.encode_queries(query).tolist()
        return vector

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.to_thread(self._get_query_embedding, query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return await asyncio.to_thread(self._get_text_embedding, text)

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = self._encoder.encode_texts(texts).tolist()
        return vectors

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await asyncio.to_thread(self._get_text_embeddings, texts)


class FoveateRetriever(BaseRetriever):
    """A retriever over a library that `foveate index` or `Index.add` made.

    The nodes have the place in their metadata: `source`, `title`, `authors`, `date`,
    `section_path`, `page`, `place` and `speaker`, as far as they are known, and the number of their
    `document`, as `Index.document` takes it.

    Args:
        index: The library.
        by: What to find: passages of up to five sentences, sections or documents.
        top_k: Number of results.
        where: A condition on documents or sentences in SQL, or several; see `Index.search`.
        path: Only files at this path, in this folder, or that match this pattern.
        section: Only sections whose title contains this.
        callback_manager: LlamaIndex's.

    Raises:
        ValueError: `by` is something else.
        TypeError: `index` is a path.
    """

    def __init__(
        self,
        index: "Index",
        *,
        by: Unit = "passage",
        top_k: int = 5,
        where: str | Sequence[str] | None = None,
        path: str | PathLike[str] | None = None,
        section: str | None = None,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        super().__init__(callback_manager)
        check_unit(by)
        if isinstance(index, str | PathLike):
            raise TypeError(
                f"expected an Index, got a path: give foveate.Index.open({str(index)!r})"
            )
        self._find = partial(
            find, index, by=by, top_k=top_k, where=where, path=path, section=section
        )

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        nodes = []
        for result in self._find(query_bundle.query_str):
            span = result.hit.span
            hidden = [*_FOR_PROGRAMS, "document"]
            node = TextNode(
                id_=f"{span.document}:{span.start}-{span.end}",
                text=result.text,
                start_char_idx=span.start,
                end_char_idx=span.end,
                metadata={**result.metadata, "document": result.hit.document_idx},
                excluded_embed_metadata_keys=hidden,
                excluded_llm_metadata_keys=hidden,
            )
            nodes.append(NodeWithScore(node=node, score=result.hit.score))
        return nodes

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


class _NodePart(NamedTuple):
    """A part of a document that becomes a node.

    Attributes:
        kind: "document", "section" or "passage".
        span: Its place.
        depth: 0 for the document.
        parent: Index of the part around it; -1 for the document.
    """

    kind: str
    span: Span
    depth: int
    parent: int


def _parts(document: Document, max_characters: int) -> Iterator[_NodePart]:
    """Visit the parts of a document in reading order."""
    yield _NodePart("document", document.span(0, len(document.text)), 0, -1)
    around = [0]  # indices of the document and of the sections around the current one
    num_parts = 1
    sentences = iter(document.spans())
    for (path, section), span in zip(document.walk(), document.section_spans(), strict=True):
        depth = len(path)
        del around[depth:]
        yield _NodePart("section", span, depth, around[-1])
        around.append(num_parts)
        num_parts += 1
        for passage in _passages(section, sentences, max_characters, document.language):
            yield _NodePart("passage", passage, depth + 1, around[-1])
            num_parts += 1


def _passages(
    section: Section, spans: Iterator[Span], max_characters: int, language: str | None
) -> Iterator[Span]:
    """Join the sentences directly in a section into passages, which end where a paragraph ends.

    Only a paragraph that is too long for one passage is split.

    Args:
        section: The section.
        spans: The spans of all sentences from its first one; its own are taken.
        max_characters: Longest passage.
        language: The document's.
    """
    passage: list[Span] = []
    for paragraph in section.paragraphs:
        sentences = list(islice(spans, len(paragraph.sentences)))
        if passage and sentences[-1].end - passage[0].start > max_characters:
            yield join_spans(passage, language)
            passage = []
        for sentence in sentences:
            if passage and sentence.end - passage[0].start > max_characters:
                yield join_spans(passage, language)
                passage = []
            passage.append(sentence)
    if passage:
        yield join_spans(passage, language)


def _file_name(node: BaseNode) -> str:
    """Return the name of a node's file as LlamaIndex notes it; empty if there is none."""
    return str(node.metadata.get("file_name") or node.metadata.get("file_path") or "")


def _text_format(name: str) -> str:
    """Return the format that a file's name suggests, if it is one of text; else plain text."""
    format = FORMATS.get(format_from_name(name) or "text")
    return "text" if format is None or format.is_binary or format.is_collection else format.name


def _text(node: BaseNode) -> str:
    return node.get_content(metadata_mode=MetadataMode.NONE)
