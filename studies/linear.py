"""Linear support vector machines on frozen vectors, trained as SciRepEval trains them.

SciRepEval uses the solvers of sklearn-contrib-lightning, which have no intercept; these are
scikit-learn's for the same problems. The penalty C is chosen by cross-validation in three folds.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import MultiLabelBinarizer
from sklearn.svm import LinearSVC, LinearSVR
from torch import Tensor

_FOLDS = 3

_SEED = 42


def predict_numbers(train: Tensor, targets: Tensor, test: Tensor) -> Tensor:
    """Predict numbers by linear regression with the absolute error as loss.

    Args:
        train: `(train, dimension)`, the vectors to learn from.
        targets: `(train,)`, their numbers.
        test: `(test, dimension)`, the vectors whose numbers are wanted.

    Returns:
        `(test,)` float64.

    Raises:
        ValueError: There are fewer than three vectors to learn from.
    """
    model = LinearSVR(fit_intercept=False, random_state=_SEED)
    search = _grid_search(model, exponents=range(-4, 3))
    return torch.from_numpy(_fit_and_predict(search, train, targets.double().numpy(), test))


def predict_class(train: Tensor, labels: Sequence[str], test: Tensor) -> list[str]:
    """Predict one class for each vector.

    Args:
        train: `(train, dimension)`, the vectors to learn from.
        labels: Their classes.
        test: `(test, dimension)`, the vectors whose classes are wanted.

    Raises:
        ValueError: There are fewer than three vectors to learn from, or only one class.
    """
    if len(set(labels)) < 2:
        raise ValueError("all papers to learn from have the same class: there is nothing to learn")
    # "auto" solves the smaller of the primal and the dual problem; both have the same solution.
    model = LinearSVC(loss="squared_hinge", dual="auto", fit_intercept=False, random_state=_SEED)
    search = _grid_search(model, exponents=range(-2, 3))
    return [str(label) for label in _fit_and_predict(search, train, list(labels), test)]


def predict_classes(
    train: Tensor, labels: Sequence[Sequence[str]], test: Tensor
) -> list[tuple[str, ...]]:
    """Predict any number of classes for each vector, with one machine for each class.

    Takes the same arguments and raises the same errors as `predict_class`, but for several labels.
    """
    binarizer = MultiLabelBinarizer()
    is_in_class = binarizer.fit_transform(labels)
    if len(binarizer.classes_) < 2:
        raise ValueError("all papers to learn from have the same class: there is nothing to learn")
    model = LinearSVC(loss="hinge", max_iter=10_000, fit_intercept=False, random_state=_SEED)
    search = OneVsRestClassifier(_grid_search(model, exponents=range(-2, 3)))
    predictions = _fit_and_predict(search, train, is_in_class, test)
    return [tuple(map(str, names)) for names in binarizer.inverse_transform(predictions)]


def _grid_search(model: Any, exponents: range) -> Any:
    """Choose C among powers of ten by the score of scikit-learn: R² or accuracy."""
    penalties = [10.0**exponent for exponent in exponents]
    return GridSearchCV(model, {"C": penalties}, cv=_FOLDS)


def _fit_and_predict(model: Any, train: Tensor, targets: Any, test: Tensor) -> Any:
    if len(train) < _FOLDS:
        raise ValueError(
            f"there are {len(train)} papers to learn from, but cross-validation needs at least "
            f"{_FOLDS}: add some"
        )
    with warnings.catch_warnings():
        # With large C, solvers stop at their iteration limit; SciRepEval's do so without a word.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(train.double().numpy(), targets)
    return model.predict(test.double().numpy())
