"""Libraries that are damaged, half-written, or being written to."""

import os
import shutil
import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance import fragment

from foveate import Document, Index
from foveate.index import LibraryError, LockedError, build, lance, units, writer
from foveate.index.lance import LanceEngine, Store
from foveate.index.schema import TERMS
from foveate.index.statistics import Totals, WordCounts, count
from foveate.index.writer import write, writing
from tests.index.library_check import problems
from tests.profiles import NIGHTLY

ROOT = Path(__file__).parents[2]


def test_the_library_survives_being_killed(tmp_path):
    kills = "20" if NIGHTLY else "1"  # by this seed, another update finishes
    command = [sys.executable, "-m", "tests.index.library_kills", "--kills", kills, "--seed", "2"]
    command += ["--folder", tmp_path]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_readers_see_whole_states_during_a_write(index, folder, small_encoder, monkeypatch):
    monkeypatch.setattr(units, "BATCH_CHARACTERS", 1)
    monkeypatch.setattr(build, "COMMIT_SECONDS", 0)
    monkeypatch.setattr(writer, "MAX_FRAGMENTS", 3)
    index.add(folder)
    passages, errors = [], []

    def write_six():
        try:
            for i in range(6):
                index.add([Document.from_text(f"Crab {i} walks. It eats.", source=f"crab {i}")])
            index.compact()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=write_six)
    thread.start()
    reader = Index.open(index.path, model=small_encoder)
    while thread.is_alive():
        passages += (hits := reader.search("crab", top_k=99))
        assert {hit.span.document for hit in hits} >= {str(folder / "fish.md")}
    thread.join()
    assert errors == []
    crabs = {hit.text for hit in passages if hit.span.document.startswith("crab")}
    assert crabs <= {f"Crab {i} walks. It eats." for i in range(6)}  # both sentences or none
    assert len(reader.search("crab", top_k=99, by="document")) == 10
    assert problems(reader) == []


def test_what_a_killed_writer_left_is_undone(index, folder, small_encoder):
    index.add(folder)
    before = index.search("herring", top_k=99)
    with writing(Store(index.path), index.state.model, ()) as one:  # which never commits
        one.delete([0, 1])
        one.add(write(one.table.to_table(filter="document = 2"), one.table, one.store))
    assert Index.open(index.path, model=small_encoder).search("herring", top_k=99) == before
    assert problems(index) == []
    (folder / "new.txt").write_text("Crabs walk.")
    assert index.add(folder).added == 1
    assert problems(index) == []
    assert len(index) == 5


def test_a_library_that_was_never_finished_is_begun_again(index, folder):
    index.add(folder)
    shutil.rmtree(index.path / "library.lance" / "_versions")
    assert index.add(folder).added == 4
    assert problems(index) == []


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

    def fail(*arguments, **options):
        raise RuntimeError("lance error: LanceError(IO): No space left on device, /lance/io.rs:1")

    with monkeypatch.context() as patch:
        patch.setattr("lance.fragment.write_fragments", fail)
        with pytest.raises(OSError, match=r"No space left on device\): what was committed"):
            index.add(folder)
    assert len(index) == 4
    assert index.add(folder).added == 1
    assert problems(index) == []


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
    assert problems(index) == []
    (disk / "rest").unlink()
    assert index.add(folder).added == 1
    assert problems(index) == []


def test_a_library_on_a_read_only_disk_is_searched(disk, folder, small_encoder):
    Index.create(disk / "library", model=small_encoder).add(folder)
    mount("-o", "remount,ro", str(disk))
    index = Index.open(disk / "library", model=small_encoder)
    assert index.search("herring")
    assert problems(index) == []
    assert len(list(index.documents())) == 4
    for change in (lambda: index.add(folder), lambda: index.remove(folder), index.compact):
        with pytest.raises(OSError, match=r"cannot be written to \(Read-only .* be searched"):
            change()


