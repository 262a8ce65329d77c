"""Markdown, reStructuredText and HTML: structure, and spans that hit the source exactly."""

import time

import pytest

from foveate.documents import Document, DocumentError


class TestMarkdown:
    def test_structure(self, outline):
        document = Document.from_text(
            """\
# Report

Lead.

Methods
-------

- First item. Two.
- Second

> Quoted.

1. Ordered
   lazily.

## Results ##

| a | b |
|---|---|
| c | d |

```
code
```

    more code

<div>html</div>

End.
""",
            format="markdown",
        )
        assert document.title == "Report"
        assert outline(document) == [
            ("", ["Lead."]),
            ("Methods", ["First item.", "Two.", "Second", "Quoted.", "1. Ordered lazily."]),
            ("Results", ["a: c; b: d", "code\nmore code", "html", "End."]),
        ]

    def test_spans_cover_the_sentence_with_its_markup(self, outline, in_source):
        document = Document.from_text(
            "> *Very* [good &amp; **new**](http://x.y 'z'). See `a  b` and\n"
            "> <http://u.v/%20w>\\! ![An *image*](i.png)Sure,\r\n"
            "lazy *line.*\n",
            format="markdown",
        )
        assert [one.text for one in document.sentences()] == [
            "Very good & new.",
            "See a b and http://u.v/ w!",
            "Sure, lazy line.",
        ]
        assert in_source(document) == [
            "Very* [good &amp; **new**](http://x.y 'z').",
            "See `a  b` and\n> <http://u.v/%20w>\\!",
            "Sure,\r\nlazy *line.",
        ]

    def test_the_title_in_front_matter(self, outline):
        text = '---\nauthor: A\ntitle: "On Things"\n---\n# One\n\na.\n\n# Two\n\nb.'
        document = Document.from_text(text, format="markdown")
        assert document.title == "On Things"
        assert outline(document) == [("One", ["a."]), ("Two", ["b."])]

    @pytest.mark.parametrize("start", ["---\n# Cod\n---\n", "---\n\nCod is a fish.\n\n---\n"])
    def test_text_below_a_rule_is_no_front_matter(self, start):
        document = Document.from_text(f"{start}\nIt swims.\n", format="markdown")
        *first, last = (one.text for one in document.sentences())
        assert document.title == "Cod" or first == ["Cod is a fish."]
        assert last == "It swims."

    @pytest.mark.parametrize("front", ["", "\n", "# All fields\n\ntitle: Cod\n", "tags:\n- fish\n"])
    def test_front_matter_is_no_text(self, front):
        document = Document.from_text(f"---\n{front}---\nIt swims.\n", format="markdown")
        assert [one.text for one in document.sentences()] == ["It swims."]

    def test_a_first_heading_among_equals_is_not_the_title(self, tmp_path, outline):
        path = tmp_path / "notes.md"
        path.write_text("# One\n\na.\n\n# Two\n\nb.")
        document = Document.from_file(path)
        assert document.title == ""
        assert [path for path, _ in outline(document)] == ["One", "Two"]

    @pytest.mark.parametrize(
        "text", ["[" * 5000 + "x", "*a " * 5000, "> " * 50 + "x", "a" + "`" * 5000]
    )
    def test_deep_nesting(self, text):
        assert list(Document.from_text(text, format="markdown").sentences())


