import json

import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import (
    AutoModel,
    BertConfig,
    BertModel,
    ModernBertConfig,
    ModernBertModel,
    MPNetConfig,
    MPNetModel,
    RobertaConfig,
    RobertaModel,
    T5Config,
    T5Model,
)

from foveate import Document, Encoder
from foveate.inference import default_model_path
from foveate.models.hdt import HDTConfig, HDTModel
from foveate.models.hdt.attention_interface import TREE_ATTENTION, register
from foveate.ops.tree_attention import Tree
from foveate.preprocessing import HDTProcessor
from foveate.preprocessing.tree import outline
from tests.numerics import relative_error

TEXTS = [
    "Call me Ishmael.",
    "Some years ago—never mind how long precisely—having little or no money in my purse, "
    "I thought I would sail about a little and see the watery part of the world.",
    "It is a way I have.",
    "x",
    "",
]
WHALE = Document.from_sections(
    "The Whale",
    [
        ("Loomings", TEXTS[:3]),
        ("The Carpet-Bag", ["I stuffed a shirt.", "I started."], [("Inn", "Stop!")]),
    ],
)


@pytest.fixture(scope="module")
def default():
    return Encoder.from_pretrained(device="cpu")


def test_sentences_equal_sentence_transformers(default):
    expected = SentenceTransformer(str(default_model_path()), device="cpu").encode(
        TEXTS, convert_to_tensor=True
    )
    vectors = default.encode_texts(TEXTS)
    assert (vectors - expected).norm(dim=1).max() < 1e-5
    document = default.encode(WHALE)
    assert (document.sentences[:3] - expected[:3]).norm(dim=1).max() < 1e-5


def test_vectors_do_not_depend_on_batch_mates(default, monkeypatch):
    together = default.encode_texts(TEXTS)
    monkeypatch.setattr(default, "_batch_tokens", 1)
    alone = default.encode_texts(TEXTS)
    assert (together - alone).norm(dim=1).max() < 1e-5


def test_sections_and_document_are_the_means_of_their_sentences(default):
    vectors = default.encode(WHALE)
    anchors = outline(WHALE)
    texts = default.encode_texts([anchor.text for anchor in anchors if anchor.text])
    assert (
        relative_error(vectors.document, torch.nn.functional.normalize(texts.mean(0), dim=0)) < 1e-5
    )
    carpet_bag = torch.nn.functional.normalize(texts[5:].mean(0), dim=0)  # with its subsection
    assert relative_error(vectors.sections[1], carpet_bag) < 1e-5
    assert vectors.sections.shape == (3, 384)
    assert vectors.sentences.shape == (6, 384)


def test_a_sequence_of_documents_gives_a_list(default):
    other = Document.from_sections("Eels", [("", "Eels are long.")])
    whale, eels = default.encode([WHALE, other])
    assert relative_error(whale.document, default.encode(WHALE).document) < 1e-5
    assert relative_error(eels.document, default.encode(other).document) < 1e-5


def test_nothing_of_a_long_sentence_is_lost(default):
    long = "whale " * 600
    vector = default.encode_texts([long + "and a very small shark"])
    assert (vector - default.encode_texts([long])).norm() > 1e-3


@pytest.mark.parametrize("dtype", ["bfloat16", torch.float16])
def test_reduced_precision_stays_close(default, dtype):
    reduced = Encoder.from_pretrained(device="cpu", dtype=dtype).encode_texts(TEXTS)
    assert reduced.dtype == torch.float32
    assert relative_error(reduced, default.encode_texts(TEXTS)) < 1e-2


def small(model_class, config_class, **kwargs):
    torch.manual_seed(0)
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "initializer_range": 0.2,
    }
    return model_class(config_class(vocab_size=30522, intermediate_size=48, **sizes, **kwargs))


SMALL = {
    "bert": lambda: small(BertModel, BertConfig),
    "roberta": lambda: small(RobertaModel, RobertaConfig, pad_token_id=1),
    "modernbert": lambda: small(
        ModernBertModel,
        ModernBertConfig,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        cls_token_id=1,
        sep_token_id=2,
    ),
}


@pytest.fixture(params=SMALL)
def checkpoint(request, tmp_path, tokenizer):
    SMALL[request.param]().eval().save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return tmp_path


