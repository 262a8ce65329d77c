"""Context: against the best of all cuts of small documents, as their definition says."""

import re
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from foveate import Document, context
from foveate.tasks import context as tasks_context
from foveate.tasks import prompt
from foveate.tasks.context import HEADING, fit, weigh
from foveate.tasks.tokens import estimate_tokens, token_counter

WORDS = ("cod", "eel", "sole", "herring and cod", "the sea is cold and deep", "鳕鱼")
MARK = re.compile(r"\[… (\d+)\]")


@st.composite
def documents(draw):
    """A document of at most three sections, the last in the first, with at most five sentences."""

    def content(number):
        words = draw(st.lists(st.sampled_from(WORDS), min_size=number, max_size=number))
        return [f"{text.capitalize()}." for text in words]

    titles = draw(st.lists(st.sampled_from(["", "Fish", "On salt"]), min_size=3, max_size=3))
    inner = [(titles[2], content(draw(st.integers(0, 2))))]
    sections = [(titles[0], content(draw(st.integers(1, 2))), inner), (titles[1], content(1))]
    return Document.from_sections("Sea", sections)


def cuts(parts, depth):
    """All ways to show the parts: whether each is open, and which of its passages are.

    Headings down to a depth are open.
    """
    options = []
    for part in parts:
        inside = [range(2)] * len(part.passages)
        closed = [] if part.depth <= depth else [None]
        options.append([*closed, *product(*inside)])
    for states in product(*options):
        path = []
        for part, state in zip(parts, states, strict=True):
            del path[part.depth :]
            if state is not None and None in path:
                break  # open in what is closed
            path.append(state)
        else:
            yield states


def measure(parts, lines, states, weights):
    """F of a cut as `context` defines it, and its tokens, with all marks and as it is written."""
    seen = 0.0
    texts = []
    opened, shown = set(), set()
    mark = prompt.left_out(len(lines))
    for idx, (part, state) in enumerate(zip(parts, states, strict=True)):
        if state is None:
            continue
        opened.add(idx)
        line = HEADING if part.heading else 0
        texts += [part.heading, mark] if part.heading else []
        for passage, is_shown in zip(part.passages, state, strict=True):
            seen += weights[list(passage)].sum() * (1 if is_shown else line)
            if is_shown:
                texts += ["".join(f"\n{lines[i].number} {lines[i].text}" for i in passage), mark]
                shown |= set(passage)
    written = prompt.render(parts, lines, opened, shown)
    return seen, sum(estimate_tokens(texts)), estimate_tokens([written])[0]


def depth_of_outline(parts, lines, tokens):
    """The deepest level that is always open: those above take at most a quarter of the budget."""
    mark = prompt.left_out(len(lines))
    depth = 0
    for deeper in range(max(part.depth for part in parts) + 1):
        headings = [part.heading for part in parts if part.depth <= deeper and part.heading]
        if 4 * sum(estimate_tokens([*headings, *[mark] * len(headings)])) <= tokens:
            depth = deeper
    return depth


@given(documents(), st.integers(3, 70), st.sampled_from([3, 8, 300]), st.data())
def test_no_cut_that_fits_is_better(document, tokens, passage_tokens, data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prompt, "PASSAGE_TOKENS", passage_tokens)
        parts = prompt.outline([document])
    lines = prompt.lines([document])
    size = len(lines)
    weights = np.array(data.draw(st.lists(st.integers(0, 9), min_size=size, max_size=size)), float)
    depth = depth_of_outline(parts, lines, tokens)
    measured = [measure(parts, lines, states, weights) for states in cuts(parts, depth)]
    fitting = [seen for seen, cost, _ in measured if cost <= tokens]
    if not fitting:
        with pytest.raises(ValueError, match="too few"):
            fit([document], parts, weights, tokens, estimate_tokens)
        return
    result = fit([document], parts, weights, tokens, estimate_tokens)
    written = [seen for seen, _, length in measured if length <= tokens]
    assert max(fitting) - 1e-9 <= result.seen <= max(written) + 1e-9
    assert result.tokens == estimate_tokens([result.text])[0] <= tokens
    check_numbers(result, [document])


def check_numbers(result, documents):
    """Numbers lead to the sentences that follow them, and everything is shown or counted."""
    sentences = [(idx, one) for idx, of in enumerate(documents) for one in of.sentences()]
    assert list(result.spans) == sorted(result.spans)
    for number, span in result.spans.items():
        idx, sentence = sentences[number - 1]
        assert result.document_idx[number] == idx
        assert (span.start, span.end, span.text) == (sentence.start, sentence.end, sentence.text)
        assert f"[{number}] " in result.text
        assert sentence.text in result.text
    if "document" not in result.text:
        left_out = sum(map(int, MARK.findall(result.text)))
        assert len(result.spans) + left_out == len(sentences)


