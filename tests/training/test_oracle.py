"""The oracle of summaries is the greedy choice, counted n-gram by n-gram."""

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.training.objectives.oracle import MAX_SENTENCES, oracle


def grams(text, n):
    words = [word[:6] for word in re.findall(r"[a-z]+", text.lower())]
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def measure(sentences, reference):
    """F1 of ROUGE-1 and ROUGE-2, where no pair of words spans two sentences."""
    total = 0.0
    for n in (1, 2):
        own, wanted = sum((grams(x, n) for x in sentences), Counter()), grams(reference, n)
        size = sum(own.values()) + sum(wanted.values())
        total += 2 * sum((own & wanted).values()) / max(1, size)
    return total


texts = st.lists(st.sampled_from(["cod", "Eel", "swims", "swimsuit", "far"]), max_size=5)
sentences = texts.map(lambda words: " ".join(words) + ".")


@given(st.lists(sentences, min_size=1, max_size=6), sentences)
def test_each_choice_is_the_best_and_the_last_is_followed_by_none(document, reference):
    chosen = oracle(document, reference)

    def score_of(choice):
        return measure([document[i] for i in choice], reference)

    so_far, best = [], 0.0
    for choice in chosen:
        left = [i for i in range(len(document)) if i not in so_far]
        scores = {i: score_of([*so_far, i]) for i in left}
        assert scores[choice] == pytest.approx(max(scores.values()), abs=1e-5)
        assert scores[choice] > best
        best = scores[choice]
        so_far.append(choice)
    if len(chosen) < MAX_SENTENCES:
        left = [i for i in range(len(document)) if i not in so_far]
        assert all(score_of([*so_far, i]) <= best + 1e-5 for i in left)


def test_there_are_at_most_eight_sentences():
    words = [f"{chr(97 + i)}{chr(97 + i)} common" for i in range(12)]
    assert len(oracle(words, " ".join(words))) == MAX_SENTENCES == 8


def test_nothing_to_choose():
    assert oracle([], "Cod swim.") == []
    assert oracle(["Cod swim."], "") == []
    assert oracle(["", "..."], "Cod swim.") == []
