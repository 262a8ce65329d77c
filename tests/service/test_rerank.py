"""A service reranks passages where that is asked for."""

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra `service`")
pytest.importorskip("sentence_transformers")
from sentence_transformers import CrossEncoder, MultiVectorEncoder

from foveate import Document, Index, search
from tests.sentence_transformer import save_multi_vector, save_reranker
from tests.service.conftest import FISH, serving

QUERY = "What does the cod eat?"


@pytest.fixture(scope="module")
def reranker(tmp_path_factory, tokenizer):
    return CrossEncoder(str(save_reranker(tmp_path_factory.mktemp("r"), tokenizer)), device="cpu")


@pytest.fixture(scope="module")
def reranking(small_encoder, library_folder, reranker):
    """A service with a library and a reranker."""
    with serving(small_encoder, library=library_folder, reranker=reranker) as running:
        yield running


def found(served, path, **arguments):
    answer = served.client.post(path, json={"query": QUERY, "top_k": 3, **arguments})
    assert answer.status_code == 200, answer.text
    return [
        (hit["span"]["text"], hit["score"])
        for hit in answer.json()["hits" if path == "/search" else "passages"]
    ]


def expected(hits):
    return [(hit.text, pytest.approx(hit.score, abs=1e-3)) for hit in hits]


@pytest.mark.parametrize("path", ["/search", "/ask"])
def test_passages_are_reranked_if_that_is_asked_for(path, reranking, small_encoder, reranker):
    document = Document.from_text(FISH, format="markdown")
    hits = search(QUERY, document, top_k=3, model=small_encoder, rerank=reranker)
    assert found(reranking, path, text=FISH, format="markdown", rerank=True) == expected(hits)
    plain = search(QUERY, document, top_k=3, model=small_encoder)
    assert found(reranking, path, text=FISH, format="markdown") == expected(plain)
    index = Index.open(reranking.service.library.index.path, model=small_encoder)
    hits = index.search(QUERY, top_k=3, rerank=reranker)
    assert found(reranking, path, rerank=True) == expected(hits)


def test_a_multi_vector_model(small_encoder, tmp_path, tokenizer):
    model = MultiVectorEncoder(str(save_multi_vector(tmp_path, tokenizer)), device="cpu")
    document = Document.from_text(FISH, format="markdown")
    hits = search(QUERY, document, top_k=3, model=small_encoder, rerank=model)
    with serving(small_encoder, reranker=model) as served:
        arguments = {"text": FISH, "format": "markdown", "rerank": True}
        assert found(served, "/search", **arguments) == expected(hits)


def test_what_cannot_be_reranked(reranking, served):
    assert reranking.client.get("/healthz").json()["reranker"]
    sections = {"query": QUERY, "by": "section", "rerank": True}
    for service, request, words in (
        (reranking, {**sections, "text": FISH}, "only passages can be reranked, not sections"),
        (reranking, sections, "only passages can be reranked, not sections"),
        (served, {"query": QUERY, "rerank": True}, "start it with --rerank"),
    ):
        refused = service.client.post("/search", json=request)
        assert refused.status_code == 422
        assert words in refused.json()["detail"]
