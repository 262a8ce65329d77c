"""Folders, archives and whatever else holds several documents."""

import bz2
import gzip
import importlib.util
import io
import json
import lzma
import os
import tarfile
import zipfile

import pytest

from foveate.documents import Document, DocumentError, read_documents
from foveate.documents.compression import zstd


def zipped(files):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return content.getvalue()


def tarred(files, mode="w"):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode=mode) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data.encode()))
        link = tarfile.TarInfo("link.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return content.getvalue()


FILES = {"notes/a.txt": "Cod swim.", "b.md": "# Eels\n\nEels are long.", "c.png": "\x89PNG\0"}


def read(paths, root, **options):
    return {
        document.source.removeprefix(f"{root}/"): " ".join(s.text for s in document.sentences())
        for document in read_documents(paths, **options)
    }


@pytest.fixture
def folder(tmp_path):
    files = {
        **FILES,
        ".hidden.txt": "No.",
        ".git/x.txt": "No.",
        "program": "\x7fELF\0",
        "picture.xml": "<svg/>",
        "table.xls": zipped({"xl/a.xml": "<a/>"}),
        "README": "Read me.",
        "notes/deep/z.txt": "Deep.",
    }
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode("latin-1"))
    (tmp_path / "notes" / "loop").symlink_to(tmp_path)
    return tmp_path


def test_folders_are_walked_in_order(folder):
    assert list(read(folder, folder).items()) == [
        ("README", "Read me."),
        ("b.md", "Eels are long."),
        ("notes/a.txt", "Cod swim."),
        ("notes/deep/z.txt", "Deep."),
    ]


def test_several_paths(folder):
    paths = [folder / "b.md", str(folder / "notes")]
    assert list(read(paths, folder)) == ["b.md", "notes/a.txt", "notes/deep/z.txt"]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.zip", zipped(FILES)),
        ("x", zipped(FILES)),
        ("x.tar", tarred(FILES)),
        ("x.tgz", tarred(FILES, "w:gz")),
        ("x.tar.xz", tarred(FILES, "w:xz")),
        ("x.dat", tarred(FILES, "w:bz2")),
    ],
)
def test_archives(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    assert read(tmp_path / name, tmp_path) == {
        f"{name}/notes/a.txt": "Cod swim.",
        f"{name}/b.md": "Eels are long.",
    }


def test_archives_in_archives(tmp_path):
    inner = zipped({"a.txt.gz": gzip.compress(b"Cod swim.")})
    for depth in range(1, 4):
        path = tmp_path / f"{depth}.zip"
        path.write_bytes(inner)
        if depth < 4:
            assert list(read(path, tmp_path).values()) == ["Cod swim."]
        inner = zipped({"inner.zip": inner})
    path.write_bytes(inner)
    with pytest.raises(DocumentError, match="is nested in 3 other archives"):
        read(path, tmp_path)


def test_names_lead_nowhere(tmp_path):
    path = tmp_path / "x.zip"
    path.write_bytes(zipped({"../../etc/a.txt": "Cod.", "/b.txt": "Eel.", "c\x1b[1m.txt": "Ray."}))
    assert read(path, tmp_path) == {
        "x.zip/etc/a.txt": "Cod.",
        "x.zip/b.txt": "Eel.",
        "x.zip/c?[1m.txt": "Ray.",
    }
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_read_does_not_stop_the_others(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"")
    (tmp_path / "b.txt").write_text("Cod swim.")
    (tmp_path / "c.zip").write_bytes(zipped({"x.txt": "\0", "y.txt": "Eels."}))
    (tmp_path / "d.zip").write_bytes(zipped(FILES)[:50])
    errors = {}
    found = read(tmp_path, tmp_path, on_error=lambda name, error: errors.update({name: str(error)}))
    assert found == {"b.txt": "Cod swim.", "c.zip/y.txt": "Eels."}
    assert list(errors) == [str(tmp_path / name) for name in ("a.txt", "c.zip/x.txt", "d.zip")]
    assert all(message.startswith(name) for name, message in errors.items())
    with pytest.raises(DocumentError, match=r"a\.txt is empty"):
        read(tmp_path, tmp_path)


def test_nothing_to_read(tmp_path):
    with pytest.raises(DocumentError, match="holds no file in a format that can be read"):
        read(tmp_path, tmp_path)
    (tmp_path / "x.zip").write_bytes(zipped({"c.png": "\x89PNG\0"}))
    with pytest.raises(DocumentError, match=r"x\.zip holds nothing that can be read"):
        read(tmp_path, tmp_path)
    with pytest.raises(FileNotFoundError, match=r"none\.txt does not exist"):
        read(tmp_path / "none.txt", tmp_path)


FOREIGN = {
    "settings.json": '{"name": "pond", "version": "1.0", "options": {"deep": true}}',
    "numbers.json": "[1, 2, 3]",
}


def test_what_is_no_document_is_left_out_where_it_is_found(tmp_path):
    for name, content in FOREIGN.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "a.zip").write_bytes(zipped(FOREIGN))
    with pytest.raises(DocumentError, match=r"a\.zip holds nothing that can be read"):
        read(tmp_path / "a.zip", tmp_path)
    with pytest.raises(DocumentError, match="holds no file in a format that can be read"):
        read(tmp_path, tmp_path)
    (tmp_path / "a.zip").write_bytes(zipped({**FOREIGN, "cod.txt": "Cod swim."}))
    assert read(tmp_path, tmp_path) == {"a.zip/cod.txt": "Cod swim."}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_is_no_document_is_refused_if_it_is_named(tmp_path, name):
    path = tmp_path / name
    path.write_text(FOREIGN[name])
    with pytest.raises(DocumentError, match=f"{name}.* is JSON, but neither"):
        read(path, tmp_path)


