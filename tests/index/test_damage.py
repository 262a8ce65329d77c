"""Libraries whose files are damaged or missing, and how that is noticed."""

import copy
import os
import pickle
import shutil
from contextlib import suppress

import pytest
from lancedb.table import LanceTable

from foveate import Document, Index
from foveate.index import LibraryError, conditions, manifest, store
from foveate.index.manifest import files_of, manifests
from foveate.index.store import Store

TABLES = ("documents", "sections", "sentences", "terms")
KINDS = (
    "library.json",
    *(f"{table}.lance/{folder}" for table in TABLES for folder in ("_versions", "data")),
    *(f"{table}.lance/_deletions" for table in TABLES[:-1]),
    *("sentences.lance/_indices", "terms.lance/_indices"),
)
NAMES = ("cod", "eel", "ray", "crab", "whale", "herring", "gull")


def animal(name):
    return Document.from_text(f"The {name} eats. It sleeps.", source=name)


@pytest.fixture(scope="module")
def made(tmp_path_factory, small_encoder):
    """The folder of a library that has every kind of file."""
    index = Index.create(tmp_path_factory.mktemp("made") / "library", model=small_encoder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "_ROWS_WITHOUT_INDEX", 10)
        index.add([animal(name) for name in NAMES])
        index.remove("ray")
    return index.path


@pytest.fixture
def library(made, tmp_path, small_encoder):
    """A copy of it."""
    shutil.copytree(made, tmp_path / "copy")
    return Index.open(tmp_path / "copy", model=small_encoder)


@pytest.fixture
def grown(index):
    """A library whose documents were added one after the other, each to files of its own."""
    for name in NAMES[:3]:
        index.add(animal(name))
    return index


def needed(index, kind):
    """Return a file of a kind that the library needs."""
    if kind == "library.json":
        return index.path / kind
    return index.path / next(name for name in index.state.files if name.startswith(kind))


