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
from tests.paths import ROOT

WORDS = ("cod", "eel", "sole", "herring and cod", "the sea is cold and deep", "鳕鱼")
MARK = re.compile(r"\[… (\d+)\]")


@st.composite
def documents(draw):
    """A document of a few sections with at most five sentences, of which the first has another."""

    def content(number):
        words = draw(st.lists(st.sampled_from(WORDS), min_size=number, max_size=number))
        return [f"{text.capitalize()}." for text in words]

    size = draw(st.integers(2, 6))
    titles = st.lists(st.sampled_from(["", "Fish", "On salt"]), min_size=size, max_size=size)
    inner, first, *others = draw(titles)
    below = [(inner, content(draw(st.integers(0, 2))))]
    sections = [(first, content(draw(st.integers(1, 2))), below)]
    return Document.from_sections("Sea", [*sections, *((title, content(1)) for title in others)])


def tokens_of(texts, lines):
    """Tokens of what is opened, each with a mark of what is left out after it."""
    mark = prompt.left_out(len(lines))
    return sum(estimate_tokens([*texts, *[mark for text in texts if text]]))


def is_leaf(parts, i):
    return parts[i].depth > 0 and (i + 1 == len(parts) or parts[i + 1].depth <= parts[i].depth)


def units(parts, lines, required, limit):
    """Parts that are opened together, and the passages in them that may be shown."""
    words = [estimate_tokens([line.text])[0] for line in lines]
    found = []
    size = 0
    for i, part in enumerate(parts):
        own = sum(words[j] for j in part.sentences) + tokens_of([part.heading], lines)
        size += own
        joins = found and parts[found[-1][-1]].depth == part.depth and size <= limit
        may_join = {i, i - 1}.isdisjoint(required) and is_leaf(parts, i) and is_leaf(parts, i - 1)
        if joins and may_join:
            found[-1].append(i)
        else:
            found.append([i])
            size = own
    for unit in found:
        passages = [] if len(unit) > 1 else prompt.passages(parts[unit[0]].sentences, words, limit)
        yield unit, [list(passage) for passage in passages]


def cuts(parts, lines, required, limit):
    """All ways to show the parts: those that are open, the sentences, and the tokens."""
    all_units = list(units(parts, lines, required, limit))
    of_unit = [
        ([] if unit[0] in required else [None])
        + [(unit, shown) for shown in product((False, True), repeat=len(passages))]
        for unit, passages in all_units
    ]
    for states in product(*of_unit):
        path, opened, shown, texts = [], set(), set(), []
        for (unit, passages), state in zip(all_units, states, strict=True):
            depth = parts[unit[0]].depth
            del path[depth:]
            if state and None in path:
                break  # open in what is closed
            path.append(state)
            if not state:
                continue
            opened |= {*unit}
            if len(unit) > 1:
                inside = [parts[i].sentences for i in unit]
                shown |= {i for own in inside for i in own}
                texts.append(
                    "".join(
                        parts[i].heading + prompt.passage_text(own, lines)
                        for i, own in zip(unit, inside, strict=True)
                    )
                )
            else:
                own = [one for one, is_shown in zip(passages, state[1], strict=True) if is_shown]
                shown |= {i for passage in own for i in passage}
                texts += [parts[unit[0]].heading]
                texts += [prompt.passage_text(passage, lines) for passage in own]
        else:
            yield opened, shown, tokens_of(texts, lines)


def seen_by(parts, opened, shown, weights):
    """F of a cut, as `context` defines it."""
    return sum(
        weights[i] * (1 if i in shown else HEADING * (idx in opened and bool(part.heading)))
        for idx, part in enumerate(parts)
        for i in part.sentences
    )


def required_parts(parts, lines, tokens):
    """Those down to the deepest level that takes at most a quarter of the budget."""
    telling = {i: part for i, part in enumerate(parts) if not part.repeats}
    deepest = 0
    for depth in range(max(part.depth for part in parts) + 1):
        headings = [part.heading for part in telling.values() if part.depth <= depth]
        if 4 * tokens_of(headings, lines) <= tokens:
            deepest = depth
    return {i for i, part in telling.items() if part.depth <= deepest}


