import numpy as np
import pytest
import torch

from anchor_memory import Decoders, labels_of, losses_apart, measures
from foveate.models.hdt.configuration_hdt import DECODE_ANCHORS
from small_encoders import SmallEncoder, trees
from tests.studies.test_anchors import a_document


@pytest.fixture(scope="module")
def models():
    torch.manual_seed(0)
    encoder = SmallEncoder(200, 1, 64, position_embedding_type="hierarchical").eval()
    encoder.requires_grad_(False)
    return encoder, Decoders(encoder, layers=1, width=64).eval()


PAIRS = [
    (a_document([2 + i, 3], first=10 + 20 * i), a_document([1 + i % 2], first=10 + 20 * i))
    for i in range(5)
]


def test_each_decoder_reads_its_nodes_alone(models):
    encoder, decoders = models
    documents, targets = zip(*PAIRS[:2], strict=True)
    batch = trees(documents, "cpu")
    hidden_states, labels = encoder(batch.ids, batch.structure), labels_of(targets, "cpu")
    before = decoders.losses(hidden_states, batch.structure, labels)
    is_leaf = batch.structure.num_children == 0
    changed = torch.where(is_leaf[:, None], torch.randn_like(hidden_states), hidden_states)
    after = decoders.losses(changed, batch.structure, labels)
    for kind in ("section", "sentence"):
        torch.testing.assert_close(after[kind], before[kind])
    assert not torch.allclose(after["token"], before["token"])


def test_a_document_is_told_from_anothers(models):
    """The loss of each paper is that of the paper alone, and of a roll that of its neighbour's."""
    encoder, decoders = models
    decoders.requires_grad_(False)
    own, another = losses_apart(encoder, decoders, PAIRS)
    assert own.shape == (len(DECODE_ANCHORS), len(PAIRS))
    for i, (document, target) in enumerate(PAIRS):
        labels = labels_of([target], "cpu")
        batch = trees([document], "cpu")
        losses = decoders.losses(encoder(batch.ids, batch.structure), batch.structure, labels)
        for j, kind in enumerate(DECODE_ANCHORS):
            assert own[j, i] == pytest.approx(float(losses[kind]), rel=1e-4)
    batch = trees([PAIRS[1][0]], "cpu")
    labels = labels_of([PAIRS[0][1]], "cpu")
    losses = decoders.losses(encoder(batch.ids, batch.structure), batch.structure, labels)
    assert another[2, 0] == pytest.approx(float(losses["token"]), rel=1e-4)
    assert (another != own).all()


def test_decoders_begin_equal_and_own_their_words(models):
    _, decoders = models
    weights = [dict(decoders[kind].named_parameters()) for kind in DECODE_ANCHORS]
    for name, first in weights[0].items():
        assert all(torch.equal(first, its[name]) for its in weights[1:])
    assert len({its["shared.weight"].data_ptr() for its in weights}) == len(DECODE_ANCHORS)
    assert not any("encoder" in name for name in weights[0])


def test_measures_pair_papers():
    own = np.array([[3.0, 4.0], [2.0, 3.0], [1.0, 2.0]])
    rows = measures(np.stack([own, own + 0.5]))
    assert [row["told"] for row in rows] == [[0.5, 0.5, 0.5]] * 3
    assert "more" not in rows[0]
    assert [row["more"] for row in rows[1:]] == [[1.0, 1.0, 1.0]] * 2


def test_decoders_learn_from_each_memory():
    torch.manual_seed(0)
    encoder = SmallEncoder(200, 1, 64, position_embedding_type="hierarchical").eval()
    encoder.requires_grad_(False)
    decoders = Decoders(encoder, layers=1, width=64)
    documents, targets = zip(*PAIRS, strict=True)
    batch = trees(documents, "cpu")
    hidden_states, labels = encoder(batch.ids, batch.structure), labels_of(targets, "cpu")
    optimizer = torch.optim.Adam(decoders.parameters(), lr=3e-3)
    for _ in range(160):
        losses = decoders.losses(hidden_states, batch.structure, labels)
        torch.stack(list(losses.values())).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    own, another = losses_apart(encoder, decoders, PAIRS)
    assert (own.mean(1) < another.mean(1) - 0.5).all()
