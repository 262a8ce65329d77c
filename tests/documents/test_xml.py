"""JATS and TEI."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.documents import Document, DocumentError

JATS = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE article PUBLIC "-//NLM//DTD JATS v1.2//EN" "JATS-archivearticle1.dtd">
<article xmlns:mml="http://www.w3.org/1998/Math/MathML">
<front><journal-meta><p>Journal</p></journal-meta><article-meta>
<title-group><article-title>On <i>Things</i></article-title></title-group>
<abstract><p>Schön, that. It&nbsp;<b>is</b>.</p></abstract></article-meta></front>
<body><p>Lead.</p>
<sec><label>1</label><title>Methods &amp; more</title>
<p>See <xref>[1]</xref>. <fig><caption><title>F</title><p>Caption.</p></caption></fig>We &lt;
do <mml:math><mml:mi>x</mml:mi></mml:math>.</p>
<sec><title>Data</title><list><list-item><p>Item.</p></list-item></list></sec>
<p>After.</p></sec></body>
<back><ref-list><title>References</title><ref><p>Ref.</p></ref></ref-list></back>
</article>
"""

TEI = """\
<TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader>
<fileDesc><titleStmt><title>On Things</title></titleStmt></fileDesc>
<profileDesc><abstract><p>That.</p></abstract></profileDesc></teiHeader>
<text><body><div><head n="1">Methods</head><p>We <ref>[1]</ref> do<lb/>it.</p>
<figure><head>F</head><p>Caption.</p></figure>
<div><head>Verse</head><lg><l>One</l><l>two</l></lg></div></div></body>
<back><div><head>References</head><p>Ref.</p></div></back></text></TEI>
"""


def test_jats(outline):
    document = Document.from_text(JATS, format="jats")
    assert document.title == "On Things"
    assert outline(document) == [
        ("Abstract", ["Schön, that.", "It is."]),
        ("", ["Lead."]),
        ("Methods & more", ["See [1].", "F", "Caption.", "We < do x."]),
        ("Methods & more > Data", ["Item."]),
        ("Methods & more > ", ["After."]),
        ("References", ["Ref."]),
    ]


def test_tei(outline):
    document = Document.from_text(TEI, format="tei")
    assert document.title == "On Things"
    assert outline(document) == [
        ("Abstract", ["That."]),
        ("Methods", ["We [1] do it.", "F: Caption."]),
        ("Methods > Verse", ["One two"]),
    ]
    assert [span.place for span in document.spans()][1:] == [
        "paragraph 1",
        "paragraph 2",
        "paragraph 1",
    ]


@pytest.mark.parametrize(("text", "title"), [(JATS, "Abstract"), (TEI, "Abstract")])
def test_the_root_decides_what_an_xml_file_is(tmp_path, text, title):
    path = tmp_path / "paper.xml"
    path.write_text(text, encoding="utf-8")
    assert Document.from_file(path).sections[0].title == title


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE article [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>',
        '<!DOCTYPE article [<!ENTITY b SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE article [<!ENTITY % b SYSTEM "file:///etc/passwd"> %b;]>',
    ],
    ids=["expanding", "external", "parameter"],
)
def test_entity_declarations_are_refused(doctype):
    text = f"{doctype}<article><body><p>&b;</p></body></article>"
    with pytest.raises(DocumentError, match="XML entities, which is refused"):
        Document.from_text(text, format="jats")


def test_an_external_dtd_is_not_fetched(outline):
    text = '<!DOCTYPE article SYSTEM "file:///etc/passwd"><article><body><p>A.</p></body></article>'
    assert outline(Document.from_text(text, format="jats")) == [("", ["A."])]


def test_malformed_xml_is_refused():
    with pytest.raises(DocumentError, match=r"cannot be read as XML \(.* tag mismatch: .* line 2"):
        Document.from_text("<article>\n<body></p>", format="jats")


def kinds(document):
    return [(one.kind, [s.text for s in one.sentences]) for one in document.paragraphs()]


JATS_PARTS = """\
<article xmlns:mml="http://www.w3.org/1998/Math/MathML"><body><sec><title>Cod</title>
<p>As <fig><label>Fig. 1.</label><caption><p>A net.</p></caption></fig> shown, x is
<inline-formula><alternatives><tex-math>$x$</tex-math><mml:math><mml:msup><mml:mi>x</mml:mi>
<mml:mn>2</mml:mn></mml:msup></mml:math></alternatives></inline-formula>.
<disp-formula><mml:math><mml:mi>z</mml:mi></mml:math></disp-formula>
<fig><label>Fig. 2.</label><caption><title>A cod.</title><p>At dinner.</p></caption></fig>
<fn><label>a</label><p>Mostly.</p></fn>Then this.</p>
<table-wrap><label>Table 1</label><caption><title>Catch</title></caption><table><thead>
<tr><th rowspan="2">Fish</th><th colspan="2">Tons</th></tr><tr><th>1990</th>
<th>2000</th></tr></thead>
<tbody><tr><td>Cod<xref>a</xref></td><td>5</td><td>&lt; 6</td></tr></tbody></table>
<table-wrap-foot><fn id="a"><label>a</label><p>Live weight.</p></fn></table-wrap-foot></table-wrap>
<list><list-item><label>1)</label><p>Fry.</p></list-item></list>
<def-list><def-item><term>IUU</term><def>
<p>illegal fishing</p></def></def-item></def-list><code>for cod in sea:
    catch(cod)</code></sec></body>
<back><ack><p>Thanks.</p></ack><ref-list><title>References</title>
<ref><label>1</label><element-citation><person-group><name><surname>Lee</surname>
<given-names>A</given-names></name><name><surname>Ray</surname><given-names>B</given-names></name>
</person-group><year>1999</year><article-title>Of cod.</article-title><source>Fish</source>
<fpage>1</fpage><lpage>9</lpage><pub-id>x</pub-id></element-citation></ref>
<ref><label>[2]</label><mixed-citation><name><surname>Day</surname>,
<given-names>C.</given-names></name> (2000) Eels. Sea.</mixed-citation></ref></ref-list>
<fn-group><fn fn-type="conflict"><p>None.</p></fn><fn><p>A note.</p></fn></fn-group></back>
</article>
"""


