import json
from itertools import chain

import pytest
import torch
from safetensors.torch import load_file, save_file

from foveate import Document, Encoder, Index
from foveate.cache import Cache
from foveate.index.state import LibraryError
from tests.numerics import relative_error
from tests.tree_bert import save_bert

pytest.importorskip("sentence_transformers")
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    Dropout,
    LayerNorm,
    Normalize,
    Pooling,
)

from tests.sentence_transformer import ARCHITECTURES, save, save_multi_vector

TEXTS = [
    "Call me Ishmael.",
    "Some years ago—never mind how long precisely—having little or no money in my purse, "
    "I thought I would sail about a little and see the watery part of the world.",
    "It is a way I have.",
    "x",
    "",
]
WHALE = Document.from_sections(
    "The Whale", [("Loomings", TEXTS[:3]), ("The Carpet-Bag", ["I stuffed a shirt."])]
)
PROMPTS = {"query": "find: ", "document": "text: "}


def load(folder, **options):
    return (
        SentenceTransformer(str(folder), device="cpu"),
        Encoder.from_pretrained(folder, device="cpu", **options),
    )


def change(folder, file, **values):
    content = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps({**content, **values}))


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_every_architecture_keeps_its_own_attention(kind, tmp_path, tokenizer):
    pooling = Pooling(32, "lasttoken" if "causal" in kind else "mean")
    model, encoder = load(save(tmp_path, tokenizer, pooling, Normalize(), kind=kind))
    expected = model.encode(TEXTS, convert_to_tensor=True)
    assert relative_error(encoder.encode_texts(TEXTS), expected) < 1e-5
    assert relative_error(encoder.encode_queries(TEXTS), expected) < 1e-5
    vectors = encoder.encode(WHALE)
    assert relative_error(vectors.sentences[:3], expected[:3]) < 1e-5
    assert vectors.salience is None
    description = encoder.describe()
    assert description["runner"].startswith("sentence-transformers 6")
    assert description["modules"] == ["Transformer", "Pooling", "Normalize"]
    assert (description["context"], description["max_tokens"]) == ("sentence", 126)


@pytest.mark.parametrize(
    "modes",
    ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken", ("cls", "max")],
)
def test_every_pooling(modes, tmp_path, tokenizer):
    model, encoder = load(save(tmp_path, tokenizer, Pooling(32, modes)))
    assert encoder.dimension == (64 if isinstance(modes, tuple) else 32)
    expected = model.encode(TEXTS, convert_to_tensor=True)
    assert relative_error(encoder.encode_texts(TEXTS), expected) < 1e-5


def test_sections_are_means_of_their_sentences_and_titles(tmp_path, tokenizer):
    _, encoder = load(save(tmp_path, tokenizer, Pooling(32, "mean")))
    vectors = encoder.encode(WHALE)
    texts = encoder.encode_texts(["The Whale", "Loomings", *TEXTS[:3]])
    assert relative_error(vectors.sections[0], texts[1:].mean(0)) < 1e-5
    assert vectors.document.shape == (32,)
    _, normalized = load(save(tmp_path / "n", tokenizer, Pooling(32, "mean"), Normalize()))
    assert float(normalized.encode(WHALE).document.norm()) == pytest.approx(1, abs=1e-5)


def test_layers_after_pooling_are_applied(tmp_path, tokenizer):
    torch.manual_seed(1)
    layers = [Pooling(32, "mean"), Dense(32, 12), LayerNorm(12), Dropout(0.5)]
    model, encoder = load(save(tmp_path, tokenizer, *layers))
    assert encoder.dimension == 12
    expected = model.encode(TEXTS, convert_to_tensor=True)
    assert relative_error(encoder.encode_texts(TEXTS), expected) < 1e-5


@pytest.mark.parametrize("include_prompt", [True, False])
def test_prompts_of_the_checkpoint_and_of_the_caller(include_prompt, tmp_path, tokenizer):
    pooling = Pooling(32, "mean", include_prompt=include_prompt)
    folder = save(tmp_path, tokenizer, pooling, prompts=PROMPTS)
    model, encoder = load(folder)
    queries = model.encode_query(TEXTS, convert_to_tensor=True)
    texts = model.encode_document(TEXTS, convert_to_tensor=True)
    assert relative_error(queries, texts) > 1e-3
    assert relative_error(encoder.encode_queries(TEXTS), queries) < 1e-5
    assert relative_error(encoder.encode_texts(TEXTS), texts) < 1e-5
    assert relative_error(encoder.encode(WHALE).sentences[:3], texts[:3]) < 1e-5
    assert encoder.describe()["query_prompt"] == "find: "
    other = Encoder.from_pretrained(folder, device="cpu", query_prompt="q ", document_prompt="")
    expected = model.encode(TEXTS, prompt="q ", convert_to_tensor=True)
    assert relative_error(other.encode_queries(TEXTS), expected) < 1e-5
    expected = model.encode(TEXTS, convert_to_tensor=True)
    assert relative_error(other.encode_texts(TEXTS), expected) < 1e-5


