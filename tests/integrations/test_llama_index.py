import asyncio

import pytest

pytest.importorskip("llama_index.core")

from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import get_leaf_nodes, get_root_nodes
from llama_index.core.retrievers import AutoMergingRetriever
from llama_index.core.schema import Document, MetadataMode, NodeRelationship, TextNode
from llama_index.core.storage.docstore import SimpleDocumentStore

from foveate.integrations.llama_index import (
    FoveateEmbedding,
    FoveateNodeParser,
    FoveateRetriever,
)

from .conftest import FISH

REPEATED = "It was cheap once."


@pytest.fixture
def source():
    return Document(text=FISH, metadata={"file_name": "fish.md", "owner": "Ada"})


@pytest.fixture
def nodes(source):
    return FoveateNodeParser(max_characters=40).get_nodes_from_documents([source])


def paths(nodes):
    return [(node.metadata["kind"], node.metadata.get("section_path", "")) for node in nodes]


def test_the_hierarchy_is_kept(nodes):
    by_id = {node.node_id: node for node in nodes}
    [root] = get_root_nodes(nodes)
    assert root is nodes[0]

    def tree(node):
        children = [by_id[child.node_id] for child in node.child_nodes or []]
        assert all(child.parent_node.node_id == node.node_id for child in children)
        assert all(child.metadata["depth"] == node.metadata["depth"] + 1 for child in children)
        return f"{node.metadata['kind']} {node.text[:8]}", [tree(one) for one in children]

    assert tree(root) == (
        "document ---\nauth",
        [
            (
                "section Some fis",
                [
                    ("passage Some fis", []),
                    ("section The cod ", [("passage The cod ", []), ("passage It eats ", [])]),
                    ("section The eel ", [("passage The eel ", []), ("passage It was c", [])]),
                ],
            ),
            ("section Trawlers", [("passage Trawlers", []), ("passage Diesel i", [])]),
        ],
    )
    assert [(one.metadata["kind"], one.metadata["section_path"]) for one in nodes[1:5]] == [
        ("section", "Species"),
        ("passage", "Species"),
        ("section", "Species › Cod"),
        ("passage", "Species › Cod"),
    ]


def test_places_are_exact(nodes, source):
    """Also of sentences that stand in the document twice."""
    for node in nodes:
        assert source.text[node.start_char_idx : node.end_char_idx] == node.text
    repeated = [node for node in nodes if node.text.endswith("It was cheap once.")]
    assert len({node.end_char_idx for node in repeated}) == 2
    assert [node.ref_doc_id for node in nodes] == [source.id_] * len(nodes)


def test_neighbours(nodes):
    by_id = {node.node_id: node for node in nodes}
    leaves = get_leaf_nodes(nodes)
    assert {node.metadata["kind"] for node in leaves} == {"passage"}
    walked = [leaves[0]]
    while walked[-1].next_node:
        walked.append(by_id[walked[-1].next_node.node_id])
        assert walked[-1].prev_node.node_id == walked[-2].node_id
    assert walked == leaves
    sections = [node for node in nodes if node.metadata["kind"] == "section"]
    assert [by_id[one.next_node.node_id].text[:8] if one.next_node else "" for one in sections] == [
        "Trawlers",
        "The eel ",
        "",
        "",
    ]


def test_metadata(nodes):
    leaf = nodes[4]
    assert leaf.metadata["owner"] == "Ada"
    seen = leaf.get_content(metadata_mode=MetadataMode.EMBED)
    assert "section_path: Species › Cod" in seen
    assert "depth" not in seen
    assert all(isinstance(value, str | int) for value in leaf.metadata.values())


def test_settings(source):
    parser = FoveateNodeParser(
        format="text", include_metadata=False, include_prev_next_rel=False, id_func=number
    )
    assert parser.to_dict()["format"] == "text"
    nodes = parser.get_nodes_from_documents([source])
    assert [node.node_id for node in nodes] == [f"{source.id_}-{i}" for i in range(len(nodes))]
    assert not any(node.next_node or "owner" in node.metadata for node in nodes)
    asynchronous = asyncio.run(parser.aget_nodes_from_documents([source]))
    assert [node.text for node in asynchronous] == [node.text for node in nodes]


def number(i, document):
    return f"{document.node_id}-{i}"


def test_text_that_is_rewritten_has_no_places():
    source = Document(text="\\section{Cod} Cod swim.", metadata={"file_name": "fish.tex"})
    nodes = FoveateNodeParser().get_nodes_from_documents([source, Document(text=" \n")])
    assert [(node.text, node.start_char_idx) for node in nodes[1:]] == [("Cod swim.", None)] * 2


