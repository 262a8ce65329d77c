import warnings
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from foveate.training.packing import PackedDataset, collate_packs


def make_features(example, generator):
    return [{"example": example, "chance": int(torch.randint(2**40, (), generator=generator))}]


@given(st.lists(st.integers(1, 50), min_size=1, max_size=40), st.integers(1, 120))
def test_every_epoch_holds_every_document_once_within_the_budget(lengths, budget):
    packs = PackedDataset(range(len(lengths)), lengths, budget, make_features)
    ends = [0, *(packs.count_packs(epochs) for epochs in (1, 2, 3))]
    packs.num_packs = ends[-1]
    for start, end in pairwise(ends):
        members = [[features["example"] for features in packs[i]] for i in range(start, end)]
        assert sorted(number for pack in members for number in pack) == list(range(len(lengths)))
        for pack in members:
            assert len(pack) == 1 or sum(lengths[number] for number in pack) <= budget


def test_a_pack_depends_on_its_number_and_the_seed_alone():
    lengths = [1 + i % 7 for i in range(30)]

    def fresh(seed=0):
        return PackedDataset(range(30), lengths, 10, make_features, num_packs=40, seed=seed)

    forwards = [fresh()[i] for i in range(40)]
    one = fresh()
    backwards = [one[i] for i in reversed(range(40))][::-1]
    loader = DataLoader(fresh(), batch_size=1, num_workers=2, collate_fn=list)
    assert forwards == backwards == [pack for [pack] in loader]
    assert forwards != [fresh(seed=1)[i] for i in range(40)]
    chances = [features["chance"] for pack in forwards for features in pack]
    assert len(set(chances)) == len(chances)


def test_documents_of_similar_length_go_together_but_not_always_the_same():
    lengths = list(range(1, 201))
    packs = PackedDataset(range(200), lengths, 400, make_features)
    first = [[features["example"] for features in packs[i]] for i in range(len(packs))]
    spans = [lengths[max(pack)] / lengths[min(pack)] for pack in first if lengths[min(pack)] > 20]
    assert max(spans) < 1.5
    packs.num_packs = packs.count_packs(2)
    second = [[features["example"] for features in packs[i]] for i in range(len(first), len(packs))]
    assert {tuple(sorted(pack)) for pack in first} != {tuple(sorted(pack)) for pack in second}


def test_the_features_of_packs_are_joined():
    assert collate_packs(list, [[{"a": 1}], [{"b": 2}, {"c": 3}]]) == [{"a": 1}, {"b": 2}, {"c": 3}]


def test_no_examples_are_rejected():
    with pytest.raises(ValueError, match="nothing to train on"):
        PackedDataset([], [], 10, make_features)
    with pytest.raises(IndexError):
        PackedDataset([1], [1], 10, make_features)[1]


def test_unusable_examples_are_skipped_with_a_warning():
    def some(example, generator):
        if example % 3 == 0:
            raise ValueError("it is short")
        return make_features(example, generator)

    packs = PackedDataset(range(6), [1] * 6, 1, some)
    with pytest.warns(UserWarning, match="example [03] is skipped: it is short"):
        found = [[features["example"] for features in packs[i]] for i in range(6)]
    assert {1, 2, 4, 5} == {example for pack in found for example in pack}
    assert all(len(pack) == 1 for pack in found)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # they have been named
        packs[0], packs[1]
    with pytest.raises(ValueError, match="it is short"), pytest.warns(match="skipped"):
        PackedDataset([0, 3], [1, 1], 1, some)[1]
    with pytest.raises(IndexError):
        packs[6]
