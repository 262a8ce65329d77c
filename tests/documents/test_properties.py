"""What holds for any text in any format."""

import json
from contextlib import suppress
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from foveate.documents import FORMATS, Document, DocumentError
from foveate.documents.blocks import MappedText, Prose
from foveate.documents.readers.speech.fillers import clean
from tests.documents.packages import docx, epub, odt

MARKUP = {
    "text": [
        *("CHAPTER I", "1 One", "2 Two", "===", "CONTENTS", "CAPITALS HERE", "Abstract"),
        *("1. ", "2. ", "- ", "a) ", "$ ls -l", "[1] ", "§ 3", "第一章", "。", "「", "」", "  "),
    ],
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
    "transcript": [
        *("Ann: ", "Bob Lee: ", "[00:01] ", "um, ", "Mm-hmm.", "[laughter]", "{gap}"),
        *("\nBob Lee  0:12\n", "\nQ. ", "\nA. ", "\nTHE COURT: ", "\n12/03/24, 14:05 - Ann: "),
    ],
    "srt": [
        "\n\n1\n00:00:01,000 --> 00:00:02,000\n",
        "<i>",
        "- ",
        "ANN: ",
        "{\\an8}",
        "[sea]",
        "um",
    ],
    "vtt": ["WEBVTT", "\n\n00:01.0 --> 59:02.0 x\n", "<v Ann>", "</v>", "&amp;", "&#0;", "<c.a>"],
    "latex": [
        *("\\section{", "\\begin{itemize}", "\\end{itemize}", "\\item ", "\\footnote{", "}", "{"),
        *(
            "\\begin{tabular}{ll}",
            "\\end{tabular}",
            "&",
            "\\\\",
            "$",
            "\\[",
            "\\]",
            "%",
            "\\'",
            "[",
            "]",
        ),
        *(
            "\\def\\a{",
            "\\a",
            "\\verb|",
            "\\begin{verbatim}",
            "\\end{verbatim}",
            "\\title{",
            "~",
            "--",
        ),
    ],
}
PACKED = {
    "docx": (
        docx,
        "<w:p>{}</w:p> <w:r><w:t>{}</w:t></w:r> <w:tbl>{}</w:tbl> <w:tr>{}</w:tr> <w:tc>{}</w:tc> "
        "<w:pPr><w:pStyle/></w:pPr> <w:br/> <w:txbxContent>{}</w:txbxContent> <w:ins>{}</w:ins>",
    ),
    "odt": (
        odt,
        "<text:p>{}</text:p> <text:h>{}</text:h> <text:list>{}</text:list> "
        "<text:note>{}</text:note> <text:list-item>{}</text:list-item> <text:s/> "
        "<table:table>{}</table:table> <table:table-row>{}</table:table-row> "
        "<table:table-cell>{}</table:table-cell>",
    ),
    "epub": (
        lambda body: epub({"1.xhtml": body, "2.xhtml": f"<p>{body}</p>"}),
        "<p>{}</p> <h1>{}</h1> <h2>{}</h2> <table>{}</table> <tr>{}</tr> <td>{}</td> <ul>{}</ul> "
        "<li>{}</li> <br/> <div>{}</div> <p> &amp;",
    ),
    "rtf": (
        lambda body: f"{{\\rtf1 {body}}}".encode("ascii", "replace"),
        r"\par \pard \intbl \cell \row \trowd\trhdr \outlinelevel1 {{{}}} {{\footnote_{}}} { } \s1 "
        r"\'e4 \u8217? \u55357? {{\field_{}}} {{\pntext_1.\tab}} \line",
    ),
}
COMPOSED = ("latex", "rst")  # formats whose documents have a text of their own
LETTERS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)


@cache  # to make a strategy takes longer than to read what it draws
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
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_spans_are_sorted_non_overlapping_and_inside(format, data):
    text = data.draw(texts(format))
    document = read(text, format)
    if document is None:
        return
    assert document.text == text or format in COMPOSED
    listings = {
        one for part in document.paragraphs() if part.kind == "code" for one in part.sentences
    }
    end = 0
    for sentence in document.sentences():
        assert end <= sentence.start < sentence.end <= len(document.text)
        shown = " ".join(sentence.text.split())
        assert sentence.text == shown != "" or sentence in listings
        end = sentence.end
        if format in ("text", "latex"):
            written = document.text[sentence.start : sentence.end]
            written = written.replace("\xad", "")  # soft hyphens are not shown
            assert "".join(written.split()) == "".join(sentence.text.split())
    assert Document.from_dict(json.loads(json.dumps(document.to_dict()))) == document


MAIL = ["From: a@b.c\n", "Subject: x\n", "\n\n", "> ", "On 1 Jan a@b wrote:\n", "-- \n", "\nFrom "]


@given(text=st.lists(st.one_of(st.sampled_from(MAIL), LETTERS), max_size=20).map("".join))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_mail_is_composed_of_its_sentences(text):
    try:
        document = Document.from_bytes(f"From: a@b.c\n{text}".encode(), format="email")
    except DocumentError:
        return
    end = 0
    for sentence in document.sentences():
        assert end <= sentence.start < sentence.end
        assert document.text[sentence.start : sentence.end] == sentence.text
        end = sentence.end


@given(data=st.binary(max_size=200), name=st.sampled_from([*FORMATS, None]))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_bytes_are_a_document_or_a_sentence_of_explanation(data, name):
    with suppress(DocumentError, ImportError):
        Document.from_bytes(data, format=name)


@cache
def bodies(format):
    """Markup in any nesting around words, mostly well-formed."""
    markup = [piece.replace("_", " ") for piece in PACKED[format][1].split(" ")]
    words = st.sampled_from(["Word ", "One two. Three", "450 ", "Item: "])
    pieces = words | st.text("ab.é\n<", max_size=3)
    return st.recursive(
        pieces,
        lambda inner: st.lists(
            st.builds(
                lambda outer, body: outer.replace("{}", body) if "{}" in outer else outer + body,
                st.sampled_from(markup),
                inner,
            ),
            max_size=4,
        ).map("".join),
        max_leaves=25,
    )


@pytest.mark.parametrize("format", PACKED)
@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_sentences_of_composed_texts_stand_at_their_spans(format, data):
    make, _ = PACKED[format]
    try:
        document = Document.from_bytes(make(data.draw(bodies(format))), format=format)
    except DocumentError:
        return
    end = 0
    for sentence in document.sentences():
        assert end <= sentence.start < sentence.end <= len(document.text)
        assert document.text[sentence.start : sentence.end].split() == sentence.text.split()
        end = sentence.end
    assert all(span.place for span in document.spans())
    assert all(one.start < other.start for one, other in pairwise(document.landmarks))
    assert Document.from_dict(json.loads(json.dumps(document.to_dict()))) == document


@given(LETTERS.filter(str.strip))
@example("UH{")
def test_plain_text_reads_the_same_in_html_xml_and_json(letters):
    escaped = letters.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    shown = "".join(letters.split())
    html = read(f"<p>{escaped}</p>", "html")
    meeting = read(json.dumps({"turns": [{"speaker": "A", "text": letters}]}), "json")
    jats = read(f"<article><body><p>{escaped}</p></body></article>", "jats")
    # A meeting leaves out fillers, such as "uh".
    [turn], _ = clean([Prose(MappedText.from_text(letters))])
    spoken = "".join(str(turn.text).split())
    for document, expected in ((html, shown), (meeting, spoken), (jats, shown)):
        if document is not None:
            assert "".join(s.text for s in document.sentences()).replace(" ", "") == expected


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.too_slow])
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