class TestRst:
    def test_structure(self, outline):
        document = Document.from_text(
            """\
Report
======

Lead::

    literal

Methods
-------

* First item. Two.

  Still first.

term
  Meaning.

.. code-block:: python

   code

.. note:: Mind this.

.. versionadded:: 3.1
   :since: ever

   Sphinx knows *this*.

.. [1] Footnote.

Results
-------

+---+
| a |
+---+

.. include:: /etc/hostname

End.
""",
            format="rst",
        )
        assert document.title == "Report"
        assert outline(document) == [
            ("", ["Lead:", "literal"]),
            (
                "Methods",
                [
                    "First item.",
                    "Two.",
                    "Still first.",
                    "term: Meaning.",
                    "code",
                    "Mind this.",
                    "Sphinx knows this.",
                    "[1] Footnote.",
                ],
            ),
            ("Results", ["a", "End."]),
        ]

    def test_sentences_are_shown_without_markup(self, capfd):
        document = Document.from_text(
            "*Very* `good\nnews <http://x.y>`__ in :class:`~a.B` [1]_. Not\n"
            "\\*starred\\*, |so|.\n\nEnd.\n\n.. |so| replace:: so far\n",
            format="rst",
        )
        assert [(span.text, span.place) for span in document.spans()] == [
            ("Very good news in a.B [1].", "line 1"),
            ("Not *starred*, so far.", "line 1"),
            ("End.", "line 5"),
        ]
        assert capfd.readouterr() == ("", "")

    def test_the_header_of_a_pep_is_not_prose(self, outline):
        text = (
            "PEP: 9999\nTitle: On\n  Things\nAuthor: A <a at b.c>\n\n\nAbstract\n========\n\nText."
        )
        document = Document.from_text(text, format="rst")
        assert document.title == "On Things"
        assert outline(document) == [("Abstract", ["Text."])]

    def test_nothing_is_left_registered(self):
        Document.from_text(".. role:: mine\n\nA :mine:`text`.", format="rst")
        with_unknown_role = Document.from_text("A :mine:`~text`.", format="rst")
        assert [one.text for one in with_unknown_role.sentences()] == ["A text."]

    def test_too_deep_nesting_is_refused(self):
        with pytest.raises(DocumentError, match="read it as plain text"):
            Document.from_text("- " * 2000 + "x", format="rst")


class TestHtml:
    def test_structure(self, outline):
        document = Document.from_text(
            """\
<!doctype html><html><head><title>A &amp; B</title><style>p {}</style></head>
<body><header><p>Site</p></header><nav>Menu</nav>
<main><header><h1>A and B</h1></header><p>Lead.<p>More<br>lead.
<h2>Methods</h2><ul><li>First. Two.<li>Second</ul><blockquote>Quoted.</blockquote>
<table><tr><td>Cell.<td>Other</table><pre>poem</pre><pre><code>code</code></pre>
<figure><figcaption>Fig.</figcaption></figure><script>if (a < b) {}</script>
<h2>Results</h2>End.</main><footer>Imprint</footer>""",
            format="html",
        )
        assert document.title == "A and B"
        assert outline(document) == [
            ("", ["Lead.", "More lead."]),
            (
                "Methods",
                ["First.", "Two.", "Second", "Quoted.", "Cell.", "Other", "poem\ncode", "Fig."],
            ),
            ("Results", ["End."]),
        ]

    def test_spans_cover_the_sentence_with_its_markup(self, in_source):
        document = Document.from_text(
            "<p>Sch&ouml;n, <b>very</b>&nbsp;<i>n&#105;ce.</i> 1 &lt 2\n\n<a href='x'>indeed</a>.",
            format="html",
        )
        assert [one.text for one in document.sentences()] == ["Schön, very nice.", "1 < 2 indeed."]
        assert in_source(document) == [
            "Sch&ouml;n, <b>very</b>&nbsp;<i>n&#105;ce.",
            "1 &lt 2\n\n<a href='x'>indeed</a>.",
        ]

    def test_the_first_heading_is_the_title_where_there_is_no_other(self):
        assert Document.from_text("<h1>One</h1>Text.", format="html").title == "One"

    def test_conditional_sections_are_skipped(self, outline):
        document = Document.from_text("<p>One<![if !IE]> two<![endif]>.<![", format="html")
        assert outline(document)[0][1][0].startswith("One two.")

    def test_no_body(self, outline):
        assert outline(Document.from_text("Just text.", format="html")) == [("", ["Just text."])]

    def test_no_text(self):
        with pytest.raises(DocumentError, match="has no sentence"):
            Document.from_text(
                "<html><head><title>x</title></head><body></body></html>", format="html"
            )

    @pytest.mark.parametrize("end", ["", "</div>" * 5000, "</p>" * 5000])
    def test_deep_nesting(self, outline, end):
        document = Document.from_text("<div>" * 5000 + "Text." + end, format="html")
        assert outline(document) == [("", ["Text."])]


def test_titles_of_topics_are_not_headings(outline):
    text = """Fish
====

.. contents:: In short

Cod swim.

Part
----

One sentence.

.. admonition:: Beware

   Eels bite.

After it.
"""
    document = Document.from_text(text, format="rst")
    assert document.title == "Fish"
    parts = [("", ["Cod swim."]), ("Part", ["One sentence.", "Eels bite.", "After it."])]
    assert outline(document) == parts


def kinds(document):
    return [(one.kind, [s.text for s in one.sentences]) for one in document.paragraphs()]


