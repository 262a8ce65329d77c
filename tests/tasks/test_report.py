"""The HTML page of results."""

import re
from html.parser import HTMLParser

import pytest

from foveate import Document, Hit
from foveate.tasks import report
from foveate.tasks.report import write_report
from tests.cli.conftest import FISH

VOID = {"meta", "link", "br", "img", "input"}


class Page(HTMLParser):
    """Collects what a page holds; fails if its elements do not nest."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.texts = [], [], {}
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)


@pytest.fixture
def page(tmp_path):
    def write(documents, hits, heading="Search: cod", written=()):
        write_report(tmp_path / "page.html", heading, documents, hits, written)
        return Page((tmp_path / "page.html").read_text(encoding="utf-8"))

    return write


def hits_of(document, *texts):
    spans = {span.text: span for span in document.spans()}
    return [Hit(spans[text], spans[text], 0.5, 0) for text in texts]


FOUND = ("They eat small fish.", "Eels are long.")


def test_results_are_marked_in_their_place(page):
    document = Document.from_text(FISH, format="markdown")
    found = page(document, hits_of(document, *FOUND))
    assert found.texts["mark"] == list(FOUND)
    assert found.texts["h3"] == ["Cod", "Eel"]
    assert "Nobody has seen them breed." in "".join(found.texts["p"])


def test_every_link_leads_somewhere_and_nothing_is_loaded(page):
    document = Document.from_text(FISH, format="markdown")
    found = page(document, hits_of(document, *FOUND))
    names = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    links = [attributes["href"] for tag, attributes in found.elements if tag == "a"]
    assert len(names) == len(set(names))
    assert {"#result-1", "#result-2", "#entry-1", "#entry-2"} <= set(links)
    assert {link.removeprefix("#") for link in links} <= set(names)
    for tag, attributes in found.elements:
        assert tag not in ("script", "link", "img", "iframe")
        assert "src" not in attributes
    assert not re.search(r"url\(|@import", "".join(found.texts["style"]))
    labelled = {one.get("aria-labelledby") for _, one in found.elements} - {None}
    assert labelled <= set(names)


def test_text_is_escaped(page):
    text = 'The tag <script>alert(1)</script> & "quotes" are harmless here.'
    document = Document.from_sections("<b>Title</b>", [("<i>x</i>", text)])
    found = page(document, hits_of(document, text), '"><script>', ["<u>written</u>"])
    assert {"script", "b", "i", "u"}.isdisjoint(tag for tag, _ in found.elements)
    assert "".join(found.texts["mark"]) == text
    assert found.texts["h1"] == ['"><script>']


def test_only_documents_with_results_are_shown(page):
    cod = Document.from_sections("Cod", [("", "Cod swim in cold seas.")])
    eel = Document.from_sections("Eel", [("", "Eels are long.")])
    [long] = eel.spans()
    found = page([cod, eel], [Hit(long, long, 0.5, 1)])
    assert [one for tag, one in found.elements if tag == "article"] != []
    assert "Cod swim in cold seas." not in "".join(found.texts.get("p", []))
    assert found.texts["mark"] == ["Eels are long."]


def test_of_a_long_text_only_sections_with_results_are_shown(page, monkeypatch):
    monkeypatch.setattr(report, "MAX_CHARACTERS", 10)
    parts = [("One", "First.", [("Deep", "Second.")]), ("Two", "Third.")]
    document = Document.from_sections("Book", parts)
    found = page(document, hits_of(document, "Second."))
    assert found.texts["h3"] == ["One"]
    assert found.texts["h4"] == ["Deep"]
    assert "Third." not in "".join(found.texts["p"])
    links = [one["href"] for tag, one in found.elements if tag == "a"]
    names = [one.get("id") for _, one in found.elements]
    assert {link[1:] for link in links} <= set(names)


def test_two_results_in_one_sentence(page):
    document = Document.from_text(FISH, format="markdown")
    found = page(document, hits_of(document, FOUND[0], FOUND[0]))
    assert found.texts["mark"] == [FOUND[0]]
    assert {"result-1", "result-2"} <= {one.get("id") for _, one in found.elements}


def test_deep_sections_keep_their_level(page):
    parts = [("1", "One.", [("2", "Two.", [("3", "Three.", [("4", "Four.", [("5", "Five.")])])])])]
    document = Document.from_sections("Deep", parts)
    found = page(document, hits_of(document, "Five."))
    assert {"role": "heading", "aria-level": "7", "id": "document-1-4"} in [
        one for tag, one in found.elements if tag == "div"
    ]


def test_of_a_section_the_best_sentence_is_marked(page):
    document = Document.from_text(FISH, format="markdown")
    best = hits_of(document, FOUND[0])[0].best
    found = page(document, [Hit(document.section_spans()[0], best, 0.5, 0)])
    assert found.texts["mark"] == [FOUND[0]]
    assert FOUND[0] in found.texts["a"]
    assert "0.50 · line 5 · Cod" in found.texts["span"]


def test_nothing_found(page):
    document = Document.from_text(FISH, format="markdown")
    found = page(document, [], written=["A summary in other words."])
    assert "A summary in other words." in found.texts["p"]
    assert not [tag for tag, _ in found.elements if tag == "main"]
