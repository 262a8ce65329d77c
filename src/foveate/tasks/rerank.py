"""Reranking: a second look at the best passages, by a model that reads them with the query."""

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING

from foveate.tasks.arguments import Unit
from foveate.tasks.hits import Hit

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

RERANKED = 50
"""The number of passages that are reranked."""


def check_rerank(by: Unit) -> None:
    """Check that what is found can be reranked."""
    if by != "passage":
        raise ValueError(f"only passages can be reranked, not {by}s: leave out by or rerank")


def rerank(
    query: str, hits: Sequence[Hit], model: "CrossEncoder | str | PathLike[str]", top_k: int
) -> list[Hit]:
    """Sort passages by the scores of a cross-encoder.

    Args:
        query: The query.
        hits: Passages.
        model: A cross-encoder of sentence-transformers, or the name or path of its checkpoint.
        top_k: Number of passages to return.

    Returns:
        The best, with the scores of the cross-encoder; ties stay in order.

    Raises:
        ImportError: See `foveate.inference.reranker.as_reranker`.
        OSError: See there.
        ValueError: See there.
    """
    from foveate.inference.reranker import as_reranker  # takes seconds

    reranker = as_reranker(model)
    if not hits:
        return []
    scores = reranker.predict([(query, hit.text) for hit in hits], show_progress_bar=False)
    scored = [
        replace(hit, score=float(score)) for hit, score in zip(hits, scores.tolist(), strict=True)
    ]
    return sorted(scored, key=lambda hit: -hit.score)[:top_k]