def test_documents_that_cannot_be_read_are_named():
    source = Document(text="<p></p>", metadata={"file_name": "empty.html"})
    with pytest.raises(ValueError, match=r"^empty\.html has no sentence"):
        FoveateNodeParser().get_nodes_from_documents([source])


def test_words_without_markup():
    page = "<h1>Sea</h1><h2>Cod</h2><p>Cod <b>swim</b>.</p>\n<p>They eat &amp; sleep.</p>"
    source = Document(text=page, metadata={"file_path": "sea.html"})
    nodes = FoveateNodeParser(keep_markup=False).get_nodes_from_documents([source])
    assert [node.text for node in nodes] == ["Cod swim.\nThey eat & sleep."] * 3
    assert page[nodes[2].start_char_idx : nodes[2].end_char_idx].startswith("Cod <b>")


def test_passages_are_merged_into_their_sections(nodes, small_encoder):
    """LlamaIndex's own retriever follows the relationships."""
    docstore = SimpleDocumentStore()
    docstore.add_documents(nodes)
    storage = StorageContext.from_defaults(docstore=docstore)
    index = VectorStoreIndex(
        FoveateEmbedding(small_encoder)(get_leaf_nodes(nodes)),
        storage_context=storage,
        embed_model=FoveateEmbedding(small_encoder),
    )
    found = AutoMergingRetriever(index.as_retriever(similarity_top_k=7), storage).retrieve("cod")
    assert [one.node.metadata["kind"] for one in found] == ["document"]


def test_nodes_are_embedded_in_context(source, small_encoder):
    embedding = FoveateEmbedding(small_encoder)
    parser = FoveateNodeParser(max_characters=20)
    nodes = IngestionPipeline(transformations=[parser, embedding]).run(documents=[source])
    first, second = (node for node in nodes if node.text == REPEATED and not node.child_nodes)
    alone = embedding.get_text_embedding_batch([first.text, second.text])
    assert alone[0] == alone[1]
    assert first.embedding != pytest.approx(second.embedding, abs=1e-3)
    leaves = get_leaf_nodes(nodes)
    again = asyncio.run(embedding.acall([node.model_copy() for node in leaves]))
    for one, other in zip(again, leaves, strict=True):
        assert one.embedding == pytest.approx(other.embedding, abs=1e-5)


def test_nodes_with_children_and_without_a_source(nodes, small_encoder):
    embedding = FoveateEmbedding(small_encoder, embed_batch_size=3)
    lone = TextNode(text="Cod swim.")
    embedding([*nodes, lone])
    assert all(len(node.embedding) == small_encoder.dimension for node in nodes)
    assert nodes[0].embedding == embedding.get_text_embedding(nodes[0].text)
    [expected] = embedding([TextNode(text="Cod swim.")])
    assert lone.embedding == pytest.approx(expected.embedding, abs=1e-6)


def test_queries(small_encoder):
    embedding = FoveateEmbedding(small_encoder)
    expected = small_encoder.encode_queries("Who swims?").tolist()
    assert embedding.get_query_embedding("Who swims?") == expected
    assert asyncio.run(embedding.aget_query_embedding("Who swims?")) == expected
    assert asyncio.run(embedding.aget_text_embedding("Who swims?")) == pytest.approx(expected)


def test_a_library_is_a_retriever(index, fish):
    retriever = FoveateRetriever(index, by="section", top_k=2, path=fish)
    [first, second] = retriever.retrieve("It eats herring.")
    assert first.score >= second.score
    assert first.node.metadata["source"] == str(fish)
    assert first.node.metadata["section_path"] == "Species › Cod"
    document = index.document(first.node.metadata["document"])
    shown = document.text[first.node.start_char_idx : first.node.end_char_idx]
    assert shown == first.node.text
    again = asyncio.run(retriever.aretrieve("It eats herring."))
    assert [one.node.node_id for one in again] == [first.node.node_id, second.node.node_id]
    with pytest.raises(ValueError, match="by must be"):
        FoveateRetriever(index, by="page")
    with pytest.raises(TypeError, match=r"foveate\.Index\.open\('sea\.library'\)"):
        FoveateRetriever("sea.library")


def test_relationships_name_nodes_that_exist(nodes):
    ids = {node.node_id for node in nodes}
    assert len(ids) == len(nodes)
    for node in nodes:
        for kind, related in node.relationships.items():
            if kind is not NodeRelationship.SOURCE:
                several = related if isinstance(related, list) else [related]
                assert {one.node_id for one in several} <= ids