MARKDOWN = """\
+++
title = "Fish"
+++
# Cod

Cod swim[^1]. They eat.

| Item | Price |  |
|------|------:|--|
| Support \\| help | **450** euros<br>net | |
| | `80` | x |

3. Fry. Salt.
4. Eat

   with bread.

- [ ] Buy nets
  1. cheap ones

torsk
: A *fish*.

  Good.

!!! note "Bones"
    Mind them.

!!! warning

    Hot.

> [!NOTE]
> Quoted.

<details><summary>Why &amp; how</summary>
<table><tr><th>A<th>B<tr><td>1<td>2</table></details>

<!-- not shown -->

[^1]: Mostly. In the *sea*.

    Always.

# Eel

Long.
"""


def test_what_markdown_knows_beside_paragraphs(in_source):
    document = Document.from_text(MARKDOWN, format="markdown")
    assert document.title == "Fish"
    assert kinds(document) == [
        ("prose", ["Cod swim.", "They eat."]),
        ("table", ["Item: Support | help; Price: 450 euros net", "Price: 80; x"]),
        ("item", ["3. Fry.", "Salt."]),
        ("item", ["4. Eat"]),
        ("item", ["with bread."]),
        ("item", ["[ ] Buy nets"]),
        ("item", ["1. cheap ones"]),
        ("prose", ["torsk: A fish."]),
        ("prose", ["Good."]),
        ("prose", ["Bones"]),
        ("prose", ["Mind them."]),
        ("prose", ["Hot."]),
        ("prose", ["Quoted."]),
        ("prose", ["Why & how"]),
        ("table", ["A: 1; B: 2"]),
        ("footnote", ["Mostly.", "In the sea."]),
        ("footnote", ["Always."]),
        ("prose", ["Long."]),
    ]
    source = dict(zip((s.text for s in document.sentences()), in_source(document), strict=True))
    assert source["Item: Support | help; Price: 450 euros net"] == (
        "Support \\| help | **450** euros<br>net"
    )
    assert source["Price: 80; x"] == "80` | x"
    assert source["3. Fry."] == "3. Fry."
    assert source["1. cheap ones"] == "1. cheap ones"
    assert source["torsk: A fish."] == "torsk\n: A *fish*."
    assert source["In the sea."] == "In the *sea*."
    assert source["Why & how"] == "Why &amp; how"
    assert source["A: 1; B: 2"] == "1<td>2"


RST = """\
Fish
====

+------+------------+
| Fish | Price      |
+======+============+
| Cod  | 450 euros, |
|      | *net*      |
+------+------------+
| Eel  | dear       |
+------+            |
| Ray  |            |
+------+------------+

====  =====
Name  Tons
====  =====
Cod   5
Eel   1 or
      two
====  =====

.. list-table:: Prices
   :header-rows: 1

   * - Item
     - Price
   * - Support
     - 450 :math:`x`

.. csv-table::
   :header: "A", "B"

   "c, d", e

.. figure:: cod.png

   A cod. At dinner.

1. Fry

   it.
#. Eat

:param x: The x.

-h, --help   Show help.

cod : noun
  A fish.

.. [1] Mostly. Always.
.. [Lee] Ann Lee. Of cod.

End.
"""


def test_what_restructuredtext_knows_beside_paragraphs():
    document = Document.from_text(RST, format="rst")
    assert kinds(document) == [
        (
            "table",
            [
                "Fish: Cod; Price: 450 euros, net",
                "Fish: Eel; Price: dear",
                "Fish: Ray; Price: dear",
                "Name: Cod; Tons: 5",
                "Name: Eel; Tons: 1 or two",
            ],
        ),
        ("caption", ["Prices"]),
        ("table", ["Item: Support; Price: 450 x", "A: c, d; B: e"]),
        ("caption", ["A cod.", "At dinner."]),
        ("item", ["1. Fry"]),
        ("item", ["it."]),
        ("item", ["2. Eat"]),
        ("prose", ["param x: The x."]),
        ("prose", ["-h, --help: Show help."]),
        ("prose", ["cod: A fish."]),
        ("footnote", ["[1] Mostly.", "Always."]),
        ("reference", ["[Lee] Ann Lee. Of cod."]),
        ("prose", ["End."]),
    ]


