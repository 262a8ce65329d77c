import pytest
import torch

pytest.importorskip("sentence_transformers")

import sentence_transformers

from foveate.integrations.sentence_transformers import FoveateModule

CORPUS = ["Cod swim in cold seas.", "Salt is white. " * 50, "Trawlers drag a net behind them."]


@pytest.fixture(scope="module")
def model(small_encoder):
    return sentence_transformers.SentenceTransformer(
        modules=[FoveateModule(small_encoder)], prompts={"query": "Find: "}, device="cpu"
    )


def test_vectors_are_those_of_the_encoder(model, small_encoder):
    expected = small_encoder.encode_texts(CORPUS)
    vectors = model.encode(CORPUS, convert_to_tensor=True, batch_size=2)
    assert torch.allclose(vectors, expected, atol=1e-5)
    queries = model.encode_query(["cod"], convert_to_tensor=True)
    assert torch.allclose(queries, small_encoder.encode_texts(["Find: cod"]), atol=1e-5)
    assert model.get_embedding_dimension() == small_encoder.dimension
    assert model.similarity(vectors, vectors).argmax(1).tolist() == [0, 1, 2]


def test_utilities_and_storing(model, tmp_path):
    from sentence_transformers.util import semantic_search

    documents = model.encode_document(CORPUS, convert_to_tensor=True)
    [[hit]] = semantic_search(documents[:1], documents, top_k=1)
    assert hit["corpus_id"] == 0
    model.save(str(tmp_path / "saved"))
    loaded = sentence_transformers.SentenceTransformer(
        str(tmp_path / "saved"), device="cpu", trust_remote_code=True
    )
    assert torch.equal(loaded.encode(CORPUS, convert_to_tensor=True), documents)
