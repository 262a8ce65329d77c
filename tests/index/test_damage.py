"""Libraries whose files are damaged or missing, and how that is noticed."""

import copy
import os
import pickle
import shutil
from contextlib import suppress

import pytest
from lance import LanceDataset

from foveate import Document, Index
from foveate.index import LibraryError, conditions
from tests.profiles import NIGHTLY

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
    assert library.verify()
    for path in paths:
        path.unlink()
    with pytest.raises((LibraryError, FileNotFoundError)):
        read_all(Index.open(library.path, model=small_encoder))


def test_what_a_power_failure_left_is_undone(library, small_encoder):
    """A manifest of a later version, which nobody needs, is empty."""
    latest = min((library.path / "library.lance" / "_versions").glob("*.manifest"))
    empty = latest.with_stem(str(int(latest.stem) - 1))
    empty.write_bytes(b"")
    with pytest.raises(LibraryError, match=f"{empty} is empty, .* delete that file, and the lib"):
        Index.open(library.path, model=small_encoder).search("Who eats?")
    assert library.verify()
    empty.unlink()
    assert library.verify() == []
    read_all(library)


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
    assert library.verify() == []
    read_all(library)
    assert library.add(animal("squid")).added == (moment == "before")
    assert library.verify() == []


def test_a_panic_of_lance_is_a_readable_error(library, monkeypatch, small_encoder):
    panic = type("PanicException", (BaseException,), {})

    def fail(*arguments, **options):
        raise panic("called `Option::unwrap()` on a `None` value\nat line 7")

    with monkeypatch.context() as patch:
        patch.setattr(LanceDataset, "scanner", fail)
        with pytest.raises(LibraryError, match=r"\(Lance failed: called .* value\): restore"):
            read_all(Index.open(library.path, model=small_encoder))
        assert library.verify()
    with monkeypatch.context() as patch:
        patch.setattr("lance.fragment.write_fragments", fail)
        with pytest.raises(OSError, match=r"cannot be written \(Lance failed: called .* value\): "):
            library.add(animal("squid"))


def test_a_condition_at_which_lance_fails_is_to_blame(library, monkeypatch):
    def fail(*arguments, **options):
        raise RuntimeError("rust future panicked with message: capacity overflow")

    library.search("Who eats?")  # which loads all but the condition
    monkeypatch.setattr(LanceDataset, "scanner", fail)
    with pytest.raises(ValueError, match=r"cannot be evaluated \(Lance failed: ") as caught:
        library.search("Who eats?", where="text != ''")
    assert not isinstance(caught.value, LibraryError)


@pytest.mark.skipif(not NIGHTLY, reason="Lance fails after it has filled gigabytes")
def test_a_condition_that_takes_too_much_memory_is_to_blame(library, monkeypatch):
    monkeypatch.setattr(conditions, "check_condition", lambda condition: None)
    condition = "length(repeat(text, 99999999)) > 5"
    with pytest.raises(ValueError, match=r"cannot be evaluated \(Lance failed\): ") as caught:
        library.search("Who eats?", where=condition)
    assert not isinstance(caught.value, LibraryError)


@pytest.mark.parametrize(("number", "reason"), [(13, "Permission denied"), (24, "Too many open")])
def test_permissions_and_limits_are_no_damage(library, monkeypatch, small_encoder, number, reason):
    def fail(*arguments, **options):
        message = f"lance error: LanceError(IO): {os.strerror(number)} (os error {number}), /io.rs"
        raise RuntimeError(message)

    with monkeypatch.context() as patch:
        patch.setattr(LanceDataset, "scanner", fail)
        for use in (read_all, Index.verify):
            with pytest.raises(OSError, match=rf"{reason}.*, which is not damage: change the perm"):
                use(Index.open(library.path, model=small_encoder))


def test_the_content_of_a_document_is_checked(library, monkeypatch):
    monkeypatch.setattr("foveate.index.records.zlib.decompress", lambda content: b"{")
    with pytest.raises(LibraryError, match=r"document 1 cannot be unpacked\): restore"):
        library.document(1)


def test_an_index_is_copied_and_pickled(library, small_model):
    hits = library.search("Who eats?")
    opened = Index.open(library.path, model=small_model, device="cpu")
    opened.search("Who eats?")
    for make in (copy.copy, copy.deepcopy, lambda index: pickle.loads(pickle.dumps(index))):
        for index in (library, opened):
            assert make(index).search("Who eats?") == hits
