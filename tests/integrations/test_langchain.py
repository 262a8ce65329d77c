import asyncio

import pytest

pytest.importorskip("langchain_core")

from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore

from foveate import Encoder, Index
from foveate.integrations.langchain import FoveateEmbeddings, FoveateRetriever


def test_passages_have_their_places(index, fish):
    [first, *rest] = FoveateRetriever(index=index, top_k=3).invoke("It eats herring.")
    [passage, *_] = index.search("It eats herring.", top_k=3)
    assert first.page_content == passage.span.text
    assert len(rest) == 2
    metadata = first.metadata
    assert metadata["source"] == str(fish)
    assert (metadata["title"], metadata["section_path"]) == ("Fish of the sea", "Species › Cod")
    assert metadata["score"] == passage.score
    document = index.document(metadata["document"])
    assert "It eats herring." in document.text[metadata["start"] : metadata["end"]]
    assert metadata["authors"] == "Ada L; Ben M"
    assert "page" not in metadata  # unknown in Markdown


@pytest.mark.parametrize(
    ("by", "text"),
    [
        ("passage", "The eel is a long fish. It was cheap once."),
        ("section", "The eel is a long fish. It was cheap once."),
        ("document", "Some fish are of use to people.\nThe cod"),
    ],
)
def test_units_have_their_whole_text(index, by, text):
    retriever = FoveateRetriever(index=index, by=by, top_k=1, section="eel")
    [found] = retriever.invoke("The eel is a long fish.")
    assert found.page_content.startswith(text)


def test_conditions(index, fish):
    retriever = FoveateRetriever(index=index, path="*.vtt")
    [found] = retriever.invoke("nets")
    assert (found.metadata["speaker"], found.metadata["source"][-8:]) == ("Ada", "talk.vtt")
    elsewhere = FoveateRetriever(index=index, where="format = 'pdf'")
    assert elsewhere.invoke("nets") == []
    with pytest.raises(ValueError, match="passage"):
        FoveateRetriever(index=index, by="page")


def test_unknown_arguments_are_refused(index):
    with pytest.raises(ValueError, match="Extra inputs are not permitted"):
        FoveateRetriever(index=index, k=3)


def test_retrieving_asynchronously_and_in_a_chain(index):
    retriever = FoveateRetriever(index=index, top_k=2)
    queries = ["Who drags nets?", "What is cheap?", "Where are the nets?"]
    expected = [retriever.invoke(query) for query in queries]
    assert asyncio.run(retriever.abatch(queries)) == expected
    chain = retriever | RunnableLambda(lambda found: [one.metadata["place"] for one in found])
    assert chain.invoke(queries[2]) == [one.metadata["place"] for one in expected[2]]


def test_the_model_is_loaded_once(index, small_encoder, monkeypatch):
    loaded = []

    def load(name, **options):
        loaded.append(name)
        return small_encoder

    monkeypatch.setattr(Encoder, "from_pretrained", load)
    retriever = FoveateRetriever(index=Index.open(index.path))
    asyncio.run(retriever.abatch(["cod", "eel", "nets", "ice"]))
    assert len(loaded) == 1


def test_a_vector_store(small_encoder):
    texts = ["Cod swim in cold seas.", "Boats drag nets."]
    store = InMemoryVectorStore.from_texts(texts, FoveateEmbeddings(small_encoder))
    [found] = store.similarity_search(texts[1], k=1)
    assert found.page_content == texts[1]
    assert asyncio.run(store.asimilarity_search(texts[1], k=1)) == [found]