@given(documents(), st.integers(3, 70), st.sampled_from([3, 8, 30, 300]), st.data())
def test_no_cut_that_fits_is_better(document, tokens, limit, data):
    parts = prompt.outline([document])
    lines = prompt.lines([document])
    size = len(lines)
    weights = np.array(data.draw(st.lists(st.integers(1, 9), min_size=size, max_size=size)), float)
    required = required_parts(parts, lines, tokens)
    all_cuts = [
        (
            seen_by(parts, opened, shown, weights),
            cost,
            estimate_tokens([prompt.render(parts, lines, opened, shown)])[0],
        )
        for opened, shown, cost in cuts(parts, lines, required, limit)
    ]
    fitting = [seen for seen, cost, _ in all_cuts if cost <= tokens]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks_context, "PASSAGE_TOKENS", limit)
        patch.setattr(tasks_context, "PASSAGE_SHARE", limit)
        patch.setattr(tasks_context, "LIKELY", 0)
        if not fitting:
            with pytest.raises(ValueError, match="too few"):
                fit([document], parts, weights, tokens, estimate_tokens)
            return
        result = fit([document], parts, weights, tokens, estimate_tokens)
    written = [seen for seen, _, length in all_cuts if length <= tokens]
    assert max(fitting) - 1e-9 <= result.seen <= max(written) + 1e-9
    assert result.tokens == estimate_tokens([result.text])[0] <= tokens
    check_numbers(result, [document])


@given(documents(), st.integers(3, 70), st.data())
def test_nothing_unlikely_replaces_the_likeliest_sentence(document, tokens, data):
    parts = prompt.outline([document])
    size = len(prompt.lines([document]))
    weights = np.array(data.draw(st.permutations([10.0**i for i in range(size)])))
    try:
        result = fit([document], parts, weights, tokens, estimate_tokens)
    except ValueError:
        return
    best = weights.argmax() + 1
    assert best in result.spans or all(weights[i - 1] >= weights.max() / 10 for i in result.spans)
    check_numbers(result, [document])


def test_sentences_without_weight_are_not_shown():
    document = Document.from_sections("Sea", [("Fish", "Cod swim. Eels eat. Soles lie.")])
    parts = prompt.outline([document])
    result = fit([document], parts, np.array([1.0, 0, 1]), 100, estimate_tokens)
    assert [*result.spans] == [1, 3]


def test_a_small_budget_holds_the_best_sentence_of_a_passage(encoder):
    contract = Document.from_file(ROOT / "examples" / "contract.md")
    for query, sentence, tokens in (
        ("who pays for delays?", 4, 60),
        ("delays caused by ice", 5, 60),
        ("when does the carrier's liability end?", 8, 40),
        ("how can the contract be ended?", 9, 60),
    ):
        assert sentence in context(query, contract, tokens=tokens, model=encoder).spans
    tiny = context("how can the contract be ended?", contract, tokens=40, model=encoder)
    assert not tiny.spans
    assert "## 4. Termination [… 1]" in tiny.text


def turns(titles):
    """A document of which every sentence is a section."""
    return Document.from_sections("Talk", [(title, "It went on.") for title in titles])


def test_neighbours_are_in_other_sections_only_if_titles_repeat(encoder, monkeypatch):
    scores = torch.zeros(12).double()
    scores[5] = 1
    monkeypatch.setattr(tasks_context, "relevance", lambda *_: [scores])

    def weights(document):
        vectors = encoder.encode([document])
        return weigh("What do cod eat?", [document], vectors, prompt.outline([document]), encoder)

    near = weights(turns(["Ann", "Bo"] * 6))
    assert near[5] > near[4] > near[3] > near[0]
    apart = weights(turns(map(str, range(12))))
    assert apart[5] > apart[4] == apart[3] == apart[0]


def test_headings_that_repeat_are_no_outline(small_encoder):
    speakers = context("cod", turns(["Ann", "Bo"] * 100), tokens=2000, model=small_encoder)
    distinct = context("cod", turns(map(str, range(200))), tokens=12000, model=small_encoder)
    assert speakers.text.count("##") == len(speakers.spans)
    assert distinct.text.count("##") == 200


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
    result = context("What do cod eat?", sea, tokens=34, model=encoder)
    assert 2 in result.spans
    assert 6 not in result.spans
    assert "## Salt [… 4]" in result.text


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


def test_listings_keep_their_lines_and_indentation(small_encoder):
    code = "    def sum(fish):\n        return len(fish)"
    document = Document.from_text(f"# Nets\n\nCount them.\n\n```\n{code}\n```\n", format="markdown")
    shown = context("cod", document, tokens=99, model=small_encoder).text
    assert shown == f"# Nets\n[1] Count them.\n[2]\n{code}"


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
