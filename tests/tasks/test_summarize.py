import json
from dataclasses import replace

import pytest
import torch

from foveate import Document
from foveate.documents import Paragraph
from foveate.inference import Encoder
from foveate.tasks.candidates import abstract, candidates, is_paper, is_story
from foveate.tasks.summarize import choose, summarize


def test_sentences_come_in_document_order_with_their_places(sea, encoder):
    summary = summarize(sea, sentences=3, model=encoder)
    starts = [chosen.span.start for chosen in summary.sentences]
    assert starts == sorted(starts)
    assert len(starts) == 3
    assert summary.text == " ".join(chosen.span.text for chosen in summary.sentences)
    for chosen in summary.sentences:
        assert sea.text[chosen.span.start : chosen.span.end] == chosen.span.text
        assert chosen.span in sea.spans()


def test_five_sentences_are_the_default(sea, encoder):
    assert len(summarize(sea, model=encoder).sentences) == 5


def test_a_summary_says_what_the_document_is_about(sea, encoder):
    [chosen] = summarize(sea, sentences=1, model=encoder).sentences
    assert chosen.span.path == ("Introduction",)


def test_a_query_says_what_the_summary_is_about(sea, encoder):
    [chosen] = summarize(sea, sentences=1, query="nets and ports", model=encoder).sentences
    assert chosen.span.path == ("Boats",)


@pytest.mark.parametrize("words", [5, 9, 20, 40])
def test_a_budget_of_words_is_kept(sea, encoder, words):
    assert 1 <= len(summarize(sea, words=words, model=encoder).text.split()) <= words


def test_a_budget_may_be_greater_than_any_integer_of_torch(sea, encoder):
    whole = summarize(sea, sentences=10**6, model=encoder).text
    assert summarize(sea, words=10**30, model=encoder).text == whole
    assert summarize(sea, sentences=10**30, model=encoder).text == whole


def test_one_sentence_is_the_least(sea, encoder):
    assert len(summarize(sea, words=1, model=encoder).sentences) == 1


def test_a_short_document_is_its_own_summary(encoder):
    document = Document.from_text("One sentence. And another.")
    assert summarize(document, sentences=9, model=encoder).text == "One sentence. And another."


def test_fragments_do_not_fill_up_the_budget(encoder):
    sentences = ["Cod, eel and herring are fish of the sea.", "Examples:", "Cod", "Eel"]
    document = Document.from_sections("Fish", [("Fish", sentences)])
    assert summarize(document, words=20, model=encoder).text == sentences[0]


def test_what_is_no_running_text_is_left_out(encoder):
    kinds = ("prose", "item", "table", "code", "formula", "caption", "footnote", "reference")
    text = "The cod is a fish of the cold sea, and it eats herring."
    document = Document.from_sections("The cod", [("Cod", [text] * len(kinds))])
    [section] = document.sections
    [paragraph] = section.paragraphs
    paragraphs = tuple(
        Paragraph((sentence,), kind=kind)
        for kind, sentence in zip(kinds, paragraph.sentences, strict=True)
    )
    document = replace(document, sections=(replace(section, paragraphs=paragraphs),))
    starts = [sentence.start for sentence in document.sentences()]
    summary = summarize(document, sentences=9, model=encoder)
    assert [chosen.span.start for chosen in summary.sentences] == starts[:2]
    only_code = replace(document, sections=(replace(section, paragraphs=paragraphs[3:4]),))
    assert summarize(only_code, model=encoder).text == text


@pytest.mark.parametrize(
    "left_out",
    [
        "The species of fish that live in the cold sea are the following:",
        "寒い海に住む魚の種類は次のとおりである：",
        "Which species of fish live in the cold sea of the north?",
        '"Fish" shall mean the cod, the herring and the eel of the cold sea.',
        "(The cod of the cold sea are counted and weighed every year.)",
        "But in the end the cod of the cold sea eat all of the herring.",
        "This is why the cod and the herring of the cold sea are so rare.",
        "The herring of the cold sea are counted and weighed every year as follows.",
        "— The cod of the cold sea, by the Fishermen of the Sea.",
        "4. eat the herring of the cold sea and the fish of the rivers.",
        "THE COD AND THE HERRING OF THE COLD SEA ARE ALL SOLD AS THEY ARE.",
        "The cod of the cold sea eat the herring" + ", and then the herring" * 20 + ".",
        '"The cod of the cold sea are counted every year," she said.',
        'The "source fish" for a net means the fish of the sea that swam into it first.',
        "No part of this book may be reproduced without the fishermen of the sea.",
        "The minutes of the last meeting of the fish of the sea were approved by the eel.",
        "Copyright (C) 1999 by the Fishermen of the Sea, who keep all of the fish.",
        "and in the end the cod of the cold sea eat all of the herring.",
        "The species of fish that live in the cold sea of the north",
        "f(cod) = 12.5 * 3.1 + 4 / (2 * 7.5) = 1 + 2 + 3 + 4.",
    ],
)
def test_lead_ins_questions_definitions_and_fragments_are_left_out(encoder, left_out):
    whole = ["Cod live in the cold sea and eat herring.", "Nobody knows why the eel is so long."]
    document = Document.from_sections("Fish", [("Fish", [*whole, left_out])], language="en")
    assert summarize(document, model=encoder).text == " ".join(whole)


