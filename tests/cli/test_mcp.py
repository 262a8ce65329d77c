"""What `foveate mcp` says before it serves; tests/test_mcp.py has the rest."""

import sys


def test_there_must_be_a_library(foveate, tmp_path):
    code, output, errors = foveate("mcp", "--library", tmp_path / "nothing")
    assert (code, output) == (2, "")
    assert errors.startswith(f"foveate: there is no library in {tmp_path / 'nothing'}: make one")
    assert errors.count("\n") == 1


def test_the_sdk_may_be_missing(foveate, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "foveate.mcp", raising=False)
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    code, output, errors = foveate("mcp", "--library", tmp_path)
    assert (code, output) == (2, "")
    assert "pip install 'foveate[mcp]'" in errors
    assert errors.count("\n") == 1


def test_a_library_is_required(foveate):
    code, _, errors = foveate("mcp")
    assert code == 2
    assert "--library" in errors


def test_an_address_that_others_reach_needs_a_token(foveate, tmp_path):
    code, _, errors = foveate("mcp", "--library", tmp_path, "--port", 0, "--host", "0.0.0.0")
    assert code == 2
    assert "give a token" in errors
    assert errors.count("\n") == 1
