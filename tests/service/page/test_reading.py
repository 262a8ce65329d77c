"""Opening documents, and what the page shows of them."""

import io
import re

import pytest
from playwright.sync_api import expect

from tests.service.page.conftest import FISH, PDF, upload, violations, without_summary

LONG = "# Log\n\n" + "\n\n".join(
    f"## Day {day}\n\nThe ship sails on day {day}. The wind is fair. The crew mends a net."
    for day in range(1, 201)
)


def test_upload_shows_outline_and_text(home):
    upload(home, FISH)
    expect(home.locator("#title")).to_have_text("Fish of the Sea")
    expect(home.locator("#facts")).to_contain_text("11 sentences")
    names = home.locator("#outline-list .name").all_inner_texts()
    assert [name for name in names if name != "Beginning"][-3:] == ["Cod", "Eel", "Boats"]
    expect(home.locator("#text h2, #text h3").last).to_have_text("Boats")
    expect(home.locator("#text .sentence").last).to_have_text("The owner pays the crew.")


def test_dropped_file_is_opened(home):
    home.evaluate(
        """(text) => {
            const dataTransfer = new DataTransfer();
            dataTransfer.items.add(new File([text], "dropped.md"));
            const options = { dataTransfer, bubbles: true, cancelable: true };
            for (const type of ["dragover", "drop"]) {
                document.body.dispatchEvent(new DragEvent(type, options));
            }
        }""",
        FISH,
    )
    expect(home.locator("#title")).to_have_text("Fish of the Sea")


def test_pasted_text_is_opened_and_removed(home):
    home.get_by_text("Paste text").click()
    home.get_by_label("Title (optional)").fill("Notes")
    home.get_by_label("Text", exact=True).fill("Cod swim. They eat herring.")
    home.get_by_role("button", name="Read it").click()
    expect(home.locator("#title")).to_have_text("Notes")
    expect(home.locator("#text .sentence")).to_have_text(["Cod swim.", "They eat herring."])

    home.get_by_title("All documents").click()
    row = home.locator("#uploads-list li")
    expect(row).to_contain_text("Notes")
    row.get_by_role("button", name="Remove").click()
    expect(row).to_have_count(0)


def test_script_is_shown_as_text(home):
    script = "<script>window.wasRun = true</script>"
    image = '<img src="x" onerror="window.wasRun = true">'
    home.get_by_text("Paste text").click()
    home.get_by_label("Title (optional)").fill(f"Title {script}{image}")
    home.get_by_label("Text", exact=True).fill(f"Some {script} stands here. And {image} there.")
    home.get_by_role("button", name="Read it").click()
    expect(home.locator("#title")).to_have_text(f"Title {script}{image}")
    expect(home.locator("#text")).to_contain_text(script)
    expect(home.locator("#text")).to_contain_text(image)
    expect(home.locator("#summary-list li").first).to_contain_text("<")
    assert home.evaluate("window.wasRun") is None
    assert home.locator("#text img, #text script, #answers img, #answers script").count() == 0


def test_file_that_cannot_be_read_is_explained(home):
    home.set_input_files(
        "#file", {"name": "broken.pdf", "mimeType": "application/pdf", "buffer": b"%PDF-1.4 no"}
    )
    expect(home.get_by_role("alert")).to_contain_text("broken.pdf")
    home.set_viewport_size({"width": 390, "height": 800})
    dismiss = home.get_by_role("button", name="Dismiss")
    assert dismiss.bounding_box()["height"] < 40  # one line
    dismiss.click()
    expect(home.get_by_role("alert")).to_be_hidden()


