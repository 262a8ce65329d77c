import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from foveate import Document
from foveate.detectors import given_keywords
from foveate.preprocessing import HDTProcessor, LEDProcessor, TextProcessor, VCCProcessor
from foveate.preprocessing.text import plain_text, text_and_sentences
from tests.led import bpe

FISH = Document.from_sections(
    "Fish", [("Cod", "Cod swim. They eat.\n\nThey sleep."), ("", "Eels.")]
)

words = st.lists(st.sampled_from(["cod", "eel", "swim", "é", "go on"]), min_size=1, max_size=4)
sentences = words.map(lambda chosen: " ".join(chosen).capitalize() + ".")
sections = st.tuples(
    st.sampled_from(["", "Cod", "Go on"]), st.lists(sentences, min_size=1, max_size=4)
)


def test_plain_text_is_titles_and_paragraphs():
    document = Document.from_sections("Fish", [("Cod", "Cod swim. They eat.\n\nThey sleep.")])
    assert plain_text(document) == "Fish\nCod\nCod swim. They eat.\nThey sleep."


def test_sentences_are_located_though_they_repeat():
    document = Document.from_sections("", [("Cod", "Cod. Go on. Eat.\n\nGo on.\n\nGo on.")])
    text, spans = text_and_sentences(document)
    assert text == plain_text(document)
    expected = ["Cod.", "Go on.", "Eat.", "Go on.", "Go on."]
    assert [text[start:end] for start, end in spans.tolist()] == expected


@given(
    st.sampled_from(["", "The sea"]),
    st.lists(sections, min_size=1, max_size=3),
    st.sampled_from(["", "which cod swim"]),
    st.sampled_from([TextProcessor, LEDProcessor, VCCProcessor]),
    st.booleans(),
)
def test_tokens_map_to_their_sentences_and_characters(
    tokenizer, title, parts, query, kind, byte_level
):
    document = Document.from_sections(title, parts)
    options = {"num_keywords": 1, "detector": given_keywords(["eel"])}
    processor = kind(
        bpe(["cod eel swim"]) if byte_level else tokenizer,
        **options if kind is LEDProcessor else {},
    )
    features = processor.features(document, query=query)
    text = processor.text(document, query)
    for i, sentence in enumerate(document.sentences()):
        tokens = features["sentence_ids"] == i
        assert tokens.any()
        spans = features["offset_mapping"][tokens]
        assert text[spans[0, 0] : spans[-1, 1]].strip() == sentence.text
    outside = features["offset_mapping"][features["sentence_ids"] < 0]
    titles = {title, *(heading for heading, _ in parts)}
    allowed = " ".join([*titles, "eel", processor.prompt(query, ())]).split()
    words = {part for word in allowed for part in _substrings(word)}
    assert {text[start:end].strip() for start, end in outside.tolist()} <= {"", *words}


def _substrings(word):
    return {word[i:j] for i in range(len(word) + 1) for j in range(i, len(word) + 1)}


def test_trees_map_their_tokens_to_sentences(tokenizer):
    features = HDTProcessor(tokenizer).features(FISH, query="who?")
    tokens = features["node_types"] == 0
    for i, sentence in enumerate(FISH.sentences()):
        ids = features["input_ids"][tokens & (features["sentence_ids"] == i)]
        assert tokenizer.decode(ids) == sentence.text.lower()


def test_prefix_query_and_choices_come_first(tokenizer):
    processor = TextProcessor(tokenizer, prefix="summarize: ")
    text = processor.text(FISH, "which?", ("cod", "eel"))
    assert text.split("\n")[:2] == ["summarize: which? cod; eel", "Fish"]
    features = processor.features(FISH, query="which?", choices=("cod", "eel"))
    assert tokenizer.decode(features["input_ids"][1:-1]).startswith("summarize : which? cod ; eel")
    alone = processor.document_features(FISH)
    assert tokenizer.decode(alone["input_ids"][1:-1]).startswith("fish cod cod swim.")