def test_any_encoder_gives_what_it_gives_for_each_sentence_alone(checkpoint, tokenizer):
    encoder = Encoder.from_pretrained(checkpoint, device="cpu")
    model = AutoModel.from_pretrained(checkpoint)
    vectors = encoder.encode_texts(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        with torch.no_grad():
            rows = model(**tokenizer(text, return_tensors="pt", return_token_type_ids=False))
        assert relative_error(vector, rows.last_hidden_state[0].mean(0)) < 1e-5


def test_tree_context_reaches_across_sentences_but_padding_does_not(checkpoint):
    encoder = Encoder.from_pretrained(checkpoint, context="tree", device="cpu")
    vectors = encoder.encode(WHALE)
    assert vectors.sections.shape == (3, 32)
    changed = Document.from_sections("The Whale", [("Loomings", [*TEXTS[:2], "Sharks!"])])
    kept = Document.from_sections("The Whale", [("Loomings", TEXTS[:3])])
    first, second = encoder.encode([changed, kept])
    assert (first.sentences[0] - second.sentences[0]).norm() > 1e-6
    assert relative_error(second.sentences, encoder.encode(kept).sentences) < 1e-6


def test_a_model_called_with_a_tree_is_a_tree_encoder(default):
    register()
    model = SMALL["bert"]().eval()
    model.set_attn_implementation(TREE_ATTENTION)
    with pytest.raises(ValueError, match="needs a tree"):
        model(torch.tensor([[1, 2]]))
    with pytest.raises(ValueError, match="takes one packed sequence, got a batch of 2"):
        model(torch.tensor([[1, 2], [1, 2]]), tree=Tree.from_parents([-1, 0]))


def test_hdt_gives_the_hidden_states_of_its_anchors(tmp_path, tokenizer):
    torch.manual_seed(0)
    config = HDTConfig(vocab_size=30522, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
    model = HDTModel(config).eval()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    encoder = Encoder.from_pretrained(tmp_path, device="cpu")
    assert encoder.context == "tree"
    vectors = encoder.encode(WHALE)
    processor = HDTProcessor(tokenizer, levels=3)
    types = processor.features(WHALE)["node_types"]
    with torch.no_grad():
        hidden_states = model(**processor(WHALE)).last_hidden_state[0]
    assert relative_error(vectors.document, hidden_states[0]) < 1e-5
    assert relative_error(vectors.sections, hidden_states[types == 2]) < 1e-5


def test_hdt_reads_with_the_processor_that_was_saved_with_it(tmp_path, tokenizer):
    torch.manual_seed(0)
    config = HDTConfig(vocab_size=30522, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
    model = HDTModel(config).eval()
    model.save_pretrained(tmp_path)
    processor = HDTProcessor(tokenizer, levels=None, doc_token="[MASK]", sec_token="[SEP]")
    processor.save_pretrained(tmp_path)
    vectors = Encoder.from_pretrained(tmp_path, device="cpu").encode(WHALE)
    types = processor.features(WHALE)["node_types"]
    with torch.no_grad():
        hidden_states = model(**processor(WHALE)).last_hidden_state[0]
    assert relative_error(vectors.document, hidden_states[0]) < 1e-5
    assert relative_error(vectors.sections, hidden_states[types == 2]) < 1e-5


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: small(MPNetModel, MPNetConfig), "is a mpnet model, whose attention"),
        (
            lambda: T5Model(
                T5Config(vocab_size=9, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
            ),
            "is a t5 model, whose attention",
        ),
    ],
)
def test_models_that_cannot_be_tree_encoders_are_refused(model, message, tmp_path, tokenizer):
    model().save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=message):
        Encoder.from_pretrained(tmp_path)


def test_a_folder_without_weights_is_refused(tmp_path, tokenizer):
    BertConfig().save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(OSError, match=r"model\.safetensors"):
        Encoder.from_pretrained(tmp_path)


def test_pickled_weights_are_refused(tmp_path, tokenizer):
    model = SMALL["bert"]()
    model.config.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(OSError, match="safetensors"):
        Encoder.from_pretrained(tmp_path)


def test_pooling_is_read_from_the_checkpoint(checkpoint):
    cls_pooling = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (checkpoint / "1_Pooling").mkdir()
    (checkpoint / "1_Pooling" / "config.json").write_text(json.dumps(cls_pooling))
    modules = [
        {"path": "", "type": "sentence_transformers.models.Transformer"},
        {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (checkpoint / "modules.json").write_text(json.dumps(modules))
    assert Encoder.from_pretrained(checkpoint).pooling.takes_first_token
    modules.append({"path": "2_Dense", "type": "sentence_transformers.models.Dense"})
    (checkpoint / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ValueError, match="ends in a Dense layer"):
        Encoder.from_pretrained(checkpoint)


def test_a_string_is_one_text_and_no_document(default):
    assert torch.equal(default.encode_texts(TEXTS[0]), default.encode_texts(TEXTS[:1])[0])
    with pytest.raises(TypeError, match=r"expected a Document, got str: make one with Document\."):
        default.encode("whale.txt")


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="there is no device meta here: use one of cpu"):
        Encoder.from_pretrained(device="meta")
    with pytest.raises(ValueError, match="there is no device gpu here"):
        Encoder.from_pretrained(device="gpu")


def test_an_unknown_context_or_dtype_is_refused():
    with pytest.raises(ValueError, match="context must be 'sentence' or 'tree'"):
        Encoder.from_pretrained(context="paragraph")
    with pytest.raises(ValueError, match="dtype must be float32, bfloat16 or float16, got int8"):
        Encoder.from_pretrained(dtype="int8")