def test_what_jats_knows_beside_paragraphs():
    document = Document.from_text(JATS_PARTS, format="jats")
    assert kinds(document) == [
        ("prose", ["As shown, x is x^2."]),
        ("caption", ["Fig. 1: A net."]),
        ("formula", ["z"]),
        ("caption", ["Fig. 2: A cod."]),
        ("caption", ["At dinner."]),
        ("footnote", ["a. Mostly."]),
        ("prose", ["Then this."]),
        ("caption", ["Table 1: Catch"]),
        ("table", ["Fish: Coda; Tons 1990: 5; Tons 2000: < 6"]),
        ("footnote", ["a. Live weight."]),
        ("item", ["1) Fry."]),
        ("prose", ["IUU: illegal fishing"]),
        ("code", ["for cod in sea:\n    catch(cod)"]),
        ("prose", ["Thanks."]),
        (
            "reference",
            ["1. Lee A, Ray B, 1999, Of cod. Fish, 1–9", "[2] Day, C. (2000) Eels. Sea."],
        ),
        ("footnote", ["None."]),
        ("footnote", ["A note."]),
    ]


TEI_PARTS = """\
<TEI><text><body><div><head>Cod</head><p>They swim<note place="foot">In shoals.</note> far.
<note place="foot" n="1">Mostly.</note></p>
<figure type="table"><head>Table 1 :</head><figDesc>Catch.</figDesc><table>
<row role="label"><cell>Fish</cell><cell>Tons</cell></row>
<row><cell>Cod</cell><cell><formula>5</formula> + 6 tons</cell></row></table></figure>
<list><item>Fry.</item></list></div></body><back><div type="references"><listBibl><biblStruct>
<analytic><title>Of cod</title><author><persName><forename>Ann</forename><surname>Lee</surname>
</persName></author></analytic><monogr><title>Fish</title><imprint><date>1999</date></imprint>
</monogr></biblStruct><bibl><author>Ray</author>, <title>Eels</title>.</bibl></listBibl></div>
</back></text></TEI>
"""


def test_what_tei_knows_beside_paragraphs():
    document = Document.from_text(TEI_PARTS, format="tei")
    assert kinds(document) == [
        ("prose", ["They swim far."]),
        ("footnote", ["In shoals."]),
        ("footnote", ["Mostly."]),
        ("caption", ["Table 1: Catch."]),
        ("table", ["Fish: Cod; Tons: 5 + 6 tons"]),
        ("item", ["Fry."]),
        ("reference", ["Of cod, Ann Lee, Fish, 1999", "Ray, Eels."]),
    ]
    assert document.sections[-1].title == "References"


NAMES = {
    "jats": "p sec title fig label caption table-wrap table thead tr td th fn list-item term def "
    "ref-list ref element-citation name surname italic disp-formula math msup mi break sup sub "
    "xref",
    "tei": "p div head figure figDesc table row cell note item listBibl biblStruct author lb "
    "formula",
}


@cache  # to make a strategy takes longer than to read what it draws
def trees(format):
    texts = st.sampled_from(["Cod. ", "one", " &amp; ", "\n", "Two: ", "3", "Eat it. Now"])
    names = st.sampled_from(NAMES[format].split())

    def around(content):
        return st.builds(lambda name, inner: f"<{name}>{inner}</{name}>", names, content)

    def extend(content):
        return around(st.lists(content, max_size=4).map("".join))

    return st.lists(st.recursive(texts, extend, max_leaves=25), max_size=6).map("".join)


def test_a_term_without_definition_stays_before_a_long_label():
    text = "<term>Cod. </term><ref><label>Eat it. Now. Eel. </label></ref><fig></fig><p>Ray. </p>"
    document = Document.from_text(f"<article><body>{text}</body></article>", format="jats")
    sentences = [sentence.text for sentence in document.sentences()]
    assert sentences == ["Cod.", "Eat it. Now. Eel.", "Ray."]


