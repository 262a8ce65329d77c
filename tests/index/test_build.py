"""What is in a library after files were added, changed and removed."""

import copy
import gzip
import hashlib
import importlib
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import foveate.index
from foveate import Document, Encoder, Index, read_documents
from foveate.index import LibraryError, LockedError, build, sources, units
from foveate.index.identity import identify
from foveate.index.writer import write_lock
from foveate.inference.tree_runner import TreeRunner
from foveate.models.tree_bert import TreeBertModel
from tests.index.conftest import PARTS
from tests.index.library_check import problems
from tests.tree_bert import save_tree_bert


def names(index, folder):
    return [os.path.relpath(document.source, folder) for document in index.documents()]


def test_everything_in_a_folder_is_added(index, folder):
    changes = index.add(folder)
    assert (changes.added, changes.num_documents, changes.failures) == (4, 4, [])
    assert names(index, folder) == sorted(PARTS)
    assert len(index) == 4
    assert changes.num_sentences == index.state.num_sentences == 9
    assert problems(index) == []


def test_documents_come_back_as_they_were_read(index, folder):
    index.add(folder)
    read = {document.source: document for document in read_documents(folder)}
    for entry in index.documents():
        document = read[entry.source]
        assert index.document(entry.number) == document
        assert (entry.title, entry.date) == (document.title, document.date)
        assert entry.authors == document.authors
        assert entry.num_sentences == len(document.spans())
    assert [entry.authors for entry in index.documents() if entry.date] == [("Ann Lee", "Bo Ek")]


def test_only_what_has_changed_is_read_again(index, folder, monkeypatch):
    index.add(folder)
    encoded = []
    encode = type(index.encoder).encode
    monkeypatch.setattr(
        type(index.encoder),
        "encode",
        lambda self, documents, **options: (
            encoded.extend(documents) or encode(self, documents, **options)
        ),
    )
    salt = folder / "salt.txt"
    salt.write_text("Salt is white. It comes from the SEA.\n")  # of the same size
    (folder / "new.txt").write_text("Crabs walk.")
    changes = index.add(folder)
    assert (changes.added, changes.updated, changes.unchanged) == (1, 1, 3)
    assert [document.name for document in encoded] == [str(folder / "new.txt"), str(salt)]
    assert index.search("sea", path=salt, top_k=9)[0].span.document == str(salt)
    assert problems(index) == []
    assert len(index) == 5


def test_a_new_file_is_opened_once(index, folder, monkeypatch):
    opened, walked = [], []
    open_path, walk = Path.open, os.walk
    monkeypatch.setattr(
        Path,
        "open",
        lambda self, *rest, **options: opened.append(self) or open_path(self, *rest, **options),
    )
    monkeypatch.setattr(
        os, "walk", lambda top, **options: walked.append(top) or walk(top, **options)
    )
    assert index.add(folder).added == len(PARTS)
    assert sorted(one for one in opened if folder in one.parents) == sorted(
        folder / name for name in PARTS
    )
    assert walked == [folder]


def test_what_is_done_stays_when_it_is_interrupted(index, folder, monkeypatch):
    monkeypatch.setattr(units, "BATCH_CHARACTERS", 1)

    def interrupt(done, total, documents):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index.add(folder, on_file=interrupt)
    assert len(index) == 2
    assert problems(index) == []
    assert index.add(folder).added == 2
    assert len(index) == 4


def test_a_file_that_was_only_touched_is_unchanged(index, folder):
    index.add(folder)
    os.utime(folder / "salt.txt", (1, 1))
    assert index.add(folder).unchanged == 4


def later(seconds):
    now = time.time_ns
    return lambda: now() + seconds * 10**9


def test_an_old_file_of_known_size_and_time_is_not_read(index, folder, monkeypatch):
    for name in PARTS:
        os.utime(folder / name, (1e9, 1e9))
    monkeypatch.setattr(time, "time_ns", later(60))
    index.add(folder)
    monkeypatch.setattr(sources, "hashlib", None)
    assert index.add(folder).unchanged == 4


@pytest.mark.skipif(os.name == "nt", reason="files have no time at which their inode changed")
def test_other_content_of_the_same_size_and_time_is_noticed(index, folder, monkeypatch):
    salt = folder / "salt.txt"
    text = salt.read_text()
    os.utime(salt, (1e9, 1e9))
    monkeypatch.setattr(time, "time_ns", later(-60))
    index.add(folder)
    salt.write_text(text.swapcase())
    os.utime(salt, (1e9, 1e9))
    assert index.add(folder).updated == 1


