"""`--model` with encoders of other authors, as a user meets it."""

import json

import pytest

pytest.importorskip("sentence_transformers")
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

from foveate import Document, Index, search
from tests.sentence_transformer import save, save_reranker


@pytest.fixture
def model(tmp_path, tokenizer):
    return save(tmp_path / "encoder", tokenizer, Pooling(32), Normalize())


OPTIONS = ("--dimensions", "8", "--query-prompt", "query: ", "--document-prompt", "passage: ")


def test_options_of_an_encoder(foveate, fish, model, tmp_path):
    output = tmp_path / "fish.safetensors"
    code, printed, _ = foveate("embed", fish, "-o", output, "--model", model, *OPTIONS, "--json")
    assert code == 0
    encoder = json.loads(printed)["encoder"]
    assert encoder["runner"].startswith("sentence-transformers")
    assert (encoder["dimension"], encoder["query_prompt"]) == (8, "query: ")
    for command in (("search", "cod"), ("ask", "cod?"), ("summarize",)):
        code, printed, _ = foveate(*command, fish, "--model", model, *OPTIONS, "--no-cache")
        assert code == 0
        assert printed


def test_a_library_keeps_them(foveate, fish, model, tmp_path):
    library = tmp_path / "sea.library"
    assert foveate("index", fish, "-l", library, "--model", model, *OPTIONS)[0] == 0
    options = {"dimensions": 8, "query_prompt": "query: ", "document_prompt": "passage: "}
    assert Index.open(library).state.model.options == options
    assert foveate("search", "what do cod eat?", "-l", library)[0] == 0
    code, _, error = foveate("search", "cod", "-l", library, "--dimensions", "9")
    assert code == 2
    assert "with dimensions=8" in error


def test_what_cannot_be_run_is_refused_in_a_sentence(foveate, fish, model):
    modules = json.loads((model / "modules.json").read_text())
    modules[1]["type"] = "own.Pooling"
    (model / "modules.json").write_text(json.dumps(modules))
    code, _, error = foveate("search", "cod", fish, "--model", model)
    assert code == 2
    assert error.count("\n") == 1
    assert "if you trust its authors, allow that with" in error
    code, _, error = foveate("search", "cod", fish, "--dimensions", "8")
    assert code == 2
    assert "the default model has no dimensions to set" in error


@pytest.mark.parametrize("command", ["serve", "mcp"])
def test_servers_take_the_options(command, foveate):
    code, printed, _ = foveate(command, "--help")
    assert code == 0
    for option in ("--dimensions", "--query-prompt", "--document-prompt", "--trust-remote-code"):
        assert option in printed


def test_passages_are_reranked(foveate, fish, tokenizer, tmp_path):
    reranker = save_reranker(tmp_path / "reranker", tokenizer)
    [best] = search("cod?", Document.from_file(fish), top_k=1, rerank=reranker)
    for command in ("search", "ask"):
        code, printed, _ = foveate(command, "cod?", fish, "--rerank", reranker, "-k", 1, "--json")
        assert code == 0
        found = json.loads(printed)
        [hit] = found if command == "search" else found["passages"]
        assert hit["score"] == pytest.approx(best.score, abs=1e-3)
