import pytest

from foveate import Document, Index, ask, search

pytest.importorskip("sentence_transformers")
from sentence_transformers import CrossEncoder

from tests.sentence_transformer import save, save_reranker

QUERY = "What do cod eat?"
TEXT = " ".join(f"Cod number {i} eats herring and crab number {i * i}." for i in range(40))


@pytest.fixture(scope="module")
def reranker(tmp_path_factory, tokenizer):
    return save_reranker(tmp_path_factory.mktemp("reranker"), tokenizer)


def test_passages_are_sorted_by_the_scores_of_a_cross_encoder(reranker, encoder, tmp_path):
    document = Document.from_text(TEXT)
    plain = search(QUERY, document, top_k=50, model=encoder)
    model = CrossEncoder(str(reranker), device="cpu")
    scores = model.predict([(QUERY, hit.text) for hit in plain])
    order = sorted(range(len(plain)), key=lambda i: -scores[i])[:3]
    found = search(QUERY, document, top_k=3, model=encoder, rerank=reranker)
    assert [hit.span for hit in found] == [plain[i].span for i in order]
    assert [hit.score for hit in found] == pytest.approx([scores[i] for i in order], abs=1e-5)
    answer = ask(QUERY, document, top_k=3, model=encoder, rerank=model)
    assert [hit.span for hit in answer.passages] == [hit.span for hit in found]
    index = Index.create(tmp_path / "library", model=encoder)
    index.add(document)
    assert [one.text for one in index.ask(QUERY, rerank=model).passages] == [
        one.text for one in found
    ]


def test_what_cannot_rerank_is_refused_in_a_sentence(encoder, tmp_path, tokenizer):
    save(tmp_path, tokenizer)
    with pytest.raises(ValueError, match="is no reranker: name a cross-encoder with one label"):
        search(QUERY, Document.from_text(TEXT), model=encoder, rerank=tmp_path / "transformer")
    with pytest.raises(ValueError, match="only passages can be reranked, not sections"):
        search(QUERY, Document.from_text(TEXT), by="section", model=encoder, rerank=tmp_path)
    with pytest.raises(OSError, match="there is no folder"):
        search(QUERY, Document.from_text(TEXT), model=encoder, rerank=tmp_path / "nothing")