def test_the_cells_of_a_long_row_are_paragraphs():
    line = "| Cod swim. They eat. | Eels are long fish. |\n"
    rule = "+---------------------+---------------------+\n"
    document = Document.from_text(f"{rule}{line * 20}{rule}\nEnd.", format="rst")
    shown = [sentence.text for sentence in document.sentences()]
    assert shown == ["Cod swim.", "They eat."] * 20 + ["Eels are long fish."] * 20 + ["End."]


def test_sentences_end_within_unfinished_markup():
    link = "`herring <http://a.b>`_"
    text = f"Cod\n===\n\nThey eat {link} and ``cmde`y eat {link} and ``cmde`"
    document = Document.from_text(text, format="rst")
    assert len(list(document.sentences())) > 0


def test_contents_of_markdown_are_left_out(outline):
    text = (
        "# Fish\n\n[TOC]\n\n## Table of Contents\n\n- [Cod](#cod)\n  - [Cold *seas*](#cold)\n"
        "1. **[Eel](#eel)**\n\n## Cod\n\n- [Eel](#eel)\n- [Seas](#seas)\n- [Seas](https://sea.org)\n"
        "- [Cod](#cod) are fish.\n"
    )
    document = Document.from_text(text, format="markdown")
    assert outline(document) == [("Cod", ["Eel", "Seas", "Seas", "Cod are fish."])]


def test_marks_of_footnotes_leave_no_space_before_punctuation():
    text = "Seas are cold [#a]_. They are wet [#b]_ [#c]_, deep [#a]_ and wide [#b]_\n\n.. [#a] A."
    sentences = [one.text for one in Document.from_text(text, format="rst").sentences()]
    assert sentences[0] == "Seas are cold."
    assert sentences[1].endswith("deep and wide")


def test_attributes_of_headings_of_markdown(outline):
    document = Document.from_text(
        "# Cod\n\n## Food {#food .wide}\n\nThey eat.\n\n## Sea {: #sea}\n\nThey swim.\n\n"
        "## Blocks { .. }\n\nThey count.",
        format="markdown",
    )
    assert outline(document) == [
        ("Food", ["They eat."]),
        ("Sea", ["They swim."]),
        ("Blocks { .. }", ["They count."]),
    ]


def test_headings_with_long_gaps_are_read_at_once():
    start = time.process_time()
    document = Document.from_text(f"# A{' ' * 20_000}b\n\nText.\n", format="markdown")
    assert time.process_time() - start < 0.3
    assert document.title.split() == ["A", "b"]


@pytest.mark.parametrize("space", ["\xa0", "\u2028"])
def test_spans_of_paragraphs_below_a_line_of_other_spaces(space):
    for text in (
        f"{space}\nThey eat.\n",
        f"Cod.\n\n{space}\nThey eat.\nAnd swim.\n",
        f"- {space}\n  They eat.\n",
    ):
        document = Document.from_text(text, format="markdown")
        for span in document.spans():
            assert text[span.start : span.end].split() == span.text.split()


@pytest.mark.parametrize(
    ("text", "format"),
    [
        ("1. Clone it.\n2. ```\n   make\n   ```\n\n## Usage\n\nRun it.\n", "markdown"),
        ("1. Clone it.\n2.\n\n## Usage\n\nRun it.\n", "markdown"),
        (
            "<article><ol><li>Clone it.</li><li><pre><code>make install</code></pre></li></ol>"
            "<h2>Usage</h2><p>Run it.</p></article>",
            "html",
        ),
        ("<article><ol><li>Clone it.</li><li></li></ol><h2>Usage</h2><p>Run it.</p>", "html"),
    ],
)
def test_the_number_of_an_item_without_a_paragraph_is_not_that_of_what_follows(text, format):
    document = Document.from_text(text, format=format, language="en")
    spans = [span for span in document.spans() if not span.text.startswith("make")]
    assert [(span.path, span.text) for span in spans] == [
        (("",), "1. Clone it."),
        (("Usage",), "Run it."),
    ]


