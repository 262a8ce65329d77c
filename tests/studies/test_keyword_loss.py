from argparse import Namespace

import numpy as np
import pytest
import torch

from keyword_loss import (
    ARMS,
    BOS,
    CONTENT,
    EOS,
    FORMS,
    FUNCTION,
    KEYWORD,
    MASK,
    MOST_KEYWORDS,
    Item,
    Texts,
    arm_inputs,
    batch_of,
    effect,
    effects,
    gap,
    inputs,
    item_of,
    kinds_of,
    losses_by_kind,
    make_model,
    make_tokenizer,
    order_of,
    tables,
    tune,
)
from tests.led import led

TEXT = "The cod is a fish of cold seas. Herring swim in schools, and the cod eats herring."
TARGET = "It says that a Cod eats herring in the seas."


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer([TEXT, TARGET], 400)


@pytest.fixture(scope="module")
def item(tokenizer):
    return item_of(TEXT, TARGET, tokenizer)


@pytest.fixture(scope="module")
def other(tokenizer):
    return item_of("Boats come into the harbour at night.", TARGET, tokenizer)


def said(tokenizer, ids) -> list[str]:
    return [tokenizer.decode(its).strip() for its in ids]


def test_content_words_are_not_stop_words_or_punctuation(tokenizer):
    encoded = tokenizer(TARGET, add_special_tokens=False, return_offsets_mapping=True)
    kinds = kinds_of(TARGET, encoded["offset_mapping"], {"cod", "herring"})
    by_kind = {
        kind: "".join(tokenizer.decode(np.array(encoded["input_ids"])[kinds == kind])).split()
        for kind in (FUNCTION, CONTENT, KEYWORD)
    }
    assert by_kind[KEYWORD] == ["Cod", "herring"]
    assert by_kind[CONTENT] == ["says", "eats", "seas"]
    assert by_kind[FUNCTION] == ["It", "that", "a", "in", "the."]


def test_an_item_knows_where_its_keywords_stand(tokenizer, item):
    keywords = said(tokenizer, item.keywords)
    assert {"cod", "herring", "seas"} <= set(keywords)
    for keyword, (start, end) in zip(keywords, item.places, strict=True):
        assert tokenizer.decode(item.text[start:end]).strip().lower() == keyword
        assert keyword not in tokenizer.decode(item.text[:start]).lower().split()
    assert len(item.kinds) == len(item.target)
    assert item.target[-1] == EOS
    assert item.kinds[-1] == FUNCTION


@pytest.mark.parametrize("form", FORMS)
def test_each_form_gives_keywords_its_own_way(tokenizer, item, form):
    its = inputs(item, form, 2)
    ids, is_global = its["input_ids"].numpy(), its["global_attention_mask"].numpy().astype(bool)
    prefix = np.concatenate(item.keywords[:2])
    before = [BOS, *prefix, EOS] if form.endswith("before the text") else [BOS]
    assert ids.tolist() == [*before, *item.text, EOS]
    assert is_global[0]
    chosen = tokenizer.decode(ids[1:][is_global[1:]]).lower().split()
    keywords = said(tokenizer, item.keywords[:2])
    assert sorted(chosen) == sorted(keywords if form.startswith("global") else [])
    in_text = is_global[len(before) :].any()
    assert in_text == (form == "global in the text")


def test_no_keywords_are_the_plain_text_in_every_form(item):
    plain = inputs(item, "none", 0)["input_ids"].tolist()
    assert inputs(item, "global in the text", 0)["input_ids"].tolist() == plain


def test_the_control_reads_its_own_text_with_keywords_of_another(item, other):
    arms = [arm for arm in ARMS.values() if arm.of_another]
    assert arms
    for arm in arms:
        own = arm_inputs(item, arm._replace(of_another=False), other)["input_ids"]
        ids = arm_inputs(item, arm, other)["input_ids"].tolist()
        assert ids != own.tolist()
        assert ids[-len(item.text) - 1 : -1] == item.text.tolist()
        assert ids[1 : 1 + len(other.keywords[0])] == other.keywords[0].tolist()


def test_others_are_of_the_same_domain_and_each_is_there_once():
    data = Texts.__new__(Texts)
    data.arrays = {"test_domains": np.array(["a", "b", "a", "b", "a"])}
    others = data.others("test")
    assert sorted(others) == list(range(5))
    assert all(i != j and (i - j) % 2 == 0 for i, j in enumerate(others))


def test_hidden_sentences_are_what_is_to_be_written():
    sentences = [np.full(10, 20 + i) for i in range(12)]
    shown, hidden = gap(sentences, np.random.default_rng(0))
    gone = set(hidden.tolist()) - {EOS}
    assert (shown == MASK).sum() == len(gone) == 4
    assert not gone & set(shown.tolist())
    assert hidden.tolist() == [*np.repeat(sorted(gone), 10), EOS]


