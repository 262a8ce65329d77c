import pytest
import torch

from listops import to_device
from listops_data import PADDING, START, generate
from listops_models import MODELS, SEGMENT, build, in_segments
from tests.numerics import relative_error


@pytest.fixture(scope="module")
def expressions():
    return generate(40, seed=5)


@pytest.mark.parametrize("name", MODELS)
def test_the_answer_to_an_expression_does_not_depend_on_the_others(name, expressions):
    model = build(name, 3, num_heads=4, seed=0).double().eval()
    chosen = torch.randperm(40, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        together = model(to_device(model.read(expressions, chosen), "cpu"))
        for i in (0, 17, 39, int(expressions.lengths[chosen].argmax())):
            alone = model(model.read(expressions, chosen[i : i + 1]))
            assert relative_error(together[i : i + 1], alone) < 1e-6  # HDT's norms are in float32


def test_segments_begin_with_a_token_of_their_own():
    tokens = torch.arange(2 * 100).view(2, 100) % 9
    tokens[1, 50:] = PADDING
    segments = in_segments(tokens).unflatten(1, (-1, SEGMENT))
    assert segments[:, :, 0].tolist() == [[START, START], [START, PADDING]]
    inner = segments[0, :, 1:].flatten()
    assert inner[:100].tolist() == tokens[0].tolist()
    assert (inner[100:] == PADDING).all()
