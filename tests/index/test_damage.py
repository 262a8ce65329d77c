"""Libraries whose files are damaged or missing, and how that is noticed."""

import shutil
from contextlib import suppress

import pytest
from lance import LanceDataset

from foveate import Document, Index
from foveate.index import LibraryError
from tests.index.library_check import problems

NAMES = ("cod", "eel", "ray", "crab", "whale", "herring", "gull")


def animal(name):
    return Document.from_text(f"The {name} eats. It sleeps.", source=name)


@pytest.fixture(scope="module")
def made(tmp_path_factory, small_encoder):
    """The folder of a library."""
    index = Index.create(tmp_path_factory.mktemp("made") / "library", model=small_encoder)
    index.add([animal(name) for name in NAMES])
    index.remove("ray")
    return index.path


@pytest.fixture
def library(made, tmp_path, small_encoder):
    """A copy of it."""
    shutil.copytree(made, tmp_path / "copy")
    return Index.open(tmp_path / "copy", model=small_encoder)


def read_all(index):
    for by in ("passage", "section", "document"):
        index.search("Who eats?", by=by)
    index.search("Who eats?", where="size < 100")
    for one in index.documents():
        index.document(one.number)


@pytest.mark.parametrize("folder", ["_versions", "data"])
def test_a_truncated_or_missing_file_is_noticed(library, folder, small_encoder):
    paths = list((library.path / "library.lance" / folder).glob("*"))
    contents = [path.read_bytes() for path in paths]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content[: len(content) // 2])
    with pytest.raises(LibraryError, match=r"cannot be read \(.*restore it from a copy"):
        read_all(Index.open(library.path, model=small_encoder))
    for path in paths:
        path.unlink()
    with pytest.raises((LibraryError, FileNotFoundError)):
        read_all(Index.open(library.path, model=small_encoder))


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_interrupted_commit_is_no_damage(library, monkeypatch, moment):
    commit = LanceDataset.commit

    def fail(*arguments, **options):
        if moment == "after":
            commit(*arguments, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LanceDataset, "commit", fail)
        with suppress(KeyboardInterrupt):
            library.add(animal("squid"))
    assert len(library) == len(NAMES) - 1 + (moment == "after")
    assert problems(library) == []
    read_all(library)
    assert library.add(animal("squid")).added == (moment == "before")
    assert problems(library) == []