def test_losses_add_up_to_the_models(item, other, tokenizer):
    model = led(len(tokenizer))
    features = [inputs(its, "none", 0) for its in (item, other)]
    sums = losses_by_kind(model, features, [item, other])
    assert sums.shape == (2, 3)
    batch = batch_of(features, [item.target, other.target], "cpu")
    with torch.no_grad():
        loss = model(**batch).loss.item()
    number = len(item.target) + len(other.target)
    assert sums.sum() / number == pytest.approx(loss, rel=1e-5)
    alone = losses_by_kind(model, features[1:], [other])
    assert alone[0] == pytest.approx(sums[1], rel=1e-5)


def test_the_error_counts_what_seeds_and_meetings_add():
    """Over many repetitions, the standard error is the spread of the mean, and 80 % are found."""
    rng = np.random.default_rng(0)
    true, seeds, meetings = 0.5, 30, 40
    found, errors, significant, least = [], [], [], []
    for _ in range(2000):
        differences = (
            true
            + 0.8 * rng.standard_normal((seeds, 1))
            + 0.6 * rng.standard_normal((1, meetings))
            + 0.5 * rng.standard_normal((seeds, meetings))
        )
        its = effect(differences)
        found.append(its["mean"])
        errors.append(its["error"])
        significant.append(its["p"] < 0.05)
        least.append(its["least"])
    assert np.mean(errors) == pytest.approx(np.std(found), rel=0.06)
    assert np.mean(least) == pytest.approx(true, rel=0.1)  # so 80 % should be found
    assert np.mean(significant) == pytest.approx(0.8, abs=0.06)


def test_what_helps_keywords_alone_is_seen_there():
    rng = np.random.default_rng(0)
    counts = np.array([[10, 6, 2], [10, 5, 0], [10, 4, 4], [10, 6, 3]])
    sums = counts * (3 + 0.1 * rng.standard_normal((5, 1, 4, 1)))
    sums = np.repeat(sums, len(ARMS) + 1, 1)
    sums[:, 2, :, KEYWORD] -= 0.5 * counts[:, KEYWORD]
    sums += 1e-3 * rng.standard_normal(sums.shape) * counts
    results = effects(sums, counts, np.array(["a", "a", "b", "b"]))
    assert results["meetings"] == {"a": 2, "b": 2}
    against = results["arms"][2]["against none"]
    assert against["keywords"]["mean"] == pytest.approx(-0.5, abs=0.01)
    assert against["other content words"]["mean"] == pytest.approx(0, abs=0.01)
    share = (counts[:, KEYWORD] / counts[:, CONTENT:].sum(1)).mean()
    assert against["content words"]["mean"] == pytest.approx(-0.5 * share, abs=0.01)
    assert {"content words", "kinds and domains", "contrasts"} == set(tables(results))


def test_arms_have_as_many_keywords_as_are_prepared():
    assert max(arm.keywords for arm in ARMS.values()) == MOST_KEYWORDS
    assert all(arm.form in FORMS for arm in ARMS.values())


def test_a_seed_draws_its_examples_once_for_all_arms():
    options = Namespace(examples=6, epochs=2, batch=4)
    order = order_of(20, options, 3)
    assert [len(batch) for batch in order] == [3, 3, 3, 3]
    first, second = (np.concatenate(order[i : i + 2]).tolist() for i in (0, 2))
    assert sorted(first) == sorted(second)
    assert len(set(first)) == 6
    assert all(map(np.array_equal, order, order_of(20, options, 3)))
    assert not all(map(np.array_equal, order, order_of(20, options, 4)))


@pytest.mark.parametrize("form", ["before the text", "global before the text"])
def test_tuning_learns_what_only_keywords_tell(form):
    """The texts are equal, so that without keywords nothing says which target is theirs."""
    text, kinds = np.arange(20, 30), np.array([KEYWORD, CONTENT, FUNCTION])
    items = [
        Item(text, np.array([40 + i, 50 + i, EOS]), kinds, [np.array([60 + i])], np.array([[0, 1]]))
        for i in range(4)
    ]
    sizes = {"width": 64, "layers": 1, "window": 32, "length": 64, "target_length": 8}
    losses = {}
    for name in ("none", form):
        model = make_model(Namespace(**sizes, dropout=0.0), 80)
        features = [inputs(item, name, 1) for item in items]
        tune(model, features, [item.target for item in items], [np.arange(4)] * 150, 3e-3)
        losses[name] = losses_by_kind(model, features, items).mean(0)
    assert losses["none"][KEYWORD] == pytest.approx(np.log(4), abs=0.1)
    assert losses[form][KEYWORD] < 0.5
