"""The benchmark's libraries of copies are whole."""

from benchmarks.library import as_markdown, enlarge, make_queries, write_files
from foveate import Index
from foveate.index.schema import TERMS
from tests.index.conftest import PARTS
from tests.index.library_check import problems


def test_copies_are_whole(index, folder, tmp_path):
    index.add(folder)
    enlarge(index.path, tmp_path / "large", 25)
    large = Index.open(tmp_path / "large", model=index.encoder)
    found = problems(large)
    assert found
    changed = {"content_hash", "hashes", *TERMS.values()}
    assert {problem.rpartition(" ")[2] for problem in found} <= changed
    assert len(large) == 2 * len(PARTS) + 3
    assert large.state.num_sentences == 25
    hits = large.search("herring", by="document", top_k=99)
    assert len(hits) == 2 * len(PARTS) + 3
    assert all(query.count(" ") == 7 for query in make_queries(index.path, 9))


def test_papers_become_files(tmp_path, monkeypatch):
    paper = {"title": "Cod", "abstract": ["They swim."]}
    text = as_markdown({**paper, "sections": [{"heading": "Food", "sentences": ["A.", "B."]}]})
    assert text == "# Cod\n\nThey swim.\n\n## Food\n\nA. B.\n"
    monkeypatch.setattr("benchmarks.library.records", lambda data: iter([(text, "md")]))
    write_files(tmp_path, tmp_path, 3)
    assert [path.name for path in tmp_path.iterdir()] == ["00000.md"]
