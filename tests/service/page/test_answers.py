"""What the panel of answers shows, and what it marks in the text and the outline."""

import json
import re
import threading

from playwright.sync_api import expect

from tests.service.page.conftest import upload

NETS = "Fishermen catch it with nets."


def test_summary_has_the_length_of_the_slider(fish):
    results = fish.locator("#summary-list li")
    expect(results).to_have_count(5)
    expect(fish.locator("#text [data-mark=summary]")).to_have_count(5)
    slider = fish.get_by_label("Length")
    slider.press("ArrowLeft")
    slider.press("ArrowLeft")
    expect(fish.locator("#summary-length-value")).to_have_text("3 sentences")
    expect(results).to_have_count(3)
    texts = fish.locator("#summary-list .words").all_inner_texts()
    marked = fish.locator("#text [data-mark=summary]")
    assert marked.all_inner_texts() == texts  # both are in the document's order

    fish.get_by_label("About (optional)").fill("boats and their owners")
    expect(results.filter(has_text="pays the crew")).to_have_count(1)


def test_summary_sentence_leads_to_its_place(fish):
    result = fish.locator("#summary-list li").last
    words = result.locator(".words").inner_text()
    result.get_by_role("button").first.click()
    current = fish.locator("#text .current")
    expect(current).to_have_text(words)
    expect(current).to_be_focused()
    expect(current).to_be_in_viewport()


def test_search_as_one_types(fish):
    fish.get_by_role("tab", name="Search").click()
    fish.get_by_label("Search for").press_sequentially("catching fish with nets", delay=10)
    results = fish.locator("#search-list li")
    expect(results.first.locator(".words")).to_contain_text(NETS)
    nets = fish.locator("#text .sentence", has_text=NETS)
    expect(nets).to_have_attribute("data-mark", "best")
    shaded = fish.locator("#outline-list .row").evaluate_all(
        "rows => rows.map(row => [row.innerText.trim(), row.style.getPropertyValue('--match')])"
    )
    assert {match: name for name, match in shaded}["100%"].startswith(("Cod", "Boats"))

    fish.get_by_label("Find", exact=True).select_option("sections")
    expect(results.first.locator(".heading")).to_have_text(re.compile("Cod|Boats"))
    assert results.first.locator(".words > *").first.get_attribute("class") == "heading"

    fish.get_by_label("Search for").fill("FISH  is")
    fish.get_by_label("Find", exact=True).select_option("exact words")
    expect(results).to_have_count(0)
    fish.get_by_label("Search for").fill("IS A  fish")
    expect(results).to_have_count(1)
    expect(results.locator("strong")).to_have_text("is a fish")
    fish.get_by_label("Search for").fill("long fish")
    expect(fish.locator("#search-note")).to_have_text("1 result.")
    expect(fish.locator("#text [data-mark]")).to_have_text("The eel is a long fish.")
    fish.get_by_label("Search for").fill("")
    expect(results).to_have_count(0)
    expect(fish.locator("#text [data-mark]")).to_have_count(0)


def test_words_that_match_are_underlined(fish):
    fish.get_by_role("tab", name="Ask").click()
    fish.get_by_label("Question").fill("Who catches a net of crabs?")
    first = fish.locator("#ask-list li").first
    expect(first.locator(".match").first).to_be_visible()
    words = first.locator(".match").all_inner_texts()
    assert {*words} <= {*re.findall(r"\w+", first.locator(".words").inner_text())}
    best = fish.locator("#text .sentence", has_text=first.locator("strong").inner_text())
    expect(best.locator(".match")).to_have_text(words)
    decoration = "word => getComputedStyle(word).textDecorationLine"
    assert best.locator(".match").first.evaluate(decoration) == "underline"
    text = best.inner_text()
    fish.get_by_label("Question").fill("")
    expect(fish.locator("#text .match")).to_have_count(0)
    assert text in fish.locator("#text").inner_text()


