"""Libraries in Qdrant, of which its client plays one in memory."""

import json

import pytest

from foveate import Document, Index

qdrant_client = pytest.importorskip("qdrant_client", reason="Qdrant's client is not installed")

from foveate.index import LibraryError, qdrant  # noqa: E402 (which needs the client)

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")

PLACE = "qdrant://localhost:6333/sea"
QUERIES = ("Where do herring swim?", "nets", "salt from the sea", "Who eats krill?")


def hits(index, **options):
    return [
        index.search(query, by=by, top_k=top_k, **options)
        for query in QUERIES
        for by in ("passage", "section", "document")
        for top_k in (1, 9)
    ]


@pytest.fixture(autouse=True)
def server(monkeypatch):
    """A server that all clients share."""
    client = qdrant_client.QdrantClient(":memory:")
    monkeypatch.setattr(qdrant, "QdrantClient", lambda **options: client)
    return client


def match(key, value):
    return {"key": key, "match": {"value": value}}


def test_hits_are_those_of_the_library(index, folder, small_encoder):
    index.add([folder, Document.from_text("Cod swim. They eat herring.", source="copy")])
    assert index.export(PLACE) > 0
    other = Index.open(PLACE, model=small_encoder)
    assert hits(other) == hits(index)
    assert list(other.documents()) == list(index.documents())
    assert other.state == index.state
    for one in index.documents():
        assert other.document(one.number) == index.document(one.number)
    assert other.summarize("herring", sentences=2) == index.summarize("herring", sentences=2)
    assert other.context("herring", tokens=200) == index.context("herring", tokens=200)


def test_vectors_of_tokens_are_sent(server, folder, encoder, tmp_path):
    index = Index.create(tmp_path / "own", model=encoder)
    index.add(folder)
    index.export(PLACE)
    points, _ = server.scroll(PLACE.rpartition("/")[2], limit=100)
    assert any("tokens" in point.payload for point in points)
    json.dumps([point.payload for point in points])  # as a server gets it
    assert hits(Index.open(PLACE, model=encoder)) == hits(index)


@pytest.mark.parametrize(
    ("condition", "where"),
    [
        ({"must": [{"key": "format", "match": {"value": "md"}}]}, "format = 'md'"),
        (
            {"must": [{"key": "size", "range": {"gt": 40}}], "must_not": [match("title", "Whale")]},
            "size > 40 AND title <> 'Whale'",
        ),
        ({"must": [{"key": "modified", "range": {"gt": "2020-01-31T00:00:00Z"}}]}, "size > 0"),
        ({"must": [match("authors", "Ann Lee")]}, "array_has(authors, 'Ann Lee')"),
    ],
)
def test_filters_are_conditions(index, folder, small_encoder, condition, where):
    index.add(folder)
    index.export(PLACE)
    other = Index.open(PLACE, model=small_encoder)
    assert hits(other, where=json.dumps(condition)) == hits(index, where=where)
    [number, *_] = [one.number for one in index.documents()]
    assert hits(other, document=number) == hits(index, document=number)


def test_only_what_has_changed_is_sent(index, folder, small_encoder):
    index.add(folder)
    index.export(PLACE)
    (folder / "salt.txt").write_text("Salt is grey. It is mined.")
    (folder / "talk.vtt").unlink()
    other = Index.open(PLACE, model=small_encoder)
    index.add(folder, prune=True)
    assert hits(other) != hits(index)
    assert index.export(PLACE) == 4  # a document, its section, and two sentences
    assert hits(other) == hits(index)
    assert index.export(PLACE) == 0


def test_what_qdrant_cannot_do_is_said(index, folder, small_encoder, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no library in qdrant://.*: `foveate library exp"):
        Index.open(PLACE)
    with pytest.raises(ValueError, match=r"names no collection: write qdrant://HOST:6333/COLL"):
        Index.open("qdrant://localhost")
    index.add(folder)
    index.export(PLACE)
    other = Index.open(PLACE, model=small_encoder)
    for use in (lambda: other.add(folder), lambda: other.remove("a"), other.compact):
        with pytest.raises(ValueError, match=r"can only be searched|has nothing named"):
            use()
    with pytest.raises(ValueError, match="is no filter of Qdrant in JSON: write it like"):
        other.search("cod", where="title LIKE '%a%'")
    for conditions in ({"path": "salt.txt"}, {"section": "cod"}):
        with pytest.raises(ValueError, match="cannot be searched by path or section: give"):
            other.search("cod", **conditions)
    third = Index.create(tmp_path / "third", model=small_encoder)
    third.add(folder)
    with pytest.raises(LibraryError, match="holds another library: choose a new name"):
        third.export(PLACE)
