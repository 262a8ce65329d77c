"""Web pages: their content, and not what surrounds it."""

import time

import pytest

from foveate.documents import Document

SPHINX = """\
<!DOCTYPE html><html><head><title>2. Cod &#8212; Fish 1.0 documentation</title></head><body>
<div class="related" role="navigation" aria-label="related navigation"><h3>Navigation</h3><ul>
<li class="right"><a href="genindex.html">index</a> |</li></ul></div>
<div class="document"><div class="documentwrapper"><div class="bodywrapper">
<div class="body" role="main"><section id="related-fish"><span id="cod"></span>
<h1>2. Cod<a class="headerlink" href="#cod" title="Permalink">¶</a></h1>
<div class="toctree-wrapper compound"><ul><li class="toctree-l1"><a href="a.html">2.1. A</a></li>
<li class="toctree-l1"><a href="b.html">2.2. B</a></li></ul></div>
<p>Cod swim in cold seas<a class="footnote-reference brackets" href="#id2">1</a>. They eat
<a class="reference internal" href="eel.html">small eels</a>.</p>
<div class="highlight-python notranslate"><div class="highlight"><pre><span></span>catch(cod)</pre>
</div></div>
<dl class="py function"><dt class="sig" id="catch"><code>catch</code>(<em>fish</em>)
<a class="headerlink" href="#catch">¶</a></dt><dd><p>Catch a fish. It may escape.</p></dd></dl>
<div class="admonition note"><p class="admonition-title">Note</p><p>Mind the bones.</p></div>
<aside class="footnote-list brackets"><aside class="footnote brackets" id="id2" role="doc-footnote">
<span class="label"><span class="fn-bracket">[</span><a role="doc-backlink" href="#id1">1</a>
<span class="fn-bracket">]</span></span><p>Not all of them.</p></aside></aside>
</section></div></div></div>
<div class="sphinxsidebar" role="navigation"><h3>Table of Contents</h3><ul><li>
<a>2. Cod</a></li></ul>
<p>This page says nothing about whales, and never did.</p></div></div>
<div class="footer" role="contentinfo">&copy; Fish. Created using Sphinx.</div></body></html>
"""

MKDOCS = """\
<!doctype html><html><head><title>Cod - Fish</title></head><body>
<a href="#cod" class="md-skip">Skip to content</a>
<header class="md-header"><nav><a href=".">Fish</a></nav></header>
<div class="md-container"><nav class="md-tabs"><ul><li><a href=".">Home</a></li></ul></nav>
<main class="md-main"><div class="md-main__inner">
<div class="md-sidebar"><div class="md-sidebar__inner"><ul><li><a
href="eel/">Eel</a></li></ul></div></div>
<div class="md-content"><article class="md-content__inner md-typeset">
<a href="edit" title="Edit this page" class="md-content__button md-icon">edit</a>
<h1 id="cod">Cod<a class="headerlink" href="#cod" title="Permanent link">&para;</a></h1>
<p>Cod swim.<sup id="fnref:1"><a class="footnote-ref" href="#fn:1">1</a></sup> They eat.</p>
<div class="highlight"><pre><code>catch cod</code></pre></div>
<table><thead><tr><th>Item</th><th>Price</th></tr></thead>
<tbody><tr><td>Support</td><td>450 euros</td></tr></tbody></table>
<details class="note"><summary>Why</summary><p>Because.</p></details>
<div class="footnote"><hr><ol><li id="fn:1"><p>Mostly.&#160;<a class="footnote-backref"
href="#fnref:1">&#8617;</a></p></li></ol></div>
</article></div></div></main>
<footer class="md-footer"><p>Made with Material for MkDocs</p></footer></div></body></html>
"""

