import os
import sys
from dataclasses import fields

import pytest
import safetensors.torch
import torch

from foveate import Document, Span
from foveate.files import atomic_write
from foveate.tasks.embed import Embeddings, check_output, embed


@pytest.fixture(scope="module")
def embeddings(sea, encoder) -> Embeddings:
    return embed([sea, Document.from_text("Alone.", source="alone.txt")], model=encoder)


def test_a_vector_for_every_document_section_and_sentence(embeddings, sea, encoder):
    levels = [one.level for one in embeddings.spans if one.document_idx == 0]
    assert levels.count("document") == 1
    assert levels.count("section") == len(list(sea.walk()))
    assert levels.count("sentence") == len(list(sea.sentences()))
    vectors = encoder.encode(sea)
    for level in ("document", "section", "sentence"):
        of_level = [
            i
            for i, one in enumerate(embeddings.spans)
            if (one.level, one.document_idx) == (level, 0)
        ]
        expected = torch.atleast_2d(getattr(vectors, level if level == "document" else level + "s"))
        assert torch.allclose(embeddings.vectors[of_level], expected, atol=1e-6)
    assert {one.span.document for one in embeddings.spans if one.document_idx == 1} == {"alone.txt"}


def test_spans_point_into_the_text(embeddings, sea):
    spans = {(one.level, one.span.text): one.span for one in embeddings.spans}
    cod = spans["section", "Cod"]
    assert cod.path == ("Species", "Cod")
    assert sea.text[cod.start : cod.end].startswith("The cod is a fish")
    assert sea.text[cod.start : cod.end].endswith("It was cheap once.")
    species = spans["section", "Species"]
    assert species.start < cod.start
    assert species.end > cod.end
    herring = spans["sentence", "It eats herring."]
    assert sea.text[herring.start : herring.end] == herring.text
    assert spans["document", "Fish of the sea"].end == len(sea.text)


@pytest.mark.parametrize("name", ["table.safetensors", "table.parquet"])
def test_what_is_saved_is_loaded(embeddings, tmp_path, name):
    embeddings.save(tmp_path / name)
    loaded = Embeddings.load(tmp_path / name)
    assert loaded.spans == embeddings.spans
    assert torch.equal(loaded.vectors, embeddings.vectors)
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_other_programs_can_read_the_files(embeddings, tmp_path):
    import pyarrow.parquet

    embeddings.save(tmp_path / "table.parquet")
    read = pyarrow.parquet.read_table(tmp_path / "table.parquet")
    names = [field.name for field in fields(Span)]
    assert read.column_names == ["level", "document_idx", *names, "vector"]
    assert read["text"].to_pylist() == [one.span.text for one in embeddings.spans]
    assert read["vector"][0].as_py() == embeddings.vectors[0].tolist()
    embeddings.save(tmp_path / "table.safetensors")
    tensors = safetensors.torch.load_file(tmp_path / "table.safetensors")
    assert torch.equal(tensors["vectors"], embeddings.vectors)


def test_characters_that_end_lines_do_not_end_spans(encoder, tmp_path):
    document = Document.from_sections("a\u2028b", [("c\x85d", ["e\x0cf\u2029g."])])
    embeddings = embed(document, model=encoder)
    embeddings.save(tmp_path / "table.safetensors")
    assert Embeddings.load(tmp_path / "table.safetensors").spans == embeddings.spans


@pytest.mark.parametrize("do", [check_output, Embeddings.load])
def test_the_suffix_says_the_format(tmp_path, do):
    with pytest.raises(ValueError, match=r"table\.csv must end in \.safetensors or \.parquet"):
        do(tmp_path / "table.csv")


def test_parquet_without_pyarrow_says_what_to_install(embeddings, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    for do in (embeddings.save, check_output):
        with pytest.raises(ImportError, match=r"foveate\[parquet\]"):
            do(tmp_path / "table.parquet")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", [".safetensors", ".parquet"])
def test_a_foreign_file_is_refused(tmp_path, suffix):
    file = tmp_path / f"foreign{suffix}"
    file.write_bytes(b"foreign bytes, and many of them")
    with pytest.raises(ValueError, match=r"is not a file that Embeddings\.save wrote"):
        Embeddings.load(file)


def test_a_folder_that_is_not_there_is_said_before_and_at_saving(embeddings, tmp_path):
    for do in (embeddings.save, check_output):
        with pytest.raises(FileNotFoundError, match="cannot be written"):
            do(tmp_path / "nowhere" / "table.safetensors")


def test_a_directory_is_no_file(embeddings, tmp_path):
    (tmp_path / "table.parquet").mkdir()
    with pytest.raises(IsADirectoryError, match="is a directory"):
        embeddings.save(tmp_path / "table.parquet")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(embeddings, tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="cannot be written"):
        embeddings.save(tmp_path / "table.parquet")


def test_there_must_be_a_document():
    with pytest.raises(ValueError, match="no document to embed"):
        embed([])


def fail_midway(path):
    with atomic_write(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError("power cut")


def test_a_failure_leaves_what_was_there(tmp_path):
    file = tmp_path / "file.txt"
    with pytest.raises(RuntimeError, match="power cut"):
        fail_midway(file)
    assert not list(tmp_path.iterdir())
    file.write_text("whole")
    with pytest.raises(RuntimeError, match="power cut"):
        fail_midway(file)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["whole"]


def test_looking_whether_a_file_can_be_written_writes_nothing(tmp_path):
    check_output(tmp_path / "table.safetensors")
    assert not list(tmp_path.iterdir())
