import pytest
import torch

from linear import predict_class, predict_classes, predict_numbers
from tests.numerics import relative_error


@pytest.fixture
def points():
    torch.manual_seed(0)
    x = torch.randn(60, 4)
    return x, x @ torch.tensor([1.0, -2.0, 0.5, 3.0])


def test_numbers_that_are_linear_are_found_again(points):
    x, y = points
    predicted = predict_numbers(x[:40], y[:40], x[40:])
    assert predicted.dtype == torch.float64
    assert relative_error(predicted, y[40:].double()) < 1e-2


def test_there_is_no_intercept(points):
    """As in SciRepEval: the vector 0 gets the number 0, whatever the mean."""
    x, y = points
    predicted = predict_numbers(x[:40], y[:40] + 50, torch.cat([torch.zeros(1, 4), x[40:]]))
    assert float(predicted[0]) == 0
    assert float(predicted.mean()) < 25


def test_one_outlier_does_not_move_the_line(points):
    """The loss is the absolute error, not its square."""
    x, y = points
    y = y.clone()
    y[3] += 1000
    assert relative_error(predict_numbers(x[:40], y[:40], x[40:]), y[40:].double()) < 0.05


def test_classes_that_are_apart_are_found_again(points):
    x, y = points
    names = ["low" if value < 0 else "high" for value in y]
    predicted = predict_class(x[:40], names[:40], x[40:])
    right = sum(name == correct for name, correct in zip(predicted, names[40:], strict=True))
    assert right >= 18
    several = [
        (*(("low",) if value < 0 else ()), *(("big",) if first > 0 else ()))
        for value, first in zip(y, x[:, 0], strict=True)
    ]
    found = predict_classes(x[:40], several[:40], x[40:])
    assert {len(names) for names in found} == {0, 1, 2}
    right = sum(set(a) == set(b) for a, b in zip(found, several[40:], strict=True))
    assert right >= 17


def test_what_cannot_be_learned_is_said():
    x = torch.randn(2, 4)
    with pytest.raises(ValueError, match="there are 2 papers to learn from"):
        predict_numbers(x, torch.arange(2), x)
    for predict, labels in ((predict_class, ["a", "a"]), (predict_classes, [["a"], ["a"]])):
        with pytest.raises(ValueError, match="have the same class: there is nothing to learn"):
            predict(x, labels, x)
