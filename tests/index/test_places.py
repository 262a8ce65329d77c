"""Libraries in object stores, of which moto plays one."""

import os
import socket
import subprocess
import sys
import time
from urllib.request import Request, urlopen

import pytest

from foveate import Document, Index
from foveate.index import LockedError
from foveate.index.writer import writing
from tests.index.library_check import problems

pytest.importorskip("moto.server", reason="moto is not installed")


@pytest.fixture(scope="module")
def bucket():
    """What gives access to an object store that has the bucket `bucket`."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    output = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=output, stderr=output, env=os.environ) as server:
        for _ in range(300):
            try:
                urlopen(Request(f"{url}/bucket", method="PUT"))
                break
            except OSError:
                time.sleep(0.1)
        keys = {"access_key_id": "key", "secret_access_key": "secret", "region": "us-east-1"}
        yield {"endpoint": url, "allow_http": "true", **keys}
        server.kill()


@pytest.fixture
def library(bucket, small_encoder, tmp_path):
    place = f"s3://bucket/{tmp_path.name}"
    index = Index.create(place, model=small_encoder, storage_options=bucket)
    index.add([Document.from_text(f"The {name} eats.", source=name) for name in ("cod", "eel")])
    return index


def test_a_library_in_a_bucket_is_built_searched_and_compacted(library, index, folder, bucket):
    for one in (library, index):
        one.add(folder)
    library.remove(["cod", "eel"])
    for compact in (False, True):
        if compact:
            library.compact()
        assert problems(library) == []
        for by in ("passage", "section", "document"):
            found = library.search("herring", by=by)
            expected = index.search("herring", by=by)
            assert [(hit.span, hit.score) for hit in found] == [
                (hit.span, hit.score) for hit in expected
            ]
    assert library.add(folder).unchanged == 4
    opened = Index.open(library.path, model=library.encoder, storage_options=bucket)
    assert [one.source for one in opened.documents()] == [one.source for one in index.documents()]
    assert library.size() > 0


def test_of_two_writers_one_wins(library, bucket):
    other = Index.open(library.path, model=library.encoder, storage_options=bucket)
    with writing(other._store, other.state.model, ()) as writer:  # while another one writes
        library.add(Document.from_text("The ray eats.", source="ray"))
        writer.delete([0])
        with pytest.raises(LockedError, match=r"has changed the library s3://.* run the same comm"):
            writer.commit()
    assert len(other) == 3
    assert problems(other) == []
    other.remove("cod")
    assert len(library) == 2
    assert problems(library) == []


def test_what_cannot_be_reached_is_said(library, bucket, small_encoder, monkeypatch):
    with pytest.raises(FileNotFoundError, match="no library in s3://bucket/none: make one with"):
        Index.open("s3://bucket/none", storage_options=bucket)
    with pytest.raises(
        OSError, match=r"s3://other/a cannot be reached \(.*: check its addr"
    ) as got:
        Index.open("s3://other/a", storage_options=bucket)
    assert "\n" not in str(got.value)
    wrong = {**bucket, "endpoint": "http://127.0.0.1:9", "client_max_retries": "0"}
    with pytest.raises(OSError, match=r"cannot be reached \(.*: check its address, the cred"):
        Index.open(library.path, storage_options=wrong)


def test_a_path_names_a_bucket_too(library, bucket, small_encoder, tmp_path):
    from pathlib import Path

    index = Index.open(Path(library.path), model=small_encoder, storage_options=bucket)
    assert len(index) == 2