def test_several_files_are_listed(home):
    files = [
        {"name": name, "mimeType": "text/plain", "buffer": text}
        for name, text in (("no.txt", b""), ("cod.txt", b"Cod swim."), ("nor.txt", b""))
    ]
    home.set_input_files("#file", files)
    expect(home.get_by_role("alert")).to_have_text(re.compile("no.txt is empty.*nor.txt is empty"))
    expect(home.locator("#uploads-list li")).to_contain_text(["cod.txt"])
    home.reload()
    expect(home.locator("#uploads-list li")).to_contain_text(["cod.txt"])
    home.get_by_role("button", name="Remove").click()
    expect(home.locator("#uploads")).to_be_hidden()
    home.reload()
    home.locator("#library-list li").first.wait_for()
    expect(home.locator("#uploads")).to_be_hidden()


def test_document_that_is_gone_is_explained(page, address):
    page.goto(f"{address}#document=nothing")
    expect(page.get_by_role("alert")).to_contain_text("no document")
    expect(page.get_by_role("heading", name="Read a long document")).to_be_visible()
    expect(page.locator("#library-list li")).to_have_count(3)


def test_click_leads_to_the_place_and_back(home):
    without_summary(home)
    upload(home, LONG)
    text = home.locator("#text")
    text.evaluate("element => { element.scrollTop = 1500 }")
    visible = home.locator("#outline-list [aria-current]")
    # The first text that is built there may be of another height than was estimated.
    expect(visible).to_have_text(re.compile(r"^Day 1\d,"))
    start = visible.text_content()

    home.get_by_role("button", name="Day 180").click()
    sentence = home.get_by_text("The ship sails on day 180.")
    expect(sentence).to_be_in_viewport()
    expect(sentence).to_have_class(re.compile("current"))
    assert "sentence=537" in home.url

    home.get_by_role("button", name="Back").click()
    expect(visible).to_have_text(start)
    assert 1000 < text.evaluate("element => element.scrollTop") < 2000
    home.get_by_role("button", name="Forward").click()
    expect(sentence).to_be_in_viewport()


def test_the_address_names_the_place(home):
    """Also one that was scrolled to or chosen, so that it survives a reload and can be shared."""
    without_summary(home)
    upload(home, LONG)
    text = home.locator("#text")
    text.evaluate("element => { element.scrollTop = 1500 }")
    home.wait_for_url("**&sentence=*")
    place = home.locator("#outline-list [aria-current]").text_content()
    home.reload()
    expect(home.locator("#outline-list [aria-current]")).to_have_text(place)
    expect(home.locator("#chosen")).to_be_hidden()

    sentence = text.locator(".sentence").nth(30)
    index = sentence.get_attribute("data-sentence")
    sentence.click()
    home.wait_for_url(f"**&sentence={index}")
    home.reload()
    expect(text.locator(".current")).to_have_attribute("data-sentence", index)
    expect(home.locator("#chosen")).to_be_visible()


def test_text_comes_when_the_connection_is_back(home):
    without_summary(home)
    upload(home, "\n\n".join(f"The ship sails on day {day}." for day in range(2000)))
    home.route("**/sentences*", lambda route: route.abort())
    text = home.locator("#text")
    text.press("End")
    expect(home.get_by_role("alert")).to_contain_text("does not answer")
    assert text.locator(".sentence").count() == 0
    home.unroute("**/sentences*")
    expect(text.locator(".sentence").last).to_have_text("The ship sails on day 1999.")
    expect(home.get_by_role("alert")).to_be_hidden()


def test_only_what_is_near_is_built(home):
    without_summary(home)
    upload(home, LONG)
    assert home.locator("#text .sentence").count() < 200
    home.locator("#text").press("End")
    expect(home.get_by_text("The ship sails on day 200.")).to_be_in_viewport()
    assert home.locator("#text .sentence").count() < 200