@pytest.mark.parametrize(
    ("text", "format"),
    [
        ("1. ```\n   make\n   ```\n\n   Then wait.\n2. Run it.\n", "markdown"),
        ("1.     make\n\n   Then wait.\n2. Run it.\n", "markdown"),
        ("1. <hr>\n\n   Then wait.\n2. Run it.\n", "markdown"),
        ("1. ::\n\n     make\n\n   Then wait.\n\n2. Run it.\n", "rst"),
        ("<ol><li><pre><code>make</code></pre>Then wait.</li><li>Run it.</li></ol>", "html"),
    ],
)
def test_the_number_of_an_item_that_begins_with_code_is_not_that_of_its_text(text, format):
    document = Document.from_text(text, format=format, language="en")
    shown = [span.text for span in document.spans() if span.text != "make"]
    assert shown == ["Then wait.", "2. Run it."]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("1. Clone it.\n2. <div>Run it.</div>\n", ["Clone it.", "Run it."]),
        ("- Clone it.\n- <p>Run\n  it.</p>\n\n  <p>Stop it.</p>\n", ["Run\n  it.", "Stop it."]),
        ("> <p>Clone\n> it.\n>\n> <p>Run it.</p>\n", ["Clone\n> it.", "Run it."]),
        ("> - <p>Clone\r\n>   it.</p>\r\n", ["Clone\r\n>   it."]),
        ("-\t<p>Clone it.</p>\n\t<p>Run it.</p>\n", ["Clone it.", "Run it."]),
    ],
)
def test_html_in_lists_and_quotations_of_markdown_is_read(text, read):
    document = Document.from_text(text, format="markdown", language="en")
    found = [text[sentence.start : sentence.end] for sentence in document.sentences()]
    assert [sentence.removeprefix("1. ") for sentence in found][-len(read) :] == read


def test_the_number_of_an_item_that_begins_with_a_table_is_not_that_of_its_text():
    table = "<table><tr><th>A</th><th>B</th></tr><tr><td>C</td><td>D</td></tr></table>"
    text = f"<ol><li>{table}Then wait.</li><li>Run it.</li></ol>"
    document = Document.from_text(text, format="html", language="en")
    assert [span.text for span in document.spans()] == ["A: C; B: D", "Then wait.", "2. Run it."]


@pytest.mark.parametrize(
    ("text", "format"),
    [
        ("1. ## Clone\n   Clone it.\n2. ## Usage\n   Run it.\n", "markdown"),
        ("<ol><li><h2>Clone</h2>Clone it.</li><li><h2>Usage</h2>Run it.</li></ol>", "html"),
    ],
)
def test_the_number_of_an_item_that_begins_with_a_heading_is_that_of_the_heading(text, format):
    document = Document.from_text(text, format=format, language="en")
    spans = document.spans()
    assert [(span.path, span.text) for span in spans] == [
        (("1. Clone",), "Clone it."),
        (("2. Usage",), "Run it."),
    ]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (":::note\nCheck the oil.\n:::\nEnd.", [["Check the oil."], ["End."]]),
        (":::tip[My title]\n\nOil.\n\n:::", [["My title"], ["Oil."]]),
        (":::warning Be careful\nOil.\n:::", [["Be careful"], ["Oil."]]),
        ("::: {.callout-note #x}\nOil.\n\n::: inner\nTap.\n:::\n:::", [["Oil."], ["Tap."]]),
        (":::{admonition} Oil\n:class: tip\nCheck it.\n:::", [["Oil"], ["Check it."]]),
        ("```{note}\n:name: x\nCheck *it*.\n```", [["Check it."]]),
        ("````{tip} A\n```{note}\nB.\n```\n````", [["A"], ["B."]]),
        ("```{toctree}\na\nb\n```\nEnd.", [["End."]]),
        ('??? info "More"\n    Check it.', [["More"], ["Check it."]]),
        ('=== "Linux"\n\n    Check it.', [["Linux"], ["Check it."]]),
        (
            "import A from './a'\nimport './b.css';\n\nexport const x = {\n  a: 1,\n}\n\nText.",
            [["Text."]],
        ),
        ("{/* a remark */}\n\nText.", [["Text."]]),
        ("(top)=\n\nSee {ref}`the top <top>` of {math}`a^2`.", [["See the top of a^2."]]),
        ("$$\na = b\n$$ (eq)", [["a = b"]]),
        ("The [new]{.smallcaps} pump.", [["The new pump."]]),
        (
            "Imports matter.\nimport taxes are high.",
            [["Imports matter.", "import taxes are high."]],
        ),
        ("% Pumps\n% Ann Lee; Bob Ray\n% 2024-05-03\n\nText.", [["Text."]]),
        ("It costs $5 or $6 or ~~7~~ 8.", [["It costs $5 or $6 or 7 8."]]),
    ],
)
def test_what_tools_add_to_markdown(text, read):
    document = Document.from_text(text, format="markdown", language="en")
    shown = [[sentence.text for sentence in one.sentences] for one in document.paragraphs()]
    assert shown == read
    assert document.authors in ((), ("Ann Lee", "Bob Ray"))


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Run:\n\n```sh\npip install cod\n\n  cod\n```", ["pip install cod\n\n  cod"]),
        ("~~~ {.python}\n:::note\n~~~", [":::note"]),
        ("```{code-block} python\n:linenos:\n\nx = 1\n```", ["x = 1"]),
        ("```{r setup}\nx = 1\n```", ["x = 1"]),
        ("- Run:\n\n      cod --fry", ["cod --fry"]),
    ],
)
def test_code_of_markdown_is_kept(text, read, in_source):
    document = Document.from_text(text, format="markdown")
    code = [one for one in document.paragraphs() if one.kind == "code"]
    assert [sentence.text for one in code for sentence in one.sentences] == read
    assert in_source(document)[-len(read) :] == read


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Run::\n\n    pip install cod\n      cod\n", ["pip install cod\n  cod"]),
        (".. code-block:: sh\n   :linenos:\n\n   cod --fry\n", ["cod --fry"]),
        (".. testcode::\n\n   cod()\n", ["cod()"]),
        (">>> cod()\n1\n", [">>> cod()\n1"]),
    ],
)
def test_code_of_restructuredtext_is_kept(text, read):
    document = Document.from_text(text, format="rst")
    code = [one for one in document.paragraphs() if one.kind == "code"]
    assert [sentence.text for one in code for sentence in one.sentences] == read


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("markdown", "It is $a_1$.\n\n$$\n\\frac{a+b}{c}\n$$\n"),
        ("markdown", "It is $a_1$.\n\n```{math}\n\\frac{a+b}{c}\n```\n"),
        ("rst", "It is :math:`a_1`.\n\n.. math:: \\frac{a+b}{c}\n"),
        ("latex", "It is $a_1$.\n\\[\\frac{a+b}{c}\\]\n"),
    ],
)
def test_formulas_in_latex(format, text):
    paragraphs = Document.from_text(text, format=format).paragraphs()
    shown = [(one.kind, one.sentences[0].text) for one in paragraphs]
    assert shown == [("prose", "It is a_1."), ("formula", "(a+b)/c")]


