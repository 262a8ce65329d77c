"""Libraries in LanceDB Cloud, which a server here plays."""

import pytest

from foveate import Document, Index

pytest.importorskip("lancedb", reason="LanceDB's client is not installed")

from foveate.index import LibraryError
from tests.index.lancedb_server import KEY, serving

PLACE = "db://papers/sea"
QUERIES = ("Where do herring swim?", "nets", "salt from the sea", "Who eats krill?")


@pytest.fixture(autouse=True)
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("LANCEDB_API_KEY", KEY)
    with serving(tmp_path / "cloud") as address:
        monkeypatch.setenv("LANCEDB_HOST_OVERRIDE", address)
        yield


def hits(index, **options):
    return [
        index.search(query, by=by, top_k=top_k, **options)
        for query in QUERIES
        for by in ("passage", "section", "document")
        for top_k in (1, 9)
    ]


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


@pytest.mark.parametrize(
    "conditions",
    [{"where": "format = 'md' AND size > 4"}, {"path": "salt.txt"}, {"section": "cod"}],
)
def test_conditions_are_those_of_the_library(index, folder, small_encoder, conditions):
    index.add(folder)
    index.export(PLACE)
    other = Index.open(PLACE, model=small_encoder)
    assert hits(other, **conditions) == hits(index, **conditions)
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


def test_what_cannot_be_done_is_said(index, folder, small_encoder, tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"no library in db://.*: `foveate library exp"):
        Index.open(PLACE)
    with pytest.raises(ValueError, match=r"names no table: write db://DATABASE/TABLE"):
        Index.open("db://papers")
    index.add(folder)
    index.export(PLACE)
    other = Index.open(PLACE, model=small_encoder)
    with pytest.raises(ValueError, match="can only be searched"):
        other.add(folder)
    with pytest.raises(ValueError, match=r"'color = 3' cannot be evaluated \(.*: write it as"):
        other.search("cod", where="color = 3")
    third = Index.create(tmp_path / "third", model=small_encoder)
    third.add(folder)
    with pytest.raises(LibraryError, match="holds another library: choose a new name"):
        third.export(PLACE)
    monkeypatch.setenv("LANCEDB_API_KEY", "wrong")
    with pytest.raises(OSError, match=r"cannot be reached \(.*: check its name, LANCEDB_API_KEY"):
        Index.open(PLACE)
    monkeypatch.delenv("LANCEDB_API_KEY")
    with pytest.raises(ValueError, match="asks for a key: set LANCEDB_API_KEY"):
        Index.open(PLACE)