WIKI = """\
<!DOCTYPE html><html class="vector-feature-language"><head><title>Cod - Wikipedia</title></head>
<body class="skin-vector mediawiki"><div class="vector-header-container"><header
class="vector-header mw-header"><div class="vector-menu"><ul><li><a href="/">Main page</a></li></ul>
</div><form role="search"><input><button>Search</button></form></header></div>
<div class="mw-page-container"><div class="vector-toc"><ul><li><a
href="#Diet">1 Diet</a></li></ul></div>
<main id="content" class="mw-body"><header class="mw-body-header"><h1 id="firstHeading">Cod</h1>
<div class="vector-page-toolbar vector-menu"><ul><li><a href="t">Talk</a></li></ul></div></header>
<div id="bodyContent"><div id="siteSub" class="noprint">From Wikipedia, the free encyclopedia</div>
<div id="mw-content-text"><div class="mw-content-ltr mw-parser-output">
<div class="shortdescription nomobile noexcerpt noprint searchaux" style="display:none">A fish</div>
<div role="note" class="hatnote navigation-not-searchable">For other uses, see
<a href="d">Cod (disambiguation)</a>.</div>
<table class="infobox"><tbody><tr><th colspan="2" class="infobox-above">Cod</th></tr>
<tr><th scope="row" class="infobox-label">Family</th><td class="infobox-data"><a
href="g">Gadidae</a>
</td></tr></tbody></table>
<p><b>Cod</b> is a fish.<sup id="cite_ref-1" class="reference"><a href="#cite_note-1">[1]</a></sup>
It weighs <span class="mwe-math-element"><span class="mwe-math-mathml-inline"
style="display: none;">
<math><msup><mi>x</mi><mn>2</mn></msup></math></span><img aria-hidden="true" alt="x^2"></span>
kilograms.<sup class="noprint Inline-Template Template-Fact">[<i>citation needed</i>]</sup></p>
<div class="mw-heading mw-heading2"><h2 id="Diet">Diet</h2><span class="mw-editsection"><span
class="mw-editsection-bracket">[</span><a href="e">edit</a>]</span></div>
<figure typeof="mw:File/Thumb"><a href="f"><img></a>
<figcaption>A cod at dinner</figcaption></figure>
<p>It eats herring.</p>
<h2 id="See_also">See also</h2><ul><li><a href="h">Herring</a></li><li><a
href="w">Whiting</a></li></ul>
<h2 id="References">References</h2><div class="reflist"><ol class="references"><li id="cite_note-1">
<span class="mw-cite-backlink"><b><a href="#cite_ref-1">^</a></b></span> <span
class="reference-text">Smith, J. (1999). <i>Of Cod</i>.</span></li></ol></div>
<div role="navigation" class="navbox"><table><tr><th>Fish</th><td><a
href="e">Eel</a></td></tr></table>
</div></div></div><div class="printfooter">Retrieved from "https://en.wikipedia.org/"</div>
<div id="catlinks" class="catlinks"><a href="c">Categories</a>: <a
href="f">Fish</a></div></div></main>
</div><div class="mw-footer-container"><footer id="footer" class="mw-footer"><ul>
<li>This page was last
edited on 1 May.</li></ul></footer></div></body></html>
"""

NEWSPAPER = """\
<!DOCTYPE html><html lang="en"><head><title>Cod are back in the bay | The Daily Fish</title>
<meta property="og:title" content="Cod are back in the bay"><meta property="og:site_name"
content="The Daily Fish"></head><body class="article-page has-sidebar comments-open">
<div id="cookie-banner" class="cookie-consent"><p>We use cookies. You may accept them all.</p>
<button>Accept</button></div>
<div class="site-header"><ul class="main-nav"><li><a href="/news">News</a></li><li><a href="/sport">
Sport</a></li></ul></div>
<div class="layout layout--with-sidebar"><div class="story">
<h1 class="headline">Cod are back in the bay</h1>
<p class="standfirst">After thirty years the fish returns.</p>
<div class="share-tools"><span>Share this article with your friends.</span></div>
<p>Fishers could hardly believe their eyes on Monday. "There were thousands," said Ann Lee.</p>
<div class="ad-slot"><p>Advertisement: buy nets. They are cheap.</p></div>
<p>The <a href="/council">harbour council</a> will meet next week to set a quota.</p>
<p><a href="/eel">Read more: eels vanish</a></p>
<div class="newsletter-signup"><p>Get our newsletter. It is free.</p></div>
<h2>What comes next</h2><p>Nobody knows. Scientists will count the fish until autumn.</p>
<div class="related-stories"><h3>Related</h3><ul><li><a href="/1">Herring prices fall again</a></li>
<li><a href="/2">A whale in the harbour</a></li></ul></div></div>
<div class="sidebar"><h3>Most read</h3><ol><li><a href="/3">Ten best nets</a></li><li><a href="/4">
Fish of the year</a></li></ol></div>
<section class="comments"><h3>Comments</h3><div><p>I saw one. It was big.</p></div>
<div><p>Nonsense, there were none at all.</p></div></section></div>
<div class="page-footer"><p>All rights reserved. The Daily Fish is a paper.</p></div></body></html>
"""