def test_fewer_dimensions(tmp_path, tokenizer):
    folder = save(tmp_path, tokenizer, Pooling(32, "mean"), Normalize())
    model, encoder = load(folder, dimensions=8)
    assert encoder.dimension == encoder.describe()["dimension"] == 8
    expected = model.encode(TEXTS, truncate_dim=8, convert_to_tensor=True)
    assert relative_error(encoder.encode_texts(TEXTS), expected) < 1e-5
    assert encoder.encode(WHALE).document.shape == (8,)
    for dimensions, message in ((33, "have 32 dimensions, fewer than 33"), (0, "at least 1")):
        with pytest.raises(ValueError, match=message):
            load(folder, dimensions=dimensions)


def test_nothing_of_a_long_text_is_lost(tmp_path, tokenizer):
    model, encoder = load(
        save(tmp_path, tokenizer, Pooling(32, "mean"), prompts=PROMPTS, max_seq_length=16)
    )
    limit = encoder.describe()["max_tokens"]
    words = [f"whale{i % 7}" for i in range(50)]
    owners, pieces = encoder.processor.pieces(["x", " ".join(words), "鯨" * 40])
    assert "".join(piece for owner, piece in zip(owners, pieces, strict=True) if owner == 1) == (
        " ".join(words)
    )
    assert all(len(ids) <= limit for ids in encoder.processor.token_ids(pieces))
    assert owners.count(0) == 1
    assert owners.count(2) > 1
    long = " ".join(words)
    parts = [piece for owner, piece in zip(owners, pieces, strict=True) if owner == 1]
    expected = model.encode_document(parts, convert_to_tensor=True).mean(0)
    assert relative_error(encoder.encode_texts(long), expected) < 1e-5


@pytest.mark.parametrize("prompts", [{}, PROMPTS])
def test_late_chunking_pools_the_tokens_of_each_sentence(prompts, tmp_path, tokenizer):
    torch.manual_seed(1)
    layers = [Pooling(32, "mean"), Dense(32, 12)]
    model, encoder = load(save(tmp_path, tokenizer, *layers, prompts=prompts), context="document")
    texts = ["The Whale", "Loomings", *TEXTS[:3], "The Carpet-Bag", "I stuffed a shirt."]
    pieces = [
        tokenizer(text, add_special_tokens=False)["input_ids"]
        for text in [prompts.get("document", ""), *texts]
    ]
    ids = torch.tensor([[101, *chain.from_iterable(pieces), 102]])
    with torch.no_grad():
        states = model[0].model(input_ids=ids).last_hidden_state[0, 1:-1]
        means = [span.mean(0) for span in states.split(list(map(len, pieces)))[1:]]
        expected = model[2]({"sentence_embedding": torch.stack(means)})["sentence_embedding"]
    vectors = encoder.encode(WHALE)
    assert relative_error(vectors.sentences, expected[[2, 3, 4, 6]]) < 1e-5
    assert relative_error(vectors.sections[0], expected[1:5].mean(0)) < 1e-5
    assert relative_error(vectors.document, expected.mean(0)) < 1e-5
    assert encoder.describe()["context"] == "document"
    alone = model.encode_document(TEXTS, convert_to_tensor=True)
    assert relative_error(encoder.encode_texts(TEXTS), alone) < 1e-5


def test_late_chunking_of_documents_that_do_not_fit(tmp_path, tokenizer):
    folder = save(tmp_path, tokenizer, Pooling(32, "mean"), max_seq_length=32)
    _, encoder = load(folder, context="document")
    texts = ["One whale.", "whale " * 70, "", "Two sharks swim.", "eel " * 20, "They dive."]
    vectors = encoder.encode(Document.from_sections("", [("", texts)]))
    assert vectors.sentences.isfinite().all()
    alone = encoder.encode_texts([texts[0], texts[1]])
    assert relative_error(vectors.sentences[0], alone[0]) > 1e-3
    again = encoder.encode([WHALE, Document.from_sections("", [("", texts)])])[1]
    assert relative_error(again.sentences, vectors.sentences) < 1e-6
    first = save(tmp_path / "cls", tokenizer, Pooling(32, "cls"))
    with pytest.raises(ValueError, match="does not pool by the mean"):
        load(first, context="document")


