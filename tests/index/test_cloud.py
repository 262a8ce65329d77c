"""Libraries in LanceDB Cloud, which a server here plays."""

import pytest

from foveate import Index

pytest.importorskip("lancedb", reason="LanceDB's client is not installed")

from foveate.index import LibraryError
from tests.index.copies import check_changes, check_hits, hits
from tests.index.lancedb_server import KEY, serving

PLACE = "db://papers/sea"


@pytest.fixture(autouse=True)
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("LANCEDB_API_KEY", KEY)
    with serving(tmp_path / "cloud") as address:
        monkeypatch.setenv("LANCEDB_HOST_OVERRIDE", address)
        yield


def test_hits_are_those_of_the_library(index, folder, small_encoder):
    check_hits(index, folder, small_encoder, PLACE)


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
    check_changes(index, folder, small_encoder, PLACE)


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
