"""Libraries that are damaged, half-written, or being written to."""

import json
import os
import shutil
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from foveate import Document, Index
from foveate.index import LibraryError, LockedError, build, lock, reading, store
from foveate.index.postings import merge_postings
from foveate.index.schema import schemas
from foveate.index.store import ModelRecord, Store
from tests.profiles import NIGHTLY

ROOT = Path(__file__).parents[2]


def test_the_library_survives_being_killed(tmp_path):
    script = ROOT / "benchmarks" / "library_kills.py"
    kills = "20" if NIGHTLY else "1"  # by this seed, another update finishes
    command = [sys.executable, script, "--kills", kills, "--seed", "2", "--folder", tmp_path]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_readers_see_whole_states_during_a_write(index, folder, small_encoder, monkeypatch):
    monkeypatch.setattr(reading, "BATCH_CHARACTERS", 1)
    monkeypatch.setattr(build, "COMMIT_CHARACTERS", 1)
    monkeypatch.setattr(store, "MAX_FRAGMENTS", 3)
    index.add(folder)
    passages, errors = [], []

    def write():
        try:
            for i in range(6):
                index.add([Document.from_text(f"Crab {i} walks. It eats.", source=f"crab {i}")])
            index.compact()
        except Exception as error:
            errors.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    reader = Index.open(index.path, model=small_encoder)
    while writer.is_alive():
        passages += (hits := reader.search("crab", top_k=99))
        assert {hit.span.document for hit in hits} >= {str(folder / "fish.md")}
    writer.join()
    assert errors == []
    crabs = {hit.text for hit in passages if hit.span.document.startswith("crab")}
    assert crabs <= {f"Crab {i} walks. It eats." for i in range(6)}  # both sentences or none
    assert len(reader.search("crab", top_k=99, by="document")) == 10
    assert reader.verify() == []


def test_what_a_killed_writer_left_is_undone(index, folder, small_encoder):
    index.add(folder)
    before = index.search("herring", top_k=99)
    with Store(index.path).writing(index.state.model) as writer:  # which never commits
        writer.tables["documents"].delete("title = 'Fish'")
        writer.tables["sentences"].delete("true")
    assert Index.open(index.path, model=small_encoder).search("herring", top_k=99) == before
    assert index.verify() == []
    (folder / "new.txt").write_text("Crabs walk.")
    assert index.add(folder).added == 1
    assert index.verify() == []
    assert len(index) == 5


def test_a_library_that_was_never_finished_is_begun_again(index, folder):
    index.add(folder)
    (index.path / "library.json").unlink()
    assert index.add(folder).added == 4
    assert index.verify() == []


def test_a_library_is_read_without_writing(index, folder):
    index.add(folder)
    before = {path: path.stat().st_mtime_ns for path in index.path.rglob("*")}
    Index.open(index.path, model=index.encoder).search("herring")
    assert {path: path.stat().st_mtime_ns for path in index.path.rglob("*")} == before