def test_precision_and_numbers_of_texts(tmp_path, tokenizer):
    folder = save(tmp_path, tokenizer, Pooling(32, "mean"), Dense(32, 12))
    _, encoder = load(folder)
    reduced = Encoder.from_pretrained(folder, device="cpu", dtype="bfloat16")
    vectors = reduced.encode_texts(TEXTS)
    assert vectors.dtype == torch.float32
    assert 0 < relative_error(vectors, encoder.encode_texts(TEXTS)) < 3e-2
    assert encoder.encode_texts([]).shape == (0, 12)
    many = encoder.encode_texts(TEXTS * 120)  # several calls of the model
    assert relative_error(many[-5:], encoder.encode_texts(TEXTS)) < 1e-5
    assert torch.equal(encoder.encode_texts(TEXTS[0]), encoder.encode_texts(TEXTS[:1])[0])


def refused(folder, message, error=ValueError, **options):
    """Check that a checkpoint is refused by its small files, without its weights."""
    for file in folder.rglob("*.safetensors"):
        file.unlink()
    with pytest.raises(error, match=message):
        Encoder.from_pretrained(folder, device="cpu", **options)


def with_modules(folder, *types):
    modules = [
        {"idx": i, "name": str(i), "path": "" if i == 0 else f"{i}_Module", "type": one}
        for i, one in enumerate(types)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    return folder


@pytest.fixture
def folder(tmp_path, tokenizer):
    return save(tmp_path, tokenizer, Pooling(32, "mean"), Dense(32, 12))


def test_without_sentence_transformers(folder, monkeypatch):
    monkeypatch.setattr("foveate.inference.sentence_models.find_spec", lambda name: None)
    refused(folder, r"run `pip install 'foveate\[sentence-transformers\]'`", ImportError)


def test_unsupported_modules_are_refused(folder):
    models = "sentence_transformers.models"
    refused(with_modules(folder, f"{models}.BoW"), "has a BoW layer, which Encoder cannot run")
    static = with_modules(folder, f"{models}.StaticEmbedding", f"{models}.Normalize")
    refused(static, "has a StaticEmbedding layer")
    refused(with_modules(folder, f"{models}.Transformer", f"{models}.LSTM"), "has a LSTM layer")
    refused(with_modules(folder, f"{models}.Pooling"), "has a Pooling layer, which .* there")
    (folder / "modules.json").write_text("[]")
    refused(folder, r"modules\.json of .* is damaged")


def test_models_of_other_kinds_are_refused(folder):
    change(folder, "config_sentence_transformers.json", model_type="SparseEncoder")
    refused(folder, r"another kind \(SparseEncoder\), which has no single vector")


@pytest.mark.parametrize("by_pylate", [False, True])
def test_multi_vector_models_are_refused(by_pylate, tmp_path, tokenizer):
    folder = save_multi_vector(tmp_path, tokenizer, by_pylate=by_pylate)
    refused(folder, "has a vector for each token, .* this model with rerank= or --rerank")


def test_vectors_for_another_similarity_are_refused(folder, tmp_path, tokenizer):
    change(folder, "config_sentence_transformers.json", similarity_fn_name="dot")
    refused(folder, "meant to be compared by dot")
    unit = save(tmp_path / "unit", tokenizer, Pooling(32, "mean"), Normalize())
    change(unit, "config_sentence_transformers.json", similarity_fn_name="dot")
    assert load(unit)[1].describe()["similarity"] == "dot"  # the same as the cosine there


def test_code_of_the_checkpoint_is_run_only_if_that_is_allowed(folder):
    code = (
        "from sentence_transformers.sentence_transformer.modules import Normalize\n"
        "class Negate(Normalize):\n"
        "    def forward(self, features, **kwargs):\n"
        "        features['sentence_embedding'] = -features['sentence_embedding']\n"
        "        return features\n"
    )
    _, plain = load(folder)
    (folder / "negation.py").write_text(code)
    modules = json.loads((folder / "modules.json").read_text())
    modules.append({"idx": 3, "name": "3", "path": "3_Negate", "type": "negation.Negate"})
    (folder / "3_Negate").mkdir()
    (folder / "modules.json").write_text(json.dumps(modules))
    trusted = Encoder.from_pretrained(folder, device="cpu", trust_remote_code=True)
    assert torch.equal(trusted.encode_texts(TEXTS), -plain.encode_texts(TEXTS))
    refused(folder, "Python code of its own: if you trust its authors")


def test_an_architecture_in_the_checkpoint_is_refused(folder):
    change(folder, "config.json", model_type="own", auto_map={"AutoModel": "own.Model"})
    refused(folder, "Python code of its own")


def test_a_checkpoint_that_does_not_say_what_it_is(tmp_path, tokenizer):
    save_bert(tmp_path, tokenizer)
    refused(tmp_path, "is a bert model that does not say how texts become vectors")


def test_options_that_a_model_does_not_have(folder, small_model):
    refused(folder, "was not trained on trees", context="tree")
    refused(folder, "context must be 'sentence'", context="paragraph")
    with pytest.raises(ValueError, match="has no dimensions and no query_prompt to set"):
        Encoder.from_pretrained(small_model, dimensions=8, query_prompt="find: ")


def test_without_safetensors_weights(folder):
    refused(folder, "safetensors", OSError)


def test_pickled_weights_are_refused(folder):
    torch.save(ARCHITECTURES["bert"]().state_dict(), folder / "pytorch_model.bin")
    refused(folder, "safetensors", OSError)


def test_damaged_weights_are_refused(folder):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"are damaged .*: copy or download them again"):
        Encoder.from_pretrained(folder)


