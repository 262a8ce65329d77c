import bz2
import gzip
import lzma
import zipfile
from io import BytesIO

import pytest

from foveate.documents import Document, DocumentError
from foveate.documents.compression import zstd


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


COMPRESSED = [
    ("gz", gzip.compress),
    ("bz2", bz2.compress),
    ("xz", lzma.compress),
    ("zst", zstd.compress),
]


@pytest.mark.parametrize(("suffix", "compress"), COMPRESSED)
def test_compressed_text(write, suffix, compress):
    data = compress(b"# One\n\nHello.\n\n# Two\n\nx.")
    for name in (f"book.md.{suffix}", "book.md"):
        document = Document.from_file(str(write(name, data)))
        assert [section.title for section in document.sections] == ["One", "Two"]
        assert document.title == ""


def test_a_text_that_begins_like_bzip2_is_text(write):
    assert Document.from_file(write("x.txt", "BZh91 is a code.")).text == "BZh91 is a code."


def test_bytes_are_read_as_files_are(write):
    markdown = b"# One\n\nHello."
    whole = Document.from_file(write("x.md", markdown))
    for data in (markdown, gzip.compress(markdown)):
        document = Document.from_bytes(data, format="markdown")
        assert (document.title, document.sections) == (whole.title, whole.sections)
    assert Document.from_bytes(markdown).title == ""
    document = Document.from_bytes(archive(), source="an upload")
    assert (document.text, document.source) == ("Hello.", "an upload/notes.txt")
    with pytest.raises(DocumentError, match="The data is not text"):
        Document.from_bytes(b"ab\0")


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Grüße aus Köln, wo der Käse gut ist.", "cp1252"),
        ("Le café est à côté de la forêt.", "cp1252"),
        ("Příliš žluťoučký kůň úpěl ďábelské ódy.", "cp1250"),
        ("Привет, как дела? Сегодня хорошая погода.", "cp1251"),
        ("これは日本語で書かれた文章です。魚は海を泳ぐ。", "cp932"),
        ("这是一个中文文本。鳕鱼在冷海里游泳。", "gb18030"),
    ],
)
def test_other_encodings_are_detected_or_given(write, text, encoding):
    path = write("x.txt", ("An ASCII line.\n" * 100 + text).encode(encoding))
    for given in (None, encoding):
        assert Document.from_file(path, encoding=given).text.endswith(text)


def test_a_damaged_byte_does_not_hide_that_a_text_is_utf_8(write):
    data = ("Grüße aus Köln. " * 100).encode()
    assert Document.from_file(write("x.txt", data + b"\xc3")).text == data.decode() + "\ufffd"


def test_carriage_returns_alone_end_lines(write):
    document = Document.from_file(write("old.txt", b"1 Cod\r\rCod swim.\r\r2 Eel\r\rEel swim."))
    assert [section.title for section in document.sections] == ["1 Cod", "2 Eel"]


def test_pages_may_declare_what_they_are_not(write):
    html = '<meta charset="utf-8"><p>Schöne Grüße aus Köln.'.encode("cp1252")
    [sentence] = Document.from_file(write("x.html", html)).sentences()
    assert sentence.text == "Schöne Grüße aus Köln."


def test_formats_are_recognized_by_content(write):
    texts = {
        "vtt": "WEBVTT\n\n00:01.000 --> 00:02.000\nHello.\n",
        "srt": "1\n00:00:01,000 --> 00:00:02,000\nHello.\n",
        "json": '{"title": "A", "text": "Hello."}',
        "jsonl": '{"title": "A", "text": "Hello."}\n',
        "eml": "From: a@b.c\nDate: Mon, 5 Jan 2026 10:00:00 +0100\nMessage-ID: <1@x>\n\nHello.\n",
        "html": "\n<!DOCTYPE html><title>x</title><p>Hello.</p>",
        "xml": '<?xml version="1.0"?><TEI><text><body><p>Hello.</p></body></text></TEI>',
        "unknown": "Hello.",
    }
    for suffix, text in texts.items():
        for document in (Document.from_file(write("x", text)), Document.from_bytes(text.encode())):
            assert [s.text for s in document.sentences()] == ["Hello."], suffix