DOCBOOK = """\
<html><head><title>9.1. System Boot</title></head><body>
<div class="navheader"><table><tr><td><a href="p">Prev</a></td><td><a href="n">Next</a></td></tr>
</table></div><div class="section"><h2 class="title">9.1. System Boot</h2><p>It boots.</p>
<div class="sidebar"><div class="titlepage"><p class="title">Safe boot</p></div><p>When the disk is
broken, the system starts from another one. This takes a while.</p></div>
<pre class="screen">reboot</pre><p>Then it is up.</p></div>
<div class="navfooter"><hr><p><a href="p">Prev</a> <a href="n">Next</a></p></div></body></html>
"""


def read(html):
    return Document.from_text(html, format="html")


def kinds(document):
    return [(one.kind, [s.text for s in one.sentences]) for one in document.paragraphs()]


def sentences(html):
    return [sentence.text for sentence in read(html).sentences()]


def test_sphinx():
    document = read(SPHINX)
    assert document.title == "2. Cod"
    assert kinds(document) == [
        ("prose", ["Cod swim in cold seas.", "They eat small eels."]),
        ("code", ["catch(cod)"]),
        ("prose", ["catch(fish): Catch a fish.", "It may escape."]),
        ("prose", ["Note"]),
        ("prose", ["Mind the bones."]),
        ("footnote", ["Not all of them."]),
    ]


def test_mkdocs(outline):
    document = read(MKDOCS)
    assert document.title == "Cod"
    assert kinds(document) == [
        ("prose", ["Cod swim.", "They eat."]),
        ("code", ["catch cod"]),
        ("table", ["Item: Support; Price: 450 euros"]),
        ("prose", ["Why"]),
        ("prose", ["Because."]),
        ("footnote", ["1. Mostly."]),
    ]


def test_wikipedia(outline):
    document = read(WIKI)
    assert document.title == "Cod"
    assert outline(document) == [
        ("", ["Cod", "Family: Gadidae", "Cod is a fish.", "It weighs x^2 kilograms."]),
        ("Diet", ["A cod at dinner", "It eats herring."]),
        ("References", ["1. Smith, J. (1999). Of Cod."]),
    ]
    assert [kind for kind, _ in kinds(document)] == [
        *("table", "prose", "caption", "prose", "reference")
    ]


def test_newspaper(outline):
    document = read(NEWSPAPER)
    assert document.title == "Cod are back in the bay"
    assert outline(document) == [
        (
            "",
            [
                "After thirty years the fish returns.",
                "Fishers could hardly believe their eyes on Monday.",
                '"There were thousands," said Ann Lee.',
                "The harbour council will meet next week to set a quota.",
            ],
        ),
        ("What comes next", ["Nobody knows.", "Scientists will count the fish until autumn."]),
    ]


def test_docbook():
    assert sentences(DOCBOOK) == [
        "It boots.",
        "Safe boot",
        "When the disk is broken, the system starts from another one.",
        "This takes a while.",
        "reboot",
        "Then it is up.",
    ]


def test_labels_of_links_to_neighbouring_pages_are_left_out():
    page = (
        '<div class="header"><p>Next: <a rel="next" href="eel.html">Eel</a>, Previous: '
        '<a rel="prev" href="index.html">Top</a> &nbsp; [<a rel="contents" href="c.html">Contents'
        "</a>]</p></div><hr><h1>1 Cod</h1><p>Cod swim in cold seas.</p>"
        '<p>Eels are in <a rel="next" href="eel.html">the next chapter</a>.</p>'
    )
    assert sentences(page) == ["Cod swim in cold seas.", "Eels are in the next chapter."]


