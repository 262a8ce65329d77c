"""PDF and DOCX, which need the ``office`` extra."""

import sys
import zipfile
from io import BytesIO
from random import Random

import pytest

from foveate.documents import Document, DocumentError

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"


def docx(body, **more):
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types">'
        '<Default Extension="xml" ContentType="application/xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships">'
        f'<Relationship Id="r" Type="{OFFICE}" Target="word/document.xml"/></Relationships>',
        "word/document.xml": f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>',
    }
    file = BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (parts | more).items():
            archive.writestr(name, content)
    return file.getvalue()


def paragraph(text, style=""):
    return f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>'


def pdf(line):
    stream = f"BT /F1 12 Tf 72 720 Td ({line}) Tj ET".encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R"
        b"/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%b\nendstream" % (len(stream), stream),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    content, offsets = b"%PDF-1.4\n", []
    for number, item in enumerate(objects, 1):
        offsets.append(len(content))
        content += b"%d 0 obj%b\nendobj\n" % (number, item)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return (
        content
        + b"xref\n0 6\n0000000000 65535 f \n"
        + table
        + b"trailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % len(content)
    )


def read(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    return Document.from_file(path)


def test_docx(tmp_path, outline, in_source):
    pytest.importorskip("markitdown")
    body = paragraph("One", "Heading1") + paragraph("Hello. Bye.") + paragraph("Two", "Heading1")
    document = read(tmp_path, "letter.docx", docx(body + paragraph("End.")))
    assert document.title == ""
    assert outline(document) == [("One", ["Hello.", "Bye."]), ("Two", ["End."])]
    assert document.text.startswith("# One")
    assert in_source(document) == ["Hello.", "Bye.", "End."]


def test_pdf(tmp_path, outline):
    pytest.importorskip("pdfminer")
    document = read(tmp_path, "letter.pdf", pdf("Hello there. Bye."))
    assert outline(document) == [("", ["Hello there.", "Bye."])]


def test_the_format_is_recognized_by_the_content(tmp_path, outline):
    pytest.importorskip("pdfminer")
    content = pdf("Hello there. Bye.")
    document = Document.from_bytes(content, source="an upload")
    assert outline(document) == outline(read(tmp_path, "letter.txt", content))
    assert outline(document) == outline(read(tmp_path, "letter.pdf", content))
    assert document.source == "an upload"
    pytest.importorskip("mammoth")
    assert outline(Document.from_bytes(docx(paragraph("Hello.")))) == [("", ["Hello."])]


def test_a_scan_has_no_text(tmp_path):
    pytest.importorskip("pdfminer")
    with pytest.raises(DocumentError, match=r"scan\.pdf has no text: if its pages are pictures"):
        read(tmp_path, "scan.pdf", pdf(""))


@pytest.mark.parametrize("name", ["x.pdf", "x.docx"])
@pytest.mark.parametrize("content", [b"", b"junk", b"%PDF-1.4 junk", b"PK\x03\x04junk"])
def test_damaged_files_are_refused(tmp_path, name, content):
    pytest.importorskip("markitdown")
    with pytest.raises(DocumentError, match=r"x\.(pdf|docx) (cannot be read as|is not a whole)"):
        read(tmp_path, name, content)


def test_any_damage_to_a_docx_is_reported(tmp_path):
    pytest.importorskip("markitdown")
    whole = docx(paragraph("Hello there. " * 50))
    random, messages = Random(0), []
    for _ in range(200):
        damaged = bytearray(whole)
        for _ in range(8):
            damaged[random.randrange(len(damaged))] = random.randrange(256)
        try:
            read(tmp_path, "x.docx", bytes(damaged))
        except DocumentError as error:
            messages.append(str(error))
    assert messages
    assert all(str(tmp_path / "x.docx") in message for message in messages)


def test_a_zip_bomb_is_refused(tmp_path):
    pytest.importorskip("markitdown")
    with pytest.raises(DocumentError, match=r"far more than DOCX holds \('bomb'\)"):
        read(tmp_path, "x.docx", docx(paragraph("Hi."), bomb=b"\0" * 2**26))


def test_too_many_parts_are_refused(tmp_path, monkeypatch):
    pytest.importorskip("markitdown")
    monkeypatch.setattr("foveate.documents.archives._MAX_MEMBERS", 2)
    with pytest.raises(DocumentError, match="has 3 parts"):
        read(tmp_path, "x.docx", docx(paragraph("Hi.")))


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "markitdown", None)
    with pytest.raises(ImportError, match=r"pip install 'foveate\[office\]'"):
        read(tmp_path, "x.docx", docx(""))
