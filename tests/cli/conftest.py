import io
import sys

import pytest

from foveate.cli import main

FISH = """# Fish

## Cod

Cod swim in cold seas. They eat small fish. Fishermen catch them with nets.

## Eel

Eels are long. Nobody has seen them breed.
"""


@pytest.fixture
def foveate(capsys, monkeypatch):
    """Run the command; give exit code, standard output and standard error."""

    def run(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "argv", ["foveate", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()  # what preparing a test has printed
        with pytest.raises(SystemExit) as stopped:
            main()
        output = capsys.readouterr()
        return stopped.value.code or 0, output.out, output.err

    return run


@pytest.fixture
def fish(tmp_path):
    file = tmp_path / "fish.md"
    file.write_text(FISH)
    return file
