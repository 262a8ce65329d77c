import pytest
import torch
from transformers import BertConfig

from foveate import Document, VccT5ForConditionalGeneration
from foveate.tasks.ask import Reader, _by_paragraph, ask
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
    answer = ask("How expensive is fuel for ships?", sea, top=2, encoder=encoder)
    assert answer.text is None
    best, second = answer.passages
    assert "Diesel is dear." in best.text
    assert best.path == ("Boats",)
    assert best.score > second.score
    assert sea.text[best.start : best.end] == best.text


def test_there_are_no_more_passages_than_paragraphs(encoder):
    assert len(ask("cod", Document.from_text("Cod swim."), top=9, encoder=encoder).passages) == 1


def test_a_t5_answers_and_shows_what_it_looked_at(book, checkpoint):
    reader = Reader.from_pretrained(checkpoint, device="cpu")
    reader.model.config.num_fine_blocks = reader.model.encoder.config.num_fine_blocks = 2
    answer = ask("what does the captain hunt ?", book, model=reader, top=50)
    assert isinstance(answer.text, str)
    assert len(answer.passages) == 41
    scores = [passage.score for passage in answer.passages]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > scores[-1] > 0
    for passage in answer.passages:
        assert book.text[passage.start : passage.end] == passage.text


def test_shares_of_attention_reach_the_paragraph_they_belong_to(book, checkpoint):
    """A question of one paragraph's own rare words, embedded far from all others."""
    reader = Reader.from_pretrained(checkpoint, device="cpu")
    embeddings = reader.model.shared.weight
    whale = reader.tokenizer.convert_tokens_to_ids("whale.")
    with torch.no_grad():
        for block in reader.model.encoder.block:
            attention = block.layer[0].SelfAttention
            attention.q.weight.copy_(torch.eye(16) * 3)
            attention.k.weight.copy_(torch.eye(16) * 3)
            attention.o.weight.zero_()
            block.layer[1].DenseReluDense.wo.weight.zero_()
        embeddings[:, 0] = 0
        embeddings[whale] = torch.eye(16)[0] * 30
    answer = ask("whale.", book, model=reader, top=1)
    assert answer.passages[0].text == "The captain hunts a whale."


def test_paragraphs_inside_others_have_scores_of_their_own():
    text = "Book\nCod. Go on. Eat.\nGo on.\nEnd"
    spans = [(5, 21), (22, 28)]
    assert [text[begin:end] for begin, end in spans] == ["Cod. Go on. Eat.", "Go on."]
    places = [-1, 0, 5, 10, 22, 29]
    scores = torch.tensor([9.0, 8.0, 0.1, 0.5, 0.3, 7.0])
    assert _by_paragraph(scores, places, spans) == pytest.approx([0.5, 0.3])


def test_a_reader_runs_in_the_dtype_that_is_asked_for(checkpoint):
    assert Reader.from_pretrained(checkpoint).model.dtype == torch.float32
    assert Reader.from_pretrained(checkpoint, dtype="bfloat16").model.dtype == torch.bfloat16
    with pytest.raises(ValueError, match="dtype must be float32, bfloat16 or float16, got int8"):
        Reader.from_pretrained(checkpoint, dtype="int8")


def test_vcc_checkpoints_are_read_too(book, checkpoint, tmp_path):
    model = VccT5ForConditionalGeneration.from_pretrained(checkpoint)
    model.save_pretrained(tmp_path)
    Reader.from_pretrained(checkpoint).tokenizer.save_pretrained(tmp_path)
    assert isinstance(ask("whale", book, model=tmp_path).text, str)


def test_what_cannot_be_asked_is_said(book, tmp_path):
    with pytest.raises(ValueError, match="the question is empty"):
        ask(" ", book)
    with pytest.raises(ValueError, match="top must be at least 1, got 0"):
        ask("whale", book, top=0)
    BertConfig().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="is a bert model: name a T5"):
        ask("whale", book, model=tmp_path)
