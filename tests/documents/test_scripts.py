"""Superscripts and subscripts, and the marks of notes."""

import pytest

from foveate.documents import Document
from foveate.documents.scripts import scripted


@pytest.mark.parametrize(
    ("before", "script", "is_raised", "shown"),
    [
        ("10", "3", True, "^3"),
        ("10", "−3", True, "^−3"),
        ("per m", "2", True, "^2"),
        ("km", "2", True, "^2"),
        ("E = mc", "2", True, "^2"),
        ("as it is", "2", True, ""),
        ("x", "n", True, "^n"),
        ("x", "n+1", True, "^{n+1}"),
        ("(a+b)", "2", True, "^2"),
        ("Ca", "2+", True, "^2+"),
        ("x", "1", False, "_1"),
        ("x", "i,j", False, "_{i,j}"),
        ("log", "2", False, "_2"),
        ("CO", "2", False, "2"),
        ("Ca(OH)", "2", False, "2"),
        ("the 2", "nd", True, "nd"),
        ("M", "me", True, "me"),
        ("1", "er", True, "er"),
        ("Pump", "TM", True, "TM"),
        ("of ", "14", True, "14"),
        ("As shown", "1", True, ""),
        ("As shown", "1,2", True, ""),
        ("it rose.", "2", True, ""),
        ("in 1961", "2", True, ""),
        ("word", "[3]", True, ""),
        ("word", "†", True, ""),
    ],
)
def test_what_a_script_becomes(before, script, is_raised, shown):
    assert scripted(before, script, is_raised=is_raised) == shown


WRITTEN = "It is 10{0}3{1} N per m{0}2{1} on the 2{0}nd{1} day. As shown{0}1{1}, x{2}1{3} rose."
SHOWN = ["It is 10^3 N per m^2 on the 2nd day.", "As shown, x_1 rose."]
TEI = '<hi rend="superscript">', "</hi>", '<hi rend="subscript">', "</hi>"


@pytest.mark.parametrize(
    ("format", "around", "signs"),
    [
        ("html", "<p>{}</p>", ("<sup>", "</sup>", "<sub>", "</sub>")),
        (
            "html",
            "<table><tr><td>{}<td>Cod<tr><td>A<td>B</table>",
            ("<sup>", "</sup>", "<sub>", "</sub>"),
        ),
        (
            "jats",
            "<article><body><p>{}</p></body></article>",
            ("<sup>", "</sup>", "<sub>", "</sub>"),
        ),
        ("tei", "<TEI><text><body><p>{}</p></body></text></TEI>", TEI),
        ("latex", "{}", (r"\textsuperscript{", "}", r"\textsubscript{", "}")),
        ("markdown", "{}", ("<sup>", "</sup>", "<sub>", "</sub>")),
        ("markdown", "{}", ("^", "^", "~", "~")),
        ("rst", "{}", (r"\ :sup:`", r"`\ ", r"\ :sub:`", r"`\ ")),
    ],
)
def test_scripts_of_every_format(format, around, signs):
    document = Document.from_text(around.format(WRITTEN.format(*signs)), format=format)
    shown = " ".join(sentence.text for sentence in document.sentences())
    assert shown.removesuffix("; Cod A; B") == " ".join(SHOWN)


def test_marks_of_references_of_jats():
    text = (
        "<article><body><p>As shown<sup><xref ref-type='bibr'>1</xref>,<xref ref-type='bibr'>2"
        "</xref></sup>, it rose.<xref ref-type='bibr'>2</xref> In 1961 it fell <xref "
        "ref-type='bibr'>[3]</xref>.</p></body></article>"
    )
    sentences = Document.from_text(text, format="jats").sentences()
    assert [one.text for one in sentences] == ["As shown, it rose.", "In 1961 it fell [3]."]
