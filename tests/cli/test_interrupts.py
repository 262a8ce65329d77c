"""Ctrl-C, at whatever moment, and too little memory."""

import os
import signal
import subprocess
import sys

import pytest
import torch

from foveate.cli import main

CALL = "from foveate.cli import main; main()"


def interrupt(code, *arguments):
    """Run code that prints a line when Ctrl-C may come; give exit code, output and errors."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    os.kill(process.pid, signal.SIGINT)
    output, error = process.communicate(timeout=60)
    return process.returncode, output, error


def test_ctrl_c_is_one_line():
    code = (
        "import time, foveate.cli.app as app\n"
        "def run():\n"
        "    try: print('ready', flush=True); time.sleep(60)\n"
        "    finally: print('cleaned up', flush=True)\n"
        "app.run = run\n" + CALL
    )
    assert interrupt(code) == (130, "cleaned up\n", "foveate: interrupted\n")


def test_ctrl_c_while_native_code_runs():
    """A thread ends the process where Python would not get to handle the signal."""
    code = (
        "import threading, foveate.cli.app as app\n"
        "def run():\n"
        "    print('ready', flush=True)\n"
        "    while True:\n"
        "        try: threading.Event().wait(60)\n"
        "        except BaseException: pass\n"
        "app.run = run\n" + CALL
    )
    assert interrupt(code) == (130, "", "foveate: interrupted\n")


def test_a_document_is_not_left_half_written(tmp_path):
    code = (
        "import time, foveate.cli.app as app\n"
        "from foveate.files import atomic_write\n"
        "def run():\n"
        "    import sys\n"
        "    with atomic_write(sys.argv[1]) as path:\n"
        "        path.write_text('half'); print('ready', flush=True); time.sleep(60)\n"
        "app.run = run\n" + CALL
    )
    assert interrupt(code, tmp_path / "a.txt")[0] == 130
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes."),
    ],
)
def test_too_little_memory_is_one_sentence(foveate, fish, monkeypatch, error):
    def search(*arguments, **options):
        raise error

    monkeypatch.setattr("foveate.tasks.search.search", search)
    code, output, message = foveate("search", "cod", fish)
    assert (code, output) == (2, "")
    assert message.startswith("foveate: there is not enough memory: try ")
    assert message.count("\n") == 1


def test_other_errors_of_torch_are_not_hidden(fish, monkeypatch):
    def search(*arguments, **options):
        raise RuntimeError("the sizes of tensors must match")

    monkeypatch.setattr("foveate.tasks.search.search", search)
    monkeypatch.setattr(sys, "argv", ["foveate", "search", "cod", str(fish)])
    with pytest.raises(RuntimeError, match="must match"):
        main()
