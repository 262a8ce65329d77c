"""What holds for any text in any format."""

import json
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foveate.documents import Document, DocumentError

MARKUP = {
    "text": ["CHAPTER I", "1 One", "2 Two", "===", "CONTENTS", "CAPITALS HERE", "Abstract"],
    "markdown": [
        *("# ", "## ", "* ", "> ", "`", "**", "[a](b)", "![", "&amp;", "\\", "---", "\t", "1. "),
        *("|a|b|\n|-|-|\n", "|", "\\|", "[^1]", "\n[^1]: ", "\n: ", "!!! note\n    ", "[!NOTE]"),
        *("<div>", "</div>", "<table><tr><td>", "<br>", "    "),
    ],
    "rst": [
        *("====", "* ", "``", "`a`_", "|x|", ".. note::", ":a:`b`", "\\", "::", "  ", "\t", "1. "),
        *("\n== ==\na  b\n== ==\n", "\n+---+\n| a |\n+---+\n", "\n.. [1] ", "\n.. [a] ", "\n:a: "),
        *(
            "\n.. csv-table:: x\n\n   a, b\n",
            "\n.. list-table::\n\n   * - a\n     - b\n",
            "\n-a  b\n",
        ),
    ],
    "html": [
        *("<p>", "</p>", "<h1>", "</h1>", "<div>", "<nav>", "<main>", "&eacute", "&#65;", "<!"),
        *("<table>", "<tr>", "<td rowspan=2>", "<th colspan=2>", "</table>", "<caption>", "<ol>"),
        *("<li>", "<dl>", "<dt>", "<dd>", "<pre>", "<br>", "<math><msup>", "<a href=x>", "<sup>"),
        *(
            "<div class=sidebar>",
            "<div class=footnotes>",
            "<ul class=references>",
            "<!--",
            "<article>",
        ),
    ],
    "transcript": ["Ann: ", "Bob Lee: ", "[00:01] "],
}
LETTERS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)


def texts(format):
    pieces = st.one_of(
        st.sampled_from(MARKUP[format]),
        st.sampled_from(["\n", "\n\n", " ", "\r\n", ". ", "Word", "One two. Three", "“", '"']),
        LETTERS,
    )
    return st.lists(pieces, max_size=30).map("".join)


def read(text, format):
    """The document, or nothing where there is a documented reason against it."""
    try:
        return Document.from_text(text, format=format)
    except DocumentError:
        return None


@pytest.mark.parametrize("format", MARKUP)
@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_spans_are_sorted_non_overlapping_and_inside(format, data):
    text = data.draw(texts(format))
    document = read(text, format)
    if document is None:
        return
    assert document.text == text
    end = 0
    for sentence in document.sentences():
        assert end <= sentence.start < sentence.end <= len(text)
        assert sentence.text == " ".join(sentence.text.split()) != ""
        end = sentence.end
        if format in ("text", "transcript"):
            assert " ".join(text[sentence.start : sentence.end].split()) == sentence.text
    assert Document.from_dict(json.loads(json.dumps(document.to_dict()))) == document


@given(LETTERS.filter(str.strip))
def test_plain_text_reads_the_same_in_html_xml_and_json(letters):
    escaped = letters.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    shown = "".join(letters.split())
    html = read(f"<p>{escaped}</p>", "html")
    meeting = read(json.dumps({"turns": [{"speaker": "A", "text": letters}]}), "json")
    jats = read(f"<article><body><p>{escaped}</p></body></article>", "jats")
    for document in (html, meeting, jats):
        if document is not None:
            assert "".join(s.text for s in document.sentences()).replace(" ", "") == shown


@given(data=st.data())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_merging_keeps_every_sentence_at_its_words(data):
    formats = data.draw(st.lists(st.sampled_from(sorted(MARKUP)), min_size=1, max_size=4))
    read_documents = [read(data.draw(texts(format)), format) for format in formats]
    documents = [document for document in read_documents if document is not None]
    if not documents:
        return
    merged = Document.merge(documents)
    expected = [(one, span) for one in documents for span in one.spans()]
    found = merged.spans()
    assert len(found) == len(expected)
    for (document, before), after in zip(expected, found, strict=True):
        assert (after.text, after.speaker) == (before.text, before.speaker)
        assert merged.text[after.start : after.end] == document.text[before.start : before.end]
        assert after.path[len(after.path) - len(before.path) :] == before.path
    assert all(one.end <= other.start for one, other in pairwise(found))
    assert Document.from_dict(merged.to_dict()) == merged
