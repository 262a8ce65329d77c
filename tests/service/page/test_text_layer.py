"""The words on the pages of a PDF: selecting, copying and finding them."""

import io
import re

import pytest
from playwright.sync_api import expect

from tests.service.page.conftest import PDF, violations

FIND = "words => (getSelection().removeAllRanges(), find(words))"
COPIED = "navigator.clipboard.readText()"


def open_pdf(page, data):
    """Choose a PDF, and wait for its first page."""
    # Encoding a paper would take most of the time of all these tests.
    page.route("**/summarize", lambda route: route.fulfill(json={"text": "", "sentences": []}))
    file = {"name": "a.pdf", "mimeType": "application/pdf", "buffer": data}
    page.set_input_files("#file", file)
    page.locator("[data-page='1'] .text-layer").wait_for(state="attached")
    page.locator("[data-page='1'] .box").first.wait_for(state="attached")


def word(page, text):
    """Find a word on the pages."""
    return page.locator(".text-layer .line > span").filter(has_text=text).first


def drag(page, first, last):
    """Select with the mouse, from the beginning of a word to the end of another."""
    start, end = first.bounding_box(), last.bounding_box()
    page.mouse.move(start["x"] + 1, start["y"] + start["height"] / 2)
    page.mouse.down()
    page.mouse.move(end["x"] + end["width"], end["y"] + end["height"] / 2, steps=3)
    page.mouse.up()


@pytest.fixture
def paper(home):
    """Open a paper of two columns."""
    open_pdf(home, PDF.read_bytes())
    return home


def test_words_are_selected_and_copied(paper):
    """Across lines, with a word that was divided and one with a hyphen of its own."""
    drag(paper, word(paper, "opportuni"), word(paper, "internally"))
    expect(paper.locator("#chosen")).to_be_hidden()  # which a click would show
    paper.keyboard.press("Control+C")
    assert paper.evaluate(COPIED).strip() == (
        "opportunities for parallelism. For example, individual operations may be parallelized "
        "internally"
    )
    drag(paper, word(paper, "obstacle"), word(paper, "core"))
    paper.keyboard.press("Control+C")
    assert "obstacle to using multi-core" in paper.evaluate(COPIED)

    drag(paper, word(paper, "Motivation".upper()), word(paper, "concurrency"))
    paper.keyboard.press("Control+C")
    assert "\n" in paper.evaluate(COPIED)  # after a heading


def test_words_are_found_once(paper):
    for words in ("opportunities for parallelism", "The GIL is an obstacle to using multi-core"):
        assert paper.evaluate(FIND, words), words
        assert paper.evaluate("find", words) is False, words


def test_the_browser_may_scroll_to_what_it_finds(paper):
    paper.set_viewport_size({"width": 1280, "height": 500})
    paper.locator("#outline-list").get_by_text("Abstract").click()
    expect(paper.locator("#text .current").first).to_be_attached()
    found = word(paper, "inter-process")
    found.evaluate("element => element.scrollIntoView({ block: 'center' })")
    paper.wait_for_timeout(300)
    expect(found).to_be_in_viewport()


def test_what_is_selected_stays(paper):
    drag(paper, word(paper, "Neural"), word(paper, "multiple"))
    selected = paper.evaluate("String(getSelection())")
    text = paper.locator("#text")
    text.evaluate("element => { element.scrollTop = 9000 }")
    expect(paper.locator("[data-page='13']")).to_be_attached()
    expect(paper.locator("[data-page='2']")).to_have_count(0)
    assert paper.evaluate("String(getSelection())") == selected != ""


def test_sentences_under_the_words_are_still_clicked(paper):
    over = word(paper, "obstacle")
    over.hover()
    hovered = paper.locator(".box.hovered")
    expect(hovered).to_have_count(1)
    index = hovered.get_attribute("data-sentence")
    over.click()
    expect(paper.locator("#chosen-place")).to_have_text("Abstract, page 1")
    expect(paper.locator(".current").first).to_have_attribute("data-sentence", index)
    paper.locator("#text").press("ArrowRight")
    expect(paper.locator(".current:focus")).to_have_attribute("data-sentence", str(int(index) + 1))
    assert violations(paper) == []


@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("turn", ["page", "words", "words upside down", "both"])
def test_words_are_in_their_places_on_turned_pages(home, width, turn):
    """Within the boxes of their sentences, which are placed without the layer."""
    canvas = pytest.importorskip("reportlab.pdfgen.canvas")
    file = io.BytesIO()
    drawing = canvas.Canvas(file, pagesize=(400, 300))
    if turn in ("page", "both"):
        drawing.setPageRotation(90)
    if turn in ("words", "both"):
        drawing.translate(400, 0)
        drawing.rotate(90)
    if turn == "words upside down":
        drawing.translate(400, 300)
        drawing.rotate(180)
    drawing.setFont("Times-Roman", 11)
    drawing.drawString(40, 220, "The herring swims in large shoals near the coast.")
    drawing.drawString(40, 205, "Fishermen counted many of them in May.")
    drawing.save()
    home.set_viewport_size({"width": width, "height": 800})
    open_pdf(home, file.getvalue())
    for text, sentence in (("herring", 0), ("coast", 0), ("Fishermen", 1), ("May", 1)):
        inner = word(home, text).bounding_box()
        outer = home.locator(f".box[data-sentence='{sentence}']").bounding_box()
        for start, length in (("x", "width"), ("y", "height")):
            assert outer[start] - 2 < inner[start]
            assert inner[start] + inner[length] < outer[start] + outer[length] + 2
    word(home, "swims").dblclick()
    assert home.evaluate("String(getSelection())").strip() == "swims"


def test_pages_without_words(home):
    canvas = pytest.importorskip("reportlab.pdfgen.canvas")
    file = io.BytesIO()
    drawing = canvas.Canvas(file, pagesize=(400, 300))
    drawing.drawString(40, 220, "The herring swims in large shoals near the coast.")
    drawing.showPage()
    drawing.rect(40, 40, 100, 100, fill=1)
    drawing.save()
    open_pdf(home, file.getvalue())
    empty = home.locator("[data-page='2'] .text-layer")
    expect(empty).to_be_attached()
    expect(empty).to_be_empty()
    expect(home.get_by_role("alert")).to_be_hidden()


def test_a_file_that_is_gone_is_said_once(home):
    """The words are not asked for if the page cannot be drawn."""
    asked = []
    home.route("**/pages/1/text", lambda route: asked.append(1) or route.abort())
    home.route(
        "**/*.png?*", lambda route: route.fulfill(status=404, json={"detail": "It is gone."})
    )
    home.route("**/summarize", lambda route: route.fulfill(json={"text": "", "sentences": []}))
    home.set_input_files("#file", PDF)
    expect(home.get_by_role("alert")).to_have_text(re.compile("It is gone."))
    expect(home.locator("#text .sentence").first).to_be_attached()
    assert asked == []
