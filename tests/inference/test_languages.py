"""Languages that encoders were trained on, and encoders of many languages."""

import json
import warnings

import pytest
import torch
from transformers import (
    AutoModel,
    BertConfig,
    BertModel,
    XLMRobertaConfig,
    XLMRobertaModel,
    XLMRobertaTokenizer,
)

from foveate import Document, Encoder
from foveate.inference import languages
from foveate.inference.languages import trained_languages, warn_of_languages
from tests.numerics import relative_error

GERMAN = Document.from_sections("Wal", [("", "Der Wal schwimmt im Meer.")], language="de")
TEXTS = ["Der Wal schwimmt.", "鯨が泳ぐ。", "Où est la baleine ?", "whale"]


@pytest.fixture(autouse=True)
def _nothing_is_said_yet():
    languages._warn_of_language.cache_clear()
    yield
    languages._warn_of_language.cache_clear()


def card(folder, front_matter):
    (folder / "README.md").write_text(f"---\n{front_matter}\n---\n# A model\n", encoding="utf-8")
    return trained_languages(folder)


def test_a_model_card_tells_the_languages(tmp_path):
    assert trained_languages(tmp_path) is None
    assert card(tmp_path, "language: en") == {"en"}
    assert card(tmp_path, "language:\n- de\n- zh-cn") == {"de", "zh-cn"}
    assert card(tmp_path, "language:\n- multilingual\n- de") is None
    assert card(tmp_path, "license: mit") is None
    assert card(tmp_path, "language: [") is None
    assert Encoder.from_pretrained().languages == {"en"}


def test_another_language_is_warned_of_once(encoder):
    with pytest.warns(UserWarning, match="not trained on the language 'de'.*multilingual-e5-small"):
        encoder.encode(GERMAN)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder.encode([GERMAN, GERMAN])


@pytest.mark.parametrize(
    ("language", "trained"),
    [("de", None), ("de", ["en", "de"]), ("zh", ["zh-cn"]), ("nb", ["no"]), (None, ["en"])],
)
def test_what_a_model_was_trained_on_is_not_warned_of(language, trained):
    document = Document("", GERMAN.sections, GERMAN.text, language=language)
    warn_of_languages([document], trained)


def multilingual(kind, folder):
    """Save a tiny random encoder laid out as the multilingual ones of sentence-transformers are."""
    characters = sorted(set("".join(TEXTS)) - {" "})
    vocabulary = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0)]
    vocabulary += [(character, -3.0) for character in characters] + [("<mask>", 0.0)]
    XLMRobertaTokenizer(vocab=vocabulary, model_max_length=64).save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {
        "vocab_size": len(vocabulary),
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "initializer_range": 0.2,
    }
    if kind == "bert":  # paraphrase-multilingual-MiniLM: a BERT with XLM-R's vocabulary
        model = BertModel(BertConfig(max_position_embeddings=64, pad_token_id=0, **sizes))
    else:  # multilingual-e5, bge-m3
        config = XLMRobertaConfig(max_position_embeddings=66, pad_token_id=1, **sizes)
        model = XLMRobertaModel(config)
    model.eval().save_pretrained(folder)
    layers = [
        {"name": "0", "type": "sentence_transformers.models.Transformer", "path": ""},
        {"name": "1", "type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
    ]
    (folder / "modules.json").write_text(json.dumps(layers))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 32}')
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(
        '{"word_embedding_dimension": 32, "pooling_mode_mean_tokens": true}'
    )
    return folder


@pytest.mark.parametrize("kind", ["bert", "xlm-roberta"])
def test_multilingual_encoders_are_read(kind, tmp_path):
    pytest.importorskip("sentence_transformers")
    folder = multilingual(kind, tmp_path)
    encoder = Encoder.from_pretrained(folder, device="cpu")
    model = AutoModel.from_pretrained(folder)
    for text, vector in zip(TEXTS, encoder.encode_texts(TEXTS), strict=True):
        inputs = encoder.processor.tokenizer(text, return_tensors="pt", return_token_type_ids=False)
        assert 3 not in inputs["input_ids"]
        with torch.no_grad():
            states = model(**inputs).last_hidden_state[0]
        assert relative_error(vector, states.mean(0)) < 1e-5
    assert encoder.encode(GERMAN).sentences.shape == (1, 32)
