import pytest

pytest.importorskip("haystack")

from haystack import Document, Pipeline
from haystack.components.preprocessors import DocumentSplitter
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.components.writers import DocumentWriter
from haystack.core.serialization import component_from_dict, component_to_dict
from haystack.document_stores.in_memory import InMemoryDocumentStore

from foveate.integrations.haystack import FoveateDocumentEmbedder, FoveateTextEmbedder

TEXTS = ["Cod swim in cold seas. ", "They eat herring. ", "Trawlers drag a net. "]


@pytest.fixture
def embedder(small_model):
    return FoveateDocumentEmbedder(str(small_model), options={"device": "cpu"})


def chunks(texts=TEXTS, **meta):
    return [Document(content=text, meta={"source_id": "sea", **meta}) for text in texts]


def embeddings(embedder, documents):
    return [one.embedding for one in embedder.run(documents)["documents"]]


def test_documents_of_a_source_are_embedded_together(embedder):
    together = embeddings(embedder, chunks())
    apart = embeddings(embedder, [Document(content=text) for text in TEXTS])
    assert together[0] != pytest.approx(apart[0], abs=1e-3)
    mixed = chunks()
    mixed.insert(1, Document(content="Salt is white.", meta={"source_id": "salt"}))
    assert embeddings(embedder, mixed)[0] == pytest.approx(together[0], abs=1e-5)
    assert all(one.embedding is None for one in mixed)  # copies are embedded


def test_splits_are_taken_in_their_order(embedder):
    ordered = [
        Document(content=text, meta={"source_id": "sea", "split_id": i})
        for i, text in enumerate(TEXTS)
    ]
    expected = embeddings(embedder, ordered)
    found = embedder.run(ordered[::-1])["documents"]
    assert [one.content for one in found] == TEXTS[::-1]
    for one, other in zip(found[::-1], expected, strict=True):
        assert one.embedding == pytest.approx(other, abs=1e-5)


def test_fields_of_the_metadata(small_model, embedder):
    documents = [
        Document(content=text, meta={"file_path": "sea.txt", "title": "Fish"}) for text in TEXTS
    ]
    by_file = FoveateDocumentEmbedder(str(small_model), "file_path", options={"device": "cpu"})
    assert embeddings(by_file, documents)[0] == pytest.approx(
        embeddings(embedder, chunks())[0], abs=1e-5
    )
    named = FoveateDocumentEmbedder(
        str(small_model), "file_path", heading_field="title", options={"device": "cpu"}
    )
    assert embeddings(named, documents)[0] != pytest.approx(embeddings(by_file, documents)[0])


def test_a_pipeline_with_a_document_store(small_model):
    store = InMemoryDocumentStore(embedding_similarity_function="cosine")
    indexing = Pipeline()
    indexing.add_component("split", DocumentSplitter(split_by="period", split_length=1))
    indexing.add_component(
        "embed", FoveateDocumentEmbedder(str(small_model), options={"device": "cpu"})
    )
    indexing.add_component("write", DocumentWriter(store))
    indexing.connect("split", "embed")
    indexing.connect("embed", "write")
    indexing.run({"split": {"documents": [Document(content="".join(TEXTS).strip())]}})
    assert store.count_documents() == 3

    querying = Pipeline()
    querying.add_component(
        "embed", FoveateTextEmbedder(str(small_model), options={"device": "cpu"})
    )
    querying.add_component("retrieve", InMemoryEmbeddingRetriever(store, top_k=2))
    querying.connect("embed.embedding", "retrieve.query_embedding")
    found = querying.run({"embed": {"text": TEXTS[2]}})["retrieve"]["documents"]
    assert [one.meta["source_id"] for one in found] == [found[0].meta["source_id"]] * 2
    assert found[0].score >= found[1].score


def test_components_survive_storage(small_model):
    options = {"device": "cpu", "query_prompt": "query: "}
    embedder = FoveateDocumentEmbedder(str(small_model), heading_field="title", options=options)
    documents, query = (
        component_from_dict(type(one), component_to_dict(one, "one"), "one")
        for one in (embedder, FoveateTextEmbedder(str(small_model)))
    )
    assert (documents.source_field, documents.heading_field) == ("source_id", "title")
    assert (documents.options, query.options) == (options, None)
    assert documents.model == query.model == str(small_model)


def test_models_are_loaded_by_warm_up(tmp_path):
    embedder = FoveateTextEmbedder(str(tmp_path / "nowhere"), options={"device": "cpu"})
    with pytest.raises(OSError, match="nowhere"):
        embedder.warm_up()


def test_wrong_inputs(embedder, small_model):
    with pytest.raises(TypeError, match="FoveateTextEmbedder"):
        embedder.run(["a string"])
    with pytest.raises(TypeError, match="FoveateDocumentEmbedder"):
        FoveateTextEmbedder(str(small_model), options={"device": "cpu"}).run(chunks())
    assert embedder.run([])["documents"] == []
    [empty] = embedder.run([Document(content=None)])["documents"]
    assert len(empty.embedding) == 16
