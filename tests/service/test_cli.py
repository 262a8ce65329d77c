"""The command: what it refuses, how it starts, and how it stops."""

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra `service`")


def serve(*arguments, **environment):
    """Start the command."""
    code = "from foveate.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, "serve", *arguments],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory, tokenizer):
    from tests.tree_bert import save_tree_bert

    folder = tmp_path_factory.mktemp("tree_bert")
    save_tree_bert(folder, tokenizer)
    return str(folder)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", "0.0.0.0"], "give a token"),
        (["--token", "short"], "at least 16 ASCII characters"),
        (["--host", "192.0.2.1", "--token", "a-token-of-many-characters"], "cannot be used"),
        (["--model", "/no/such/folder"], "/no/such/folder"),
        (["--rerank", "/no/such/folder"], "/no/such/folder"),
        (["--allow-origin", "example.org"], "is not an origin"),
        (["--allow-origin", "https://example.org/"], "is not an origin"),
    ],
)
def test_refusals(monkeypatch, capsys, arguments, words):
    from foveate.cli import main

    monkeypatch.delenv("FOVEATE_TOKEN", raising=False)
    monkeypatch.setattr(sys, "argv", ["foveate", "serve", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert words in error
    assert "Traceback" not in error


def test_a_port_that_is_in_use(monkeypatch, capsys):
    from foveate.cli import main

    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        monkeypatch.setattr(sys, "argv", ["foveate", "serve", "--port", port])
        with pytest.raises(SystemExit) as stop:
            main()
    assert stop.value.code == 2
    assert f"{port} cannot be used" in capsys.readouterr().err


def test_models_and_libraries_that_are_not_there(monkeypatch, capsys, tmp_path, model):
    from foveate.cli import main

    (tmp_path / "empty").mkdir()
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "config.json").write_text('{"model_type": "tree_bert"}')
    for arguments in (
        ["--model", str(tmp_path / "empty")],
        ["--model", str(damaged)],
        ["--library", str(tmp_path / "none"), "--model", model],
    ):
        monkeypatch.setattr(sys, "argv", ["foveate", "serve", "--port", "0", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == 2
        assert str(tmp_path) in capsys.readouterr().err


def test_starting_and_stopping(model):
    """Ctrl-C ends other commands at once; this one says that it was interrupted once it is done."""
    process = serve("--port", "0", "--model", model, FOVEATE_TOKEN="a-token-of-many-characters")
    try:
        line = process.stdout.readline()
        url = re.fullmatch(r"foveate serves (http://127\.0\.0\.1:\d+)\n", line)[1]
        with urllib.request.urlopen(f"{url}/healthz") as answer:
            assert b'"needs_token":true' in answer.read()
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert error == "foveate: interrupted\n"
    assert process.returncode == 130


def test_answers_do_not_wait_for_acknowledgements():
    from foveate.service.server import listen

    with listen("127.0.0.1", 0) as opened, socket.create_connection(opened.getsockname()):
        connection, _ = opened.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