def test_quotations_of_several_sentences_are_left_out(encoder):
    said = "“The cod of the cold sea are counted. The herring of the cold sea are not counted.” "
    told = "The fishermen of the cold sea went home in the evening."
    document = Document.from_text(said + told, title="The cold sea", language="en")
    assert summarize(document, model=encoder).text == told


def test_stories_are_told_from_other_documents():
    speech, prose = "“I saw a whale,” he said.", "He went down to the sea."
    definition = "“Whale” means an animal of the sea."
    assert is_story(Document.from_text("\n\n".join([speech, prose, prose])))
    assert is_story(Document.from_text("\n\n".join(["— ¡Una ballena!", "— ¿Dónde?", prose])))
    assert not is_story(Document.from_text("\n\n".join([speech, *[prose] * 4])))
    assert not is_story(Document.from_text("\n\n".join([definition, prose])))


@pytest.mark.parametrize("budget", [{"sentences": 3}, {"words": 75}])
def test_a_story_is_summarized_from_beginning_to_end(budget, encoder):
    told = "The captain of the ship saw the whale of the sea in year {}, and followed it."
    said = "“Where is the whale, captain?” asked the mate of the ship.\n\n"
    story = said.join(told.format(year) + "\n\n" for year in range(1800, 1830))
    document = Document.from_text(story, title="The whale", language="en")
    summary = summarize(document, **budget, model=encoder)
    third = len(document.text) / 3
    assert {int(chosen.span.start / third) for chosen in summary.sentences} == {0, 1, 2}


def test_a_text_without_full_stops_is_summarized_too(encoder):
    lines = ["cod live in the cold sea and eat herring", "nobody knows why the eel is so long"]
    lines = [line.replace("sea", sea) for line in lines for sea in ("sea", "lake", "river")]
    document = Document.from_sections("Fish", [("Fish", [*lines, "Fish of the sea are many."])])
    assert len(summarize(document, sentences=7, model=encoder).sentences) == 7


@pytest.mark.parametrize(
    "title",
    [
        "References",
        "7. Bibliography",
        "A. Table of Contents",
        "Danksagung",
        "RÉFÉRENCES",
        "参考文献",
    ],
)
def test_sections_that_list_or_thank_are_left_out(title, encoder):
    cod, thanks = "Cod live in the cold sea and eat herring.", "We thank the cod and the herring."
    document = Document.from_sections("Cod", [("Cod", cod), (title, "", [("Cod", thanks)])])
    assert summarize(document, model=encoder).text == cod


def test_papers_are_told_from_other_documents():
    def document(*titles, text="It is so."):
        return Document.from_sections("", [(title, text) for title in titles])

    assert is_paper(document("1 Introduction", "2 Nets", "3 Conclusions and Future Work"))
    assert is_paper(document("I. Abstract", "IV. Experiments"))
    assert is_paper(document("1.", "2.", text="In this paper, we count fish."))
    assert is_paper(document("Einleitung", "Fazit"))
    assert not is_paper(document("1. Introduction", "2. Installation", "3. Options"))
    assert not is_paper(document("Chapter 1", "Chapter 2"))


@pytest.mark.parametrize("title", ["Abstract", "ABSTRACT.", "0. Executive Summary", "摘要"])
@pytest.mark.parametrize("is_inside", [False, True])
def test_an_abstract_is_found_where_documents_begin(title, is_inside):
    cod = ["Cod live in the cold sea.", "They eat the herring of the sea."]
    rest = "Eels live in rivers and in the sea. " * 9
    parts = [("Preface", "This is about fish."), (title, cod), ("Eels", rest)]
    document = Document.from_sections("", [("Fish", "", parts)] if is_inside else parts)
    assert [list(document.sentences())[i].text for i in abstract(document)] == cod
    late = Document.from_sections("", [*parts[::2], parts[1]])
    assert abstract(late) == []


def test_who_only_listens_says_nothing(encoder):
    said = "We buy two new boats in spring, since the old ones leak."
    turns = [("Ann", "Yeah, that is right, OK."), ("Bob", said), ("Ann", "I think so, yeah, OK.")]
    meeting = {"turns": [{"speaker": who, "text": text} for who, text in turns * 2]}
    document = Document.from_text(json.dumps(meeting), format="json")
    assert summarize(document, sentences=1, model=encoder).text == said
    agreed = Document.from_text(json.dumps({"turns": meeting["turns"][:1]}), format="json")
    assert summarize(agreed, model=encoder).text == "Yeah, that is right, OK."


