"""What a language model answers, on the page: its citations, and what it was shown."""

import pytest
from playwright.sync_api import expect

from foveate import LLM
from tests.llm import serving_llm
from tests.service.conftest import serving
from tests.service.page.conftest import FISH, violations

SAID = "Trawlers drag nets [9]. Whales sing [99]."


@pytest.fixture(scope="module")
def written_by(encoder):
    """A service with a language model; give its address, and the id of a document."""
    with serving_llm(SAID) as (url, _), serving(encoder, llm=LLM(url, "small")) as served:
        answered = served.client.post("/documents", files={"file": ("fish.md", FISH)})
        yield f"{served.url}/", answered.json()["id"]


@pytest.fixture
def answered(browser, written_by):
    address, document = written_by
    page = browser.new_page()
    page.goto(f"{address}#document={document}")
    page.get_by_role("tab", name="Ask").click()
    page.get_by_label("Question", exact=True).fill("What do trawlers drag?")
    page.get_by_role("button", name="Write an answer").click()
    page.locator(".map").wait_for()
    yield page
    page.close()


def test_citations_lead_to_their_places(answered):
    written = answered.locator("#ask-written .written")
    expect(written).to_contain_text("Trawlers drag nets")
    expect(written.locator(".missing")).to_have_text("99?")
    expect(written.locator(".weak")).to_contain_text("Whales sing")
    expect(written.locator(".weak")).not_to_contain_text("Trawlers")
    written.get_by_role("button", name="Source 9").click()
    current = answered.locator("#text .current")
    expect(current).to_be_focused()
    expect(current).to_contain_text("Trawlers drag a net behind them.")
    expect(current).to_have_attribute("data-mark", "best")


def test_the_map_tells_what_was_read(answered):
    expect(answered.locator(".map .note")).to_have_text("11 of 11 sentences read, 1 cited.")
    expect(answered.locator(".map .cited")).to_have_count(1)
    answered.get_by_label("Question", exact=True).fill("What do eels do?")
    expect(answered.locator("#ask-written")).to_be_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_answer_is_accessible(answered, scheme):
    answered.emulate_media(color_scheme=scheme)
    assert violations(answered) == []


def test_without_a_language_model_nothing_is_offered(fish):
    fish.get_by_role("tab", name="Ask").click()
    expect(fish.get_by_role("button", name="Write an answer")).to_be_hidden()
