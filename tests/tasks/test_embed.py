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
    assert loaded.shard == (1, 1)
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


@pytest.mark.parametrize("suffix", [".safetensors", ".parquet"])
def test_shards_are_joined_to_the_whole(encoder, tmp_path, monkeypatch, suffix):
    monkeypatch.setattr("foveate.tasks.embed._GROUP_CHARACTERS", 100)
    documents = [
        Document.from_text("Cod swim. They eat herring. " * (i % 4 + 1), source=f"{i}.txt")
        for i in range(9)
    ]
    whole = embed(documents, model=encoder)
    paths = [tmp_path / f"{number}{suffix}" for number in range(1, 10)]
    sizes = []
    for number, path in enumerate(paths, 1):
        shard = embed(documents, model=encoder, shard=(number, 9))
        shard.save(path)
        sizes.append(len({one.document_idx for one in shard.spans}))
    assert sum(sizes) == 9
    assert sizes[-1] == 0  # there are fewer groups
    shards = [Embeddings.load(path) for path in reversed(paths)]
    joined = Embeddings.join(shards)
    assert joined.spans == whole.spans
    assert torch.equal(joined.vectors, whole.vectors)
    assert joined.shard == whole.shard == (1, 1)
    with pytest.raises(ValueError, match="shard 1 of 9 is given several times: give each shard"):
        Embeddings.join([*shards, shards[-1]])
    for missing in ([1], [9], [8, 9], [2, 5, 8]):  # the last are empty, or have the last documents
        rest = [shard for shard in shards if shard.shard[0] not in missing]
        with pytest.raises(ValueError, match=rf"shards? .*{missing[-1]} of 9 (is|are) missing: "):
            Embeddings.join(rest)
    with pytest.raises(ValueError, match="shards 1, 2, 3, 4, 5, 6, 7 and 8 of 9 are missing"):
        Embeddings.join([shards[0]])
    with pytest.raises(ValueError, match="some shards are of 1 and others of 9: give those of one"):
        Embeddings.join([*shards, whole])


def test_shards_are_about_equal(encoder, monkeypatch):
    monkeypatch.setattr("foveate.tasks.embed._GROUP_CHARACTERS", 10)
    monkeypatch.setattr(
        type(encoder), "encode", lambda self, documents, **_: [None] * len(documents)
    )
    monkeypatch.setattr(
        "foveate.tasks.embed._levels",
        lambda document, _: [("document", document.span(0, 9), torch.zeros(384))],
    )
    documents = [Document.from_text(f"Cod {i} swim.") for i in range(10)]
    sizes = [len(embed(documents, model=encoder, shard=(i, 4)).spans) for i in (1, 2, 3, 4)]
    assert sizes == [3, 3, 2, 2]


@pytest.mark.parametrize("shard", [(0, 4), (5, 4), (1, 0)])
def test_a_shard_that_there_is_not_is_refused(sea, encoder, shard):
    with pytest.raises(ValueError, match=r"no shard \d of \d: shards are numbered from 1/\d to"):
        embed(sea, model=encoder, shard=shard)
