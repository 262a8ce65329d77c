"""The words on the pages of a PDF: selecting, copying and finding them."""

import io
import re

import httpx
import pytest
from playwright.sync_api import expect

from tests.service.page.conftest import PDF, violations, without_summary

FIND = "words => (getSelection().removeAllRanges(), find(words))"
COPIED = "navigator.clipboard.readText()"


def upload(address, data):
    """Send a PDF, and return the address of the page that shows it."""
    answer = httpx.post(f"{address}documents", files={"file": ("a.pdf", data)}, timeout=60)
    return f"{address}#document={answer.json()['id']}"


def open_without_summary(page, address):
    without_summary(page)
    page.goto(address)


def wait_for_words(page):
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


@pytest.fixture(scope="module")
def paper_address(address):
    """A paper of two columns."""
    return upload(address, PDF.read_bytes())


@pytest.fixture
def paper(page, paper_address):
    """Open the paper."""
    open_without_summary(page, paper_address)
    wait_for_words(page)
    return page


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


@pytest.mark.parametrize("turn", ["page", "words", "words upside down", "both"])
def test_words_are_in_their_places_on_turned_pages(page, address, turn):
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
    open_without_summary(page, upload(address, file.getvalue()))
    for width in (1280, 360):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_function(
            "width => document.querySelector('.sheet')?.clientWidth < width", arg=width
        )
        wait_for_words(page)
        for text, sentence in (("herring", 0), ("coast", 0), ("Fishermen", 1), ("May", 1)):
            inner = word(page, text).bounding_box()
            outer = page.locator(f".box[data-sentence='{sentence}']").bounding_box()
            for start, length in (("x", "width"), ("y", "height")):
                assert outer[start] - 2 < inner[start]
                assert inner[start] + inner[length] < outer[start] + outer[length] + 2
        word(page, "swims").dblclick()
        assert page.evaluate("String(getSelection())").strip() == "swims"


def test_pages_without_words(page, address):
    canvas = pytest.importorskip("reportlab.pdfgen.canvas")
    file = io.BytesIO()
    drawing = canvas.Canvas(file, pagesize=(400, 300))
    drawing.drawString(40, 220, "The herring swims in large shoals near the coast.")
    drawing.showPage()
    drawing.rect(40, 40, 100, 100, fill=1)
    drawing.save()
    open_without_summary(page, upload(address, file.getvalue()))
    empty = page.locator("[data-page='2'] .text-layer")
    expect(empty).to_be_attached()
    expect(empty).to_be_empty()
    expect(page.get_by_role("alert")).to_be_hidden()


def test_a_file_that_is_gone_is_said_once(page, paper_address):
    """The words are not asked for if the page cannot be drawn."""
    asked = []
    page.route("**/pages/1/text", lambda route: asked.append(1) or route.abort())
    page.route(
        "**/*.png?*", lambda route: route.fulfill(status=404, json={"detail": "It is gone."})
    )
    open_without_summary(page, paper_address)
    expect(page.get_by_role("alert")).to_have_text(re.compile("It is gone."))
    expect(page.locator("#text .sentence").first).to_be_attached()
    assert asked == []