def test_pages_of_a_pdf_have_boxes_over_their_sentences(home):
    without_summary(home)
    home.set_input_files("#file", PDF)
    first = home.locator("[data-page='1']")
    home.wait_for_function(
        "() => document.querySelector('[data-page=\"1\"] img')?.naturalWidth > 600"
    )
    box = first.locator(".box:has([data-text^='The GIL is an obstacle to using multi-core CPUs'])")
    box.wait_for(state="attached")
    # On the paper, that sentence is in the left column, a third of the page down.
    sheet, place = first.locator(".sheet").bounding_box(), box.bounding_box()
    assert 0.05 < (place["x"] - sheet["x"]) / sheet["width"] < 0.5
    assert 0.2 < (place["y"] - sheet["y"]) / sheet["height"] < 0.45
    home.get_by_role("tab", name="Keywords").click()
    home.locator("#keywords-list button").first.click()
    expect(home.locator(".box[data-mark=keyword]").first).to_be_attached()
    assert violations(home) == []

    box.click(force=True)  # a word is over it
    expect(home.locator("#chosen-place")).to_have_text("Abstract, page 1")
    home.get_by_role("button", name="Text", exact=True).click()
    expect(home.locator("#text h2").first).to_have_text("Abstract")
    home.locator("#outline-list").get_by_text("Rejected Ideas").click()
    home.get_by_role("button", name="Pages", exact=True).click()
    expect(home.locator("[data-page='15'], [data-page='14']").first).to_be_in_viewport()

    number = home.get_by_label("Page", exact=True)
    expect(number).to_have_value(re.compile("1[45]"))
    expect(number).to_have_accessible_description(re.compile(r"of \d+"))
    number.fill("3")
    number.press("Enter")
    top = home.locator("#text").bounding_box()["y"]
    home.wait_for_function(
        "top => Math.abs(document.querySelector('[data-page=\"3\"]')"
        "?.getBoundingClientRect().top - top) < 2",
        arg=top,
    )
    expect(number).to_have_value("3")
    home.get_by_role("button", name="Text", exact=True).click()
    number.fill("5")
    number.press("Enter")
    expect(number).to_have_value("5")
    home.set_viewport_size({"width": 320, "height": 800})
    assert home.locator("#views").bounding_box()["height"] < 40  # one line
    assert home.locator(".tools").evaluate("element => element.scrollWidth") <= 320


def test_library_is_searched_and_read(home):
    rows = home.locator("#library-list li")
    expect(rows).to_have_count(3)
    home.get_by_label("Find documents by title or name").fill("salt")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("salt.md")
    rows.get_by_role("button").click()
    expect(home.locator("#title")).to_have_text("Salt")

    home.get_by_role("tab", name="Search").click()
    home.get_by_role("tabpanel").get_by_label("in", exact=True).select_option("the library")
    home.get_by_label("Search for").fill("larvae drift across the ocean")
    hit = home.locator("#search-list li").first
    expect(hit).to_contain_text("Fish of the Sea")
    hit.get_by_role("button").first.click()
    expect(home.locator("#title")).to_have_text("Fish of the Sea")
    expect(home.locator("#text .current")).to_have_text(re.compile("larvae"))
    home.go_back()
    expect(home.locator("#title")).to_have_text("Salt")


@pytest.fixture
def crew(home):
    """Open a PDF of two pages, with words at the right edge."""
    canvas = pytest.importorskip("reportlab.pdfgen.canvas")
    file = io.BytesIO()
    drawing = canvas.Canvas(file, pagesize=(400, 300))
    drawing.drawString(320, 250, "Cod swim.")
    drawing.drawString(40, 60, "Diesel is dear, and the harbour is small.")
    drawing.drawString(40, 45, "Trawlers drag a net behind them.")
    drawing.showPage()
    drawing.drawString(40, 250, "The owner pays the crew.")
    drawing.drawString(40, 235, "Nobody has seen a better crew.")
    drawing.save()
    without_summary(home)
    pdf = {"name": "crew.pdf", "mimeType": "application/pdf", "buffer": file.getvalue()}
    home.set_input_files("#file", pdf)
    home.locator("#text .sentence").first.wait_for(state="attached")
    return home


