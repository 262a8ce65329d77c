import pytest

from foveate import Encoder, Index

PARTS = {
    "fish.md": "# Fish\n\n## Cod\n\nCod swim. They eat herring.\n\n## Eel\n\nEels are long.\n",
    "salt.txt": "Salt is white. It comes from the sea.\n",
    "deep/whale.md": "---\nauthors: [Ann Lee, Bo Ek]\ndate: 2020-03-31\n---\n\n"
    "# Whale\n\n## Food\n\nWhales eat krill. Herring are too small.\n",
    "talk.vtt": "WEBVTT\n\n00:01.000 --> 00:03.000\n<v Ada>Where are the nets?\n\n"
    "00:04.000 --> 00:06.000\n<v Ben>The nets are in the boat.\n",
}


@pytest.fixture(scope="session")
def small_encoder(small_model):
    return Encoder.from_pretrained(small_model)


@pytest.fixture
def folder(tmp_path):
    """A folder of files."""
    folder = tmp_path / "files"
    for name, text in PARTS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def index(tmp_path, small_encoder):
    """A library that does not exist yet."""
    return Index.create(tmp_path / "library", model=small_encoder)