def test_labels_of_notes_are_no_headings(outline):
    page = (
        "<h1>Fish</h1><h3>Cod</h3><p>Cod swim.</p>"
        '<div class="note" style="margin-left: 0.5in"><h3 class="title">Note</h3>'
        "<p>Mind the bones.</p></div><p>They eat eels.</p>"
        '<div class="warning"><p>Eels bite.</p><h3>Eel</h3><p>Eels swim.</p></div>'
    )
    assert outline(read(page)) == [
        ("Cod", ["Cod swim.", "Note", "Mind the bones.", "They eat eels.", "Eels bite."]),
        ("Eel", ["Eels swim."]),
    ]


def test_a_page_of_links_gives_its_links():
    page = '<title>Index</title><h1>Index</h1><div class="toc"><ul>{}</ul></div>'
    links = "".join(f'<li><a href="{i}">Fish {i}</a></li>' for i in range(40))
    assert sentences(page.format(links))[:2] == ["Fish 0", "Fish 1"]
    assert sentences(f"<nav><p>{'Only a menu. ' * 9}</p></nav>")[0] == "Only a menu."


def test_a_name_for_the_whole_layout_says_nothing():
    page = '<div class="with-sidebar"><div class="menu-open"><p>{}</p></div></div>'
    assert sentences(page.format("Cod swim. They eat.")) == ["Cod swim.", "They eat."]


@pytest.mark.parametrize(
    ("head", "title"),
    [
        ("<title>Cod — The Daily Fish</title>", "Cod"),
        ("<title>Cod and eel: a story | Fish</title>", "Cod and eel: a story"),
        ("<title>x</title><meta property='og:title' content='Cod - eel'>", "Cod - eel"),
        ("<title>Well-known cod</title>", "Well-known cod"),
        ("<svg><title>Logo</title></svg>", ""),
    ],
)
def test_titles_without_the_name_of_the_site(head, title):
    assert read(f"<head>{head}</head><p>Cod swim.</p>").title == title


def test_lists():
    page = (
        "<p>Do this:</p><ol start=3><li>Fry. Salt.<li><p>Eat.</p></ol>"
        "<ol type=a><li>Yes<li value=5>No</ol><ul><li>One<ul><li>Two</ul></ul>"
        "Fish:<br>• cod<br>• eel<br><br>Fine."
    )
    document = read(page)
    assert kinds(document) == [
        ("prose", ["Do this:"]),
        ("item", ["3. Fry.", "Salt."]),
        ("item", ["4. Eat."]),
        ("item", ["a. Yes"]),
        ("item", ["e. No"]),
        ("item", ["One"]),
        ("item", ["Two"]),
        ("prose", ["Fish:"]),
        ("prose", ["• cod"]),
        ("prose", ["• eel"]),
        ("prose", ["Fine."]),
    ]


def test_definitions(in_source):
    page = (
        "<dl><dt>cod<dt>torsk<dd><p>A <i>fish</i>. Good.</p><p>Cheap.</p>"
        "<dt>What is an eel?<dd>Long.<dt>whale</dl><p>End.</p>"
    )
    document = read(page)
    assert [sentence.text for sentence in document.sentences()] == [
        *("cod, torsk: A fish.", "Good.", "Cheap.", "What is an eel?", "Long.", "whale", "End.")
    ]
    assert in_source(document)[0] == "cod<dt>torsk<dd><p>A <i>fish</i>."


def test_preformatted_prose_is_split_at_blank_lines():
    prose = "The wheel turns\nwith the water.\n\nIt is as old as the mill."
    assert sentences(f"<pre>{prose}</pre><pre class='highlight'>{prose}</pre>") == [
        "The wheel turns with the water.",
        "It is as old as the mill.",
        prose,
    ]


