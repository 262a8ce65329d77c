"""Files that other processes of this machine read."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import foveate.index
from foveate import Document, Index
from foveate.index import reading
from foveate.index.readers import ReaderPool
from foveate.processes import ReaderProcesses
from tests.index.conftest import PARTS


@pytest.fixture
def few(folder, monkeypatch):
    """A folder of several units, one of whose files cannot be read."""
    monkeypatch.setattr(reading, "FILES_PER_UNIT", 2)
    (folder / "bad.pdf").write_bytes(b"%PDF-1.7 no more")
    (folder / "long.txt").write_text("\n\n".join(f"Herring number {i} swims." for i in range(40)))
    return folder


def test_the_library_is_the_same(index, few, tmp_path):
    failures, done = {}, []
    note = failures.__setitem__
    index.add(few, on_error=note)
    expected, failures = failures, {}
    other = Index.create(tmp_path / "other", model=index.encoder)
    changes = other.add(
        few,
        on_error=failures.__setitem__,
        on_file=done.append,
        cluster=ReaderPool(2),
    )
    assert {name: str(error) for name, error in failures.items()} == {
        name: str(error) for name, error in expected.items()
    }
    assert list(failures) == [str(few / "bad.pdf")]
    assert (changes.added, len(done)) == (len(PARTS) + 1, len(PARTS) + 2)
    assert list(other.documents()) == [
        replace(old, indexed=new.indexed)
        for old, new in zip(index.documents(), other.documents(), strict=True)
    ]
    assert other.verify() == []
    query = "where do herring swim?"
    assert other.search(query, top_k=99) == index.search(query, top_k=99)
    assert other.add(few, on_error=note, cluster=ReaderPool(2)).unchanged == changes.added


def test_documents_that_were_not_files(index):
    document = Document.from_text("# Squid\n\nSquid swim backwards.", format="markdown")
    assert index.add(document, cluster=ReaderPool(1)).added == 1
    assert index.search("squid")[0].span.text == "Squid swim backwards."


def test_the_first_error_is_raised(index, few):
    with pytest.raises(ValueError, match=r"bad\.pdf"):
        index.add(few, cluster=ReaderPool(1))
    assert index.verify() == []


def test_a_file_that_ends_its_process_is_named(index, few, monkeypatch):
    # The process has no monkeypatch of ours: what is on its path is imported when it starts.
    (few.parent / "sitecustomize.py").write_text(
        "import foveate.index.reading as reading, os, warnings\n"
        "read = reading._read\n"
        "def _read(file, *arguments):\n"
        "    os._exit(3) if file.name.endswith('long.txt') else None\n"
        "    warnings.warn('of a reader')\n"
        "    yield from read(file, *arguments)\n"
        "reading._read = _read\n"
    )
    monkeypatch.syspath_prepend(few.parent)
    message = r"has ended at .*long\.txt or soon after it, most likely because memory was short"
    with pytest.warns(UserWarning, match="of a reader"), pytest.raises(ValueError, match=message):
        index.add(few, on_error=lambda name, error: None, cluster=ReaderPool(1))
    (few / "long.txt").unlink()
    index.add(few, on_error=lambda name, error: None)
    assert len(index) == len(PARTS)
    assert index.verify() == []


def test_a_model_on_a_cpu_needs_no_readers(index, few, monkeypatch):
    monkeypatch.setattr(ReaderProcesses, "start", None)
    for name in "abcdefgh":
        (few / f"{name}.txt").write_text(f"Crab {name} walks.")
    index.add(few, on_error=lambda name, error: None)
    (few / "i.txt").write_text("Crab i walks.")
    with pytest.raises(TypeError):
        index.add(few, on_error=lambda name, error: None, cluster=ReaderPool(2))


def test_a_process_that_reads_does_not_load_torch():
    code = "import sys, foveate.index.reading; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_names_that_are_loaded_on_first_use_are_listed():
    assert set(foveate.index.__all__) <= set(dir(foveate.index))


def test_a_number_below_0_is_refused():
    with pytest.raises(ValueError, match="cannot be -1 readers"):
        ReaderPool(-1)


def test_readers_end_with_this_process(tmp_path):
    code = (
        "import os, signal\n"
        "from foveate.index.build import Job\n"
        "from foveate.index.readers import _ReaderProcess\n"
        "from foveate.processes import ReaderProcesses\n"
        "processes = ReaderProcesses('foveate.index.reading')\n"
        "reader = _ReaderProcess(Job(None, None, None, False, {}), processes)\n"
        "print(processes._forker.process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    pid = int(killed.stdout)
    for _ in range(300):
        if not Path(f"/proc/{pid}").exists():
            return
        time.sleep(0.1)
    pytest.fail("the reader is still there")
