"""`foveate search`."""

from dataclasses import dataclass
from typing import Any

from foveate.tasks.parameters import FoundParameters, SearchParameters, parameter

from . import common
from .command import JSON
from .models import RERANKER, checkpoint
from .sources import QuerySourceOptions, say_share_read


@dataclass(kw_only=True)
class SearchCommand(QuerySourceOptions, FoundParameters, SearchParameters):
    """Find the passages, sections or documents that match a query best, with their places.

    \b
    foveate search "who pays for delays?" contract.docx
    foveate search "white whale" books/*.txt --top-k 10 --context 2
    foveate search "how are releases signed?" handbook.pdf --by section
    foveate search "Counts of fish. Nets and sonar." papers/ --by document
    foveate search "who pays?" --library work.library --where "format = 'pdf'"
    """

    rerank: str | None = checkpoint(RERANKER)
    json: bool = parameter(JSON, False)

    def __call__(self) -> None:
        common.check_query("foveate search", "query", self.query, self.files)
        self.check_sources()
        how: dict[str, Any] = {
            "by": self.by,
            "top_k": self.top_k,
            "rerank": self.rerank,
            "explain": self.explain,
            "context": self.context,
        }
        if self.library is not None:
            index = self.open_library(self.library)
            hits = index.search(self.query, **how, **self.conditions)
            self.check_found(hits)
            num_documents = None
        else:
            documents = self.read(self.files or [])
            encoder = self.load_encoder(self.cache)
            from foveate.tasks.search import search

            hits = search(self.query, documents, model=encoder, thorough=self.thorough, **how)
            if not self.thorough:
                say_share_read(documents, encoder)
            num_documents = len(documents)
        if self.json:
            common.print_json(common.hits_as_json(hits))
        else:
            common.show_hits(hits, num_documents)