SEA = """# Sea

## Fish

Cod swim in cold seas. They eat herring, which they chase at night.

Eels are long.

## Salt

Salt is white. It is dug from old seas. It is traded by weight.

### Prices

Nobody knows what salt will cost.
"""


@pytest.fixture(scope="module")
def sea():
    return Document.from_text(SEA, format="markdown", source="sea.md")


def test_all_of_a_document_that_fits(sea, small_encoder):
    result = context("cod", sea, tokens=500, model=small_encoder)
    assert result.text == (
        "# Sea\n\n## Fish\n[1] Cod swim in cold seas. [2] They eat herring, which they chase at "
        "night.\n[3] Eels are long.\n\n## Salt\n[4] Salt is white. [5] It is dug from old seas. "
        "[6] It is traded by weight.\n\n### Prices\n[7] Nobody knows what salt will cost."
    )
    assert result.seen == pytest.approx(1)
    assert result.spans[7].path == ("Salt", "Prices")
    assert context("cod", sea, tokens=500, model=small_encoder) == result


def test_what_answers_is_shown(sea, encoder):
    result = context("What do cod eat?", sea, tokens=45, model=encoder)
    assert 2 in result.spans
    assert 6 not in result.spans
    assert "## Salt [… 3]" in result.text


def test_the_scale_of_relevance_does_not_matter(sea, encoder, monkeypatch):
    def weights(*scores):
        monkeypatch.setattr(tasks_context, "relevance", lambda *_: [torch.tensor(scores).double()])
        vectors = encoder.encode([sea])
        return weigh("What do cod eat?", [sea], vectors, prompt.outline([sea]), encoder)

    found = weights(0.4, 0.8, 0.1, 0.0, 0.2, 0.0, 0.3)
    assert found.argmax() == 1
    np.testing.assert_allclose(weights(0.24, 0.28, 0.21, 0.2, 0.22, 0.2, 0.23), found, rtol=1e-4)
    np.testing.assert_allclose(weights(*[0.3] * 7), 1 / 7)


def test_a_query_for_an_overview_counts_as_none(sea, encoder):
    digest = context(None, sea, tokens=40, model=encoder)
    assert context("What is this document about?", sea, tokens=40, model=encoder) == digest
    assert context("What do cod eat?", sea, tokens=40, model=encoder) != digest


@pytest.mark.parametrize("query", ["What do cod eat?", None])
def test_several_documents(sea, query, small_encoder):
    land = Document.from_sections("Land", [("Cows", "Cows eat grass. They sleep at night.")])
    for tokens in (20, 40, 80, 300):
        result = context(query, [sea, land], tokens=tokens, model=small_encoder)
        assert result.tokens <= tokens
        check_numbers(result, [sea, land])
    assert set(result.document_idx.values()) == {0, 1}
    assert "# Land" in result.text


def test_documents_that_have_no_room_are_counted(small_encoder):
    documents = [
        Document.from_sections(f"The {n}th of many", [("", f"Cod number {n}.")]) for n in range(40)
    ]
    result = context("Cod number 7", documents, tokens=60, model=small_encoder)
    shown = result.text.count("# The")
    assert 0 < shown < 40
    assert result.text.endswith(f"[… {40 - shown} documents]")
    assert result.tokens <= 60


def test_speakers_are_named_where_a_line_begins(small_encoder):
    text = "WEBVTT\n\n00:01.000 --> 00:02.000\n<v Ann>Cod swim. They eat.\n"
    talk = Document.from_text(text, format="vtt")
    result = context("cod", talk, tokens=100, model=small_encoder)
    assert "[1] Ann: Cod swim. [2] They eat." in result.text


def test_a_budget_below_the_title(sea, small_encoder):
    with pytest.raises(ValueError, match="2 tokens are too few even for the title"):
        context("cod", sea, tokens=2, model=small_encoder)


def test_arguments(sea, small_encoder):
    with pytest.raises(ValueError, match="query is empty"):
        context(" ", sea, model=small_encoder)
    with pytest.raises(ValueError, match="no document"):
        context("cod", [], model=small_encoder)


@pytest.fixture
def tokenizer_file(tmp_path):
    words = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    words.pre_tokenizer = Whitespace()
    words.enable_truncation(3)
    words.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_tokens_are_those_of_a_tokenizer(sea, small_encoder, small_model, tokenizer_file):
    for tokenizer in (tokenizer_file, small_model):
        count = token_counter(tokenizer)
        for tokens in (20, 40, 60):
            result = context("cod", sea, tokens=tokens, tokenizer=tokenizer, model=small_encoder)
            assert result.tokens == count([result.text])[0] <= tokens
            check_numbers(result, [sea])
    assert token_counter(tokenizer_file)(["Cod swim in cold seas."]) == [6]


def test_a_tokenizer_that_is_none(sea, tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match=r"name a tokenizer\.json"):
        context("cod", sea, tokenizer=tmp_path / "tokenizer.json")
    with pytest.raises(OSError, match="no folder"):
        context("cod", sea, tokenizer=tmp_path / "missing")
