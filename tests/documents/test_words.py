"""Tables of words."""

from importlib.resources import files

import pytest

from foveate.documents.words import load_words

TABLES = sorted(path.name for path in files("foveate.documents.words").iterdir())
KINDS = [name.removesuffix(".toml") for name in TABLES if name.endswith(".toml")]


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_can_be_read_and_says_where_its_words_are_from(kind):
    assert load_words(kind)
    written = files("foveate.documents.words").joinpath(f"{kind}.toml").read_text("utf-8")
    comments = [line for line in written.splitlines() if line.startswith("#")]
    assert kind == "formats" or any("Source: " in line for line in comments)