def test_a_model_is_loaded_only_to_encode(index, folder):
    index.add(folder)
    (folder / "empty.txt").write_text("")
    script = (
        "import sys; from foveate import Index\n"
        "for is_loaded in (False, True):\n"
        "    changes = Index.open(sys.argv[1]).add(sys.argv[2], on_error=lambda *error: None)\n"
        "    print(changes.unchanged, changes.updated)\n"
        "    assert ('torch' in sys.modules) == is_loaded\n"
        "    open(sys.argv[2] + '/salt.txt', 'a').write('It is salty.')\n"
    )
    command = [sys.executable, "-c", script, index.path, folder]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout == "4 0\n3 1\n"
    assert problems(index) == []


def test_folders_of_messages_are_watched_as_a_whole(index, tmp_path):
    def write(name, number, text):
        path = tmp_path / "mail" / name / str(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"From: ann@example.org\nSubject: Fish {number}\n\n{text}\n")

    for folder in ("cur", "new", "tmp", "Work/cur", "Work/new", ".Sent/cur", ".Sent/new"):
        (tmp_path / "mail" / folder).mkdir(parents=True)
    write("cur", 1, "Cod swim.")
    write("Work/cur", 2, "Eels sleep.")
    assert index.add(tmp_path / "mail").num_documents == 2
    assert index.add(tmp_path / "mail").unchanged == 1
    write("tmp", 3, "This one is on its way.")
    assert index.add(tmp_path / "mail").unchanged == 1
    write("Work/cur", 2, "Rays sleep.")  # of the same size
    assert index.add(tmp_path / "mail").updated == 1
    write("Work/new", 4, "Whales sing.")
    assert index.add(tmp_path / "mail").num_documents == 3
    assert "Rays sleep." in {hit.span.text for hit in index.search("sleep", top_k=9)}
    assert index.add(tmp_path / "mail" / ".Sent").unchanged == 0


