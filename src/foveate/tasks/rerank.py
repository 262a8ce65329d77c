"""Reranking: a second look at the best passages, word by word."""

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING

from foveate.tasks.arguments import Unit
from foveate.tasks.hits import Hit

if TYPE_CHECKING:
    from foveate.inference.reranker import Reranker

RERANKED = 200
"""The number of passages that are reranked at most."""

_READ_WITH_QUERY = 50
"""That of a cross-encoder, which takes longer for each."""


def check_rerank(by: Unit) -> None:
    """Check that what is found can be reranked."""
    if by != "passage":
        raise ValueError(f"only passages can be reranked, not {by}s: leave out by or rerank")


def load_reranker(model: "Reranker | str | PathLike[str]", by: Unit = "passage") -> "Reranker":
    """Load a reranker of what is found, before anything is encoded.

    Raises:
        ImportError: See `foveate.inference.reranker.as_reranker`.
        OSError: See there.
        ValueError: See there; or sections or documents are looked for.
    """
    check_rerank(by)
    from foveate.inference.reranker import as_reranker  # takes seconds

    return as_reranker(model)


def rerank(query: str, hits: Sequence[Hit], reranker: "Reranker", top_k: int) -> list[Hit]:
    """Sort passages by the scores of a reranker.

    Args:
        query: The query.
        hits: Passages, best first. Of more than `top_k`, a cross-encoder reads the first 50.
        reranker: A cross-encoder or a multi-vector model of sentence-transformers.
        top_k: Number of passages to return.

    Returns:
        The best, with the scores of the reranker; ties stay in order.
    """
    from foveate.inference.reranker import reads_pairs, score_texts  # takes seconds

    if reads_pairs(reranker):
        hits = hits[: max(top_k, _READ_WITH_QUERY)]
    if not hits:
        return []
    scores = score_texts(reranker, query, [hit.text for hit in hits])
    scored = [replace(hit, score=score) for hit, score in zip(hits, scores, strict=True)]
    return sorted(scored, key=lambda hit: -hit.score)[:top_k]
