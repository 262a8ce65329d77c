import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForSequenceClassification

from foveate import Document, Index, ask, search

pytest.importorskip("sentence_transformers")
from sentence_transformers import CrossEncoder, MultiVectorEncoder
from sentence_transformers.sentence_transformer.modules import Pooling

from foveate.inference.reranker import as_reranker
from tests.sentence_transformer import SIZES, save, save_multi_vector, save_plain, save_reranker

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
    assert [one.text for one in index.search(QUERY, top_k=3, rerank=model)] == [
        one.text for one in found
    ]


@pytest.mark.parametrize("by_pylate", [False, True])
def test_passages_are_sorted_by_the_similarity_of_their_tokens(
    by_pylate, encoder, tmp_path, tokenizer
):
    folder = save_multi_vector(tmp_path, tokenizer, by_pylate=by_pylate)
    document = Document.from_text(TEXT)
    plain = search(QUERY, document, top_k=200, model=encoder)
    model = MultiVectorEncoder(str(folder), device="cpu")
    [query] = model.encode_query([QUERY])
    scores = [
        float((query @ tokens.T).amax(1).sum())
        for tokens in model.encode_document([hit.text for hit in plain])
    ]
    order = sorted(range(len(plain)), key=lambda i: -scores[i])[:3]
    found = search(QUERY, document, top_k=3, model=encoder, rerank=folder)
    assert [hit.span for hit in found] == [plain[i].span for i in order]
    assert [hit.score for hit in found] == pytest.approx([scores[i] for i in order], abs=1e-3)
    index = Index.create(tmp_path / "library", model=encoder)
    index.add(document)
    assert [one.text for one in index.search(QUERY, top_k=3, rerank=model)] == [
        one.text for one in found
    ]


def test_how_many_passages_are_read(reranker, encoder, tmp_path, tokenizer, monkeypatch):
    document = Document.from_sections(
        "Cod", [(f"Cod {i}", f"Cod number {i} eats herring.") for i in range(230)]
    )
    read = []
    cross_encoder = CrossEncoder(str(reranker), device="cpu")
    predict = cross_encoder.predict
    monkeypatch.setattr(
        cross_encoder,
        "predict",
        lambda pairs, **kw: read.append(len(pairs)) or predict(pairs, **kw),
    )
    search(QUERY, document, model=encoder, rerank=cross_encoder)
    assert len(search(QUERY, document, top_k=60, model=encoder, rerank=cross_encoder)) == 60
    vectors = MultiVectorEncoder(str(save_multi_vector(tmp_path, tokenizer)), device="cpu")
    encode = vectors.encode_document
    monkeypatch.setattr(
        vectors,
        "encode_document",
        lambda texts, **kw: read.append(len(texts)) or encode(texts, **kw),
    )
    search(QUERY, document, model=encoder, rerank=vectors)
    assert read == [50, 60, 200]


def test_what_cannot_rerank_is_refused_in_a_sentence(encoder, tmp_path, tokenizer):
    save(tmp_path, tokenizer, Pooling(32))
    for folder in (tmp_path / "transformer", tmp_path / "model"):
        without_weights(folder)
        with pytest.raises(ValueError, match="is no reranker: name a cross-encoder with one label"):
            search(QUERY, Document.from_text(TEXT), model=encoder, rerank=folder)
    with pytest.raises(ValueError, match="only passages can be reranked, not sections"):
        search(QUERY, Document.from_text(TEXT), by="section", model=encoder, rerank=tmp_path)
    with pytest.raises(OSError, match="there is no folder"):
        search(QUERY, Document.from_text(TEXT), model=encoder, rerank=tmp_path / "nothing")


def test_what_is_refused_before_its_weights_are_read(tmp_path, tokenizer):
    folder = save_multi_vector(tmp_path, tokenizer)
    without_weights(folder)
    modules = json.loads((folder / "modules.json").read_text())
    modules[2]["type"] = "own.Mask"
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ValueError, match="Python code of its own: name a reranker without"):
        as_reranker(folder)
    labels = BertForSequenceClassification(BertConfig(**SIZES, num_labels=3))
    without_weights(save_plain(tmp_path / "labels", tokenizer, labels))
    with pytest.raises(ValueError, match="is no reranker"):
        as_reranker(tmp_path / "labels")


def test_without_sentence_transformers(reranker, monkeypatch):
    monkeypatch.setattr("foveate.inference.sentence_models.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"run `pip install 'foveate\[sentence-transformers\]'`"):
        as_reranker(reranker)


def test_checkpoints_of_which_a_part_is_missing(tmp_path, tokenizer):
    folder = save_reranker(tmp_path / "reranker", tokenizer)
    file = folder / "model.safetensors"
    weights = load_file(file)
    save_file({name: x for name, x in weights.items() if "classifier" not in name}, file)
    with pytest.raises(ValueError, match=r"lacks 2 parameters of a BertForSequenceClassification"):
        as_reranker(folder)
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"are damaged .*: copy or download them again"):
        as_reranker(folder)
    file.unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    with pytest.raises(OSError, match="safetensors"):
        as_reranker(folder)
    multi_vector = save_multi_vector(tmp_path, tokenizer)
    for file in multi_vector.glob("tokenizer*"):
        file.unlink()
    with pytest.raises((ValueError, OSError), match="tokenizer"):
        as_reranker(multi_vector)


def without_weights(folder):
    for file in folder.rglob("*.safetensors"):
        file.unlink()


@pytest.mark.parametrize("task", [search, ask])
def test_a_bad_reranker_is_refused_before_anything_is_encoded(task, encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(encoder, "encode", lambda *_, **__: pytest.fail("a document was encoded"))
    with pytest.raises(OSError, match="missing"):
        task(QUERY, Document.from_text(TEXT), model=encoder, rerank=tmp_path / "missing")