GRID = """\
+-------+--------+
| Item  | Price  |
+:======+=======:+
| Hose  | 5      |
| long  |        |
+-------+--------+
| Valve | 7      |
+-------+--------+
"""


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (GRID, ["Item: Hose long; Price: 5", "Item: Valve; Price: 7"]),
        (f"- A\n\n{GRID}".replace("\n+", "\n  +").replace("\n|", "\n  |"), None),
        (
            "  Item    Price\n  ------ ------\n  Tap         9\n  Seal        2\n",
            ["Item: Tap; Price: 9", "Item: Seal; Price: 2"],
        ),
        ("------ ------\nTap         9\nSeal        2\n------ ------\n", ["Tap; 9", "Seal; 2"]),
    ],
)
def test_tables_of_pandoc(text, rows):
    document = Document.from_text(f"Text.\n\n{text}\nEnd.", format="markdown", language="en")
    tables = [one for one in document.paragraphs() if one.kind == "table"]
    shown = [sentence.text for one in tables for sentence in one.sentences]
    assert shown == (rows or ["Item: Hose long; Price: 5", "Item: Valve; Price: 7"])


@pytest.mark.parametrize(
    ("format", "mark"),
    [
        ("rst", "*a "),
        ("rst", "`a "),
        ("rst", "|a "),
        ("rst", "***"),
        ("markdown", "![["),
        ("markdown", "[a][b"),
    ],
)
def test_markup_that_is_not_closed_is_refused_at_once(format: str, mark: str) -> None:
    with pytest.raises(DocumentError, match="marks of markup that are not closed"):
        Document.from_text(f"Cod swim.\n\n{mark * 20_000}", format=format)
    assert Document.from_text(f"Cod swim.\n\n{mark * 20}", format=format).sections
    closed = "**Cod** and *eels* ``swim`` |here|. " * 3_000
    assert Document.from_text(closed, format=format).sections


def test_escapes_within_scripts(in_source):
    document = Document.from_text("It is x~a\\ b~ and y^c\\ d^. <b> ends.", format="markdown")
    assert [one.text for one in document.sentences()] == ["It is x_{a b} and y^{c d}.", "ends."]
    assert in_source(document)[0] == "It is x~a\\ b~ and y^c\\ d^."
