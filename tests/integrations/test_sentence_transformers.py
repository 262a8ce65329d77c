import numpy as np
import pytest
import torch

from foveate.integrations.sentence_transformers import FoveateSentenceTransformer

CORPUS = ["Cod swim in cold seas.", "Salt is white.", "Trawlers drag a net behind them."]


@pytest.fixture(scope="module")
def model(small_encoder):
    return FoveateSentenceTransformer(small_encoder)


@pytest.fixture(scope="module")
def library():
    """The package itself, which says on import what else it could do."""
    return pytest.importorskip("sentence_transformers")


def test_vectors_are_those_of_the_encoder(model, small_encoder):
    vectors = model.encode(CORPUS)
    assert isinstance(vectors, np.ndarray)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, small_encoder.encode_texts(CORPUS).numpy(), atol=1e-6)
    assert model.get_sentence_embedding_dimension() == vectors.shape[1]
    assert model.encode([]).shape == (0, vectors.shape[1])


def test_the_form_of_the_result(model):
    vectors = model.encode(CORPUS)
    single = model.encode(CORPUS[0])
    np.testing.assert_allclose(single, vectors[0], atol=1e-6)
    assert isinstance(model.encode(CORPUS[0], convert_to_tensor=True), torch.Tensor)
    tensors = model.encode(CORPUS, convert_to_numpy=False)
    assert isinstance(tensors, list)
    assert tensors[0].shape == single.shape
    short = model.encode(CORPUS, truncate_dim=4, normalize_embeddings=True)
    np.testing.assert_allclose(np.linalg.norm(short, axis=1), 1, atol=1e-6)
    assert short.shape == (3, 4)


def test_prompts(small_encoder):
    model = FoveateSentenceTransformer(small_encoder, prompts={"query": "Find: "})
    np.testing.assert_array_equal(model.encode_query("cod"), model.encode("Find: cod"))
    np.testing.assert_array_equal(model.encode_document("cod"), model.encode("cod"))
    np.testing.assert_array_equal(
        model.encode("cod", prompt_name="query"), model.encode("cod", prompt="Find: ")
    )
    with pytest.raises(ValueError, match="no prompt named 'title'"):
        model.encode("cod", prompt_name="title")


@pytest.mark.parametrize(
    "options", [{"output_value": "token_embeddings"}, {"precision": "int8"}, {"device": "cuda"}]
)
def test_what_it_cannot_do_is_refused(model, options):
    with pytest.raises(ValueError, match=str(*options.values())):
        model.encode(CORPUS, **options)


def test_chunks_in_context(model):
    [together, alone] = model.encode_contextual([CORPUS, CORPUS[:1]], normalize_embeddings=True)
    assert together.shape == (3, model.get_sentence_embedding_dimension())
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
    assert np.abs(together[0] - alone[0]).max() > 1e-3


def test_tokens(model):
    tokens = model.tokenize(CORPUS)
    assert tokens["input_ids"].shape == tokens["attention_mask"].shape
    decoded = model.tokenizer.decode(tokens["input_ids"][1], skip_special_tokens=True)
    assert decoded == "salt is white."


def test_similarity_is_that_of_the_package(model, library):
    from sentence_transformers.util import cos_sim, pairwise_cos_sim

    one, other = model.encode(CORPUS), model.encode(CORPUS[::-1], convert_to_tensor=True)
    torch.testing.assert_close(model.similarity(one, other), cos_sim(one, other))
    torch.testing.assert_close(
        model.similarity_pairwise(list(other), one), pairwise_cos_sim(other, one)
    )


def test_semantic_search(model, library):
    from sentence_transformers.util import semantic_search

    queries = model.encode_query(CORPUS[1:], convert_to_tensor=True)
    found = semantic_search(queries, model.encode_document(CORPUS, convert_to_tensor=True))
    assert [hits[0]["corpus_id"] for hits in found] == [1, 2]


def test_evaluators_take_it(model, library):
    evaluation = pytest.importorskip("sentence_transformers.sentence_transformer.evaluation")
    corpus = dict(zip("abc", CORPUS, strict=True))
    retrieval = evaluation.InformationRetrievalEvaluator(
        {"q": CORPUS[1]}, corpus, {"q": {"b"}}, show_progress_bar=False
    )
    assert retrieval(model)["cosine_accuracy@1"] == 1
    similarity = evaluation.EmbeddingSimilarityEvaluator(
        CORPUS, CORPUS[1:] + CORPUS[:1], [0.1, 0.5, 0.9]
    )
    assert "spearman_cosine" in similarity(model)