def test_pruning_removes_what_is_gone(index, folder, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("Gulls fly.")
    index.add([folder, other])
    (folder / "salt.txt").unlink()
    other.unlink()
    assert index.add(folder).removed == 0
    changes = index.add(folder, prune=True)
    assert (changes.removed, changes.unchanged) == (1, 3)
    assert str(other) in [document.source for document in index.documents()]
    assert problems(index) == []


def test_pruning_keeps_a_folder_that_is_missing(index, folder, tmp_path):
    """It may be on a disk that is not mounted."""
    num_documents = index.add(folder).num_documents
    assert num_documents > 1
    folder.rename(tmp_path / "unmounted")
    failures = []
    changes = index.add(folder, prune=True, on_error=lambda name, error: failures.append(name))
    assert changes.removed == 0
    assert len([*index.documents()]) == num_documents
    assert failures == [str(folder)]
    changes = index.add(folder / "salt.txt", prune=True, on_error=lambda name, error: None)
    assert changes.removed == 1  # which is named itself


def test_removing_by_file_folder_and_name(index, folder):
    index.add([folder, Document.from_sections("Sea", [("Fish", "Cod swim.")])])
    assert index.remove(folder / "deep") == 1
    assert index.remove([folder / "salt.txt", "Sea"]) == 2
    assert names(index, folder) == ["fish.md", "talk.vtt"]
    assert problems(index) == []
    with pytest.raises(ValueError, match=r"nothing named nope: `foveate library list"):
        index.remove("nope")


def test_documents_replace_those_of_their_name(index):
    index.add(Document.from_sections("Sea", [("Fish", "Cod swim.")]))
    assert index.add(Document.from_sections("Sea", [("Fish", "Cod swim.")])).unchanged == 1
    assert index.add(Document.from_sections("Sea", [("Fish", "Eels sleep.")])).updated == 1
    assert [hit.span.text for hit in index.search("cod")] == ["Eels sleep."]


def test_collections_are_one_file_of_many_documents(index, tmp_path, monkeypatch):
    monkeypatch.setattr(units, "BATCH_CHARACTERS", 30)
    monkeypatch.setattr(build, "COMMIT_SECONDS", 0)
    records = tmp_path / "records.jsonl"
    records.write_text("".join(f'{{"text": "Cod number {i} swims."}}\n' for i in range(9)))
    changes = index.add(records)
    assert (changes.added, changes.num_documents) == (1, 9)
    assert [one.source for one in index.documents()][3] == f"{records}:4"
    records.write_text('{"text": "Only one is left."}\n')
    assert index.add(records).updated == 1
    assert len(index) == 1
    assert problems(index) == []


def test_a_file_that_cannot_be_read_does_not_stop_the_rest(index, folder):
    (folder / "bad.pdf").write_bytes(b"%PDF-1.4 broken")
    failures = []
    changes = index.add(folder, on_error=lambda name, error: failures.append(name))
    assert changes.added == 4
    assert failures == [name for name, _ in changes.failures] == [str(folder / "bad.pdf")]
    with pytest.raises(ValueError, match=r"bad\.pdf cannot be read as PDF"):
        index.add(folder)


def test_a_file_that_cannot_be_read_anymore_stays_as_it_was(index, folder):
    index.add(folder)
    (folder / "salt.txt").write_bytes(b"\0\1\2 no text")
    changes = index.add(folder, on_error=lambda name, error: None)
    assert len(changes.failures) == 1
    assert len(index) == 4


def test_patterns_lists_and_loops_of_links(index, folder):
    (folder / "deep" / "up").symlink_to(folder)
    (folder / "loop.txt").symlink_to(folder / "loop.txt")
    assert index.add(str(folder / "**" / "*.md")).added == 2
    changes = index.add([folder, folder / "salt.txt"])
    assert (changes.added, changes.unchanged) == (2, 2)


def test_a_file_that_is_named_twice_is_added_once(index, folder, monkeypatch):
    monkeypatch.setattr(units, "BATCH_CHARACTERS", 1)  # it is written, but not committed
    assert index.add([folder / "salt.txt", folder]).num_documents == len(index) == len(PARTS)


def test_what_does_not_exist_is_said(index, folder):
    with pytest.raises(FileNotFoundError, match="nothing does not exist: check the path"):
        index.add(folder / "nothing")
    with pytest.raises(FileNotFoundError, match=r"no file matches .*\*\.doc: check the pattern"):
        index.add(str(folder / "*.doc"))
    (folder / "link.txt").symlink_to("moved.txt")
    with pytest.raises(FileNotFoundError, match=r"link\.txt does not exist: check the path"):
        index.add(folder / "link.txt")


def test_pipes_and_devices_are_refused(index, folder):
    os.mkfifo(folder / "pipe.md")
    (folder / "zero.md").symlink_to("/dev/zero")
    assert index.add(folder).added == 4  # among others, they are left out
    for name in ("pipe.md", "zero.md"):
        with pytest.raises(ValueError, match=rf"{name} is not a regular file: copy its content"):
            index.add(folder / name)


def test_a_huge_file_is_refused(index, folder, monkeypatch):
    with (folder / "huge.txt").open("wb") as file:
        file.truncate(2 * 2**30)
    with pytest.raises(ValueError, match=r"huge\.txt has 2\.0 GiB.*at most 1 GiB: split it"):
        index.add(folder / "huge.txt")


def test_a_folder_that_cannot_be_listed_is_said(index, folder, monkeypatch):
    def walk(top, onerror):
        onerror(PermissionError(13, "Permission denied", str(folder / "deep")))
        return iter(())

    monkeypatch.setattr("os.walk", walk)
    with pytest.raises(PermissionError, match="Permission denied"):
        index.add(folder)


def test_a_library_in_the_folder_is_not_part_of_it(small_encoder, folder):
    index = Index.create(folder / "library", model=small_encoder)
    index.add(folder)
    assert index.add(folder).unchanged == 4
    other = Index.create(folder.parent / "other", model=small_encoder)
    assert other.add(folder.parent).added == 4


def test_there_is_one_writer_at_a_time(index, folder):
    index.add(folder)
    with write_lock(index.path), pytest.raises(LockedError, match="another process is writing"):
        index.add(folder)
    assert index.search("cod")
    assert index.add(folder).unchanged == 4


def test_another_model_is_refused(index, folder, tmp_path, tokenizer):
    index.add(folder)
    save_tree_bert(tmp_path / "other", tokenizer, intermediate_size=20)
    other = Index.open(index.path, model=tmp_path / "other")
    for use in (lambda: other.search("cod"), lambda: other.add(folder)):
        with pytest.raises(ValueError, match=r"was made by .*tree_bert.*: name that model, or"):
            use()


def test_a_model_in_memory_is_known_by_its_weights(index, folder, small_encoder):
    index.add(folder)
    encoder = copy.deepcopy(small_encoder)
    assert identify(encoder) == identify(small_encoder)
    parts = (encoder.processor, encoder.context)
    network = TreeBertModel.from_pretrained(small_encoder.model.config.name_or_path).eval()
    encoder = Encoder(TreeRunner(network, *parts))
    with pytest.raises(LibraryError, match="cannot be compared with those of a model in memory"):
        Index.open(index.path, model=encoder).search("cod")
    other = Index.create(index.path.with_name("other"), model=encoder)
    other.add(folder)
    assert Index.open(other.path, model=encoder).search("cod")
    with pytest.raises(OSError, match="by a model in memory, which cannot be loaded"):
        Index.open(other.path).search("cod")


def test_a_model_keeps_its_identity_in_another_dtype_and_encoder(small_model, small_encoder):
    record = identify(small_encoder)
    assert record == identify(Encoder.from_pretrained(small_model, dtype="bfloat16"))
    by_sentence = Encoder(TreeRunner(small_encoder.model, small_encoder.processor, "sentence"))
    assert replace(record, context="sentence") == identify(by_sentence)
    files = sorted(small_model.glob("*.safetensors"))
    digest = b"".join(hashlib.sha256(file.read_bytes()).digest() for file in files)
    assert record.sha256 == hashlib.sha256(digest).hexdigest()  # as it has always been


def test_a_model_whose_files_were_replaced_is_known_by_its_weights(tmp_path, tokenizer):
    folder = tmp_path / "model"
    save_tree_bert(folder, tokenizer)
    encoder = Encoder.from_pretrained(folder)
    save_tree_bert(folder, tokenizer, intermediate_size=20)
    assert identify(encoder).name == "a model in memory"
    assert identify(encoder).sha256 != identify(Encoder.from_pretrained(folder)).sha256


def test_other_options_of_the_model_are_refused(index, folder, small_model):
    index.add(folder)
    wrong = Index.open(index.path, model=small_model, context="sentence")
    for use in (lambda: wrong.search("cod"), lambda: wrong.add(folder)):
        with pytest.raises(ValueError, match=r"was made by .*tree_bert.* with context='tree'"):
            use()


def test_the_model_that_made_a_library_is_found_again(index, folder, small_model):
    index.add(folder)
    assert Index.open(index.path).search("cod") == index.search("cod")
    assert index.state.model.name == str(small_model)


def test_without_the_extra_it_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"run `pip install 'foveate\[index\]'`"):
        importlib.reload(foveate.index)