def test_underlined_words_are_counted_in_characters(home):
    upload(home, "Let 𝒙𝒙𝒙 be the herring of the sea.", "x.txt")
    home.get_by_role("tab", name="Search").click()
    home.get_by_label("Search for").fill("herring")
    expect(home.locator("#search-list .match")).to_have_text(["herring"])
    expect(home.locator("#text .match")).to_have_text(["herring"])


def test_answers_that_are_out_of_date_are_dropped(fish):
    """The answer to the first query comes after that to the second one."""
    held, second_came = [], threading.Event()

    def delay(route):
        query = json.loads(route.request.post_data)["query"]
        if query == "diesel":
            held.append(route)
            return
        route.continue_()
        second_came.set()

    fish.route("**/search", delay)
    fish.get_by_role("tab", name="Search").click()
    fish.get_by_label("Search for").fill("diesel")
    expect(fish.locator("#search")).to_have_attribute("aria-busy", "true")
    reading = fish.locator("#search .waiting-note")
    expect(reading).to_be_visible()
    expect(fish.locator("#status")).to_have_text(re.compile("Still reading"))
    fish.get_by_label("Search for").fill("larvae")
    first = fish.locator("#search-list li").first
    expect(first).to_contain_text("larvae")
    expect(reading).to_be_hidden()
    assert second_came.is_set()
    assert len(held) == 1
    held[0].fulfill(json={"hits": [], "section_scores": None})
    fish.wait_for_timeout(200)
    expect(first).to_contain_text("larvae")
    expect(fish.locator("#search")).not_to_have_attribute("aria-busy", "true")


def test_question_marks_passages(fish):
    fish.get_by_role("tab", name="Ask").click()
    fish.get_by_label("Question").fill("Who pays the crew?")
    first = fish.locator("#ask-list li").first
    expect(first.locator("strong")).to_have_text("The owner pays the crew.")
    expect(fish.locator("#text [data-mark=best]").last).to_have_text("The owner pays the crew.")
    expect(fish.locator("#text [data-mark=passage]").first).to_be_attached()
    upload(fish, "Salt is white.", "salt.txt")
    expect(fish.get_by_label("Question")).to_have_value("")  # it was about fish
    expect(fish.locator("#ask-list li")).to_have_count(0)


def test_keyword_shows_its_places(fish):
    fish.get_by_role("tab", name="Keywords").click()
    chip = fish.locator("#keywords-list button").filter(has_text=re.compile("^fish"))
    chip.first.click()
    expect(chip.first).to_have_attribute("aria-pressed", "true")
    places = fish.locator("#keywords-places li")
    expect(places.first.locator("strong")).to_have_text(re.compile("fish", re.IGNORECASE))
    places.last.get_by_role("button").first.click()
    expect(fish.locator("#text .current")).to_have_attribute("data-mark", "keyword")


def test_copy_with_citation(fish):
    fish.locator("#text").get_by_text(NETS).click()
    fish.locator("#chosen").get_by_role("button", name="Copy with citation").click()
    expect(fish.locator("#status")).to_have_text("Copied.")
    copied = fish.evaluate("navigator.clipboard.readText()")
    assert re.fullmatch(rf"“{NETS}” \(Fish of the Sea, Cod, line 7\)", copied)

    fish.get_by_role("button", name="Copy all with citations").click()
    fish.wait_for_function(
        "async () => (await navigator.clipboard.readText()).split('\\n').length === 5"
    )


def test_service_that_is_busy_says_so(home):
    detail = "The service is busy: try again in 3 seconds."
    home.route("**/summarize", lambda route: route.fulfill(status=503, json={"detail": detail}))
    upload(home, "# Sea\n\nFish live in all seas.")
    expect(home.get_by_role("alert")).to_contain_text(detail)
    home.unroute("**/summarize")
    home.get_by_label("About (optional)").fill("fish")
    expect(home.locator("#summary-list li")).to_have_count(1)
    expect(home.get_by_role("alert")).to_be_hidden()
