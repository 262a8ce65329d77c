"""Keyboards, screen readers, colors and narrow windows."""

import re

import pytest
from playwright.sync_api import expect

from tests.service.page.conftest import violations


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_has_no_serious_findings(fish, scheme):
    fish.emulate_media(color_scheme=scheme)
    assert violations(fish) == []
    fish.locator("#text").get_by_text("It eats herring and small crabs.").click()
    fish.get_by_role("tab", name="Search").click()
    fish.get_by_label("Search for").fill("fish")
    fish.locator("#search-list li").first.wait_for()
    assert violations(fish) == []
    fish.get_by_role("tab", name="Ask").click()
    fish.get_by_label("Question").fill("who pays the crew?")
    fish.locator("#ask-list li").first.wait_for()
    assert violations(fish) == []
    fish.get_by_role("tab", name="Keywords").click()
    fish.locator("#keywords-list button").first.click()
    fish.locator("#keywords-places li").first.wait_for()
    assert violations(fish) == []
    fish.get_by_title("All documents").click()
    fish.get_by_text("Paste text").click()
    assert violations(fish) == []


def background(page) -> int:
    """Return how light the page is, from 0 to 255."""
    color = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return max(map(int, re.findall(r"\d+", color)))


def test_dark_colors(home):
    home.emulate_media(color_scheme="light")
    assert background(home) > 200
    home.emulate_media(color_scheme="dark")
    assert background(home) < 60
    button = home.get_by_role("button", name="Dark colors")
    expect(button).to_have_attribute("aria-pressed", "true")
    button.click()
    assert background(home) > 200
    home.reload()
    expect(button).to_have_attribute("aria-pressed", "false")
    assert background(home) > 200


def test_what_is_printed(fish):
    """The answers in black on white, whatever the colors and the width of the window."""
    fish.emulate_media(media="print", color_scheme="dark")
    fish.set_viewport_size({"width": 600, "height": 800})
    expect(fish.locator("#summary-list li").last).to_be_visible()
    expect(fish.locator("#title")).to_be_visible()
    for part in ("#outline-list", "#text", "#summary-form", ".foot", "#theme", ".tabs"):
        expect(fish.locator(part).first).to_be_hidden()
    ink = fish.evaluate("getComputedStyle(document.body).color")
    assert max(map(int, re.findall(r"\d+", ink))) < 60
    assert fish.evaluate("document.documentElement.scrollWidth") <= 600


def focused(page, element: str, keys: str = "Tab") -> None:
    """Press a key until an element has the focus."""
    for _ in range(60):
        if page.evaluate("selector => document.activeElement.matches(selector)", element):
            return
        page.keyboard.press(keys)
    raise AssertionError(f"the focus does not come to {element}")


def test_keyboard_alone(home):
    """From the library to a place in the text, and a citation on the clipboard."""
    press = home.keyboard.press
    focused(home, "#library-list li:first-child .go")
    press("Enter")
    home.locator("#summary-list li").first.wait_for()

    press("/")
    expect(home.get_by_label("Search for")).to_be_focused()
    home.keyboard.type("who pays the crew?")
    expect(home.locator("#search-list li").first).to_contain_text("The owner pays the crew.")
    focused(home, "#search-list li:first-child .go")
    press("Enter")
    current = home.locator("#text .current")
    expect(current).to_be_focused()
    expect(current).to_have_text("The owner pays the crew.")
    press("ArrowLeft")
    expect(current).to_have_text("Diesel is dear, and the harbour is small.")
    expect(current).to_be_focused()
    focused(home, "#chosen-copy")
    press("Enter")
    expect(home.locator("#status")).to_have_text("Copied.")
    assert "Diesel is dear" in home.evaluate("navigator.clipboard.readText()")

    focused(home, "#search-tab")
    press("ArrowRight")
    press("ArrowRight")
    expect(home.get_by_role("tab", name="Keywords")).to_be_focused()
    expect(home.locator("#keywords-list button").first).to_be_visible()
    focused(home, "#outline-list .go", "Shift+Tab")
    press("Alt+ArrowLeft")
    expect(home.locator("#text")).to_be_visible()


def test_file_chooser_opens_from_the_keyboard(home):
    home.evaluate(
        """() => document.getElementById("file").addEventListener("click", (event) => {
            event.preventDefault();
            window.wasOpened = true;
        })"""
    )
    focused(home, "#choose")
    home.keyboard.press("Enter")
    home.wait_for_function("() => window.wasOpened")


def test_narrow_window_shows_one_panel(home):
    home.set_viewport_size({"width": 400, "height": 800})
    home.get_by_role("button", name="Fish of the Sea").click()
    text, answers = home.locator("#text"), home.locator("#answers")
    panels = home.get_by_role("navigation", name="Panels")
    expect(text).to_be_visible()
    expect(answers).to_be_hidden()
    panels.get_by_role("button", name="Answers").click()
    expect(text).to_be_hidden()
    home.locator("#summary-list li").last.get_by_role("button").first.click()
    expect(answers).to_be_hidden()
    expect(home.locator("#text .current")).to_be_in_viewport()
    panels.get_by_role("button", name="Outline").click()
    home.locator("#outline-list .go").filter(has_text="Cod").click()
    expect(home.locator("#text .current")).to_have_text("The cod is a fish of cold seas.")
    for name in ("Outline", "Text", "Answers"):
        panels.get_by_role("button", name=name).click()
        assert home.evaluate("document.documentElement.scrollWidth") <= 400
        assert violations(home) == []