def test_an_archive_of_word_documents_is_an_archive(write):
    content = BytesIO()
    with zipfile.ZipFile(content, "w") as file:  # stored, so that the inner names are in its bytes
        inner = BytesIO()
        with zipfile.ZipFile(inner, "w") as word:
            word.writestr("word/document.xml", "<x/>")
        file.writestr("inner.docx", inner.getvalue())
        file.writestr("a.txt", "Hello. " * 1000)
    for name in ("x.zip", "x"):
        with pytest.raises(DocumentError, match=f"{name} holds several documents"):
            Document.from_file(write(name, content.getvalue()))


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
        with pytest.raises(IsADirectoryError, match="is a directory: read it with read_documents"):
            Document.from_file(tmp_path)

    @pytest.mark.parametrize("content", ["", " \n\t\n"])
    def test_empty_files(self, write, content):
        assert "is empty: give it some text" in refusal(write("x.md", content))

    def test_binary(self, write):
        assert "byte 0 at offset 3" in refusal(write("x.txt", b"abc\0def"))

    def test_control_characters(self, write):
        assert "is not text (control" in refusal(write("x.txt", b"\x01\x02\x03 text"))

    def test_invalid_in_the_given_encoding(self, write):
        path = write("x.txt", b"ab\xff")
        assert "is not valid UTF-8 (byte 2)" in refusal(path, encoding="utf-8")

    @pytest.mark.parametrize("name", ["klingon", "hex"])
    def test_unknown_encoding(self, write, name):
        assert f"no encoding '{name}'" in refusal(write("x.txt", "x"), encoding=name)

    def test_unknown_binary_format(self, write):
        message = refusal(write("x.sqlite", b"SQLite\0"))
        assert "ends in .sqlite, and is in no format that can be read" in message

    def test_unknown_format(self, write):
        with pytest.raises(DocumentError, match="no format 'word': use one of text, markdown"):
            Document.from_file(write("x.txt", "x"), format="word")

    def test_damaged_gzip(self, write):
        whole = gzip.compress(b"Hello there. " * 100)
        assert "is not a whole gzip file" in refusal(write("x.txt.gz", whole[:-10]))
        assert "is not a whole gzip file" in refusal(write("y.txt.gz", b"Hello."))

    @pytest.mark.parametrize(("suffix", "compress"), COMPRESSED)
    def test_damaged_compression(self, write, suffix, compress):
        whole = compress(b"Hello there. " * 100)
        for damaged in (whole[:-10], b"Hello."):
            assert "is not a whole" in refusal(write(f"x.txt.{suffix}", damaged))

    def test_gzip_that_expands_without_end(self, write, monkeypatch):
        monkeypatch.setattr("foveate.documents.compression.MAX_BYTES", 2**20)
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


@pytest.mark.parametrize(
    ("label", "encoding", "text"),
    [
        ("iso-8859-1", "cp1252", "It costs 5 € – “cheap”."),
        ("latin1", "cp1252", "It costs 5 €."),
        ("shift_jis", "cp932", "①髙島屋です。"),
        ("gb2312", "gb18030", "镕基说。"),
        ("ks_c_5601-1987", "cp949", "똠방각하."),
        ("utf-16", "utf-8", "Größe."),
        ("x-sjis", "cp932", "①です。"),
    ],
)
def test_labels_mean_what_browsers_take_them_for(write, label, encoding, text):
    content = f'<html><head><meta charset="{label}"></head><body><p>{text}</p></body></html>'
    path = write("page.html", content.encode(encoding))
    assert [one.text for one in Document.from_file(path).sentences()] == [text]
    content = (
        f'<?xml version="1.0" encoding="{label}"?><article><body><p>{text}</p></body></article>'
    )
    path = write("article.xml", content.encode(encoding))
    assert [one.text for one in Document.from_file(path).sentences()] == [text]


@pytest.mark.parametrize("declared", [True, False])
def test_circled_digits_of_nec_in_euc_jp(declared):
    text = "水車小屋の石は古くて重いです。".encode("euc_jp")
    page = b"<p>" + text + b"\xad\xa1\x8e\xce\xfc\xe2</p>"
    head = b"<meta charset=euc-jp>" if declared else b""
    assert "①ﾎ髙" in Document.from_bytes(head + page, format="html").text


def test_japanese_in_seven_bits_is_recognized(write):
    path = write("a.txt", "ポンプは古い。".encode("iso2022_jp"))
    assert [one.text for one in Document.from_file(path).sentences()] == ["ポンプは古い。"]


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize(
    "page",
    [
        '.\\" A remark\n.de Sp\n..\n.TH LS 1\n.SH NAME\nls \\- list files\n',
        ".Dd May 1, 2024\n.Dt LS 1\n.Sh NAME\n.Nm ls\n",
    ],
)
def test_manual_pages_are_refused(write, page, suffix):
    content = gzip.compress(page.encode()) if suffix else page
    assert "is a manual page" in refusal(write(f"ls.1{suffix}", content))
