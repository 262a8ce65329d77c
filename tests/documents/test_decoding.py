import gzip
import zipfile
from io import BytesIO

import pytest

from foveate.documents import Document, DocumentError


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def archive():
    content = BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        file.writestr("notes.txt", "Hello.")
    return content.getvalue()


def refusal(path, **options):
    with pytest.raises(DocumentError) as caught:
        Document.from_file(path, **options)
    message = str(caught.value)
    assert message.startswith(str(path)) or path.name in message
    return message


@pytest.mark.parametrize("name", ["notes.txt", "notes", "notes.log", "notes.text", "NOTES.TXT"])
def test_plain_names_are_text(write, name):
    path = write(name, "Hello there.")
    document = Document.from_file(path)
    assert (document.title, document.source) == ("", str(path))
    assert document.text == "Hello there."


def test_compressed_text(write):
    path = write("book.md.gz", gzip.compress(b"# One\n\nHello.\n\n# Two\n\nx."))
    document = Document.from_file(str(path))
    assert [section.title for section in document.sections] == ["One", "Two"]
    assert document.title == ""


def test_bytes_are_read_as_files_are(write):
    markdown = b"# One\n\nHello."
    whole = Document.from_file(write("x.md", markdown))
    for data in (markdown, gzip.compress(markdown)):
        document = Document.from_bytes(data, format="markdown")
        assert (document.title, document.sections) == (whole.title, whole.sections)
    assert Document.from_bytes(markdown).title == ""
    with pytest.raises(DocumentError, match="The data is a ZIP archive but not DOCX"):
        Document.from_bytes(archive())
    with pytest.raises(DocumentError, match="The data is not valid UTF-8"):
        Document.from_bytes(b"ab\xff")


def test_the_format_overrides_the_suffix(write):
    document = Document.from_file(write("x.zzz", "# One\n\nHello."), format="markdown")
    assert document.title == "One"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_byte_order_marks_are_honoured(write, encoding):
    document = Document.from_file(write("x.txt", "Grüße 😀.".encode(encoding)))
    assert document.text == "Grüße 😀."


def test_declared_encodings_are_honoured(write):
    html = '<meta charset="iso-8859-1"><p>Grüße.'.encode("latin-1")
    assert [s.text for s in Document.from_file(write("x.html", html)).sentences()] == ["Grüße."]
    tei = '<?xml version="1.0" encoding="latin-1"?><TEI><text><body><p>Ü</p></body></text></TEI>'
    document = Document.from_file(write("x.xml", tei.encode("latin-1")))
    assert [s.text for s in document.sentences()] == ["Ü"]


class TestRefusals:
    def test_missing_file(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"none\.txt does not exist: check the path"):
            Document.from_file(tmp_path / "none.txt")

    def test_directory(self, tmp_path):
        with pytest.raises(IsADirectoryError, match="is a directory: give one of the files"):
            Document.from_file(tmp_path)

    @pytest.mark.parametrize("content", ["", " \n\t\n"])
    def test_empty_files(self, write, content):
        assert "is empty: give it some text" in refusal(write("x.md", content))

    def test_binary(self, write):
        assert "byte 0 at offset 3" in refusal(write("x.txt", b"abc\0def"))

    def test_invalid_utf_8(self, write):
        assert "is not valid UTF-8 (byte 2)" in refusal(write("x.txt", b"ab\xff"))

    def test_unknown_encoding(self, write):
        assert "'klingon'" in refusal(write("x.html", '<meta charset="klingon"><p>x'))

    def test_unknown_suffix(self, write):
        message = refusal(write("x.xyz", "text"))
        assert "ends in .xyz" in message
        assert ".md" in message
        assert "transcript" in message

    def test_unknown_format(self, write):
        with pytest.raises(DocumentError, match="no format 'word': use one of text, markdown"):
            Document.from_file(write("x.txt", "x"), format="word")

    def test_damaged_gzip(self, write):
        whole = gzip.compress(b"Hello there. " * 100)
        assert "is not a whole gzip file" in refusal(write("x.txt.gz", whole[:-10]))
        assert "is not a whole gzip file" in refusal(write("y.txt.gz", b"Hello."))

    def test_gzip_that_expands_without_end(self, write, monkeypatch):
        monkeypatch.setattr("foveate.documents.decoding.MAX_BYTES", 2**20)
        assert "decompresses to more than 1 MiB" in refusal(
            write("x.txt.gz", gzip.compress(b"a" * 2**21))
        )

    def test_other_xml(self, write):
        assert "root <svg>" in refusal(write("x.xml", "<!-- <TEI> --><svg/>"))
        assert "is not XML" in refusal(write("y.xml", "Hello."))

    def test_characters_that_are_not_text(self):
        with pytest.raises(DocumentError, match=r"U\+D800 at 1"):
            Document.from_text("a\ud800")
        with pytest.raises(DocumentError, match=r"U\+0000 at 0"):
            Document.from_text("\0a")

    def test_office_formats_as_text(self):
        with pytest.raises(DocumentError, match=r"PDF is not text: read it with Document\.from_f"):
            Document.from_text("x", format="pdf")
