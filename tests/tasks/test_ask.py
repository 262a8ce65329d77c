import json
import warnings
from itertools import pairwise

import pytest
import torch
from transformers import BertConfig

from foveate import Document, ask
from foveate.inference import Answerer
from foveate.inference.answerer import best_of_sentences
from foveate.models.vcc import VccT5ForConditionalGeneration
from tests.t5 import save_t5


@pytest.fixture(scope="module")
def book():
    days = [f"On day {i} it rained and nobody went out at all." for i in range(40)]
    paragraphs = "\n\n".join([*days[:20], "The captain hunts a whale.", *days[20:]])
    return Document.from_sections("Book", [("Days", paragraphs)])


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory, book):
    """A random T5 whose vocabulary are the book's words."""
    folder = tmp_path_factory.mktemp("t5")
    save_t5(folder, f"{book.text} Book Days question : context whale ?")
    return folder


def test_passages_that_answer_come_best_first(sea, encoder):
    answer = ask("Is diesel expensive?", sea, top_k=2, model=encoder)
    assert answer.text is None
    best, second = answer.passages
    assert best.best.text == "Diesel is dear."
    assert best.quoted == best.span
    assert "Diesel is dear." in best.span.text
    assert best.span.path == ("Boats",)
    assert best.score > second.score
    assert sea.text[best.span.start : best.span.end] == best.span.text


def test_a_passage_is_a_few_sentences_around_the_best(encoder):
    days = [f"On day {i} it rained and nobody went out at all." for i in range(40)]
    story = " ".join([*days[:20], "Then the captain saw a white whale.", *days[20:]])
    after = "Nobody spoke of the whale again."
    document = Document.from_sections("Log", [("Days", story), ("End", after)])
    passages = ask("who saw a whale?", document, top_k=4, model=encoder).passages
    assert passages[0].best.text == "Then the captain saw a white whale."
    assert passages[0].span.text.count(".") == 5
    assert passages[1].span.text == passages[1].best.text == after
    sentences = [sentence.text for sentence in document.sentences()]
    for passage in (passages[0], *passages[2:]):
        first = sentences.index(passage.span.text[: passage.span.text.index(".") + 1])
        number = passage.span.text.count(".")
        assert passage.span.text == " ".join(sentences[first : first + number])
        assert number <= 5
        assert document.text[passage.span.start : passage.span.end] == passage.span.text
        assert passage.span.start <= passage.best.start < passage.best.end <= passage.span.end
    bounds = sorted((passage.span.start, passage.span.end) for passage in passages)
    assert all(end <= start for (_, end), (start, _) in pairwise(bounds))


def test_a_passage_has_a_hundred_words_unless_its_one_sentence_has_more(encoder):
    long = f"The whale swam {' '.join(['on and'] * 40)} on."
    longest = f"The whale was {' '.join(['very very'] * 60)} big."
    document = Document.from_sections("", [("A", [long, long]), ("B", ["So be it.", longest])])
    passages = ask("whale", document, top_k=4, model=encoder).passages
    assert sorted(len(passage.span.text.split()) for passage in passages) == [3, 84, 84, 124]


def test_a_passage_has_a_speaker_if_there_is_one_alone(encoder):
    turns = [("Ann", "Who buys the boat?"), ("Bob", "The boat is bought by Carla. She is rich.")]
    meeting = {"turns": [{"speaker": who, "text": text} for who, text in turns]}
    document = Document.from_text(json.dumps(meeting), format="json", language="en")
    [passage] = ask("who buys the boat?", document, model=encoder).passages
    assert (passage.span.speaker, passage.best.speaker) == (None, "Ann")
    alone = Document.from_text(json.dumps({"turns": meeting["turns"][1:]}), format="json")
    [passage] = ask("who buys the boat?", alone, model=encoder).passages
    assert passage.span.text == "The boat is bought by Carla. She is rich."
    assert passage.span.speaker == "Bob"


def test_sentences_of_chinese_are_joined_without_spaces(encoder):
    text = "鲸鱼在冰下游泳。船长在日志中写道他会等一个月。"
    document = Document.from_sections("", [("", text)], language="zh")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        [passage] = ask("鲸鱼", document, model=encoder).passages
    assert passage.span.text == text


def test_there_are_no_more_passages_than_sentences(encoder):
    assert len(ask("cod", Document.from_text("Cod swim."), top_k=9, model=encoder).passages) == 1


def test_a_t5_answers_and_shows_what_it_looked_at(book, checkpoint):
    reader = Answerer.from_pretrained(checkpoint, device="cpu")
    reader.model.config.num_fine_blocks = reader.model.encoder.config.num_fine_blocks = 2
    answer = ask("what does the captain hunt ?", book, model=reader, top_k=50)
    assert isinstance(answer.text, str)
    assert sum(passage.span.text.count("day") for passage in answer.passages) == 40
    scores = [passage.score for passage in answer.passages]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > scores[-1] > 0
    for passage in answer.passages:
        source = book.text[passage.span.start : passage.span.end]
        assert " ".join(source.split()) == passage.span.text
        assert book.text[passage.best.start : passage.best.end] == passage.best.text


