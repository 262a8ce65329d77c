"""Notes and highlights of one's own."""

from pathlib import Path

from playwright.sync_api import expect

from tests.service.page.conftest import FISH, upload, violations, without_summary

HERRING = "It eats herring and small crabs."
LARVAE = "Its larvae drift across the ocean for two years."


def choose(page, text):
    page.locator("#text").get_by_text(text).click()


def test_notes_are_kept_and_exported(home):
    without_summary(home)
    upload(home, FISH)
    highlight = home.get_by_role("button", name="Highlight", exact=True)
    choose(home, LARVAE)
    highlight.click()
    expect(highlight).to_have_attribute("aria-pressed", "true")
    choose(home, HERRING)
    home.get_by_role("button", name="Note", exact=True).click()
    home.keyboard.type("How much? *Ask* them.")
    expect(home.locator("#text .noted")).to_have_text([HERRING, LARVAE])
    assert violations(home) == []

    with home.expect_download() as download:
        home.get_by_role("button", name="Save as Markdown").click()
    assert download.value.suggested_filename == "Fish of the Sea – notes.md"
    assert Path(download.value.path()).read_text() == (
        "# Notes on Fish of the Sea\n\nupload.md\n\n"
        f"> “{HERRING}” (Fish of the Sea, Cod, line 7)\n\nHow much? *Ask* them.\n\n"
        f"> “{LARVAE}” (Fish of the Sea, Eel, line 11)\n"
    )

    # A newer version of the file, in which one sentence has moved and the other is gone.
    upload(home, FISH.replace(HERRING, "It is big. It was cheap."))
    expect(home.locator("#text .noted")).to_have_text([LARVAE])
    notes = home.locator("#notes-list li")
    expect(notes).to_have_count(2)
    expect(notes.first.get_by_label("Note")).to_have_value("How much? *Ask* them.")
    notes.first.get_by_role("button", name="It eats herring").click()
    expect(home.get_by_role("alert")).to_contain_text("no longer has this sentence")
    notes.last.get_by_role("button", name="Its larvae").click()
    expect(home.locator("#text .current")).to_have_text(LARVAE)
    notes.first.get_by_role("button", name="Remove highlight").click()
    highlight.click()
    expect(notes).to_have_count(0)
    expect(home.locator("#text .noted")).to_have_count(0)
    assert home.evaluate("Object.keys(localStorage)") == []


def test_notes_belong_to_their_document(home):
    without_summary(home)
    upload(home, "Cod swim. They eat herring.", "cod.txt")
    choose(home, "Cod swim.")
    home.get_by_role("button", name="Highlight", exact=True).click()
    upload(home, "Cod swim. They are big.", "big.txt")
    expect(home.locator("#title")).to_have_text("big.txt")
    expect(home.locator("#text .noted")).to_have_count(0)
    home.go_back()
    expect(home.locator("#text .noted")).to_have_text(["Cod swim."])