def test_a_label_within_a_paragraph_begins_another_one():
    text = "<p>Cod. Eat it. <list-item><label>Two</label>Ray. </list-item></p>"
    document = Document.from_text(f"<article><body>{text}</body></article>", format="jats")
    sentences = list(document.sentences())
    assert [sentence.text for sentence in sentences] == ["Cod.", "Eat it.", "Two.", "Ray."]


def test_a_table_whose_caption_stands_below_rows():
    rows = "<row><cell>Cod. </cell></row><head>Fish. All of it. </head>"
    rows += "<row><cell>Ray. </cell></row>"
    text = f"<TEI><text><body><table>{rows}</table></body></text></TEI>"
    sentences = list(Document.from_text(text, format="tei").sentences())
    assert [sentence.text for sentence in sentences] == ["Cod.", "Fish.", "All of it.", "Ray."]


def test_rows_in_the_caption_of_a_table_are_text_of_it():
    head = "<head><row>Cod. Cod. </row><cell>Eel. </cell>Ray. </head>"
    text = f"<TEI><text><body><table>{head}</table></body></text></TEI>"
    sentences = list(Document.from_text(text, format="tei").sentences())
    assert [sentence.text for sentence in sentences] == ["Cod.", "Cod.", "Eel.", "Ray."]


def test_a_reference_below_the_rows_of_a_table():
    table = "<table><row><cell>Cod. </cell></row><biblStruct>Ray. </biblStruct></table>"
    text = f"<TEI><text><body>{table}</body></text></TEI>"
    sentences = list(Document.from_text(text, format="tei").sentences())
    assert [sentence.text for sentence in sentences] == ["Cod.", "Ray."]


@pytest.mark.parametrize("format", NAMES)
@given(data=st.data())
def test_any_nesting_gives_sentences_in_order(format, data):
    inner = data.draw(trees(format))
    text = {
        "jats": f"<article><body>{inner}</body></article>",
        "tei": f"<TEI><text><body>{inner}</body></text></TEI>",
    }[format]
    try:
        document = Document.from_text(text, format=format)
    except DocumentError:
        return  # nothing to read
    end = 0
    for sentence in document.sentences():
        assert end <= sentence.start < sentence.end <= len(document.text)
        assert sentence.text == " ".join(sentence.text.split()) != ""
        end = sentence.end


@pytest.mark.parametrize("attribute", ["rend='sup'", "rendition='simple:superscript'"])
def test_superscripts_of_tei(attribute):
    tei = f"<TEI><text><body><p>It has 40 m<hi {attribute}>2</hi>.</p></body></text></TEI>"
    [sentence] = Document.from_text(tei, format="tei").sentences()
    assert sentence.text == "It has 40 m^2."


def test_a_term_within_a_sentence_is_a_word_of_it():
    jats = "<article><body><p>The <term>cod</term> swims.</p></body></article>"
    [sentence] = Document.from_text(jats, format="jats").sentences()
    assert sentence.text == "The cod swims."


def test_marks_of_footnotes_are_not_shown():
    written = '<p>See <xref>[1]</xref>. More<xref ref-type="fn" rid="f">a</xref>.</p>'
    document = Document.from_text(JATS.replace("<p>After.</p>", written), format="jats")
    assert "More." in [sentence.text for sentence in document.sentences()]


def test_a_formula_set_apart_within_a_sentence():
    fraction = "<math><mfrac><mi>a</mi><mi>b</mi></mfrac></math>"
    jats = (
        "<article><body><p>The rate<disp-formula><label>(1)</label><alternatives><tex-math>x"
        f"</tex-math>{fraction}</alternatives></disp-formula>holds.</p></body></article>"
    )
    [sentence] = Document.from_text(jats, format="jats").sentences()
    assert sentence.text == "The rate a/b holds."


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("cells [{2},{3}].", "cells [2,3]."),
        ("cells (see {2}, {3} and {4}).", "cells (see 2, 3 and 4)."),
        ("cells.<sup>{2},{3}</sup>", "cells."),
        ("cells<sup>[{2}]</sup>.", "cells."),
        ("cells <sup>({2})</sup>, too.", "cells, too."),
    ],
)
def test_references_in_brackets_are_kept(written: str, shown: str) -> None:
    for number in "234":
        written = written.replace(
            f"{{{number}}}", f'<xref ref-type="bibr" rid="B{number}">{number}</xref>'
        )
    text = f"<article><body><p>It lives in {written}</p></body></article>"
    document = Document.from_text(text, format="jats")
    assert [sentence.text for sentence in document.sentences()] == [f"It lives in {shown}"]


@pytest.mark.parametrize(
    "mark",
    [
        '<ref type="foot" target="#f">1</ref>',
        '<ref rend="superscript" target="#f">1</ref>',
        '<hi rend="sup"><ref target="#f">1</ref></hi>',
        '<ref type="bibr" target="#b0">1</ref>',
    ],
)
def test_marks_of_tei_are_no_part_of_a_sentence(mark):
    text = f"<TEI><text><body><div><p>As shown{mark}, it rose.</p></div></body></text></TEI>"
    document = Document.from_text(text, format="tei")
    assert [one.text for one in document.sentences()] == ["As shown, it rose."]
