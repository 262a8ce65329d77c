import pytest
import torch

from benchmarks.hat import HATConfig, HATModel
from tests.numerics import relative_error


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2}
    config = HATConfig(50, **sizes, num_hidden_layers=6, segment_length=8, max_segments=5)
    model = HATModel(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


def hidden_states(model, ids, mask=None):
    with torch.no_grad():
        return model(input_ids=ids, attention_mask=mask).last_hidden_state


def test_padding_and_batch_mates_change_nothing(model):
    ids = torch.randint(50, (3, 32))
    lengths = torch.tensor([5, 21, 32])
    mask = (torch.arange(32) < lengths[:, None]).long()
    together = hidden_states(model, ids, mask)
    for i, length in enumerate(lengths.tolist()):
        padded = -(-length // 8) * 8
        alone = hidden_states(model, ids[i : i + 1, :padded], mask[i : i + 1, :padded])
        assert relative_error(together[i, :length], alone[0, :length]) < 1e-12
    assert relative_error(together[2], hidden_states(model, ids[2:])[0]) < 1e-12


def test_segments_exchange_only_through_their_first_tokens(model):
    ids = torch.randint(1, 50, (1, 24))
    changed = ids.clone()
    changed[0, 17] = 0
    before, after = hidden_states(model, ids), hidden_states(model, changed)
    assert (before[0, :16] != after[0, :16]).any(-1).all()  # two cross-segment layers in six
    shallow = HATModel(model.config.__class__(**{**vars(model.config), "num_hidden_layers": 3}))
    shallow = shallow.double().eval()
    before, after = hidden_states(shallow, ids), hidden_states(shallow, changed)
    differs = (before != after).any(-1)[0]
    assert differs.nonzero()[:, 0].tolist() == [0, 8, *range(16, 24)]
