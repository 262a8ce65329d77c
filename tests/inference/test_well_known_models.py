"""Twelve well-known models: random checkpoints of their architecture, modules and prompts.

`docs/howto/models.md` says of each model what is tested here.
"""

import copy
import re
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
import torch

from foveate import Document, Encoder, search
from tests.numerics import relative_error
from tests.paths import ROOT

pytest.importorskip("sentence_transformers")
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling

from tests.sentence_transformer import save, save_multi_vector

NOTHING: dict[str, Any] = {}
TEXTS = ["Cod swim in cold seas.", "They eat herring and crabs, as long as there are any.", "x"]
FISH = Document.from_sections("Fish", [("Cod", TEXTS[:2]), ("Salt", ["Salt is white."])])
BGE = "Represent this sentence for searching relevant passages: "
E5 = {"query_prompt": "query: ", "document_prompt": "passage: "}
NOMIC = {"query_prompt": "search_query: ", "document_prompt": "search_document: "}
GEMMA = {"query": "task: search result | query: ", "document": "title: none | text: "}
QWEN = {
    "query": "Instruct: Given a web search query, retrieve relevant passages that answer the query"
    "\nQuery:",
    "document": "",
}


class Known(NamedTuple):
    """What a model is made of, what its checkpoint says, and what its users add."""

    kind: str
    pooling: str
    widths: tuple[int, ...] = ()
    normalizes: bool = True
    prompts: dict[str, str] = NOTHING
    options: dict[str, Any] = NOTHING


MODELS = {
    "sentence-transformers/all-MiniLM-L6-v2": Known("bert", "mean"),
    "BAAI/bge-base-en-v1.5": Known("bert", "cls", options={"query_prompt": BGE}),
    "intfloat/multilingual-e5-small": Known("bert", "mean", options=E5),
    "thenlper/gte-base": Known("bert", "mean"),
    "ibm-granite/granite-embedding-english-r2": Known("modernbert, windows", "cls"),
    "nomic-ai/modernbert-embed-base": Known("modernbert, windows", "mean", options=NOMIC),
    "google/embeddinggemma-300m": Known(
        "gemma3", "mean", widths=(48, 32), prompts=GEMMA, options={"dimensions": 8}
    ),
    "Qwen/Qwen3-Embedding-0.6B": Known(
        "qwen3, causal", "lasttoken", prompts=QWEN, options={"dimensions": 8}
    ),
    "nomic-ai/nomic-embed-text-v1.5": Known("nomic", "mean", normalizes=False, options=NOMIC),
    "BAAI/bge-m3": Known("xlm-roberta", "cls"),
}
REFUSED = "jinaai/jina-embeddings-v3"
RERANKER = "lightonai/GTE-ModernColBERT-v1"


@pytest.mark.parametrize("name", MODELS)
def test_vectors_are_those_of_sentence_transformers(name, tmp_path, tokenizer):
    known = MODELS[name]
    torch.manual_seed(1)
    widths = [32, *known.widths]
    tokenizer = copy.deepcopy(tokenizer)
    if known.pooling == "lasttoken":
        tokenizer.padding_side = "left"
    folder = save(
        tmp_path,
        tokenizer,
        Pooling(32, known.pooling),
        *(
            Dense(inputs, outputs, bias=False, activation_function=torch.nn.Identity())
            for inputs, outputs in pairwise(widths)
        ),
        *([Normalize()] if known.normalizes else []),
        kind=known.kind,
        prompts=known.prompts,
    )
    encoder = Encoder.from_pretrained(folder, device="cpu", **known.options)
    given = {
        kind: known.options.get(f"{kind}_prompt", known.prompts.get(kind, ""))
        for kind in ("query", "document")
    }
    size = known.options.get("dimensions")
    model = SentenceTransformer(str(folder), device="cpu", prompts=given, truncate_dim=size)
    expected = model.encode_document(TEXTS, convert_to_tensor=True)
    assert relative_error(encoder.encode_texts(TEXTS), expected) < 1e-5
    assert relative_error(encoder.encode(FISH).sentences[:2], expected[:2]) < 1e-5
    queries = model.encode_query(TEXTS, convert_to_tensor=True)
    assert relative_error(encoder.encode_queries(TEXTS), queries) < 1e-5
    described = encoder.describe()
    assert described["query_prompt"] == given["query"]
    assert described["dimension"] == (size or 32)
    assert len(search("What do cod eat?", FISH, model=encoder)) == 2


def test_code_of_its_own_is_refused(tmp_path, tokenizer):
    folder = save(tmp_path, tokenizer, Pooling(32), Normalize())
    file = folder / "modules.json"
    first = "sentence_transformers.base.modules.transformer.Transformer"
    assert first in file.read_text()
    file.write_text(file.read_text().replace(first, "custom_st.Transformer"))
    with pytest.raises(ValueError, match="Python code of its own: if you trust its authors"):
        Encoder.from_pretrained(folder, device="cpu")


def test_vectors_of_tokens_rerank(tmp_path, tokenizer):
    folder = save_multi_vector(tmp_path, tokenizer, by_pylate=True)
    with pytest.raises(ValueError, match="has a vector for each token"):
        Encoder.from_pretrained(folder, device="cpu")
    assert len(search("What do cod eat?", FISH, rerank=folder)) == 2


def test_the_page_says_what_is_tested():
    page = (ROOT / "docs" / "howto" / "models.md").read_text()
    rows = dict(re.findall(r"^\| `([\w./-]+/[\w./-]+)` \| (.*) \|$", page, re.M))
    assert set(rows) == {*MODELS, REFUSED, RERANKER}
    for name, known in MODELS.items():
        for prompt in known.options.values():
            assert str(prompt) in rows[name]
    assert "refused" in rows[REFUSED]
    assert "--rerank" in rows[RERANKER]