def test_a_path_that_is_no_library_is_refused(folder, small_encoder):
    with pytest.raises(ValueError, match="holds something else: name a new one"):
        Index.create(folder, model=small_encoder).add(folder)
    missing = r"no library in .*: make one with `foveate index .* or Index\.create"
    for use in (Index.open, lambda path: Index.create(path).search("cod")):
        with pytest.raises(FileNotFoundError, match=missing):
            use(folder / "none")
    assert not (folder / "none").exists()


def test_a_library_is_created_once(index, folder):
    index.add(folder)
    with pytest.raises(FileExistsError, match=r"already: open it with Index\.open"):
        Index.create(index.path)
    assert len(Index.create(index.path, exist_ok=True)) == len(PARTS)


def test_what_no_reader_takes_is_listed(index, folder):
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (folder / "numbers.json").write_text("[1, 2]")
    (folder / "rsync.1.gz").write_bytes(gzip.compress(b"Rsync copies files. It is fast."))
    calls = []
    changes = index.add(folder, on_file=lambda *numbers: calls.append(numbers))
    left_out = ["numbers.json", "picture.png", "rsync.1.gz"]
    assert sorted(changes.skipped) == [str(folder / name) for name in left_out]
    assert (changes.added, changes.failures) == (len(PARTS), [])
    assert (calls[0], calls[-1]) == ((0, 7, 0), (7, 7, 4))
    assert index.add(folder / "rsync.1.gz").added == 1  # named itself
