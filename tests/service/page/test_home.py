"""The first view, which searches and asks the whole library."""

import re

from playwright.sync_api import expect

from tests.service.page.conftest import upload, violations

FOUND = """() => [...CSS.highlights.get("query")].map(
    ({ startContainer: node, startOffset, endOffset }) => node.data.slice(startOffset, endOffset)
)"""


def test_library_is_searched_with_the_keyboard(home):
    """From the first view to a document, and back to the results."""
    press = home.keyboard.press
    press("/")
    query = home.get_by_label("Search for")
    expect(query).to_be_focused()
    home.keyboard.type("who counts the larvae of eels?")
    press("Enter")
    results = home.locator("#search-list .go")
    expect(results.first).to_be_focused()
    press("ArrowDown")
    expect(results.nth(1)).to_be_focused()
    press("ArrowUp")
    press("ArrowUp")
    expect(query).to_be_focused()
    expect(results.first).to_contain_text("Fish of the Sea")
    assert violations(home) == []

    press("ArrowDown")
    words = results.first.locator(".words").inner_text()
    press("Enter")
    current = home.locator("#text .current")
    expect(current).to_be_focused()
    assert current.inner_text() in words
    expect(home.get_by_label("Search for")).to_have_value("who counts the larvae of eels?")
    expect(home.get_by_role("tab", name="Search")).to_have_attribute("aria-selected", "true")
    found = home.evaluate(FOUND)
    assert {word.lower() for word in found} == {"larvae", "eel"}
    home.get_by_title("All documents").click()
    expect(home.get_by_role("heading", name="Read a long document")).to_be_focused()
    expect(results.first).to_be_visible()
    expect(home.get_by_role("tab", name="Summary")).to_be_hidden()


def test_library_is_asked(home):
    home.get_by_role("tab", name="Search").press("ArrowLeft")
    expect(home.get_by_role("tab", name="Ask")).to_be_focused()
    home.get_by_label("Question").fill("When do herring come in shoals?")
    passages = home.locator("#ask-list li")
    first = passages.filter(has_text="They come in May.")
    assert first.locator(".source").inner_text() == "shoals.txt"  # which has no title
    expect(passages.filter(has_text="Fish of the Sea").first).to_be_visible()
    first.get_by_role("button").first.click()
    expect(home.locator("#title")).to_have_text("shoals.txt")
    expect(home.locator("#text [data-mark]").first).to_be_attached()
    home.get_by_role("tabpanel").get_by_label("in", exact=True).select_option("this document")
    expect(passages.locator(".source")).to_have_count(0)
    home.get_by_title("All documents").click()
    home.get_by_role("button", name="Salt", exact=False).last.click()
    expect(home.locator("#title")).to_have_text("Salt")
    expect(home.get_by_label("Question")).to_have_value("When do herring come in shoals?")


def test_documents_are_opened_with_their_summary(home):
    home.get_by_label("Find documents by title or name").fill("shoals")
    rows = home.locator("#library-list li")
    expect(rows).to_have_count(1)
    expect(rows.locator(".name")).to_have_text("shoals.txt")
    rows.get_by_role("button").click()
    expect(home.locator("#summary-list li").first).to_be_visible()


def test_what_is_probably_not_there(home):
    """As the service says of each hit; where one is likely, nothing is shown."""
    home.get_by_label("Search for").fill("how do cod swim?")
    note = home.locator("#search-note")
    expect(note).to_have_text(re.compile(r"^\s*\d+ results, best first\.$"))
    home.get_by_label("Search for").fill("the capital of Australia")
    expect(note).to_have_text(re.compile(r"^Probably not in this library\. \d+ results"))
    upload(home, "Cod swim. They eat herring.")
    home.get_by_role("tab", name="Ask").click()
    home.get_by_label("Question").fill("capital of Australia")
    expect(home.locator("#ask-note")).to_have_text(re.compile("^Probably not in this document. "))
    assert violations(home) == []


def test_without_a_library(page, address):
    """There is nothing to search until a document is open."""
    empty = {"total": 0, "documents": []}
    page.route("**/documents?*", lambda route: route.fulfill(json=empty))
    page.goto(address)
    expect(page.get_by_role("button", name="Choose files")).to_be_visible()
    expect(page.get_by_label("Search for")).to_be_hidden()
    upload(page, "Cod swim. They eat herring.")
    page.get_by_role("tab", name="Search").click()
    page.get_by_label("Search for").fill("herring")
    expect(page.locator("#search-list li").first).to_be_visible()
    expect(page.get_by_role("tabpanel").get_by_label("in", exact=True)).to_be_hidden()
    page.get_by_title("All documents").click()
    expect(page.locator("#uploads-list li")).to_be_visible()
    expect(page.get_by_role("alert")).to_be_hidden()
    expect(page.get_by_label("Search for")).to_be_hidden()
