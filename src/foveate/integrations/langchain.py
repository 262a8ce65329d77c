"""Foveate in LangChain: a retriever over a library, and embeddings."""

from importlib.util import find_spec
from os import PathLike
from typing import Any

if not find_spec("langchain_core"):
    raise ImportError("this module needs LangChain: run `pip install 'foveate[langchain]'`")

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict

from foveate.index import Index
from foveate.inference import Encoder, as_encoder
from foveate.integrations.results import find
from foveate.tasks.arguments import Unit


class FoveateRetriever(BaseRetriever):
    """A retriever over a library that `foveate index` or `Index.add` made.

    The metadata of a result name its place: `source`, `title`, `authors`, `date`,
    `section_path`, `page`, `place`, `speaker`, `start` and `end`, as far as they are known, its
    `score`, and the number of its `document`, as `Index.document` takes it.

    Attributes:
        index: The library.
        by: What to find: passages of up to five sentences, sections or documents.
        top_k: Number of results.
        where: A condition on documents or sentences in SQL, or several; see `Index.search`.
        path: Only files at this path, in this folder, or that match this pattern.
        section: Only sections whose title contains this.

    Example:
        >>> import foveate
        >>> from foveate.integrations.langchain import FoveateRetriever
        >>> index = foveate.Index.create(getfixture("tmp_path") / "library")
        >>> fish = [("Fish", "Cod swim. They eat herring.")]
        >>> _ = index.add(foveate.Document.from_sections("Sea", fish))
        >>> [found] = FoveateRetriever(index=index, top_k=1).invoke("What do fish eat?")
        >>> found.page_content, found.metadata["section_path"]
        ('Cod swim. They eat herring.', 'Fish')
    """

    model_config = ConfigDict(extra="forbid")

    index: Index
    by: Unit = "passage"
    top_k: int = 5
    where: str | list[str] | None = None
    path: str | PathLike[str] | None = None
    section: str | None = None

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        options = ("by", "top_k", "where", "path", "section")
        results = find(self.index, query, **{name: getattr(self, name) for name in options})
        return [
            Document(
                page_content=result.text,
                metadata={
                    **result.metadata,
                    "document": result.hit.document_idx,
                    "score": result.hit.score,
                },
            )
            for result in results
        ]


class FoveateEmbeddings(Embeddings):
    """Embeddings of texts, each encoded by itself, for LangChain's vector stores.

    Vector stores hand over texts without their documents. To search long documents by vectors that
    depend on their context, use `FoveateRetriever`.

    Args:
        model: An encoder, or the name or path of its checkpoint; by default foveate's own model.
        options: Options of `Encoder.from_pretrained` for a model that is not loaded yet.
    """

    def __init__(self, model: Encoder | str | PathLike[str] | None = None, **options: Any) -> None:
        self.encoder = as_encoder(model, **options)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Encode texts that can be searched."""
        vectors: list[list[float]] = self.encoder.encode_texts(texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Encode a query."""
        vector: list[float] = self.encoder.encode_queries(text).tolist()
        return vector
