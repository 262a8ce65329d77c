import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate import Document
from foveate.detectors import METHODS, given_keywords, phrases, random_words
from foveate.preprocessing import LEDProcessor
from foveate.preprocessing.detector import build_detector
from tests.led import bpe

COD = (
    "The cod is a fish of cold seas. It eats herring and small crabs. Cod swim in large schools. "
    "Herring swim in schools as well, and the cod follow the herring to the cold seas."
)
SEA = Document.from_text(COD)
OPTIONS = {
    "phrases": {"max_words": 1},
    "random": {"seed": 3},
    "gibberish": {"seed": 3},
    "given": {"keywords": ["herring", "cold seas"]},
}


@pytest.fixture(scope="module")
def tokenizer():
    return bpe([COD])


@pytest.mark.parametrize("name", [*METHODS, "given"])
def test_the_keywords_of_every_detector_are_global(name, tokenizer):
    detector = {"name": name, **OPTIONS.get(name, {})}
    processor = LEDProcessor(tokenizer, num_keywords=4, detector=detector)
    features = processor.features(SEA)
    found = processor.keywords(SEA)
    assert 2 <= len(found) <= 4
    keywords = " ".join(found)
    assert processor.text(SEA) == f"{keywords} {COD}"
    count = len(tokenizer(keywords, add_special_tokens=False)["input_ids"])
    assert features["global_attention_mask"].tolist()[: count + 2] == [1] * (count + 1) + [0]


@pytest.mark.parametrize("name", OPTIONS)
def test_a_saved_processor_detects_as_before(name, tokenizer, tmp_path):
    detector = {"name": name, **OPTIONS[name]}
    saved = LEDProcessor(tokenizer, num_keywords=4, detector=detector)
    saved.save_pretrained(tmp_path)
    loaded = LEDProcessor.from_pretrained(tmp_path)
    assert loaded.detector == detector
    assert loaded.keywords(SEA) == saved.keywords(SEA)
    assert pickle.loads(pickle.dumps(loaded)).keywords(SEA) == saved.keywords(SEA)


@given(st.integers(-5, 10**6), st.integers(1, 8))
def test_the_seed_is_that_of_the_control(seed, top_k):
    detect = build_detector({"name": "random", "seed": seed})
    assert detect(SEA, top_k) == random_words(SEA, top_k, seed=seed)


@settings(max_examples=10)
@given(st.integers(1, 4))
def test_the_number_of_words_is_that_of_phrases(max_words):
    detect = build_detector({"name": "phrases", "max_words": max_words})
    assert detect(SEA, 5) == phrases(SEA, 5, max_words=max_words)
    assert all(len(keyword.text.split()) <= max_words for keyword in detect(SEA, 20))


@given(st.lists(st.text("abc", min_size=1), min_size=1, max_size=5))
def test_given_keywords_come_in_their_order(keywords):
    detect = build_detector({"name": "given", "keywords": keywords})
    assert detect(SEA, 5) == given_keywords(keywords)(SEA, 5)


@pytest.mark.parametrize(
    ("detector", "message"),
    [
        ("rake", "there is no method 'rake': name one of tfidf, "),
        ({"seed": 3}, "there is no method None: name one of"),
        ("given", "keywords of the detector 'given' must be a text or a list of texts, got None"),
        ({"name": "given", "keywords": []}, "a keyword is empty"),
        ({"name": "tfidf", "seed": 1}, "'tfidf' got an unexpected keyword argument 'seed'"),
        ({"name": "phrases", "max_words": 0}, "max_words must be at least 1, got 0"),
    ],
)
def test_a_wrong_detector_is_named_before_anything_is_read(detector, message, tokenizer):
    with pytest.raises(ValueError, match=message):
        LEDProcessor(tokenizer, num_keywords=5, detector=detector)
