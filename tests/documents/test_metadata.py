"""Authors and dates: how they are understood, and which ones each format states."""

import json
from datetime import date, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.documents import Document, read_documents
from foveate.documents.metadata import (
    clean_names,
    is_date,
    make_date,
    names_in,
    parse_date,
    split_names,
)
from tests.documents.packages import docx, epub, flat_odt, odt
from tests.documents.pdfs import Writer

BOTH = ("Ann Lee", "José Díaz")
DAYS = st.dates(min_value=date(1000, 1, 1))


def metadata(content, format=None):
    """Read a document and return its authors and its date."""
    if isinstance(content, bytes):
        document = Document.from_bytes(content, format=format)
    else:
        document = Document.from_text(content, format=format)
    assert [sentence.text for sentence in document.sentences()][-1] == "Cod swim."
    return document.authors, document.date


class TestDates:
    @pytest.mark.parametrize(
        "form",
        [
            *("%Y-%m-%d", "%Y/%m/%d", "%Y%m%d", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S+02:00"),
            *("%d %B %Y", "%d. %b. %Y", "%B %d, %Y", "%b %d %Y", "%d-%b-%Y", "%Y %b %d"),
            *("%a, %d %b %Y %H:%M:%S +0200", "%A, %B %d, %Y at %H:%M", "%Y年%m月%d日"),
        ],
    )
    @given(day=DAYS)
    @settings(max_examples=20)
    def test_days_are_understood(self, form, day):
        written = datetime.combine(day, datetime.min.time()).strftime(form)
        assert parse_date(written) == day.isoformat()

    @pytest.mark.parametrize(
        ("written", "understood"),
        [
            ("2024", "2024"),
            (2024, "2024"),
            ("2024-3", "2024-03"),
            ("March 2024", "2024-03"),
            ("Sept. 2024", "2024-09"),
            ("1. März 2024", "2024-03-01"),
            ("1er août 2024", "2024-08-01"),
            ("12 de octubre de 2024", "2024-10-12"),
            ("3rd of May 2024", "2024-05-03"),
            (date(2024, 5, 3), "2024-05-03"),
        ],
    )
    def test_months_years_and_other_languages(self, written, understood):
        assert parse_date(written) == understood

    @pytest.mark.parametrize(
        "written",
        [
            *("03/04/2024", "3.4.2024", "24-03-12", "Spring 2024", "2023/24", "2020-2024", "today"),
            *(
                "Draft 12 March 2024",
                "2024-02-30",
                "31 June 2024",
                "2024-13",
                "0101-01-01",
                "",
                "v2",
            ),
            *(None, True, 20.24, [2024], {"year": 2024}, 10**9, -5, "2024" * 1000),
        ],
    )
    def test_anything_else_is_not(self, written):
        assert parse_date(written) is None

    @given(st.text() | st.text("0123456789-/. MayT:Z年月,") | st.integers() | st.datetimes())
    def test_the_result_is_a_date_or_nothing(self, written):
        found = parse_date(written)
        assert found is None or is_date(found)

    @given(DAYS)
    def test_iso_dates_stay_as_they_are(self, day):
        for written in (day.isoformat(), day.isoformat()[:7], day.isoformat()[:4]):
            assert is_date(written)
            assert parse_date(written) == written

    def test_parts(self):
        assert make_date("2024", "9", "1") == "2024-09-01"
        assert make_date(2024, "Sep.") == "2024-09"
        assert make_date(2024, 2, 30) is None
        assert make_date(None) is None
        assert make_date("2024a") is None


class TestNames:
    @pytest.mark.parametrize(
        ("written", "names"),
        [
            ("Ann Lee, Bob Ray and Eve Fox", ("Ann Lee", "Bob Ray", "Eve Fox")),
            ("Ann Lee, Bob Ray, & Eve Fox", ("Ann Lee", "Bob Ray", "Eve Fox")),
            ("Lee, Ann", ("Lee, Ann",)),
            ("Lee, Ann; Ray, Bob", ("Lee, Ann", "Ray, Bob")),
            ("Lee, Ann and Ray, Bob", ("Lee, Ann and Ray, Bob",)),
            ("van der Berg, Jan Peter", ("van der Berg, Jan Peter",)),
            ("Fred Drake, Jr. <f at x.org>, Bob Ray <b@x.org>", ("Fred Drake, Jr.", "Bob Ray")),
            ("Aryn (@aryn), Bob (@bob)", ("Aryn", "Bob")),
            ("Ann Lee¹,², Bob Ray³*", ("Ann Lee", "Bob Ray")),
            ("Ann Lee, University of Leeds, Leeds", ("Ann Lee",)),
            ("By Ann Lee", ("Ann Lee",)),
            ("张伟，李娜", ("张伟", "李娜")),
            ("Ministry of Food and Rural Affairs", ("Ministry of Food and Rural Affairs",)),
            ("National Institute of Standards and Technology",) * 2,
            ("World Health Organization", ("World Health Organization",)),
            ("© 1998 Ann Lee", ()),
            ("unknown", ()),
            ("42", ()),
            ("x" * 30_000, ()),
        ],
    )
    def test_lists_are_split_into_names(self, written, names):
        assert split_names(written) == ((names,) if isinstance(names, str) else names)

    def test_repetitions_and_what_is_no_name_are_left_out(self):
        written = [
            "Ann  Lee",
            "ANN LEE",
            "admin",
            "https://x.org/ann",
            "a@x.org",
            "",
            "Bob\0 Ray\ud800",
        ]
        assert clean_names(written) == ("Ann Lee", "Bob Ray")

    @pytest.mark.parametrize(
        "value",
        [
            "Ann Lee, José Díaz",
            ["Ann Lee", "José Díaz"],
            [{"name": "Ann Lee", "affiliation": "MIT"}, {"name": {"literal": "José Díaz"}}],
            [{"given": "Ann", "family": "Lee"}, {"givenName": "José", "familyName": "Díaz"}],
            [{"name": {"given": "Ann", "family": "Lee"}}, "José Díaz", 3, None, ["Bob Ray"]],
        ],
    )
    def test_values_of_yaml_and_json(self, value):
        assert names_in(value) == BOTH

    @given(st.lists(st.text()) | st.text(",; and&()<>@AbcÉ1\n"))
    def test_names_make_a_document(self, value):
        document = Document.from_text("Cod swim.")
        authors = names_in(value)
        packed = json.loads(json.dumps(document.to_dict() | {"authors": authors}))
        assert Document.from_dict(packed).authors == authors
        assert len({name.casefold() for name in authors}) == len(authors)

    @given(
        st.recursive(
            st.none() | st.text() | st.integers(),
            lambda inner: (
                st.lists(inner)
                | st.dictionaries(st.sampled_from(["name", "given", "family", "literal"]), inner)
            ),
            max_leaves=25,
        )
    )
    def test_any_value_gives_names_or_none(self, value):
        assert all(isinstance(name, str) for name in names_in(value))


HTML_HEADS = {
    "scholar": '<meta name="citation_author" content="Ann Lee"><meta name="citation_author" '
    'content="José Díaz"><meta name="citation_publication_date" content="2024/5/3">'
    '<meta name="author" content="Webmaster">',
    "dublin core": '<meta name="DC.creator" content="Ann Lee"><meta name="dc:creator" '
    'content="José Díaz"><meta name="DC.date.issued" content="2024-05-03">',
    "open graph": '<meta property="article:author" content="https://x.org/ann">'
    '<meta name="author" content="Ann Lee and José Díaz">'
    '<meta property="article:published_time" content="2024-05-03T10:00:00+02:00">',
    "json-ld": '<script type="application/ld+json">{"@graph": [{"@id": "#a", "name": "Ann Lee"}, '
    '{"@type": ["WebPage", "NewsArticle"], "author": [{"@id": "#a"}, {"name": "José Díaz"}], '
    '"datePublished": "2024-05-03"}]}</script>',
    "json-ld in xhtml": '<script type="application/ld+json">//<![CDATA[\n{"@type": "Article", '
    '"author": ["Ann Lee", "José Díaz"], "datePublished": "2024-05-03T12:00Z"}\n//]]></script>',
    "time": '<meta name="author" content="Ann Lee, José Díaz">'
    '<time datetime="2024-05-03" itemprop="datePublished">Friday</time>',
}


@pytest.mark.parametrize("head", HTML_HEADS.values(), ids=HTML_HEADS.keys())
def test_html(head):
    page = f"<html><head><title>Fish</title>{head}</head><body><p>Cod swim.</p></body></html>"
    assert metadata(page, "html") == (BOTH, "2024-05-03")


@pytest.mark.parametrize(
    "head",
    [
        '<script type="application/ld+json">{"@type": "Article"</script>',
        '<script type="application/ld+json">[[[1]], {"@type": {}, "author": 3}]</script>',
        '<script type="application/ld+json">[{"@type": "Article", "author": "Ann Lee"}, '
        '{"@type": "Article", "author": "Bob Ray"}]</script>',
        '<meta name="author"><meta content="Ann Lee"><time>3 May 2024</time>',
        '<meta name="article:modified_time" content="2024-05-03">',
    ],
)
def test_html_that_states_nothing(head):
    assert metadata(f"<head>{head}</head><p>Cod swim.</p>", "html") == ((), None)


def test_jats():
    article = """<article xmlns:xlink="x"><front><article-meta><title-group><article-title>Fish
    </article-title></title-group><contrib-group><contrib contrib-type="author" xlink:type="simple">
    <name><surname>Lee</surname><given-names>Ann</given-names></name><xref><sup>1</sup></xref>
    </contrib><contrib contrib-type="author"><name-alternatives><name name-style="eastern"><surname>
    张</surname><given-names>伟</given-names></name></name-alternatives></contrib><contrib
    contrib-type="author"><collab>Sea Group<contrib-group><contrib><name><surname>Member</surname>
    </name></contrib></contrib-group></collab></contrib></contrib-group><contrib-group><contrib
    contrib-type="editor"><name><surname>Ray</surname></name></contrib></contrib-group>
    <pub-date pub-type="collection"><year>2023</year></pub-date><pub-date pub-type="epub"><day>3
    </day><month>May</month><year>2024</year></pub-date></article-meta></front><body>
    <p>Cod swim.</p></body></article>"""
    assert metadata(article, "jats") == (("Ann Lee", "张 伟", "Sea Group"), "2024-05-03")


@pytest.mark.parametrize(
    ("statement", "source"),
    [
        (
            "<author>Ann Lee</author><author><persName><forename>José</forename>"
            "<surname>Díaz</surname></persName><email>j@x.org</email></author>",
            "",
        ),
        (
            "",
            "<sourceDesc><biblStruct><analytic><author><persName>Ann Lee</persName></author>"
            "<author><persName>José Díaz</persName></author></analytic></biblStruct></sourceDesc>",
        ),
    ],
)
def test_tei(statement, source):
    text = f"""<TEI><teiHeader><fileDesc><titleStmt><title>Fish</title>{statement}</titleStmt>
    <publicationStmt><date when="2024-05">May</date></publicationStmt>{source}</fileDesc>
    </teiHeader><text><body><p>Cod swim.</p></body></text></TEI>"""
    assert metadata(text, "tei") == (BOTH, "2024-05")


@pytest.mark.parametrize(
    "front",
    [
        "---\ntitle: Fish\nauthor: Ann Lee and José Díaz\ndate: 2024-05-03\n---\n",
        "---\nauthors:\n  - name: Ann Lee\n    email: a@x.org\n  - José Díaz\n"
        "date: May 3, 2024\n---\n",
        '---\nauthor: "Ann Lee (@ann), José Díaz <j@x.org>"\ncreated: 2024-05-03\n...\n',
        "---\nauthor:\n- name: {given: Ann, family: Lee}\n- José Díaz\npublished: 20240503\n---\n",
        '+++\nauthors = ["Ann Lee", "José Díaz"]\ndate = 2024-05-03T10:00:00Z\n+++\n',
    ],
)
def test_markdown(front):
    assert metadata(f"{front}\nCod swim.\n", "markdown") == (BOTH, "2024-05-03")


@pytest.mark.parametrize(
    "front",
    [
        "---\nauthor: [Ann\n---\n",
        "---\n- author\n---\n",
        "---\nauthor: &a [*a]\ndate: today\n---\n",
        "---\nauthor: " + "[" * 5000 + "\n---\n",
        "---\nauthor: !!python/name:os.system\n---\n",
        "+++\ndate = 3 May\n+++\n",
        "+++\ndate = " + "9" * 4000 + "\n+++\n",
        "Author: Ann Lee\n\n",
    ],
)
def test_markdown_that_states_nothing(front):
    assert metadata(f"{front}\nCod swim.\n", "markdown") == ((), None)


def test_notebooks():
    cells = [{"cell_type": "markdown", "source": ["Cod swim."]}]
    stated = {"authors": [{"name": "Ann Lee"}, {"name": "José Díaz"}], "date": "2024-05-03"}
    notebook = {"nbformat": 4, "metadata": stated, "cells": cells}
    assert metadata(json.dumps(notebook), "notebook") == (BOTH, "2024-05-03")
    front = {"cell_type": "raw", "source": "---\nauthor: Ann Lee\ndate: 2024\n---"}
    notebook = {"nbformat": 4, "metadata": [], "cells": [front, *cells]}
    assert metadata(json.dumps(notebook), "notebook") == (("Ann Lee",), "2024")


@pytest.mark.parametrize(
    "header",
    [
        "PEP: 9\nTitle: Fish\nAuthor: Ann Lee <a@x.org>,\n        José Díaz <j at x.org>\n"
        "Created: 03-May-2024\n",
        ":Author: Ann Lee\n:Author: José Díaz\n:Date: 2024-05-03\n",
        "Fish\n====\n\n:Authors: - Ann Lee\n          - José Díaz\n:Date: May 3, 2024\n",
        ".. A comment.\n\nFish\n====\n\n:authors: Ann Lee; José Díaz\n:date: 2024-05-03\n",
    ],
)
def test_restructuredtext(header):
    assert metadata(f"{header}\nCod swim.\n", "rst") == (BOTH, "2024-05-03")


def test_fields_further_down_in_restructuredtext_are_not_those_of_the_document():
    text = "Fish\n====\n\nEels.\n\n:Author: Ann Lee\n:Date: 2024\n\nCod swim.\n"
    assert metadata(text, "rst") == ((), None)


@pytest.mark.parametrize(
    "author",
    [
        r"\author{Ann Lee\thanks{Of Leeds.} \and Jos\'e D\'iaz}",
        r"\author{Ann Lee$^{1,2}$, Jos\'e D\'iaz$^1$ \\ $^1$ Leeds \quad $^2$ York}",
        r"\author[A. Lee]{Ann Lee}\affil{Leeds}\author[2]{José Díaz\corref{cor1}}",
        r"\author{Ann Lee \\ Leeds \\ \texttt{a@x.org} \And José Díaz \\ Madrid}",
        r"\author{Ann Lee \quad José Díaz \\ University of Leeds}",
        r"\author{Ann Lee,\\ José Díaz\footnote{Both.}\\ Leeds}",
        r"\author{\IEEEauthorblockN{Ann Lee} \IEEEauthorblockA{Leeds \\ UK} \and "
        r"\IEEEauthorblockN{José Díaz} \IEEEauthorblockA{Madrid}}",
        r"\author{Ann Lee\inst{1}\orcidID{0000-0001} \and José Díaz\inst{2}}\institute{Leeds}",
    ],
)
def test_latex(author):
    text = (
        rf"\documentclass{{article}}\title{{Fish}}{author}\date{{May 3, 2024}}"
        "\n\\begin{document}\\maketitle\n\nCod swim.\n\\end{document}\n"
    )
    assert metadata(text, "latex") == (BOTH, "2024-05-03")
    today = text.replace("May 3, 2024", r"\today")
    assert Document.from_text(today, format="latex").date is None


def test_plain_text_has_fields_only_below_a_title():
    header = "Title: Fish\n\nAuthor: Ann Lee\n\nDate: May 3, 2024\n\n"
    assert metadata(f"{header}Cod swim.", "text") == (("Ann Lee",), "2024-05-03")
    assert metadata(f"{header.replace('Title: ', '')}Cod swim.", "text") == ((), None)


CORE = (
    '<p xmlns="http://x" xmlns:dc="http://purl.org/dc/elements/1.1/" '
    'xmlns:dcterms="http://purl.org/dc/terms/"><dc:creator>Ann Lee; José Díaz</dc:creator>'
    "<dcterms:created>2019-01-01T00:00:00Z</dcterms:created></p>"
)


def test_word():
    body = "<w:p><w:r><w:t>Cod swim.</w:t></w:r></w:p>"
    assert metadata(docx(body, **{"docProps/core.xml": CORE})) == (BOTH, None)


def test_opendocument():
    meta = (
        '<o:document-meta xmlns:o="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
        'xmlns:m="urn:oasis:names:tc:opendocument:xmlns:meta:1.0" '
        'xmlns:dc="http://purl.org/dc/elements/1.1/"><o:meta><m:initial-creator>Ann Lee'
        "</m:initial-creator><dc:creator>Last Editor</dc:creator><dc:date>2024-05-03</dc:date>"
        "</o:meta></o:document-meta>"
    )
    text = "<text:p>Cod swim.</text:p>"
    assert metadata(odt(text, **{"meta.xml": meta})) == (("Ann Lee",), None)
    assert metadata(flat_odt(text), "odt") == ((), None)


def test_rich_text():
    info = r"{\info{\title Fish}{\author Ann Lee, Jos\'e9 D\'edaz}{\creatim\yr2019\mo1\dy1}}"
    assert metadata(rf"{{\rtf1\ansi\ansicpg1252{info}\pard Cod swim.\par}}".encode()) == (
        BOTH,
        None,
    )


def test_e_books():
    creators = """Fish</dc:title><dc:creator id="a">Ann Lee</dc:creator>
    <dc:creator xmlns:opf="http://www.idpf.org/2007/opf" opf:role="aut">José Díaz</dc:creator>
    <dc:creator xmlns:opf="http://www.idpf.org/2007/opf" opf:role="ill">Eve Fox</dc:creator>
    <dc:creator id="t">Bob Ray</dc:creator><meta refines="#a" property="role">aut</meta>
    <meta refines="#t" property="role">trl</meta>
    <dc:date xmlns:opf="http://www.idpf.org/2007/opf" opf:event="modification">2025</dc:date>
    <dc:date>2024-05-03T00:00:00Z</dc:date><dc:title>"""
    book = epub({"1.xhtml": "<p>Cod swim.</p>"}, title=creators)
    assert metadata(book) == (BOTH, "2024-05-03")


def test_e_mail_has_the_senders_of_a_thread_and_its_first_day(tmp_path):
    head = "From - \nFrom: {}\nSubject: {}Cod\nDate: {} May 2024 23:00:00 -0700\n\n{}\n\n"
    path = tmp_path / "mail.mbox"
    path.write_text(
        head.format("Ann Lee <ann@x.org>", "", "Fri, 3", "Do cod swim?")
        + head.format("j@x.org", "Re: ", "Sat, 4", "Cod do.")
        + head.format("=?utf-8?q?Jos=C3=A9_D=C3=ADaz?= <j@x.org>", "Re: ", "Sun, 5", "Cod swim.")
    )
    [thread] = read_documents(path)
    assert (thread.authors, thread.date) == (BOTH, "2024-05-03")
    assert metadata(b"From: a@x.org\nSubject: Cod\n\nCod swim.\n", "email") == ((), None)


@pytest.mark.parametrize(
    ("author", "xmp", "expected"),
    [
        ("Ann Lee, José Díaz", "", (BOTH, None)),
        ("unknown", "", ((), None)),
        ("", "<prism:coverDate>2024-05</prism:coverDate>", ((), "2024-05")),
        ("Lee", '<x:y prism:publicationDate="2024-05-03">', ((), "2024-05-03")),
        (
            "",
            "<dc:creator><rdf:Seq><rdf:li>Ann Lee</rdf:li><rdf:li>José Díaz</rdf:li></rdf:Seq>",
            (BOTH, None),
        ),
        # A time of day is what a program writes: when the file was made.
        ("", "<dc:date>2024-05-03T10:00:00Z</dc:date>", ((), None)),
    ],
)
def test_pdf(author, xmp, expected):
    writer = Writer()
    writer.canvas.setAuthor(author)
    writer.text(72, 100, "Cod swim.")
    assert metadata(writer.bytes() + xmp.encode()) == expected


def test_records_and_tables(tmp_path):
    records = [
        {"text": "Cod swim.", "authors": ["Ann Lee", "José Díaz"], "date": "2024-05-03"},
        {"body": "Cod swim.", "Author": "Ann Lee and José Díaz", "year": 2024},
        {"sections": [["A", "Cod swim."]], "authors": [{"name": "Ann Lee"}], "date": None},
        {"format": "markdown", "text": "---\nauthor: Ann Lee\ndate: 2024\n---\n\nCod swim."},
        {"text": "Cod swim.", "authors": 3, "date": [1]},
    ]
    path = tmp_path / "fish.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    assert [(one.authors, one.date) for one in read_documents(path)] == [
        (BOTH, "2024-05-03"),
        (BOTH, "2024"),
        (("Ann Lee",), None),
        (("Ann Lee",), "2024"),
        ((), None),
    ]
    path = tmp_path / "fish.csv"
    path.write_text('title,text,author,date\nFish,Cod swim.,"Ann Lee; José Díaz",2024-05-03\n')
    [fish] = read_documents(path)
    assert (fish.title, fish.authors, fish.date) == ("Fish", BOTH, "2024-05-03")