@pytest.mark.parametrize("end", ["\n", "<br>"])
def test_preformatted_lines_that_are_no_sentences_are_code(end):
    page = f"<p>Type these commands.</p><pre>open_gate --slow{end}start_wheel --now</pre>"
    assert kinds(read(page))[1:] == [("code", ["open_gate --slow\nstart_wheel --now"])]


class TestTables:
    def test_heads_span_columns_and_rows(self, in_source):
        document = read("""\
<table><caption>Table 1. Catch</caption>
<tr><th rowspan=2>Fish</th><th colspan=2>Tons</th></tr><tr><th>1990</th><th>2000</th></tr>
<tr><th scope=row>Cod</th><td>5</td><td>6</td></tr>
<tr><td rowspan=2>Eel</td><td>1</td><td></td></tr><tr><td colspan=2>none</td></tr></table>""")
        assert kinds(document) == [
            ("caption", ["Table 1. Catch"]),
            (
                "table",
                [
                    "Fish: Cod; Tons 1990: 5; Tons 2000: 6",
                    "Fish: Eel; Tons 1990: 1",
                    "Fish: Eel; Tons 1990: none",
                ],
            ),
        ]
        assert in_source(document)[1:] == [
            "Cod</th><td>5</td><td>6",
            "Eel</td><td>1",
            "none",
        ]

    def test_heads_of_rows(self):
        assert sentences(
            "<table><tr><th colspan=2>Cod<tr><th>Family:<td>Gadidae<tr><th>Size<td>big</table>"
        ) == ["Cod", "Family: Gadidae", "Size: big"]

    def test_a_table_without_heads(self):
        table = "<table><tr><td>Support<td>450 euros<tr><td>Training<td>80 euros</table>"
        assert sentences(table) == ["Support; 450 euros", "Training; 80 euros"]

    @pytest.mark.parametrize(
        "table",
        [
            "<table role=presentation><tr><td>One. Two.<td>Three.<tr><td>Four.<td>Five.</table>",
            "<table><tr><td>One. Two.<tr><td>Three.<tr><td>Four. Five.</table>",
            "<table><tr><td><h2>x</h2>One. Two.<td>Three.<tr><td>Four.<td>Five.</table>",
            "<table><tr><td><table><tr><td>One. Two.</table><td>Three.<tr>"
            "<td>Four.<td>Five.</table>",
        ],
    )
    def test_a_table_that_lays_out_prose(self, table):
        document = read(table)
        assert [one.text for one in document.sentences()] == [
            *("One.", "Two.", "Three.", "Four.", "Five.")
        ]
        assert {kind for kind, _ in kinds(document)} == {"prose"}

    def test_a_long_row_is_read_cell_by_cell(self):
        long = "Cod swim. " * 80
        document = read(f"<table><tr><th>A<th>B<tr><td>{long}<td>Short.</table>")
        texts = [sentence.text for sentence in document.sentences()]
        assert texts == ["A: Cod swim.", *["Cod swim."] * 79, "B: Short."]
        assert {kind for kind, _ in kinds(document)} == {"prose"}

    def test_spans_cannot_blow_up_a_page(self):
        cells = "<td colspan=1000 rowspan=60000>x" * 20
        document = read(f"<table><tr><th>A<th>B{f'<tr>{cells}' * 50}</table>")
        assert sum(len(one.text) for one in document.sentences()) < 100_000


@pytest.mark.parametrize(
    "page",
    [
        "<b" * 3000,
        "<p>x" * 3000,
        "<table><tr><td>" * 1000 + "x",
        "<ul><li>" * 1000 + "x",
        '<a class="headerlink">' * 3000 + "x",
        "<div class='sidebar'>" * 3000 + "x",
        "<header>" * 3000 + "x",
        "<dl><dt>x" * 1000,
        "<math><mrow>" * 2000 + "x",
    ],
    ids=range(9),
)
def test_malformed_and_deep_pages(page):
    assert sentences(page + "<p>End.")[-1].endswith("End.")