def test_long_documents_are_truncated_with_a_warning_and_keep_their_end(tokenizer):
    processor = TextProcessor(tokenizer, max_length=6)
    with pytest.warns(UserWarning, match="a document has more than 6 tokens: only the first 6"):
        batch = processor(FISH)
    assert batch["input_ids"].shape == (1, 6)
    assert batch["input_ids"][0, -1] == tokenizer.sep_token_id
    message = "a document has more than 6 tokens: only the first 6 are used"
    with pytest.warns(UserWarning, match=message):  # the same for every document of a training
        features = processor.features(FISH)
    assert torch.equal(features["input_ids"], batch["input_ids"][0])
    with pytest.warns(UserWarning, match="a target has more than 2 tokens: only the first 2 are"):
        TextProcessor(tokenizer).features(FISH, target="cod swim", max_target_length=2)
    assert torch.equal(features["input_ids"], batch["input_ids"][0])
    assert len(features["sentence_ids"]) == len(features["offset_mapping"]) == 6


@pytest.mark.filterwarnings("ignore:a document has more than")
def test_a_tokenizer_without_an_end_token_is_truncated(tokenizer):
    bare = bpe(["cod"])
    bare.backend_tokenizer.post_processor = None
    whole = TextProcessor(bare).features(FISH)["input_ids"]
    assert torch.equal(TextProcessor(bare, max_length=6).features(FISH)["input_ids"], whole[:6])


@pytest.mark.parametrize("kind", [TextProcessor, LEDProcessor, VCCProcessor, HDTProcessor])
def test_examples_do_not_depend_on_batch_mates(tokenizer, kind):
    processor = kind(tokenizer)
    documents = [FISH, Document.from_text("Cod swim.")]
    queries = ["who?", "which fish swims?"]
    batch = processor(documents, query=queries)
    for i, document in enumerate(documents):
        alone = processor.features(document, query=queries[i])
        length = len(alone["input_ids"])
        for name in processor.columns:
            if name in batch:
                assert torch.equal(batch[name][i, :length], alone[name])
        assert (batch["attention_mask"][i, length:] == 0).all()


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (TextProcessor, {"prefix": "summarize: ", "max_length": 40}),
        (LEDProcessor, {"num_keywords": 3, "detector": "random", "max_length": 40}),
        (VCCProcessor, {"max_length": 40}),
    ],
)
def test_options_are_saved_with_the_tokenizer(tokenizer, tmp_path, kind, options):
    processor = kind(tokenizer, **options)
    processor.save_pretrained(tmp_path)
    again = kind.from_pretrained(tmp_path)
    assert {name: getattr(again, name) for name in options} == options
    first, second = processor.features(FISH), again.features(FISH)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_targets_end_with_the_end_token(tokenizer):
    processor = TextProcessor(tokenizer)
    assert processor.labels("cod cod cod", 4)[-1] == tokenizer.sep_token_id
    assert len(processor.labels("cod cod cod", 4)) == 4


def test_numbers_that_differ_are_refused(tokenizer):
    processor = TextProcessor(tokenizer)
    with pytest.raises(ValueError, match="nothing to encode: give at least one document"):
        processor([])
    with pytest.raises(ValueError, match="numbers of documents and queries differ: 2 and 1"):
        processor([FISH, FISH], query=["a"])


def test_a_single_string_is_not_taken_for_choices(tokenizer):
    processor = TextProcessor(tokenizer)
    message = "a document's choices must be a list of strings, got 'cod'"
    with pytest.raises(TypeError, match=message):
        processor.features(FISH, choices="cod")


def test_a_longest_input_without_tokens_is_refused(tokenizer):
    for length in (0, -1):
        with pytest.raises(
            ValueError, match=f"max_length must be at least 1 or None, got {length}"
        ):
            TextProcessor(tokenizer, max_length=length)
