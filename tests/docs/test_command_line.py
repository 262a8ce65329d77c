"""The page of the command line names the commands and options that there are; help has the rest."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from foveate.cli.app import app
from tests.paths import ROOT

PAGE = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `(foveate(?: [a-z]+)+)(.*)$", PAGE, re.MULTILINE))


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Visit the commands that help texts list."""
    if command.hidden:
        return
    if not hasattr(command, "commands"):
        yield name, command
        return
    for own_name, one in command.commands.items():
        yield from commands(one, f"{name} {own_name}")


COMMANDS = dict(commands(typer.main.get_command(app), "foveate"))


def options(name: str) -> list[Any]:
    return [one for one in COMMANDS[name].params if one.param_type_name == "option"]


def test_all_commands_are_in_the_table():
    assert set(ROWS) == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_options_that_the_table_names_exist(name):
    named = set(re.findall(r"(?<=[` ])--[\w-]+", ROWS[name]))
    assert named <= {option for one in options(name) for option in one.opts}


@pytest.mark.parametrize("name", COMMANDS)
def test_all_options_are_explained(name):
    assert COMMANDS[name].help
    assert all(one.help for one in options(name))


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_in_the_help_fit_a_terminal_of_80_columns(name):
    _, *paragraphs = COMMANDS[name].help.split("\n\n")  # the first one is wrapped
    assert paragraphs
    assert max(len(line) for text in paragraphs for line in text.splitlines()) <= 78


@pytest.mark.parametrize("name", COMMANDS)
def test_the_model_of_a_library_is_the_default_only_where_one_can_be_named(name):
    options = {one.opts[0]: one for one in COMMANDS[name].params}
    if "--model" in options:
        assert ("with a library" in options["--model"].help) == ("--library" in options)
