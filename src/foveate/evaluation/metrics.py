"""Metrics of summaries, answers and classifications. All scores are in percent.

The metrics need the dependencies of `pip install 'foveate[evaluation]'`, and raise an `ImportError`
without them.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import cache
from importlib import import_module
from statistics import fmean
from typing import Any

ROUGE = ("rouge1", "rouge2", "rougeL")

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def rouge(predictions: Sequence[str], references: Sequence[Collection[str]]) -> dict[str, float]:
    """Compute ROUGE-1, ROUGE-2 and ROUGE-L: mean F-measures over the predictions.

    These are the defaults of Google's rouge-score and of its Hugging Face wrapper, which EGAD and
    SCROLLS use: words are not stemmed, and ROUGE-L treats a text as one sequence, unlike
    ROUGE-Lsum, which treats it line by line. If there are several references, each measure takes
    the best one.

    Args:
        predictions: The texts to score.
        references: For each prediction, at least one reference.

    Returns:
        "rouge1", "rouge2" and "rougeL".

    Raises:
        TypeError: A string is given in place of a list of references.
        ValueError: There are no predictions, the numbers of predictions and references differ, or
            a prediction has no reference.

    Example:
        >>> from foveate.evaluation import rouge
        >>> scores = rouge(["cod swim"], [["all cod swim"]])
        >>> {name: round(score, 1) for name, score in scores.items()}
        {'rouge1': 80.0, 'rouge2': 66.7, 'rougeL': 80.0}
    """
    _check_references(predictions, references)
    scorer = _rouge_scorer()
    columns: dict[str, list[float]] = {name: [] for name in ROUGE}
    for prediction, correct in zip(predictions, references, strict=True):
        scores = [scorer.score(reference, prediction) for reference in correct]
        for name, column in columns.items():
            column.append(max(score[name].fmeasure for score in scores))
    return {name: 100 * fmean(column) for name, column in columns.items()}


def token_f1(predictions: Sequence[str], references: Sequence[Collection[str]]) -> float:
    """Compute the F1 of words, as SQuAD and SCROLLS do: the best over references, on average.

    Case, punctuation, white space and the articles "a", "an" and "the" are ignored.

    Raises:
        TypeError: See `rouge`.
        ValueError: See `rouge`.
    """
    return _mean_of_best(predictions, references, _word_f1)


def exact_match(predictions: Sequence[str], references: Sequence[Collection[str]]) -> float:
    """Compute the share of predictions that equal a reference, as SQuAD and SCROLLS do.

    The same is ignored as by `token_f1`.

    Raises:
        TypeError: See `rouge`.
        ValueError: See `rouge`.
    """
    return _mean_of_best(
        predictions,
        references,
        lambda prediction, reference: _normalize(prediction) == _normalize(reference),
    )


def label_f1(
    predictions: Sequence[Collection[str]], labels: Sequence[Collection[str]]
) -> dict[str, float]:
    """Compute micro and macro F1 of classes, of which an example may have any number.

    Micro F1 counts all decisions together. Macro F1 is the mean over the classes that are predicted
    or correct somewhere; it is 0 for a class that is never predicted correctly.

    Args:
        predictions: For each example, the predicted classes.
        labels: For each example, the correct classes.

    Returns:
        "micro" and "macro".

    Raises:
        TypeError: A string is given in place of a list of classes.
        ValueError: There are no examples, the numbers of predictions and labels differ, or no
            example has a class.
    """
    score = import_extra("sklearn.metrics").f1_score
    binarizer = import_extra("sklearn.preprocessing").MultiLabelBinarizer()
    _check_lengths(predictions, labels)
    _check_not_strings(predictions)
    _check_not_strings(labels)
    if not any(map(len, (*predictions, *labels))):
        raise ValueError("no example has a class, predicted or correct: there is nothing to score")
    binarizer.fit([*predictions, *labels])
    correct, predicted = binarizer.transform(labels), binarizer.transform(predictions)
    return {
        average: 100 * float(score(correct, predicted, average=average, zero_division=0))
        for average in ("micro", "macro")
    }


def _check_lengths(predictions: Sequence[Any], examples: Sequence[Any]) -> None:
    if not predictions or len(predictions) != len(examples):
        raise ValueError(
            f"there are {len(predictions)} predictions for {len(examples)} examples: give one for "
            "each, and at least one"
        )


def _check_references(predictions: Sequence[Any], references: Sequence[Any]) -> None:
    _check_lengths(predictions, references)
    _check_not_strings(references)
    for index, correct in enumerate(references):
        if not len(correct):
            raise ValueError(f"example {index} has no correct answer: leave it out")


def _check_not_strings(collections: Sequence[Any]) -> None:
    for index, texts in enumerate(collections):
        if isinstance(texts, str):
            raise TypeError(f"example {index} has a text in place of a list of texts: {texts!r}")


def _mean_of_best(
    predictions: Sequence[str],
    references: Sequence[Collection[str]],
    score: Callable[[str, str], float],
) -> float:
    _check_references(predictions, references)
    return 100 * fmean(
        max(score(prediction, reference) for reference in correct)
        for prediction, correct in zip(predictions, references, strict=True)
    )


def _word_f1(prediction: str, reference: str) -> float:
    predicted = Counter(_normalize(prediction).split())
    correct = Counter(_normalize(reference).split())
    shared = (predicted & correct).total()
    return 2 * shared / (predicted.total() + correct.total()) if shared else 0.0


def _normalize(text: str) -> str:
    """Normalize a text as SQuAD does."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


@cache
def _rouge_scorer() -> Any:
    return import_extra("rouge_score.rouge_scorer").RougeScorer(ROUGE, use_stemmer=False)


def import_extra(module: str) -> Any:
    """Import a module of the extra `evaluation`.

    Raises:
        ImportError: It is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"evaluation needs {module.partition('.')[0]}: run `pip install 'foveate[evaluation]'`"
        ) from error
