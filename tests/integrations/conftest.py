import os

# Before Haystack is imported, which otherwise reports to its makers what is run.
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"

import pytest

from foveate import Index

FISH = """---
author: [Ada L, Ben M]
---

# Fish of the sea

## Species

Some fish are of use to people.

### Cod

The cod is a fish of cold seas. It eats herring. It was cheap once.

### Eel

The eel is a long fish. It was cheap once.

## Boats

Trawlers drag a net behind them. Diesel is dear.
"""


@pytest.fixture
def fish(tmp_path):
    file = tmp_path / "fish.md"
    file.write_text(FISH)
    return file


@pytest.fixture
def index(tmp_path, fish, small_encoder):
    """A library of the fish and a talk."""
    talk = tmp_path / "talk.vtt"
    talk.write_text("WEBVTT\n\n00:01.000 --> 00:03.000\n<v Ada>Where are the nets?\n")
    index = Index.create(tmp_path / "library", model=small_encoder)
    index.add([fish, talk])
    return index