def test_a_library_that_cannot_be_written_is_said(index, folder, monkeypatch):
    index.add(folder)

    def refuse(self, *arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    with pytest.raises(PermissionError, match=r"cannot be written to \(Permission denied\): it"):
        index.add(folder)
    assert index.search("herring")


def test_a_full_disk_is_said_and_loses_nothing(index, folder, monkeypatch):
    index.add(folder)
    (folder / "new.txt").write_text("Crabs walk.")
    table = type(Store(index.path).open_tables(index.state)["documents"])

    def fail(self, rows):
        raise RuntimeError("lance error: LanceError(IO): No space left on device, /lance/io.rs:1")

    with monkeypatch.context() as patch:
        patch.setattr(table, "add", fail)
        with pytest.raises(OSError, match=r"No space left on device\): what was committed"):
            index.add(folder)
    assert len(index) == 4
    assert index.add(folder).added == 1
    assert index.verify() == []


def mount(*arguments):
    command = shutil.which("mount")
    if command is None or os.name != "posix" or os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    run = subprocess.run([command, *arguments], capture_output=True, text=True, check=False)
    if run.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {run.stderr.strip()}")


@pytest.fixture
def disk(tmp_path):
    """A file system of 4 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount("-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder))
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_disk_that_is_full_is_said_and_loses_nothing(disk, folder, small_encoder):
    index = Index.create(disk / "library", model=small_encoder)
    index.add(folder)
    before = index.search("herring", top_k=99)
    (folder / "new.txt").write_text("Crabs walk. " * 200)
    with (disk / "rest").open("wb", buffering=0) as rest, suppress(OSError):
        while rest.write(bytes(4096)):
            pass
    with pytest.raises(OSError, match=r"cannot be written .*No space left on device"):
        index.add(folder)
    for reader in (index, Index.open(index.path, model=small_encoder)):
        assert reader.search("herring", top_k=99) == before
    assert index.verify() == []
    (disk / "rest").unlink()
    assert index.add(folder).added == 1
    assert index.verify() == []


def test_a_library_on_a_read_only_disk_is_searched(disk, folder, small_encoder):
    Index.create(disk / "library", model=small_encoder).add(folder)
    mount("-o", "remount,ro", str(disk))
    index = Index.open(disk / "library", model=small_encoder)
    assert index.search("herring")
    assert index.ask("herring").passages
    assert index.verify() == []
    assert len(list(index.documents())) == 4
    for change in (lambda: index.add(folder), lambda: index.remove(folder), index.compact):
        with pytest.raises(OSError, match=r"cannot be written to \(Read-only .* be searched"):
            change()


def test_another_process_that_writes_is_named(index, folder):
    index.add(folder)
    script = (
        "import importlib.util, sys, time\n"
        "spec = importlib.util.spec_from_file_location('lock', sys.argv[1])\n"
        "lock = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(lock)\n"
        "with lock.write_lock(lock.Path(sys.argv[2])):\n"
        "    print('locked', flush=True)\n"
        "    time.sleep(600)\n"
    )
    command = [sys.executable, "-c", script, lock.__file__, str(index.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(LockedError, match=rf"by process {other.pid} on "):
            index.add(folder)
        assert index.search("herring")
        other.kill()
    assert index.add(folder).unchanged == 4


@pytest.mark.parametrize("table", ["documents", "sections", "sentences", "terms"])
def test_a_table_that_holds_something_else_is_noticed(index, folder, table):
    index.add(folder)
    for path in (index.path / f"{table}.lance" / "data").iterdir():
        content = bytearray(path.read_bytes())
        third = len(content) // 3
        content[third : 2 * third] = bytes(b ^ 0x55 for b in content[third : 2 * third])
        path.write_bytes(content)
    assert index.verify()


def test_a_table_without_its_files_is_noticed(index, folder):
    index.add(folder)
    for path in (index.path / "sentences.lance" / "data").iterdir():
        path.unlink()
    assert index.verify()
    with pytest.raises(LibraryError, match="otherwise restore it from a copy"):
        index.search("herring", where="text LIKE '%a%'")


@pytest.mark.parametrize("table", ["documents", "sections", "sentences", "terms"])
def test_a_damaged_table_is_noticed(index, folder, table, small_encoder):
    index.add(folder)
    for path in (index.path / f"{table}.lance" / "data").iterdir():
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    damaged = Index.open(index.path, model=small_encoder)
    assert damaged.verify()
    with pytest.raises(LibraryError, match="otherwise restore it from a copy"):
        damaged.search("herring", by="section")


def test_wrong_rows_are_noticed(index, folder):
    index.add(folder)
    with Store(index.path).writing(index.state.model) as writer:
        writer.tables["sentences"].update(where="text = 'Cod swim.'", values={"text": "Cod swam."})
        writer.tables["sections"].delete("text = 'Eel'")
        writer.tables["documents"].update(where="title = 'Whale'", values={"date": "2021"})
        writer.tables["terms"].delete("term = 'salt'")
        writer.commit()
    problems = index.verify()
    assert any("differ from its text" in problem for problem in problems)
    assert any("has 1 sections instead of 2" in problem for problem in problems)
    assert any("whale.md has another date in the table" in problem for problem in problems)
    assert any("words of 1 documents are not counted as they should" in one for one in problems)


def test_a_state_of_another_version_or_none_is_said(index, folder):
    index.add(folder)
    state = index.path / "library.json"
    fields = json.loads(state.read_text())
    state.write_text(json.dumps({**fields, "schema": 99}))
    with pytest.raises(LibraryError, match=r"another version of foveate \(format 99, .*: index"):
        Index.open(index.path)
    state.write_text("{")
    with pytest.raises(LibraryError, match=r"library\.json is damaged"):
        Index.open(index.path)


def test_a_library_may_be_moved_and_copied(index, folder, small_encoder, tmp_path):
    index.add(folder)
    shutil.copytree(index.path, tmp_path / "copy")
    copy = Index.open(tmp_path / "copy", model=small_encoder)
    assert copy.search("herring") == index.search("herring")
    assert copy.verify() == []


def test_compacting_removes_what_is_not_needed(index, folder):
    for name in ("fish.md", "salt.txt", "talk.vtt"):
        index.add(folder / name)
    index.remove(folder / "salt.txt")
    before = index.size()
    index.compact()
    assert index.size() < before
    assert len(list((index.path / "sentences.lance" / "data").iterdir())) == 1
    rows = Store(index.path).open_tables(index.state)["terms"].to_arrow().to_pylist()
    assert len({(row["term"], row["kind"]) for row in rows}) == len(rows)
    assert "white" not in {row["term"] for row in rows}


def test_merged_postings_are_those_of_live_documents():
    schema = schemas(4)["terms"]

    def row(term, documents):
        sizes = {"positions": documents, "counts": [7] * len(documents)}
        return {"term": term, "kind": 0, "documents": documents, **sizes}

    rows = [row("eel", [1, 2]), row("cod", [1]), row("cod", [2, 3]), row("eel", [2]), row("a", [1])]
    merged = merge_postings(pa.Table.from_pylist(rows, schema), np.array([2, 3]))
    assert merged.to_pylist() == [row("cod", [2, 3]), row("eel", [2, 2])]


def test_a_table_with_an_index_may_grow(tmp_path, monkeypatch):
    """Lance merges what is new and, not at the same time, that with what is indexed."""
    monkeypatch.setattr(store, "ROWS_WITHOUT_INDEX", 2000)
    schema, size = schemas(1)["sentences"], 1000
    known = {
        "key": pa.array(range(size)),
        "document": pa.array(range(size)),
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(size, np.float16)), 1),
    }
    columns = [known.get(field.name, pa.nulls(size, field.type)) for field in schema]
    rows = pa.table(columns, schema=schema)
    with Store(tmp_path / "library").writing(ModelRecord(None, "", "tree", 1)) as writer:
        for _ in range(70):
            writer.add({"sentences": rows})
            writer.commit()
            writer.tidy(is_end=False)
        assert writer.tables["sentences"].count_rows() == 70 * size
    assert Store(tmp_path / "library").read_state().num_sentences == 70 * size


def test_tables_get_indexes_and_few_files(index, monkeypatch):
    monkeypatch.setattr(reading, "BATCH_CHARACTERS", 1)
    monkeypatch.setattr(build, "COMMIT_CHARACTERS", 1)
    monkeypatch.setattr(store, "MAX_FRAGMENTS", 4)
    monkeypatch.setattr(store, "MAX_BATCHES", 3)
    monkeypatch.setattr(store, "ROWS_WITHOUT_INDEX", 10)
    names = ("cod", "eel", "ray", "crab", "whale", "herring", "gull")
    documents = [Document.from_text(f"The {name} eats. It sleeps.", source=name) for name in names]
    index.add(documents)
    tables = Store(index.path).open_tables(index.state)
    assert {one.columns[0] for one in tables["sentences"].list_indices()} == {"key"}
    assert all(table.stats()["fragment_stats"]["num_fragments"] <= 4 for table in tables.values())
    assert index.state.num_batches <= 3
    index.add([Document.from_text("The squid eats. It sleeps.", source="squid")])
    assert index.verify() == []
    assert {hit.span.document for hit in index.search("squid", top_k=99)} == {*names, "squid"}
