"""Detection of a text's language."""

import tempfile

import pytest

from foveate.documents import Document, language, read_documents
from foveate.documents.language import detect_language

TEXTS = {
    "en": "The cod is a fish of cold seas, and nobody knows why it was cheap in those years.",
    "de": "Der Kabeljau ist ein Fisch kalter Meere, und niemand weiß, warum er so billig war.",
    "fr": "La morue est un poisson des mers froides, et personne ne sait pourquoi.",
    "es": "El bacalao es un pez de mares fríos, y nadie sabe por qué era tan barato.",
    "zh": "鳕鱼是冷海里的鱼，没有人知道它为什么那么便宜。这是一个谜。",
    "ja": "タラは冷たい海の魚です。なぜ安かったのかは誰も知りません。",
}


@pytest.mark.parametrize("language", TEXTS)
def test_the_language_is_detected(language):
    assert detect_language(TEXTS[language]) == language
    assert Document.from_text(TEXTS[language]).language == language


@pytest.mark.parametrize(
    ("language", "text"),
    [
        (
            "ru",
            "Завод построен в 1905 г. в г. Туле инженером И. И. Ивановым. Он стоит на ул. Мира.",
        ),
        ("pt", "O Sr. Costa mora na av. Central, n.º 5. A Dra. Lima leu as págs. 3 a 5."),
        (
            "es",
            "La presa la construyó el Ing. Pérez en la Av. Sur núm. 5, cf. págs. 12 y 13. "
            "Nadie lo sabe hoy.",
        ),
    ],
)
def test_short_texts_in_languages_with_relatives(language, text):
    assert detect_language(text) == language


def test_a_short_text_in_chinese():
    text = "这座桥建于十九世纪。它的支座已经磨损,明年必须更换。修缮费用约为四十五万欧元。"
    assert detect_language(text) == "zh"


@pytest.mark.parametrize("text", ["", "Fisch.", "x = y + 1; " * 50, "123 " * 1000])
def test_texts_that_say_too_little_count_as_english(text):
    assert detect_language(text) == "en"


ENGLISH = (
    "They have read that the cod, which were cheap in those years, have been fished from here. "
    "Its price should have told them of it, with the ships that are lost, and their crews. "
)
GERMAN = (
    "Der Kabeljau, der in jenen Jahren so billig war, wurde auf dieser Bank gefangen. Der Preis "
    "haette es ihnen sagen sollen, und die Schiffe, die verloren gingen, samt ihrer Mannschaft. "
)


def test_english_needs_no_model(monkeypatch):
    monkeypatch.setattr(language, "_identifier", None)
    for text in (ENGLISH, ENGLISH * 50, ENGLISH.upper(), f"Abadejo, façade. {ENGLISH * 9}"):
        assert detect_language(text) == "en"


@pytest.mark.parametrize(
    "text",
    [
        GERMAN,
        ENGLISH + 9 * GERMAN,
        9 * GERMAN + ENGLISH,
        2 * GERMAN + ENGLISH + 2 * GERMAN,
        f"{GERMAN} Sie lasen The Lord of the Rings, das Buch, und With the Beatles. {GERMAN}",
    ],
)
def test_texts_that_are_partly_english(text):
    assert detect_language(text) == "de"


def test_other_scripts_with_english_names():
    text = f"{TEXTS['zh'] * 3} (They have read that the cod are from this bank.) {TEXTS['zh']}"
    assert detect_language(text) == "zh"


def test_a_given_language_is_kept():
    assert Document.from_text(TEXTS["fr"], language="de").language == "de"


def test_markup_does_not_decide():
    text = "".join(f"<p class='navigation'>{word}</p>" for word in TEXTS["de"].split(", "))
    assert Document.from_text(text, format="html").language == "de"


def test_a_lack_of_room_for_temporary_files_is_not_blamed_on_a_file(tmp_path, monkeypatch):
    def fail(**options):
        raise OSError(28, "No space left on device")

    (tmp_path / "kabeljau.txt").write_text(TEXTS["de"])
    monkeypatch.setattr(tempfile, "TemporaryFile", fail)
    failures = []
    language._identifier.cache_clear()
    with pytest.raises(ValueError, match=r"No space left on device\): free some space .* TMPDIR"):
        list(read_documents(tmp_path, on_error=lambda *failure: failures.append(failure)))
    assert failures == []
