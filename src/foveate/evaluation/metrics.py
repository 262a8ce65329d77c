"""How good summaries, answers, rankings and classifications are. All scores are in per cent.

They need what `pip install 'foveate[evaluation]'` brings, and raise `ImportError` without it.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import cache
from importlib import import_module
from math import prod
from statistics import fmean
from typing import Any

from torch import Tensor

ROUGE = ("rouge1", "rouge2", "rougeL")

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def rouge(predictions: Sequence[str], references: Sequence[Collection[str]]) -> dict[str, float]:
    """ROUGE-1, ROUGE-2 and ROUGE-L: F-measures, mean over the predictions.

    As Google's rouge-score and Hugging Face's wrapper of it have them by default, which EGAD
    and SCROLLS use: words are not stemmed, and ROUGE-L takes a text as one sequence (ROUGE-Lsum
    would take it line by line). Of several references, each measure takes the one that is best.

    Args:
        predictions: texts.
        references: for each of them, at least one.

    Returns:
        "rouge1", "rouge2" and "rougeL".

    Raises:
        TypeError: a text in place of the references of a prediction.
        ValueError: no predictions, or not as many references, or a prediction without one.

    Example:
        >>> from foveate.evaluation import rouge
        >>> scores = rouge(["cod swim"], [["all cod swim"]])
        >>> {name: round(score, 1) for name, score in scores.items()}
        {'rouge1': 80.0, 'rouge2': 66.7, 'rougeL': 80.0}
    """
    _check(predictions, references)
    scorer = _rouge_scorer()
    columns: dict[str, list[float]] = {name: [] for name in ROUGE}
    for prediction, own in zip(predictions, references, strict=True):
        scores = [scorer.score(reference, prediction) for reference in own]
        for name, column in columns.items():
            column.append(max(score[name].fmeasure for score in scores))
    return {name: 100 * fmean(column) for name, column in columns.items()}


def rouge_geometric_mean(
    predictions: Sequence[str], references: Sequence[Collection[str]]
) -> float:
    """SCROLLS' score of a summarization task: the geometric mean of the three of `rouge`.

    Raises:
        TypeError, ValueError: as `rouge`.
    """
    return prod(rouge(predictions, references).values()) ** (1 / len(ROUGE))


def token_f1(predictions: Sequence[str], references: Sequence[Collection[str]]) -> float:
    """SCROLLS' and SQuAD's F1: of the words of prediction and reference, the best, in the mean.

    Case, punctuation, the articles "a", "an" and "the" and spaces do not count.

    Raises:
        TypeError, ValueError: as `rouge`.
    """
    return _mean_of_best(predictions, references, _f1)


def exact_match(predictions: Sequence[str], references: Sequence[Collection[str]]) -> float:
    """SCROLLS' and SQuAD's share of predictions that equal a reference.

    What does not count is as for `token_f1`.

    Raises:
        TypeError, ValueError: as `rouge`.
    """
    return _mean_of_best(
        predictions, references, lambda ours, theirs: _normal(ours) == _normal(theirs)
    )


def average_precision(scores: Sequence[Tensor], relevance: Sequence[Tensor]) -> float:
    """Mean average precision (MAP) over queries.

    Args:
        scores: for each query `(candidates,)`, the higher the sooner.
        relevance: for each query `(candidates,)`; what is above 0 is relevant.

    Raises:
        ValueError: no queries, not as many of one as of the other, or nothing relevant to a query;
            or a query has as many scores as there are not candidates.
    """
    score = _of_extra("sklearn.metrics").average_precision_score
    return 100 * fmean(score(truth > 0, guess) for guess, truth in _ranked(scores, relevance))


def ndcg(scores: Sequence[Tensor], relevance: Sequence[Tensor], *, top: int | None = None) -> float:
    """Normalized discounted cumulative gain over queries, gains being the relevances.

    Args:
        scores: for each query `(candidates,)`, the higher the sooner.
        relevance: for each query `(candidates,)`, not negative.
        top: number of candidates that count, None for all.

    Raises:
        ValueError: as `average_precision`.
    """
    score = _of_extra("sklearn.metrics").ndcg_score
    return 100 * fmean(
        # One candidate has one order, the ideal one.
        score(truth[None], guess[None], k=top) if len(truth) > 1 else 1.0
        for guess, truth in _ranked(scores, relevance)
    )


def kendall_tau(predictions: Tensor, targets: Tensor) -> float:
    """Kendall's rank correlation τ-b, from -100 to 100.

    Args:
        predictions: `(examples,)`.
        targets: `(examples,)`.

    Raises:
        ValueError: different lengths, or one of them is constant, so that there is no order.
    """
    correlation = _of_extra("scipy.stats").kendalltau
    if predictions.unique().numel() < 2 or targets.unique().numel() < 2:
        raise ValueError("predictions or targets are all the same: there is no order to compare")
    return 100 * float(correlation(_array(predictions), _array(targets)).statistic)


def label_f1(
    predictions: Sequence[Collection[str]], labels: Sequence[Collection[str]]
) -> dict[str, float]:
    """Micro and macro F1 of classes, any number to an example.

    Micro counts all decisions together; macro is the mean over classes, those counted that are
    predicted or right somewhere, and a class that is never right is 0.

    Returns:
        "micro" and "macro".

    Raises:
        TypeError: a text in place of the classes of an example.
        ValueError: no examples, not as many of one as of the other, or none has a class.
    """
    score = _of_extra("sklearn.metrics").f1_score
    binarizer = _of_extra("sklearn.preprocessing").MultiLabelBinarizer()
    if not predictions or len(predictions) != len(labels):
        raise ValueError(
            f"there are {len(predictions)} predictions of {len(labels)} examples: give one for each"
        )
    _refuse_texts(predictions)
    _refuse_texts(labels)
    if not any(map(len, (*predictions, *labels))):
        raise ValueError("no example has a class, predicted or right: there is nothing to score")
    binarizer.fit([*predictions, *labels])
    truth, guess = binarizer.transform(labels), binarizer.transform(predictions)
    return {
        average: 100 * float(score(truth, guess, average=average, zero_division=0))
        for average in ("micro", "macro")
    }


def _check(predictions: Sequence[Any], references: Sequence[Any]) -> None:
    if not predictions or len(predictions) != len(references):
        raise ValueError(
            f"there are {len(predictions)} predictions for {len(references)} examples: give one "
            "for each, and at least one"
        )
    _refuse_texts(references)
    for index, own in enumerate(references):
        if not len(own):
            raise ValueError(f"example {index} has nothing that would be right: leave it out")


def _refuse_texts(collections: Sequence[Any]) -> None:
    for index, own in enumerate(collections):
        if isinstance(own, str):
            raise TypeError(f"example {index} has a text where a list of texts belongs: {own!r}")


def _ranked(scores: Sequence[Tensor], relevance: Sequence[Tensor]) -> list[tuple[Any, Any]]:
    """Arrays of scores and of relevances for each query."""
    _check(scores, [own[own > 0] for own in relevance])
    for index, (guess, truth) in enumerate(zip(scores, relevance, strict=True)):
        if guess.shape != truth.shape:
            raise ValueError(
                f"example {index} has scores {tuple(guess.shape)} of candidates "
                f"{tuple(truth.shape)}: give one for each"
            )
    return [(_array(guess), _array(truth)) for guess, truth in zip(scores, relevance, strict=True)]


def _array(tensor: Tensor) -> Any:
    """In float64, which numpy has and every other dtype fits into."""
    return tensor.detach().cpu().double().numpy()


def _mean_of_best(
    predictions: Sequence[str],
    references: Sequence[Collection[str]],
    score: Callable[[str, str], float],
) -> float:
    _check(predictions, references)
    return 100 * fmean(
        max(score(prediction, reference) for reference in own)
        for prediction, own in zip(predictions, references, strict=True)
    )


def _f1(prediction: str, reference: str) -> float:
    ours, theirs = Counter(_normal(prediction).split()), Counter(_normal(reference).split())
    shared = (ours & theirs).total()
    return 2 * shared / (ours.total() + theirs.total()) if shared else 0.0


def _normal(text: str) -> str:
    """What SQuAD compares."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


@cache
def _rouge_scorer() -> Any:
    return _of_extra("rouge_score.rouge_scorer").RougeScorer(ROUGE, use_stemmer=False)


def _of_extra(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"this metric needs {module.partition('.')[0]}: run `pip install 'foveate[evaluation]'`"
        ) from error