def test_a_text_with_an_unknown_suffix_is_read_if_it_is_named(tmp_path):
    path = tmp_path / "README.Debian"
    path.write_text("Cod swim.")
    assert read(path, tmp_path) == {"README.Debian": "Cod swim."}
    with pytest.raises(DocumentError, match="holds no file in a format that can be read"):
        read(tmp_path, tmp_path)


def test_bombs_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "x.zip"
    monkeypatch.setattr("foveate.documents.members.MAX_BYTES", 2**10)
    path.write_bytes(zipped({f"{i}.txt": f"Cod {i} swim. " * 30 for i in range(9)}))
    with pytest.raises(DocumentError, match="unpacks to more than"):
        read(path, tmp_path)


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress), ("zst", zstd.compress)],
)
def test_compressed_members_count_as_what_they_unpack_to(tmp_path, monkeypatch, suffix, compress):
    path = tmp_path / "x.zip"
    compressed = compress(b"Cod swim. " * 500)
    inner = zipped({f"{i}.txt.{suffix}": compressed for i in range(9)})
    path.write_bytes(zipped({"inner.zip": inner, "a.txt": "Eels too."}))
    monkeypatch.setattr("foveate.documents.members.MAX_BYTES", 16_000)
    errors = []
    found = read(path, tmp_path, on_error=lambda *error: errors.append(error))
    assert set(found) == {f"x.zip/inner.zip/{i}.txt.{suffix}" for i in range(2)}
    [(name, error)] = errors
    assert name == str(path)
    assert "x.zip unpacks to more than" in str(error)


def test_a_damaged_member_does_not_stop_the_others(tmp_path):
    path = tmp_path / "x.zip"
    path.write_bytes(zipped({"a.docx": b"PK\x03\x04 damaged", "b.txt": "Cod swim."}))
    errors = []
    found = read(path, tmp_path, on_error=lambda *error: errors.append(error))
    assert found == {"x.zip/b.txt": "Cod swim."}
    [(name, error)] = errors
    assert name == f"{path}/a.docx"
    assert "is not a whole DOCX file" in str(error)


def test_encrypted_archives_are_refused(tmp_path):
    data = bytearray(zipped({"a.txt": "Cod."}))
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path = tmp_path / "x.zip"
    path.write_bytes(data)
    with pytest.raises(DocumentError, match="is encrypted: unpack it first"):
        read(path, tmp_path)


