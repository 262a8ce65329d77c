"""JATS and TEI."""

import pytest

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


def test_jats(outline, in_source):
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
    assert in_source(document) == [
        "Schön, that.",
        "It&nbsp;<b>is</b>.",
        "Lead.",
        "See <xref>[1]</xref>.",
        "F",
        "Caption.",
        "We &lt;\ndo <mml:math><mml:mi>x</mml:mi></mml:math>.",
        "Item.",
        "After.",
        "Ref.",
    ]


def test_tei(outline, in_source):
    document = Document.from_text(TEI, format="tei")
    assert document.title == "On Things"
    assert outline(document) == [
        ("Abstract", ["That."]),
        ("Methods", ["We [1] do it.", "F: Caption."]),
        ("Methods > Verse", ["One two"]),
    ]
    assert in_source(document)[1:] == [
        "We <ref>[1]</ref> do<lb/>it.",
        "F</head><p>Caption.",
        "One</l><l>two",
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
    with pytest.raises(DocumentError, match=r"not well-formed XML \(mismatched tag: line 2"):
        Document.from_text("<article>\n<body></p>", format="jats")