def test_missing_weights_are_refused(folder):
    file = folder / "model.safetensors"
    weights = load_file(file)
    del weights["encoder.layer.1.output.dense.weight"]
    save_file(weights, file, {"format": "pt"})
    with pytest.raises(ValueError, match=r"lacks 1 parameters of a BertModel.* would be random"):
        Encoder.from_pretrained(folder)


@pytest.mark.parametrize("file", ["config.json", "1_Pooling/config.json", "tokenizer.json"])
@pytest.mark.parametrize("is_there", [True, False])
def test_half_a_download_is_refused(file, is_there, folder):
    if is_there:
        (folder / file).write_bytes((folder / file).read_bytes()[:20])
    else:
        (folder / file).unlink()
    with pytest.raises(ValueError, match=r"copy or download it again|has no tokenizer"):
        Encoder.from_pretrained(folder)


@pytest.mark.parametrize("file", ["2_Dense/model.safetensors", "model.safetensors.index.json"])
def test_a_part_of_the_weights_is_not_there(file, folder):
    if (folder / file).is_file():
        (folder / file).unlink()
    else:  # one of two files
        names = load_file(folder / "model.safetensors")
        (folder / "model.safetensors").unlink()
        shards = dict.fromkeys(names, "model-00002-of-00002.safetensors")
        (folder / file).write_text(json.dumps({"metadata": {}, "weight_map": shards}))
    with pytest.raises((OSError, ValueError), match=r"is not complete .* download it again"):
        Encoder.from_pretrained(folder)


@pytest.mark.parametrize("is_inside", [True, False])
def test_without_a_tokenizer(is_inside, folder):
    if is_inside:  # as older checkpoints have it
        modules = json.loads((folder / "modules.json").read_text())
        modules[0]["path"] = "0_Transformer"
        (folder / "modules.json").write_text(json.dumps(modules))
        (folder / "0_Transformer").mkdir()
        for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
            (folder / name).rename(folder / "0_Transformer" / name)
        Encoder.from_pretrained(folder, device="cpu")
    for file in folder.rglob("tokenizer*"):
        file.unlink()
    with pytest.raises(ValueError, match="has no tokenizer: save the tokenizer"):
        Encoder.from_pretrained(folder)


def test_a_library_keeps_the_options_of_its_model(tmp_path, tokenizer):
    folder = save(tmp_path, tokenizer, Pooling(32, "mean"), Normalize())
    options = {"dimensions": 8, "query_prompt": "find: ", "document_prompt": "text: "}
    index = Index.create(tmp_path / "library", model=folder, device="cpu", **options)
    (tmp_path / "whale.txt").write_text(" ".join(TEXTS[:3]))
    index.add(tmp_path / "whale.txt")
    again = Index.open(index.path, device="cpu")
    assert again.encoder.options == options
    assert again.encoder.dimension == again.state.model.dimension == 8
    queries = again.encoder.encode_queries(TEXTS), index.encoder.encode_queries(TEXTS)
    assert torch.equal(*queries)
    assert again.search("Ishmael")
    for option in ({"dimensions": 9}, {"document_prompt": ""}):
        with pytest.raises(LibraryError, match=r"was made by .* with dimensions=8"):
            Index.open(index.path, **option).search("Ishmael")
    assert Index.open(index.path, model=folder, query_prompt="q ").search("Ishmael")


def test_a_library_notices_other_modules(tmp_path, tokenizer):
    folder = save(tmp_path, tokenizer, Pooling(32, "mean"))
    index = Index.create(tmp_path / "library", model=folder, device="cpu")
    (tmp_path / "whale.txt").write_text(TEXTS[0])
    index.add(tmp_path / "whale.txt")
    change(folder, "1_Pooling/config.json", pooling_mode="cls")
    with pytest.raises(LibraryError, match="cannot be compared"):
        Index.open(index.path).search("Ishmael")


def test_the_cache_tells_options_apart(tmp_path, tokenizer):
    folder = save(tmp_path, tokenizer, Pooling(32, "mean"), prompts=PROMPTS)
    cache = Cache(tmp_path / "cache")
    for options in ({}, {"dimensions": 8}, {"document_prompt": ""}, {}):
        encoder = Encoder.from_pretrained(folder, device="cpu", **options)
        encoder.cache = cache
        encoder.encode(WHALE)
    assert len(cache.files()) == 3
