"""What strangers, bad files and bad luck do to the service: it refuses, and goes on."""

import gzip
import io
import json
import os
import signal
import socket
import tempfile
import threading
import time
import zipfile

import pytest

from foveate import Encoder
from tests.service.conftest import FISH, until, write_pdf


def raw(served, data, *, wait=10):
    """Send bytes, and return the status line and what follows."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=wait) as connection:
        connection.sendall(data)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
        return answer


def head(path, *headers, method="POST"):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def is_well(served):
    answer = served.client.post("/documents", json={"text": FISH})
    return answer.status_code == 201


class Slow:
    """An encoder of texts that waits until it may go on."""

    def __init__(self, monkeypatch):
        self.may_go_on = threading.Event()
        self.num_read = 0
        encode = Encoder.encode_texts

        def wait(encoder, texts, **options):
            self.num_read += len(texts)
            assert self.may_go_on.wait(20)
            return encode(encoder, texts, **options)

        monkeypatch.setattr(Encoder, "encode_texts", wait)


@pytest.mark.usefixtures("without_processes")
def test_a_body_that_is_too_large(strict):
    with strict(limits={"body_bytes": 1000}) as served:
        announced = raw(served, head("/documents", "Content-Length: 1073741824"))  # not sent
        assert announced.startswith(b"HTTP/1.1 413")
        chunks = b"".join(b"200\r\n" + b"a" * 512 + b"\r\n" for _ in range(3))
        chunked = raw(served, head("/documents", "Transfer-Encoding: chunked") + chunks)
        assert chunked.startswith(b"HTTP/1.1 413")
        assert b'"detail"' in chunked
        openai = served.client.post("/v1/embeddings", json={"input": "a" * 2000})
        assert openai.json()["error"]["type"] == "invalid_request_error"
        assert served.client.get("/healthz").status_code == 200


@pytest.mark.usefixtures("without_processes")
def test_a_body_that_does_not_come(strict):
    with strict(limits={"body_seconds": 0.3}) as served:
        started = time.monotonic()
        answer = raw(served, head("/documents", "Content-Length: 100") + b'{"te')
        assert answer.startswith(b"HTTP/1.1 408")
        assert time.monotonic() - started < 5
        assert is_well(served)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"--x",
        b"--x\r\n\r\n--x--\r\n",
        b"--x\r\nContent-Disposition: form-data; name=file\r\n\r\nno name of a file\r\n--x--\r\n",
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nA.',  # cut off
        b"\r\n".join(
            [b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nb'] * 99 + [b"--x--"]
        ),
        b"\0" * 100,
    ],
)
def test_malformed_forms(served, body):
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = served.client.post("/documents", content=body, headers=kind)
    assert answer.status_code == 422
    assert answer.json()["detail"]


def test_bodies_of_other_kinds(served):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        answer = served.client.post("/search", content=b"query=cod", headers={"Content-Type": kind})
        assert answer.status_code in (415, 422)
    for body in (b"{", b"[]", b"null", b"[" * 100_000, b'{"text": "\\ud800"}', b"\xff", b""):
        answer = served.client.post(
            "/documents", content=body, headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == 422
        assert "\n" not in answer.json()["detail"]


def _gzip_bomb():
    return gzip.compress(b"a" * 300_000_000, 1)


def _zip_bomb():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/vnd.openxmlformats")
        archive.writestr("word/document.xml", b"<w>" + b"a" * 60_000_000)
    return file.getvalue()


XML = b"""<?xml version="1.0"?>
<!DOCTYPE article [<!ENTITY a "aaaaaaaaaa">
%s
<!ENTITY secret SYSTEM "file:///etc/passwd">]>
<article><front><article-meta><title-group><article-title>T</article-title></title-group>
</article-meta></front><body><p>Cod swim. &j; &secret;</p></body></article>"""
LAUGHS = b"\n".join(b'<!ENTITY %c "%s">' % (98 + i, b"&%c;" % (97 + i) * 10) for i in range(9))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("bomb.docx", _zip_bomb),
        ("bomb.txt.gz", _gzip_bomb),
        ("broken.pdf", b"%PDF-1.7\n" + bytes(range(256)) * 20),
        ("empty.pdf", b"%PDF-1.7"),
        ("nothing.txt", b""),
        ("picture.png", b"\x89PNG\r\n\x1a\n" + bytes(1000)),
        ("several.jsonl", b'{"text": "One."}\n{"text": "Two."}\n'),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_files_that_cannot_be_read(served, name, data):
    content = data() if callable(data) else data
    answer = served.client.post("/documents", files={"file": (name, content)})
    assert answer.status_code in (413, 422)
    detail = answer.json()["detail"]
    assert name in detail
    assert "Traceback" not in detail


def test_xml_entities(served):
    answer = served.client.post("/documents", files={"file": ("a.xml", XML % LAUGHS)})
    if answer.status_code == 201:  # its entities are left out
        sentences = served.client.get(f"/documents/{answer.json()['id']}/sentences").text
        assert "root:" not in sentences
        assert len(sentences) < 10_000
    else:
        assert answer.status_code in (413, 422)
    assert is_well(served)


def test_a_reader_that_is_killed(served):
    """By the system, if memory is short, or by a file that breaks it."""
    os.kill(served.service.processes._forker.process.pid, signal.SIGKILL)
    answer = served.client.post("/documents", files={"file": ("fish.md", FISH.encode())})
    assert answer.status_code in (201, 422)
    assert is_well(served)


def test_a_file_that_takes_long(strict, tmp_path):
    write_pdf(tmp_path / "a.pdf", num_pages=60)
    data = (tmp_path / "a.pdf").read_bytes()
    with strict(limits={"reading_seconds": 0.05}) as served:
        answer = served.client.post("/documents", files={"file": ("a.pdf", data)})
        assert answer.status_code == 504
        assert "0.05 seconds" in answer.json()["detail"]
        assert served.client.get("/healthz").status_code == 200
    with strict(limits={"pages": 59}) as served:
        answer = served.client.post("/documents", files={"file": ("a.pdf", data)})
        assert (answer.status_code, "60 pages" in answer.json()["detail"]) == (413, True)


def test_a_file_that_takes_much_memory(strict):
    data = gzip.compress(bytes(80_000_000), 1)
    with strict(limits={"reading_bytes": 280 * 2**20}) as served:
        answer = served.client.post("/documents", files={"file": ("a.txt.gz", data)})
        assert (answer.status_code, "memory" in answer.json()["detail"]) == (413, True)
        assert is_well(served)
    with strict(limits={"characters": 1000}) as served:
        answer = served.client.post("/documents", json={"text": "Cod swim. " * 101})
        assert (answer.status_code, "1,010 characters" in answer.json()["detail"]) == (413, True)


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("../../etc/passwd.md", "passwd.md"),
        ("C:\\Windows\\fish.md", "fish.md"),
        ("a\r\nSet-Cookie: b=c.md", '"a'),
        ("<img src=x onerror=alert(1)>.md", "<img src=x onerror=alert(1)>.md"),
        ("x" * 2000 + ".md", "x" * 197 + ".md"),
        ("", "file"),
    ],
)
@pytest.mark.usefixtures("without_processes")
def test_names_of_files(served, name, kept):
    quoted = name.replace("\\", "\\\\").encode()
    body = (
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="' + quoted + b'"\r\n\r\n'
        b"Cod swim.\r\n--x--\r\n"
    )
    assert _post_form(served, body)["name"] == kept


@pytest.mark.parametrize(
    "name",
    [
        "filename*=UTF-8''M%C3%BChle.md",
        "filename=\"M.md\"; filename*=UTF-8'de'M%C3%BChle.md",
        "filename*=iso-8859-1''M%FChle.md",
        'filename="=?utf-8?B?TcO8aGxlLm1k?="',
    ],
)
@pytest.mark.usefixtures("without_processes")
def test_names_of_files_in_codes_of_headers(served, name):
    body = (
        f'--x\r\nContent-Disposition: form-data; name="file"; {name}\r\n\r\nCod swim.\r\n--x--\r\n'
    )
    assert _post_form(served, body.encode())["name"] == "Mühle.md"


def _post_form(served, body):
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = served.client.post("/documents", content=body, headers=kind)
    assert answer.status_code == 201, answer.text
    assert "set-cookie" not in answer.headers
    return answer.json()


def test_scripts_come_back_as_text(served):
    script = "<script>alert(1)</script>"
    answer = served.client.post(
        "/documents", json={"text": f"Cod swim. {script} They eat.", "title": script}
    )
    assert answer.json()["title"] == script
    url = f"/documents/{answer.json()['id']}"
    for path in ("", "/sentences", "/outline"):
        got = served.client.get(url + path)
        assert got.headers["content-type"] == "application/json"
        assert got.headers["x-content-type-options"] == "nosniff"
    texts = [one["text"] for one in served.client.get(f"{url}/sentences").json()]
    assert script in " ".join(texts)


@pytest.mark.usefixtures("without_processes")
def test_a_client_that_leaves(strict, monkeypatch):
    """What it asked for counts as a running request until the model has read it."""
    with strict() as served:
        slow = Slow(monkeypatch)
        body = json.dumps({"model": "foveate", "input": "Cod"}).encode()
        request = head(
            "/v1/embeddings", "Content-Type: application/json", f"Content-Length: {len(body)}"
        )
        with socket.create_connection(("127.0.0.1", served.port)) as leaving:
            leaving.sendall(request + body)
            until(lambda: slow.num_read == 1)
        until(lambda: 'status="499"' in served.client.get("/metrics").text)
        assert served.service.work.num_running == 1
        slow.may_go_on.set()
        until(lambda: served.service.work.num_running == 0)
        answer = served.client.post("/v1/embeddings", json=json.loads(body))
        assert answer.status_code == 200


@pytest.mark.usefixtures("without_processes")
def test_too_many_requests(strict, monkeypatch):
    with strict(limits={"requests": 2}) as served:
        slow = Slow(monkeypatch)
        answers = []

        def embed(text):
            arguments = {"model": "foveate", "input": text}
            answers.append(served.client.post("/v1/embeddings", json=arguments))

        threads = [threading.Thread(target=embed, args=(text,)) for text in ("Cod", "Eel")]
        for thread in threads:
            thread.start()
        until(lambda: served.service.work.num_running == 2)
        refused = served.client.post("/v1/embeddings", json={"model": "foveate", "input": "Salt"})
        assert refused.status_code == 503
        assert int(refused.headers["Retry-After"]) >= 1
        assert refused.json()["error"]["message"]
        assert served.client.get("/healthz").status_code == 200
        slow.may_go_on.set()
        for thread in threads:
            thread.join()
        assert [one.status_code for one in answers] == [200, 200]
        assert served.service.work.num_running == 0


@pytest.mark.usefixtures("without_processes")
def test_a_request_that_takes_long(strict, monkeypatch):
    with strict(limits={"request_seconds": 0.3}) as served:
        slow = Slow(monkeypatch)
        given = served.client.post("/v1/embeddings", json={"model": "foveate", "input": "Cod"})
        assert given.status_code == 504
        assert "0.3 seconds" in given.json()["error"]["message"]
        assert served.service.work.num_running == 1  # the model still reads
        slow.may_go_on.set()
        until(lambda: served.service.work.num_running == 0)


def test_stopping_finishes_what_runs(strict, monkeypatch):
    answers = []
    with strict() as served:
        slow = Slow(monkeypatch)

        def embed():
            arguments = {"model": "foveate", "input": "Cod"}
            answers.append(served.client.post("/v1/embeddings", json=arguments).status_code)

        thread = threading.Thread(target=embed)
        thread.start()
        until(lambda: slow.num_read == 1)
        threading.Timer(0.5, slow.may_go_on.set).start()
        pid = served.service.processes._forker.process.pid
    thread.join()
    assert answers == [200]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.usefixtures("without_processes")
def test_a_document_that_breaks_the_model_harms_no_other(strict, monkeypatch):
    encode = Encoder.encode_texts

    def fail(encoder, texts, **options):
        if "poison" in texts:
            raise MemoryError
        return encode(encoder, texts, **options)

    monkeypatch.setattr(Encoder, "encode_texts", fail)
    with strict() as served:
        arguments = {"model": "foveate", "input": "poison"}
        assert served.client.post("/v1/embeddings", json=arguments).status_code == 413
        arguments["input"] = "Cod"
        assert served.client.post("/v1/embeddings", json=arguments).status_code == 200


def test_nothing_is_written(served, tmp_path, monkeypatch):
    """A large form stays in memory, where web frameworks usually use temporary files."""

    def refuse(*arguments, **options):
        raise AssertionError("a file is written")

    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", refuse)
    text = "Cod swim. " * 20_000 + " " * 3_000_000
    answer = served.client.post("/documents", files={"file": ("a.txt", text.encode())}, timeout=60)
    assert answer.status_code == 201
