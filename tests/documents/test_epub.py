"""E-books (EPUB)."""

from random import Random

import pytest

from foveate.documents import Document, DocumentError
from tests.documents.packages import epub


def entry(title, href, *inner):
    nested = f"<ol>{''.join(inner)}</ol>" if inner else ""
    return f'<li><a href="{href}">{title}</a>{nested}</li>'


def point(title, href, *inner):
    return (
        f"<navPoint><navLabel><text>{title}</text></navLabel>"
        f'<content src="{href}"/>{"".join(inner)}</navPoint>'
    )


def test_chapters_in_their_order(outline, in_source):
    pages = {
        "1.xhtml": "<h1>The Sea</h1><p>It is&#160;wide. Fish swim.</p><h2>Cod</h2><p>Cold.</p>",
        "2.xhtml": "<h1>The Land</h1><p>Dry &amp; warm.</p>",
    }
    contents = entry("The Sea", "1.xhtml") + entry("The Land", "2.xhtml")
    document = Document.from_bytes(epub(pages, contents), source="book.epub")
    assert document.title == "A Book"
    assert outline(document) == [
        ("The Sea", ["It is wide.", "Fish swim."]),
        ("The Sea > Cod", ["Cold."]),
        ("The Land", ["Dry & warm."]),
    ]
    assert document.text.startswith("The Sea\n\nIt is wide. Fish swim.\n\nCod\n\nCold.")
    assert in_source(document) == [sentence.text for sentence in document.sentences()]
    assert [span.place for span in document.spans()] == [
        "paragraph 1",
        "paragraph 1",
        "paragraph 1",
        "paragraph 1",
    ]


@pytest.mark.parametrize("make", [entry, point])
def test_chapters_without_headings_have_those_of_the_contents(outline, make):
    pages = {
        "0.xhtml": "<p>For Ann.</p>",
        "1.xhtml": "<p>Part one begins.</p>",
        "2.xhtml": '<p id="a">I</p><p>First.</p><p><a id="b"/>Second.</p>',
        "3.xhtml": "<p>It goes on.</p>",
        "4.xhtml": "<h3>II</h3><p>Third.</p><h2>Part Two</h2><p>Fourth.</p><h4>More</h4><p>5.</p>",
    }
    contents = make(
        "Part One", "1.xhtml", make("I", "2.xhtml#a"), make("i", "2.xhtml#b"), make("II", "4.xhtml")
    ) + make("Part Two", "4.xhtml#p")
    given = {"contents": contents} if make is entry else {"ncx": contents}
    assert outline(Document.from_bytes(epub(pages, **given))) == [
        ("", ["For Ann."]),
        ("Part One", ["Part one begins."]),
        ("Part One > I", ["First."]),
        ("Part One > i", ["Second.", "It goes on."]),
        ("Part One > II", ["Third."]),
        ("Part Two", ["Fourth."]),
        ("Part Two > More", ["5."]),
    ]


def test_paragraphs_without_a_chapter_are_counted_from_the_beginning():
    spans = Document.from_bytes(epub({"1.xhtml": "<p>One.</p>", "2.xhtml": "<p>Two.</p>"})).spans()
    assert [span.place for span in spans] == ["paragraph 1", "paragraph 2"]


def test_notes_lists_and_tables():
    body = (
        '<h1>A</h1><p>Cod<a epub:type="noteref" href="#n">1</a> swim'
        '<span epub:type="pagebreak" title="7"/> far.</p>'
        '<aside epub:type="footnote" id="n"><p>See Smith. '
        '<a role="doc-backlink">Back</a></p></aside>'
        "<table><tr><th>Item</th><th>Price</th></tr><tr><td>Help</td><td>5</td></tr>"
        "<tr><td>Ink</td><td>6</td></tr></table><ol><li>First</li></ol>"
        '<ol><li epub:type="rearnote">Far.</li></ol><p>End.</p>'
    )
    document = Document.from_bytes(epub({"1.xhtml": body}))
    assert [paragraph.kind for paragraph in document.paragraphs()] == [
        "prose", "footnote", "table", "item", "footnote", "prose",
    ]  # fmt: skip
    assert [span.text for span in document.spans()] == [
        "Cod swim far.", "See Smith.", "Item: Help; Price: 5", "Item: Ink; Price: 6",
        "1. First", "1. Far.", "End.",
    ]  # fmt: skip
    assert [span.place for span in document.spans()][2:5] == [
        "paragraph 3", "paragraph 3", "paragraph 4",
    ]  # fmt: skip


def test_pages_with_errors_and_missing_pages(outline):
    pages = {
        "1.xhtml": "<h1>One</h1><p>Open & unclosed<br>&nbsp;text.<p>More.",
        "2.xhtml": "",
        "3.xhtml": "<h1>Three</h1><p>Text.</p>",
    }
    data = epub(pages, **{"EPUB/2.xhtml": b"\0\1"})
    read = outline(Document.from_bytes(data))
    assert [path for path, _ in read] == ["One", "Three"]
    assert " ".join(read[0][1]).startswith("Open")
    assert read[0][1][-1] == "More."


def encryption(algorithm, part):
    return {
        "META-INF/encryption.xml": "<encryption><EncryptedData>"
        f'<EncryptionMethod Algorithm="{algorithm}"/><CipherData><CipherReference URI="{part}"/>'
        "</CipherData></EncryptedData></encryption>"
    }


def test_copy_protection_is_told():
    pages = {"1.xhtml": "<p>Text.</p>"}
    aes = "http://www.w3.org/2001/04/xmlenc#aes128-cbc"
    with pytest.raises(DocumentError, match=r"is protected against copying \(DRM\)"):
        Document.from_bytes(epub(pages, **encryption(aes, "EPUB/1.xhtml")))
    assert Document.from_bytes(epub(pages, **encryption(aes, "EPUB/font.otf")))
    obfuscated = encryption("http://www.idpf.org/2008/embedding", "EPUB/1.xhtml")
    assert Document.from_bytes(epub(pages, **obfuscated))


def test_a_book_without_its_parts_is_refused(tmp_path):
    path = tmp_path / "x.epub"
    path.write_bytes(epub({}))
    with pytest.raises(DocumentError, match=r"x\.epub is empty"):
        Document.from_file(path)
    path.write_bytes(epub({}, **{"META-INF/container.xml": "<container/>"}))
    with pytest.raises(DocumentError, match=r"x\.epub cannot be read as EPUB"):
        Document.from_file(path)


def test_damaged_books_are_read_or_refused_in_a_sentence():
    pages = {"1.xhtml": "<h1>One</h1><p>Text.</p>", "2.xhtml": "<p>More.</p>"}
    data = epub(pages, entry("One", "1.xhtml") + entry("Two", "2.xhtml"))
    random = Random(0)
    messages = []
    for _ in range(200):
        damaged = bytearray(data[: random.randrange(len(data))] if random.random() < 0.2 else data)
        for _ in range(random.randrange(8)):
            damaged[random.randrange(len(damaged))] = random.randrange(256)
        try:
            Document.from_bytes(bytes(damaged), format="epub")
        except DocumentError as error:
            messages.append(str(error))
    assert all(message.startswith("The data ") for message in messages)
    assert len(messages) > 20