def test_shares_of_attention_reach_the_paragraph_they_belong_to(book, checkpoint):
    """A question of one paragraph's own rare words, embedded far from all others."""
    reader = Answerer.from_pretrained(checkpoint, device="cpu")
    embeddings = reader.model.shared.weight
    whale = reader.processor.tokenizer.convert_tokens_to_ids("whale.")
    with torch.no_grad():
        for block in reader.model.encoder.block:
            attention = block.layer[0].SelfAttention
            attention.q.weight.copy_(torch.eye(16) * 3)
            attention.k.weight.copy_(torch.eye(16) * 3)
            attention.o.weight.zero_()
            block.layer[1].DenseReluDense.wo.weight.zero_()
        embeddings[:, 0] = 0
        embeddings[whale] = torch.eye(16)[0] * 30
    answer = ask("whale.", book, model=reader, top_k=1)
    assert answer.passages[0].best.text == "The captain hunts a whale."


def test_sentences_have_the_best_score_of_their_tokens():
    sentence_ids = torch.tensor([-1, 0, 0, 2, 2, -1])
    scores = torch.tensor([9.0, 0.1, 0.5, 0.3, 0.2, 7.0])
    assert best_of_sentences(scores, sentence_ids, 3).tolist() == pytest.approx([0.5, 0, 0.3])


def test_several_documents_are_asked_together(book, sea, encoder, checkpoint):
    answer = ask("Is diesel expensive?", [book, sea], top_k=2, model=encoder)
    assert answer.passages[0].document_idx == 1
    assert answer.passages[0].span.document == "Fish of the sea"
    alone = ask("Is diesel expensive?", sea, top_k=1, model=encoder)
    assert answer.passages[0].span == alone.passages[0].span
    written = ask("whale ?", [sea, book], top_k=50, model=checkpoint)
    assert isinstance(written.text, str)
    for passage in written.passages:
        document = (sea, book)[passage.document_idx]
        source = document.text[passage.span.start : passage.span.end]
        assert " ".join(source.split()) == passage.span.text


def test_choices_are_vip_tokens_of_what_answers(book, checkpoint, monkeypatch):
    answerer = Answerer.from_pretrained(checkpoint, device="cpu")
    seen = []
    features = answerer.processor.prompted_features
    monkeypatch.setattr(
        answerer.processor, "prompted_features", lambda *a: seen.append(features(*a)) or seen[-1]
    )
    ask("whale ?", book, choices=["rained", "nobody"], model=answerer)
    vips = seen[0]["input_ids"][seen[0]["vip_mask"] == 1]
    prompt = "question: whale ? rained; nobody context:"
    expected = answerer.processor.tokenizer(prompt, add_special_tokens=False)["input_ids"]
    assert vips.tolist() == expected
    with pytest.raises(ValueError, match="only a generative model takes choices"):
        ask("whale ?", book, choices=["rained"])
    with pytest.raises(ValueError, match="what it attended to: leave out explain"):
        ask("whale ?", book, model=checkpoint, explain=True)


def test_a_reader_runs_in_the_dtype_that_is_asked_for(checkpoint):
    assert Answerer.from_pretrained(checkpoint).model.dtype == torch.float32
    assert Answerer.from_pretrained(checkpoint, dtype="bfloat16").model.dtype == torch.bfloat16
    with pytest.raises(ValueError, match="dtype must be float32, bfloat16 or float16, got int8"):
        Answerer.from_pretrained(checkpoint, dtype="int8")


def test_vcc_checkpoints_are_read_too(book, checkpoint, tmp_path):
    model = VccT5ForConditionalGeneration.from_pretrained(checkpoint)
    model.save_pretrained(tmp_path)
    Answerer.from_pretrained(checkpoint).processor.tokenizer.save_pretrained(tmp_path)
    assert isinstance(ask("whale", book, model=tmp_path).text, str)


def test_what_cannot_be_asked_is_said(book, tmp_path):
    with pytest.raises(ValueError, match="the query is empty"):
        ask(" ", book)
    with pytest.raises(ValueError, match="top_k must be at least 1, got 0"):
        ask("whale", book, top_k=0)
    BertConfig().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="is a bert model: name a T5"):
        Answerer.from_pretrained(tmp_path)


def test_an_answer_from_a_truncated_document_comes_with_a_warning(book, checkpoint):
    answerer = Answerer.from_pretrained(checkpoint, device="cpu")
    answerer.processor.max_length = 32
    with pytest.warns(UserWarning, match="a document has more than 32 tokens: only the first 32"):
        _, scores = answerer.answer("whale ?", book)
    assert len(scores) == 41
    with pytest.raises(TypeError, match="choices must be a list of strings, got 'cod'"):
        answerer.answer("whale ?", book, choices="cod")