def change(path, part=2):
    """Change a byte of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // part - 1] ^= 0x04
    path.write_bytes(content)


def read_all(index):
    for by in ("sentence", "section", "document"):
        index.search("Who eats?", by=by)
    index.search("Who eats?", where="size < 100")
    for one in index.documents():
        index.document(one.number)


@pytest.mark.parametrize("part", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_byte_is_noticed(library, kind, part, small_encoder):
    path = needed(library, kind)
    change(path, part)
    if kind == "library.json":
        with pytest.raises(LibraryError, match=r"library\.json is damaged \(.*: restore it from a"):
            Index.open(library.path)
        return
    [problem] = library.verify()
    assert problem.startswith(f"{path} is not as it was written: ")
    assert ("`foveate library compact " in problem) == ("_indices" in kind)
    if not kind.endswith("data"):
        with pytest.raises(LibraryError, match=f"{path.name} is not as it was written"):
            Index.open(library.path, model=small_encoder).search("Who eats?")


@pytest.mark.parametrize("kind", KINDS)
def test_a_truncated_or_missing_file_is_noticed(library, kind, small_encoder, capfd):
    path = needed(library, kind)
    content = path.read_bytes()
    for size in (len(content) - 1, len(content) // 2, 1, 0):
        path.write_bytes(content[:size])
        with pytest.raises(LibraryError, match=rf"{path.name} (has {size:,} |is damaged)"):
            Index.open(library.path, model=small_encoder).search("Who eats?")
        if kind != "library.json":
            [problem] = library.verify()
            assert f"{path} has {size:,} bytes instead of {len(content):,}: " in problem
    path.unlink()
    with pytest.raises((LibraryError, FileNotFoundError), match=r"is missing\)|there is no lib"):
        Index.open(library.path, model=small_encoder).search("Who eats?")
    assert capfd.readouterr().err == ""


def test_every_file_that_is_needed_has_a_checksum(library, grown):
    for index in (library, grown):
        index.compact()
        paths = {
            path.relative_to(index.path).as_posix()
            for path in index.path.glob("*/_*/**/*")
            if path.suffix in (".manifest", ".lance", ".arrow")
        } | {path.relative_to(index.path).as_posix() for path in index.path.glob("*/data/*")}
        assert set(index.state.files) == paths
        assert index.verify() == []


def test_files_that_are_no_longer_needed_have_none(library):
    before = set(library.state.files)
    library.remove("cod")
    after = set(library.state.files)
    assert {name.split("/")[1] for name in before - after} == {"_versions", "_deletions"}
    for name in before - after:  # although they are still there
        change(library.path / name)
    assert library.verify() == []
    library.compact()
    assert library.verify() == []
    read_all(library)


def test_documents_in_a_damaged_file_are_named_and_can_be_added_again(grown):
    sentences = [name for name in grown.state.files if name.startswith("sentences.lance/data")]
    [path] = [
        grown.path / name for name in sentences if grown.state.files[name].documents == (1, 2)
    ]
    path.write_bytes(path.read_bytes().replace(b"It sleeps", b"It sweeps"))
    [problem] = grown.verify()
    assert problem == (
        f"{path} is not as it was written, and it holds sentences of eel: restore it from a copy "
        "of the library, or remove these documents with `foveate library remove`, and index them "
        "again"
    )
    read_all(grown)
    grown.remove("eel")
    grown.add(animal("eel"))
    assert grown.verify() == []
    assert len(grown) == 3


def test_many_documents_are_not_all_named(index):
    index.add([animal(f"{number:02}") for number in range(30)])
    index.add(animal("cod"))
    change(needed(index, "sections.lance/data"))
    [problem] = index.verify()
    assert "sections of 00, 01, 02, " in problem
    assert ", 18, 19 and 10 others: " in problem


def test_damage_is_not_copied(library, monkeypatch):
    path = needed(library, "sentences.lance/data")
    change(path)
    with pytest.raises(LibraryError, match=rf"{path.name} is not as it was written\): see what"):
        library.compact()
    monkeypatch.setattr(store, "_MAX_FRAGMENTS", 2)
    with pytest.raises(LibraryError, match=f"{path.name} is not as it was written"):
        library.add(animal("squid"))  # which is in it, but is not merged
    assert len(library) == len(NAMES)
    assert len(library.verify()) == 1


def test_damaged_indexes_are_built_again(library, monkeypatch):
    monkeypatch.setattr(store, "_ROWS_WITHOUT_INDEX", 10)
    change(needed(library, "sentences.lance/_indices"))
    needed(library, "terms.lance/_indices").unlink()
    assert len(library.verify()) == 2
    library.compact()
    assert library.verify() == []
    assert needed(library, "sentences.lance/_indices").exists()
    read_all(library)


def test_what_a_power_failure_left_is_undone(library, small_encoder):
    """A manifest of a later version, which nobody needs, is empty; and so is one of an earlier."""
    table = library.path / "sentences.lance"
    last = max(manifests(table))
    latest = manifests(table)[last]
    later = latest.with_stem(str(int(latest.stem) - 1))
    later.write_bytes(b"")
    with pytest.raises(LibraryError, match="was never finished"):
        Index.open(library.path, model=small_encoder).search("Who eats?")
    [problem] = library.verify()
    assert problem == (
        f"{later} was never finished: `foveate library compact {library.path}` removes it"
    )
    latest.with_stem(str(int(latest.stem) + 1)).write_bytes(b"")
    library.compact()
    assert library.verify() == []
    read_all(library)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_interrupted_commit_is_no_damage(library, monkeypatch, moment):
    write_state = Store.write_state

    def fail(self, state):
        if moment == "after":
            write_state(self, state)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Store, "write_state", fail)
        with suppress(KeyboardInterrupt):
            library.add(animal("squid"))
    assert len(library) == len(NAMES) - 1 + (moment == "after")
    assert library.verify() == []
    read_all(library)
    assert library.add(animal("squid")).added == (moment == "before")
    assert library.verify() == []


@pytest.mark.parametrize("name", ["RustPanic", "PanicException"])
def test_a_panic_of_lance_is_no_damage_of_whole_files(library, name, monkeypatch, small_encoder):
    panic = type(name, (BaseException,), {})

    def fail(*arguments, **options):
        raise panic("called `Option::unwrap()` on a `None` value\nat line 7")

    for method in ("checkout", "search"):
        with monkeypatch.context() as patch:
            patch.setattr(LanceTable, method, fail)
            whole = r"\(Lance failed: called .* value\), although its files are as they were"
            with pytest.raises(OSError, match=whole):
                read_all(Index.open(library.path, model=small_encoder))
            assert library.verify()
    with monkeypatch.context() as patch:
        patch.setattr(LanceTable, "add", fail)
        with pytest.raises(OSError, match=r"cannot be written \(Lance failed: called .* value\): "):
            library.add(animal("squid"))
    monkeypatch.setattr(LanceTable, "search", fail)
    path = needed(library, "sentences.lance/data")
    change(path)
    with pytest.raises(LibraryError, match=f"{path.name} is not as it was written"):
        read_all(Index.open(library.path, model=small_encoder))


def test_a_condition_at_which_lance_fails_is_to_blame(library, monkeypatch, capfd):
    monkeypatch.setattr(conditions, "check_condition", lambda condition: None)
    condition = "length(repeat(text, 99999999)) > 5"
    with pytest.raises(ValueError, match=r"cannot be evaluated \(Lance failed\): ") as caught:
        library.search("Who eats?", where=condition)
    assert not isinstance(caught.value, LibraryError)
    capfd.readouterr()  # Lance prints where it failed
    change(needed(library, "sentences.lance/data"))
    with pytest.raises(LibraryError, match="is not as it was written"):
        library.search("Who eats?", where=condition)


@pytest.mark.parametrize(("number", "reason"), [(13, "Permission denied"), (24, "Too many open")])
def test_permissions_and_limits_are_no_damage(library, monkeypatch, small_encoder, number, reason):
    state = library.state

    def fail(*arguments, **options):
        message = f"lance error: LanceError(IO): {os.strerror(number)} (os error {number}), /io.rs"
        raise RuntimeError(message)

    with monkeypatch.context() as patch:
        patch.setattr(LanceTable, "search", fail)
        for use in (read_all, Index.verify):
            with pytest.raises(OSError, match=rf"{reason}.*, which is not damage: change the perm"):
                use(Index.open(library.path, model=small_encoder))

    def refuse(self, *arguments):
        raise OSError(number, os.strerror(number), str(self))

    monkeypatch.setattr(type(library.path), "read_bytes", refuse)
    monkeypatch.setattr("foveate.index.checksums._hash", refuse)
    for use in (Store.check, Store.find_damage):
        with pytest.raises(OSError, match=reason):
            use(library._store, state)


def test_numbers_that_make_no_sense_are_said(library, monkeypatch):
    def fail(*arguments):
        raise IndexError("index 171 is out of bounds for axis 0 with size 140")

    monkeypatch.setattr("foveate.index.library.find", fail)
    with pytest.raises(LibraryError, match="its tables do not agree"):
        library.search("Who eats?")
    path = needed(library, "sections.lance/data")
    change(path)
    with pytest.raises(LibraryError, match=f"{path.name} is not as it was written"):
        library.search("Who eats?")


def test_the_content_of_a_document_is_checked(library, monkeypatch):
    monkeypatch.setattr("foveate.index.records.zlib.decompress", lambda content: b"{")
    with pytest.raises(LibraryError, match=r"document 1 cannot be unpacked\): see"):
        library.document(1)


def test_a_manifest_that_makes_no_sense_is_said(library):
    table = library.path / "sentences.lance"
    version = library.state.versions["sentences"]
    path = manifests(table)[version]
    content = path.read_bytes()
    for damaged in (content[:-1], b"\xff" * 20 + content[-16:], content[-16:]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"it breaks off|it cannot be understood"):
            list(files_of(table, version))


def test_manifests_of_a_later_lance_leave_a_library_without_checksums(library, monkeypatch):
    monkeypatch.setattr(manifest, "_FORMAT", (0, 1))
    library.add(animal("seal"))
    assert not library.state.files
    assert library.search("The seal eats.")[0].span.text == "The seal eats."


def test_manifests_are_found_by_their_version(tmp_path):
    (tmp_path / "_versions").mkdir()
    names = ("7.manifest", "18446744073709551607.manifest", "d123.manifest", "latest.json")
    for name in names:
        (tmp_path / "_versions" / name).touch()
    assert {version: path.name for version, path in manifests(tmp_path).items()} == {
        7: names[0],
        8: names[1],
    }
    assert list(files_of(tmp_path, 9)) == []


def test_an_index_is_copied_and_pickled(library, small_model):
    hits = library.search("Who eats?")
    opened = Index.open(library.path, model=small_model, device="cpu")
    opened.search("Who eats?")
    for make in (copy.copy, copy.deepcopy, lambda index: pickle.loads(pickle.dumps(index))):
        for index in (library, opened):
            assert make(index).search("Who eats?") == hits
