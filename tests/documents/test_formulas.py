"""Formulas in a line, from MathML, Word and LaTeX."""

from xml.etree import ElementTree

import pytest
from lxml import etree

from foveate.documents import Document, formulas


@pytest.mark.parametrize(
    ("latex", "shown"),
    [
        (r"\frac{a+b}{c}", "(a+b)/c"),
        (r"\frac{1}{2a} x", "1/(2a) x"),
        (r"\sqrt{x} + \sqrt[3]{x+1}", "√x+∛(x+1)"),
        (r"\sum_{i=1}^{n} x_i", "∑_{i=1}^{n} x_i"),
        (r"\begin{pmatrix} a & b \\ c & d \end{pmatrix}", "(a, b; c, d)"),
        (r"\binom{n}{k}", "(n choose k)"),
        (r"\left(\frac{1}{2}\right)^2", "(1/2)^2"),
        (r"10^{-3}\,\mathrm{kg}", "10^-3 kg"),
        (r"x_{max} y_j", "x_{max} y_j"),
        (r"\hat{x} = \mathbf{A}^T x'", "x̂ = A^T x′"),
        (r"E &= mc^2 \label{e} \\ a &= b", "E = mc^2; a = b"),
        (r"90^\circ", "90°"),
        (r"\frac{", r"\frac{"),
        ("", ""),
    ],
)
def test_latex(latex, shown):
    assert formulas.from_latex(latex) == shown


@pytest.mark.parametrize(
    ("mathml", "shown"),
    [
        ("<mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mi>c</mi></mfrac>", "(a+b)/c"),
        ("<mi>y</mi><mo>=</mo><msqrt><mi>x</mi></msqrt>", "y = √x"),
        (
            "<munderover><mo>∑</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>n</mi>"
            "</munderover><msub><mi>x</mi><mi>i</mi></msub>",
            "∑_{i=1}^{n} x_i",
        ),
        ("<mfenced><mi>a</mi><mi>b</mi></mfenced><annotation>ab</annotation>", "(a, b)"),
        (
            "<mfenced><mtable><mtr><mtd><mn>1</mn></mtd><mtd><mn>2</mn></mtd></mtr>"
            "<mtr><mtd><mn>3</mn></mtd><mtd><mn>4</mn></mtd></mtr></mtable></mfenced>",
            "(1, 2; 3, 4)",
        ),
        (
            "<mo>(</mo><mfrac linethickness='0'><mi>n</mi><mi>k</mi></mfrac><mo>)</mo>",
            "(n choose k)",
        ),
        ("<mrow>" * 500 + "<mi>x</mi>" + "</mrow>" * 500, "x"),
    ],
)
def test_mathml(mathml, shown):
    assert formulas.from_mathml(ElementTree.fromstring(f"<math>{mathml}</math>")) == shown


def run(text):
    return f"<m:r><m:t>{text}</m:t></m:r>"


@pytest.mark.parametrize(
    ("omml", "shown"),
    [
        (f"<m:f><m:num>{run('a+b')}</m:num><m:den>{run('c')}</m:den></m:f>", "(a+b)/c"),
        (f"<m:rad><m:deg/><m:e>{run('x')}</m:e></m:rad>", "√x"),
        (f"<m:rad><m:deg>{run('3')}</m:deg><m:e>{run('x')}</m:e></m:rad>", "∛x"),
        (
            f'<m:nary><m:naryPr><m:chr m:val="∑"/></m:naryPr><m:sub>{run("i=1")}</m:sub>'
            f"<m:sup>{run('n')}</m:sup><m:e>{run('i')}</m:e></m:nary>",
            "∑_{i=1}^{n} i",
        ),
        (
            f"<m:d><m:e><m:m><m:mr><m:e>{run('1')}</m:e><m:e>{run('2')}</m:e></m:mr>"
            f"<m:mr><m:e>{run('3')}</m:e><m:e>{run('4')}</m:e></m:mr></m:m></m:e></m:d>",
            "(1, 2; 3, 4)",
        ),
        (
            '<m:d><m:e><m:f><m:fPr><m:type m:val="noBar"/></m:fPr>'
            f"<m:num>{run('n')}</m:num><m:den>{run('k')}</m:den></m:f></m:e></m:d>",
            "(n choose k)",
        ),
        (
            f'<m:func><m:fName><m:r><m:rPr><m:sty m:val="p"/></m:rPr><m:t>sin</m:t></m:r></m:fName>'
            f"<m:e>{run('x')}</m:e></m:func>",
            "sin x",
        ),
        (f"<m:sSup><m:e>{run('10')}</m:e><m:sup>{run('-3')}</m:sup></m:sSup>", "10^-3"),
    ],
)
def test_word(omml, shown):
    math = "http://schemas.openxmlformats.org/officeDocument/2006/math"
    root = etree.fromstring(f'<m:oMath xmlns:m="{math}">{omml}</m:oMath>')
    assert formulas.from_word(root) == shown


def test_a_formula_set_apart_in_a_page():
    fraction = "<mfrac><mi>a</mi><mi>b</mi></mfrac>"
    page = (
        f'<p>The rate is:</p><math display="block">{fraction}</math><p>Here '
        f'<math display="block"><mi>a</mi></math> is <math><mn>5</mn></math>.</p>'
    )
    document = Document.from_text(page, format="html")
    shown = [(one.kind, one.sentences[0].text) for one in document.paragraphs()]
    assert shown == [("prose", "The rate is:"), ("formula", "a/b"), ("prose", "Here a is 5.")]