def test_headings_of_a_page_without_elements_for_headings():
    page = (
        '<title>ex10.htm</title><p style="text-align: center"><b>LEASE</b></p><p>A and B agree.</p>'
        "<p><b>1.&nbsp; Term</b></p><p><u>Start</u>. It begins now.</p>"
        '<div><font style="font-weight: bold">2. Fees</font></div><div>They are due in May.</div>'
        '<p align="center"><b>ARTICLE III</b></p><center><b>DUTIES</b></center><p>None exist.</p>'
        "<p>None will.</p>"
    )
    document = Document.from_text(page, format="html")
    assert document.title == "LEASE"
    assert [section.title for section in document.sections][1:] == [
        "1. Term",
        "2. Fees",
        "ARTICLE III DUTIES",
    ]
    with_headings = Document.from_text(f"<h1>Rooms</h1>{page}", format="html")
    assert with_headings.title == "Rooms"
    assert len(with_headings.sections) == 1


@pytest.mark.parametrize("numbers", ["1 2 3 4", "I II III IV"])
def test_numbers_of_chapters_below_rules_are_kept(numbers):
    page = "".join(
        f"<hr><p>{number}</p><p>They left for room {number}.</p><p>They came back.</p>"
        for number in numbers.split()
    )
    document = Document.from_text(page, format="html")
    shown = [span.text for span in document.spans()]
    assert shown.count("They came back.") == 4
    titles = [section.title for section in document.sections]
    assert set(numbers.split()) <= {*shown, *titles}


@pytest.mark.parametrize("piece", ['<a rel="next" href="x">x</a>, ', "<h3>x</h3>y"])
def test_time_is_linear_in_the_pieces_of_an_element(piece):
    page = f'<p>Cod swim.</p><div class="note">{piece * 20_000}</div>'
    start = time.process_time()
    Document.from_text(page, format="html")
    assert time.process_time() - start < 10


def test_code_keeps_its_lines():
    page = "<p>Run it:</p><pre><code>pip install cod\n  cod --fry<br>eat</code></pre><p>Done.</p>"
    assert kinds(read(page)) == [
        ("prose", ["Run it:"]),
        ("code", ["pip install cod\n  cod --fry\neat"]),
        ("prose", ["Done."]),
    ]


def test_headings_that_lead_back_to_the_contents(outline):
    page = (
        '<h1>Cod</h1><p>A fish.</p><h2><a class="toc-backref" href="#id1" role="doc-backlink">'
        'Life</a></h2><p>It swims.<a role="doc-backlink" href="#x">↩</a></p>'
    )
    assert outline(read(page)) == [("", ["A fish."]), ("Life", ["It swims."])]


def test_readings_of_ruby_are_left_out():
    page = "<p>東<ruby>京<rp>(</rp><rt>きょう</rt><rp>)</rp></ruby>に行く。</p>"
    assert sentences(page) == ["東京に行く。"]


@pytest.mark.parametrize("written", ["Frei&shy;berufler", "Frei\xadberufler", "Frei\xad\nberufler"])
def test_soft_hyphens_do_not_stay_in_words(written):
    assert sentences(f"<h1>Amt</h1><p>Wir fördern {written}.</p>") == ["Wir fördern Freiberufler."]


def test_an_article_in_an_aside_is_more_than_a_notice_about_cookies():
    notice = "We use cookies to improve this site. Accept all of them in your settings."
    article = "The mill was opened again in 1970 by the parish. People came to see it turn. " * 4
    aside = f"<aside><h1>Mill reopens</h1><p>{article}</p></aside>"
    page = f"<div id=cookie-consent><p>{notice}</p></div>{aside}"
    document = read(page)
    assert document.title == "Mill reopens"
    assert notice.split(".")[0] not in " ".join(sentences(page))


def test_headings_by_role_and_headings_that_are_buttons(outline):
    page = (
        "<h1>Dam</h1><p>Old.</p><div role=heading aria-level=2>Gates</div><p>They open.</p>"
        "<h2> <button>Locks</button></h2><p>They close.</p>"
        "<h2>Keys<button>Buy</button></h2><p>Old.</p>"
    )
    document = Document.from_text(page, format="html")
    assert [path for path, _ in outline(document)][-3:] == ["Gates", "Locks", "Keys"]