def test_another_process_that_writes_is_waited_for(index, folder):
    index.add(folder)
    script = (
        "import sys, time; from filelock import FileLock\n"
        "with FileLock(sys.argv[1]):\n"
        "    print('locked', flush=True)\n"
        "    time.sleep(600)\n"
    )
    command = [sys.executable, "-c", script, str(index.path / "writer.lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(LockedError, match=r"another process is writing to the library .* wait"):
            index.add(folder)
        assert index.search("herring")
        other.kill()
    assert index.add(folder).unchanged == 4


def test_wrong_rows_are_noticed(index, folder):
    """Which the tests above rely on."""
    index.add(folder)
    table = Store(index.path).open()
    table.update({"text": "'Cod swam.'"}, "text = 'Cod swim.'")
    table.delete("text = 'Eels are long.'")
    table.update({"date": "'2021'"}, "title = 'Whale'")
    table.delete("key < -1")
    found = problems(index)
    assert any("rows instead of" in problem for problem in found)
    assert any("differs from its text in its date" in problem for problem in found)
    assert any("words are not counted as they should be" in problem for problem in found)


def test_a_table_of_another_program_or_version_is_said(index, folder, monkeypatch):
    index.add(folder)
    with monkeypatch.context() as patch:
        patch.setattr(lance, "SCHEMA_VERSION", 99)
        with pytest.raises(LibraryError, match=r"another version of foveate: index the files into"):
            Index.open(index.path)
    lance.lance().write_dataset(pa.table({"a": [1]}), folder / "other" / "library.lance")
    with pytest.raises(LibraryError, match="was made by another program: index the files into a"):
        Index.open(folder / "other")


def test_a_library_may_be_moved_and_copied(index, folder, small_encoder, tmp_path):
    index.add(folder)
    shutil.copytree(index.path, tmp_path / "copy")
    copy = Index.open(tmp_path / "copy", model=small_encoder)
    assert copy.search("herring") == index.search("herring")
    assert problems(copy) == []


def test_compacting_removes_what_is_not_needed(index, folder):
    for name in ("fish.md", "salt.txt", "talk.vtt"):
        index.add(folder / name)
    index.remove(folder / "salt.txt")
    before = index.size()
    index.compact()
    assert index.size() < before
    assert len(Store(index.path).open().get_fragments()) == 1
    [counts] = Store(index.path).word_counts(Store(index.path).open()).values()
    assert counts.frequency("cod").tolist() == [1, 1, 1]
    assert not counts.frequency("white").any()


sentences = st.lists(st.sampled_from("abcdef"), max_size=4).map(
    lambda w: "".join(f" {x} " for x in w)
)


@given(st.lists(st.tuples(st.sampled_from(("sentence", "section", "document")), sentences)))
def test_counted_words_are_those_of_the_rows(texts):
    rows = pa.table(
        {
            "level": pa.array([level for level, _ in texts], pa.string()),
            **{
                column: pa.array(
                    [text if level == of_level else None for level, text in texts], pa.string()
                )
                for of_level, column in TERMS.items()
            },
        }
    )
    numbers, counts = count(rows)
    totals = Totals(*numbers.tolist())
    for i, of_level in enumerate(TERMS):
        split = [text.split() for level, text in texts if level == of_level]
        assert totals.num_texts(of_level) == len(split)
        assert totals.mean_length(of_level) == max(sum(map(len, split)) / max(len(split), 1), 1)
        for word in "abcdefg":
            assert counts.frequency(word)[i] == sum(word in text for text in split)
    halves = [count(rows.slice(0, 2))[1], count(rows.slice(2))[1]]
    assert WordCounts.total(halves).words == counts.words
    assert (WordCounts.total(halves).frequencies == counts.frequencies).all()
    rest = WordCounts.total([counts], removed=halves[:1])
    assert rest.words == halves[1].words


def test_libraries_get_indexes_and_few_files(index, monkeypatch):
    monkeypatch.setattr(units, "BATCH_CHARACTERS", 1)
    monkeypatch.setattr(build, "COMMIT_SECONDS", 0)
    monkeypatch.setattr(writer, "MAX_FRAGMENTS", 4)
    monkeypatch.setattr(writer, "ROWS_PER_MERGE", 100)
    monkeypatch.setattr(writer, "ROWS_WITHOUT_INDEX", 10)
    monkeypatch.setattr(writer, "LEAST_FOR_VECTOR_INDEX", 300)
    names = [f"{name} {i}" for name in ("cod", "eel", "ray", "crab") for i in range(60)]
    documents = [Document.from_text(f"The {name} eats. It sleeps.", source=name) for name in names]
    index.add(documents[:10])
    table = Store(index.path).open()
    assert "vector_idx" not in {one.name for one in table.describe_indices()}
    assert table.stats.index_stats("level_idx")["num_unindexed_rows"] < 10
    assert len(table.get_fragments()) <= 5
    monkeypatch.setattr(build, "COMMIT_SECONDS", 0)
    monkeypatch.setattr(writer, "MAX_FRAGMENTS", 999)
    monkeypatch.setattr(writer, "ROWS_WITHOUT_INDEX", 999)
    index.add(documents[10:])
    table = Store(index.path).open()
    assert table.stats.index_stats("level_idx")["num_unindexed_rows"] < 100
    assert "vector_idx" in {one.name for one in table.describe_indices()}
    index.add([Document.from_text("The squid eats. It sleeps.", source="squid")])
    assert problems(index) == []
    hits = index.search("squid", top_k=999, by="document")
    assert {hit.span.document for hit in hits} == {*names, "squid"}
    assert hits[0].span.document == "squid"


def test_an_export_has_keys_terms_and_vectors(index, folder, tmp_path):
    index.add(folder)
    path = tmp_path / "sea.parquet"
    num_rows = index.export(path)
    rows = pq.read_table(path)
    assert rows.num_rows == num_rows
    found = {
        row["text"]: (row["sentence_terms"].split(), len(row["vector"]))
        for row in rows.to_pylist()
        if row["level"] == "sentence"
    }
    assert found["Eels are long."] == (["eels", "eel", "are", "long"], index.state.model.dimension)
    frequencies = {
        word: row["frequencies"][3 * i : 3 * i + 3]
        for row in rows.to_pylist()
        for i, word in enumerate(row["words"] or ())
    }
    assert frequencies["herring"] == [2, 2, 2]
    keys = dict(zip(rows["key"].to_pylist(), rows["text"].to_pylist(), strict=True))
    (folder / "salt.txt").write_text("Salt is grey.")
    index.add(folder)
    index.compact()
    index.export(path)
    rows = pq.read_table(path)
    for key, text in zip(rows["key"].to_pylist(), rows["text"].to_pylist(), strict=True):
        assert key < 0 or keys.get(key, text) == text


def test_documents_that_begin_in_one_file_and_end_in_the_next_are_found(
    index, small_encoder, tmp_path, monkeypatch
):
    documents = []
    for i, name in enumerate(("cod", "eel", "ray", "tuna", "whale", "krill")):
        text = " ".join(f"The {name} eats {what}." for what in ("herring", "salt", "nets", "ice"))
        sections = [("Food", text), ("Life", f"The {name} swims. It is long."), ("End", "It ends.")]
        documents.append(Document.from_sections(name, sections[: 2 + i % 2]))
    index.add(documents)
    small = partial(fragment.write_fragments, max_rows_per_file=5)
    monkeypatch.setattr(fragment, "write_fragments", small)
    other = Index.create(tmp_path / "other", model=small_encoder)
    other.add(documents)
    assert len(LanceEngine(other._table).table.get_fragments()) > 2 * len(documents)
    assert problems(other) == []
    for query in ("What does the ray eat?", "a long fish", "salt"):
        for by in ("passage", "section", "document"):
            for conditions in ({}, {"where": "num_sections > 2"}, {"section": "food"}):
                found = other.search(query, by=by, top_k=9, **conditions)
                assert found == index.search(query, by=by, top_k=9, **conditions)
