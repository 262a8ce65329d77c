"""The reference page of the command line names the commands and options that there are."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from foveate.cli.app import app
from tests.paths import ROOT

PAGE = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+)\n\n((?:(?!## ).*\n)*)", PAGE, re.MULTILINE))
READING = "How files are read"


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


def option_names(text: str) -> set[str]:
    """Return the options that a section explains, and their short names."""
    named = re.findall(r"`(-\w|--[\w-]+)(?: [A-Z=/]+)?`", text)
    assert len(named) == len(set(named))
    return set(named)


def test_all_commands_are_explained():
    assert set(SECTIONS) == {READING, *COMMANDS}


@pytest.mark.parametrize("name", COMMANDS)
def test_all_options_are_explained(name):
    explained = option_names(SECTIONS[name])
    if "(#how-files-are-read)" in SECTIONS[name]:
        explained |= option_names(SECTIONS[READING]) - {"-"}
    options = [one for one in COMMANDS[name].params if one.param_type_name == "option"]
    assert explained == {option for one in options for option in one.opts}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_names_what_options_take_as_the_page_does(name):
    named = dict(re.findall(r"`(--[\w-]+) ([A-Z=/]+)`", SECTIONS[READING] + SECTIONS[name]))
    for option in COMMANDS[name].params:
        if option.param_type_name == "option" and option.metavar:
            assert option.metavar == named[option.opts[0]]


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_in_the_help_fit_a_terminal_of_80_columns(name):
    _, *paragraphs = COMMANDS[name].help.split("\n\n")  # the first one is wrapped
    assert paragraphs
    assert max(len(line) for text in paragraphs for line in text.splitlines()) <= 78


@pytest.mark.parametrize("name", COMMANDS)
def test_defaults_are_true(name):
    rows = re.findall(
        r"^\| `(--[\w-]+)[^|]*\|.*?; (?:by default `?(.+?)`?|(.+?) by default) \|$",
        SECTIONS[name],
        re.MULTILINE,
    )
    defaults = {one.opts[0]: one.default for one in COMMANDS[name].params}
    for option, text, number in rows:
        if defaults[option] is not None:
            assert str(defaults[option]) == (number or text)
        else:
            assert option in ("--sentences", "--model", "--device", "--limit", "--output")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_model_of_a_library_is_the_default_only_where_one_can_be_named(name):
    options = {one.opts[0]: one for one in COMMANDS[name].params}
    if "--model" in options:
        assert ("with a library" in options["--model"].help) == ("--library" in options)