def test_nothing_is_said_twice(encoder):
    repeated = "The cod is a fish of the cold sea."
    document = Document.from_sections(
        "The cod", [("One", [repeated]), ("Two", ["Boats have sails of cloth.", repeated])]
    )
    assert summarize(document, sentences=2, model=encoder).text.count(repeated) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sentences": 2, "words": 9}, "not both"),
        ({"sentences": 0}, "sentences must be at least 1, got 0"),
        ({"words": -1}, "words must be at least 1, got -1"),
        ({"query": " "}, "the query is empty"),
    ],
)
def test_what_cannot_be_done_is_said(sea, arguments, message):
    with pytest.raises(ValueError, match=message):
        summarize(sea, **arguments)


EAST, NORTH = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])


PLAIN_ENCODE = Encoder.encode


def rate(monkeypatch, salience):
    """Make encoders rate the sentences of each document."""

    def encode(self, document):
        [vectors] = PLAIN_ENCODE(self, [document])
        return replace(vectors, salience=salience(len(vectors.sentences)))

    monkeypatch.setattr(Encoder, "encode", encode)


def test_what_an_encoder_rates_high_is_chosen(encoder, monkeypatch):
    whole = [f"The {fish} is a fish of the cold sea." for fish in ("cod", "eel", "ray", "herring")]
    document = Document.from_sections("The cod", [("Fish", whole)])
    rate(monkeypatch, lambda count: 7 + torch.eye(count)[2] / 100)  # on any scale
    [chosen] = summarize(document, sentences=1, model=encoder).sentences
    assert chosen.span.text == whole[2]
    [chosen] = summarize(document, sentences=1, query="an eel", model=encoder).sentences
    assert chosen.span.text == whole[1]


def test_sentences_of_the_abstract_may_point_back_if_an_encoder_rates_them(encoder, monkeypatch):
    own = ["The eel is a very long fish.", "But nobody knows why the eel is so long."]
    cod = ["Cod live in the cold sea and eat herring.", "Cod are counted every year in winter."] * 3
    document = Document.from_sections("The cod of the sea", [("Abstract", own), ("Cod", cod)])
    rate(monkeypatch, lambda count: None)
    assert own[1] not in summarize(document, sentences=4, model=encoder).text
    rate(monkeypatch, lambda count: torch.eye(count)[1])
    assert summarize(document, sentences=1, model=encoder).text == own[1]


def test_the_sentences_of_a_story_are_not_rated(encoder, monkeypatch):
    told = "The captain of the ship saw the whale of the sea in year {}, and followed it."
    said = "“Where is the whale, captain?” asked the mate of the ship.\n\n"
    story = said.join(told.format(year) + "\n\n" for year in range(1800, 1830))
    document = Document.from_text(story, title="The whale", language="en")
    rate(monkeypatch, torch.zeros)
    unrated = summarize(document, sentences=3, model=encoder).text
    rate(monkeypatch, lambda count: torch.arange(count) % 7.0)
    assert summarize(document, sentences=3, model=encoder).text == unrated


def test_equal_ratings_change_nothing(sea, encoder, monkeypatch):
    rate(monkeypatch, torch.zeros)
    plain = summarize(sea, model=encoder)
    rate(monkeypatch, lambda count: torch.full((count,), 0.3))
    assert summarize(sea, model=encoder).text == plain.text


def test_the_best_is_chosen_first_and_repetition_last():
    scores = torch.tensor([0.9, 0.8, 0.1])
    vectors = torch.stack([EAST, EAST, NORTH])
    texts = ["Cod eat the herring.", "And cod eat the herring.", "Eels are long."]
    assert choose(scores, vectors, texts, torch.ones(3), budget=3) == [0, 2, 1]


def test_each_part_gives_one_before_any_gives_two():
    scores = torch.tensor([0.9, 0.8, 0.1])
    part_idx = torch.tensor([0, 0, 1])
    assert choose(scores, torch.eye(3), ["a", "b", "c"], torch.ones(3), 3, part_idx) == [0, 2, 1]


def test_what_does_not_fit_is_passed_over():
    scores = torch.tensor([0.9, 0.8, 0.1])
    vectors = torch.eye(3)
    assert choose(scores, vectors, ["a", "b", "c"], torch.tensor([5, 5, 3]), budget=8) == [0, 2]
    assert choose(scores, vectors, ["a", "b", "c"], torch.tensor([5, 5, 3]), budget=2) == [0]


@pytest.mark.parametrize(("title", "found"), [("foveate", [0, 1]), ("Reading", [1])])
def test_a_name_may_begin_a_sentence_in_lower_case(title, found):
    text = "foveate reads long documents closely. Nobody has to read them from end to end."
    document = Document.from_sections(title, [("", text)])
    assert candidates(document, skip_backchannels=False) == found