def test_a_collection_of_one_is_a_document(tmp_path):
    path = tmp_path / "x.zip"
    path.write_bytes(zipped({"a.txt": "Cod swim."}))
    assert Document.from_file(path).source == f"{path}/a.txt"
    path.write_bytes(zipped(FILES))
    with pytest.raises(DocumentError, match="holds several documents: read it with read_documents"):
        Document.from_file(path)
    with pytest.raises(DocumentError, match="CSV holds several documents"):
        Document.from_text("a,b", format="csv")


def test_options_of_a_reader_reach_it_alone(tmp_path, monkeypatch):
    given = {}

    def read_pdf(data, **options):
        given.update(options)
        raise DocumentError("is no PDF")

    monkeypatch.setattr("foveate.documents.readers.pdf.read", read_pdf)
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7")
    (tmp_path / "b.txt").write_text("Cod swim.")
    found = read(tmp_path, tmp_path, ocr=True, engine="docling", on_error=lambda *error: None)
    assert found == {"b.txt": "Cod swim."}
    assert given == {"ocr": True, "engine": "docling"}
    with pytest.raises(
        TypeError, match=r"no reader has an option colour: the options are engine, .*ocr"
    ):
        read(tmp_path, tmp_path, colour=True)


class TestRecords:
    def read(self, tmp_path, name, text):
        path = tmp_path / name
        path.write_text(text)
        return [
            (
                document.source.removeprefix(str(path)),
                document.title,
                document.spans()[0].place,
                " ".join(sentence.text for sentence in document.sentences()),
            )
            for document in read_documents(path)
        ]

    def test_json_lines(self, tmp_path):
        records = [
            {"title": "Cod", "text": "Cod swim. They eat."},
            {"id": 7, "note": "short", "about": "The longest string is the text."},
            {"name": "Eel", "sections": [{"heading": "Size", "text": "Long."}, ["Food", ["All."]]]},
            "A text alone.",
        ]
        text = "\n\n".join(map(json.dumps, records))
        assert self.read(tmp_path, "x.jsonl", text) == [
            (":1", "Cod", "line 1", "Cod swim. They eat."),
            (":3", "7", "line 3", "The longest string is the text."),
            (":5", "Eel", "line 5", "Long. All."),
            (":7", "", "line 7", "A text alone."),
        ]

    def test_json_arrays(self, tmp_path):
        text = json.dumps([{"title": "Cod", "text": "Cod swim."}, {"text": "Eels."}], indent=1)
        assert self.read(tmp_path, "x.json", text) == [
            (":1", "Cod", "record 1", "Cod swim."),
            (":2", "", "record 2", "Eels."),
        ]

    def test_a_format_may_be_named(self, tmp_path):
        text = json.dumps({"format": "markdown", "text": "# Cod\n\n*Cod* swim."})
        assert self.read(tmp_path, "x.json", text) == [("", "Cod", "line 3", "Cod swim.")]
        text = json.dumps({"format": "paperback", "text": "*Cod* swim."})
        assert self.read(tmp_path, "x.json", text) == [("", "", "line 1", "*Cod* swim.")]

    def test_saved_documents_and_meetings(self, tmp_path):
        saved = Document.from_text("# Cod\n\nCod swim.", format="markdown", source="cod.md")
        meeting = {"turns": [{"speaker": "Ann", "text": "We buy boats."}]}
        path = tmp_path / "x.jsonl"
        path.write_text(f"{json.dumps(saved.to_dict())}\n{json.dumps(meeting)}\n")
        first, second = read_documents(path)
        assert first == saved
        assert [span.speaker for span in second.spans()] == ["Ann"]

    @pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
    def test_csv(self, tmp_path, delimiter):
        rows = [
            ["ID", "Title", "Author", "Abstract"],
            ["1", "Cod", "Ann", '"Cod ""swim"".\nThey eat."'],
            ["2", "Ray", "Bob", ""],
            ["3", "Eel", "Carla", "Eels are long."],
        ]
        text = "\n".join(delimiter.join(row) for row in rows)
        assert self.read(tmp_path, "x.csv", text) == [
            (":2", "Cod", "row 2", 'Cod "swim". They eat.'),
            (":4", "Eel", "row 4", "Eels are long."),
        ]

    def test_a_csv_of_many_rows(self, tmp_path):
        text = "text\n" + "".join(f"Cod number {i}.\n" for i in range(500))
        found = self.read(tmp_path, "x.csv", text)
        assert [text for *_, text in found] == [f"Cod number {i}." for i in range(500)]

    @pytest.mark.parametrize(
        ("text", "read"),
        [
            (
                "1,The pump is quiet. It is new.\n2,The hose is long.\n",
                {1: "The pump is quiet. It is new. 1", 2: "The hose is long. 2"},
            ),
            ("cod\neel\n", {1: "cod", 2: "eel"}),
            ("sep=;\nid;text\n1;The hose, which is long.\n", {3: "The hose, which is long."}),
            (
                "Export of May\n\nid,text\n1,The hose is long.\n",
                {1: "Export of May", 4: "The hose is long."},
            ),
            ("Item,Price\nHose,5\nTap,6\n", {2: "Item: Hose; Price: 5", 3: "Item: Tap; Price: 6"}),
            (
                "question,answer\nWhat is in the box?,A pump is in the box.\n",
                {2: "What is in the box? A pump is in the box."},
            ),
            ("title,text\nCod,\nEel,Eels swim.\n", {3: "Eels swim."}),
        ],
    )
    def test_what_rows_of_csv_hold(self, tmp_path, text, read):
        found = self.read(tmp_path, "x.csv", text)
        assert {int(name[1:]): shown for name, _, _, shown in found} == read

    def test_csv_with_unknown_columns_and_a_huge_cell(self, tmp_path):
        huge = "word " * 100_000
        found = self.read(tmp_path, "x.csv", f"a,b\nx,{huge}\ny,Short.\n")
        assert [text for *_, text in found] == [f"{huge.strip()} a: x", "Short. a: y"]

    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("x.csv", "title,text\n,\n", "holds nothing that can be read"),
            ("x.json", "[]", "holds nothing that can be read"),
            ("x.json", "[1, ", "is not valid JSON"),
            ("x.json", f"[{'1' * 5000}]", "is not valid JSON"),
            ("x.jsonl", '{"text": "Cod."}\n{oops}\n', r":2 is not valid JSON"),
            ("x.jsonl", '{"pages": 3}\n', ":1 is JSON, but neither a meeting"),
            ("x.jsonl", '{"text": " "}\n', ":1 has an empty text"),
        ],
    )
    def test_refusals(self, tmp_path, name, text, message):
        with pytest.raises(DocumentError, match=rf"{name}.*{message}"):
            self.read(tmp_path, name, text)


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        ("日本語のファイル.txt", "cp932"),
        ("文档资料.txt", "gbk"),
        ("Документы/отчёт 1.txt", "cp866"),
        ("Größe.txt", "cp437"),
        ("résumé 日本.txt", "utf-8"),
    ],
)
def test_names_in_zip_archives_are_in_the_encoding_of_their_system(tmp_path, name, encoding):
    data = zip_without_marks(name.encode(encoding))
    path = tmp_path / "a.zip"
    path.write_bytes(data)
    [document] = read_documents(path)
    assert document.source == f"{path}/{name}"


def zip_without_marks(name):
    """An archive with a file whose name is not marked as UTF-8."""
    content = io.BytesIO()
    placeholder = "x" * len(name)
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(placeholder, "Hello there.")
    return content.getvalue().replace(placeholder.encode(), name)


def test_formats_whose_extra_is_missing_are_skipped_in_folders(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("Hello there.")
    (tmp_path / "b.msg").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "foveate.documents.formats.find_spec",
        lambda name: None if name == "kreuzberg" else find(name),
    )
    skipped = []
    documents = list(read_documents(tmp_path, on_skip=skipped.append))
    assert [document.text for document in documents] == ["Hello there."]
    assert skipped == [str(tmp_path / "b.msg")]


def test_a_folder_that_cannot_be_listed_is_named(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("Hello there.")
    (tmp_path / "b").mkdir()
    scandir = os.scandir

    def refuse(path):
        if os.fspath(path) == str(tmp_path / "b"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr("os.scandir", refuse)
    failures = {}
    [document] = read_documents(tmp_path, on_error=failures.__setitem__)
    assert document.text == "Hello there."
    assert list(failures) == [str(tmp_path / "b")]
    with pytest.raises(PermissionError):
        list(read_documents(tmp_path))