def test_a_hit_leads_to_the_page_that_it_names(crew):
    """Where a passage begins on a page, and what answers the question is on the next one."""
    crew.get_by_role("tab", name="Ask").click()
    crew.get_by_label("Question").fill("Who pays the crew?")
    first = crew.locator("#ask-list li").first
    expect(first.locator(".words")).to_contain_text("Diesel")
    expect(first.locator(".place")).to_have_text("page 2")
    for view in ("Pages", "Text"):
        crew.get_by_role("button", name=view, exact=True).click()
        first.get_by_role("button").first.click()
        expect(crew.locator("#text .current").first).to_be_in_viewport()
        expect(crew.get_by_label("Page", exact=True)).to_have_value("2")
    expect(crew.locator("#text .current")).to_have_text("The owner pays the crew.")


def test_pages_are_zoomed(crew):
    """A sentence at the side comes into sight when it is chosen."""
    text = crew.locator("#text")
    sheet = crew.locator("[data-page='1'] .sheet")

    def width() -> float:
        return sheet.bounding_box()["width"]

    start, room = width(), text.bounding_box()["width"]
    crew.get_by_role("button", name="Smaller").click()
    assert width() == pytest.approx(start / 1.25, abs=1)
    for _ in range(4):
        crew.get_by_role("button", name="Larger").click()
    assert width() == pytest.approx(start * 1.25**3, abs=1)
    expect(crew.locator("#status")).to_have_text(re.compile(r"\d+ percent"))
    expect(sheet).not_to_have_attribute("aria-busy", "true")  # its boxes are there
    expect(sheet.locator(".box").first).to_be_attached()
    text.evaluate("element => { element.scrollLeft = 0 }")
    for _ in range(3):
        text.press("ArrowRight")
    current = crew.locator(".box.current:has([data-text='Cod swim.'])")
    expect(current).to_be_in_viewport()
    assert text.evaluate("element => element.scrollLeft") > 0
    crew.get_by_role("button", name="Fit the width").click()
    assert room - 60 < width() < room


def test_narrow_windows_open_text(crew):
    crew.set_viewport_size({"width": 590, "height": 800})
    crew.reload()
    expect(crew.locator("#text .sentence").first).to_contain_text("Diesel")
    expect(crew.get_by_role("button", name="Larger")).to_be_hidden()
    crew.get_by_role("button", name="Pages", exact=True).click()
    expect(crew.locator("[data-page='1'] .box").first).to_be_attached()


def test_names_in_the_outline_are_whole(home):
    without_summary(home)
    name = "How the herring that swim in large shoals near the coast were counted"
    upload(home, f"# Sea\n\n## {name}\n\nIn May.\n\n## Cod\n\nIn June.")
    rows = home.locator("#outline-list .name")
    long, short = rows.filter(has_text="How the"), rows.filter(has_text="Cod")
    assert long.evaluate("name => name.scrollWidth <= name.clientWidth + 1")
    assert long.bounding_box()["height"] > 1.5 * short.bounding_box()["height"]


@pytest.mark.parametrize("answer", ["right", "none"])
def test_token_is_asked_for(page, address, answer):
    def check(route):
        if route.request.headers.get("authorization") == "Bearer right":
            route.continue_()
        else:
            route.fulfill(status=401, json={"detail": "Send a token."})

    page.route("**/documents*", check)
    page.goto(address)
    dialog = page.get_by_role("dialog")
    if answer == "none":
        dialog.get_by_role("button", name="Cancel").click()
        expect(page.get_by_role("alert")).to_have_text(re.compile("Send a token"))
        return
    dialog.get_by_label("Token").fill("wrong")
    dialog.get_by_role("button", name="Use it").click()
    expect(dialog).to_contain_text("not accepted")
    dialog.get_by_label("Token").fill("right")
    dialog.get_by_label("Token").press("Enter")
    expect(page.locator("#library-list li")).to_have_count(3)
    page.reload()
    expect(page.locator("#library-list li")).to_have_count(3)
