"""The scores of a trained model on a benchmark."""

import json
import re
import warnings
from collections.abc import Sequence
from os import PathLike
from typing import Any, NamedTuple

from transformers import AutoModel, PreTrainedModel

from foveate.data import Corpus, Example
from foveate.files import atomic_write, check_writable
from foveate.inference.devices import resolve_device
from foveate.models.loading import load_config, load_model
from foveate.models.speed_ups import speed_up_if_possible
from foveate.preprocessing import DocumentProcessor, load_processor
from foveate.training.building import load_examples
from foveate.training.objectives import AnchorClassification, Classification, Objective
from foveate.training.recipe import Recipe

from .metrics import exact_match, label_f1, rouge, token_f1
from .predict import Prediction, check_predicts, predict


class Evaluation(NamedTuple):
    """The scores of a model.

    Attributes:
        num_examples: The number of examples.
        scores: The score of each metric, in percent.
        subsets: The same for the examples with each label, where questions have labels: "hard" in
            QuALITY, and "general" and "specific" in QMSum, for example.
    """

    num_examples: int
    scores: dict[str, float]
    subsets: dict[str, "Evaluation"]


def evaluate(
    recipe: Recipe,
    model: str | PathLike[str],
    paths: Sequence[str] = (),
    *,
    num_beams: int = 1,
    limit: int | None = None,
    device: str | None = None,
    predictions_file: str | PathLike[str] | None = None,
) -> Evaluation:
    """Score a trained model on the examples whose answers are known.

    Classes are scored by F1; choices by accuracy, as exact match is called where there are choices;
    other answers by exact match, F1 of words, and ROUGE; summaries by ROUGE.

    Args:
        recipe: The recipe that the model was trained with.
        model: The folder of the model.
        paths: Files in the same format as the recipe's; by default, those that it holds out.
        num_beams: Beams of beam search, if the model generates.
        limit: The number of examples to score, None for all.
        device: The device to run on, by default CUDA if available, else the CPU.
        predictions_file: A file to write the predictions to, as JSON Lines: the `id`, `query` and
            `prediction` of each example, and what is correct, its `references` or `labels`; for
            `AnchorClassification`, lists with the labels of each section or sentence.

    Raises:
        ValueError: The recipe's objective makes no predictions, or there are no examples with a
            known answer.
        OSError: The model or a file does not exist, or `predictions_file` cannot be written.
    """
    check_predicts(recipe.objective)
    paths = tuple(paths) or recipe.data.dev
    if not paths:
        raise ValueError("the recipe holds out no files: name files to evaluate on")
    examples, _ = load_examples(recipe.data, paths)
    if isinstance(examples, Corpus):
        examples = list(examples)
    examples = _with_known_answers(recipe.objective, examples)[:limit]
    if not examples:
        raise ValueError(f"{', '.join(paths)} contains no answers: name a file that does")
    _warn_of_unknown_classes(recipe.objective, examples)
    if predictions_file is not None:
        check_writable(predictions_file)
    trained, processor = load_trained(recipe, model, device)
    predictions = predict(trained, processor, recipe.objective, examples, num_beams=num_beams)
    if predictions_file is not None:
        _write_predictions(recipe.objective, predictions, examples, predictions_file)
    return Evaluation(
        len(examples),
        _score(recipe.objective, predictions, examples),
        _score_subsets(recipe.objective, predictions, examples),
    )


def load_trained(
    recipe: Recipe, model: str | PathLike[str], device: str | None = None
) -> tuple[PreTrainedModel, DocumentProcessor]:
    """Load a model that a recipe trained, sped up if possible, and its processor.

    Args:
        recipe: The recipe; its `processor` options override the saved ones.
        model: The folder of the model.
        device: The device to load it to, by default CUDA if available, else the CPU.

    Raises:
        OSError: The folder does not exist, or holds no model.
        ValueError: The model is damaged, is an encoder without the head that the recipe trains, has
            another head or other classes, or lacks a tokenizer or weights.
    """
    config = load_config(model)  # fails with clearer errors than loading the model
    objective = recipe.objective
    _check_has_head(model, config, objective)
    _check_classes(model, config, objective)
    trained: PreTrainedModel = load_model(objective.auto_class, model, **objective.config_options())
    _check_kind(model, config, objective, trained)
    processor = load_processor(model, trained.config, **recipe.processor)
    speed_up_if_possible(trained)
    trained.to(resolve_device(device))  # type: ignore[arg-type]  # its decorator hides `self`
    return trained, processor


def _with_known_answers(objective: Objective, examples: Sequence[Example]) -> list[Example]:
    """Select the examples with an answer; in multi-label data, having no class is one too."""
    if isinstance(objective, AnchorClassification):
        return [example for example in examples if example.section_labels]
    if not isinstance(objective, Classification):
        return [example for example in examples if example.references]
    answered = [example for example in examples if example.labels]
    return list(examples) if answered and objective.multi_label else answered


def _warn_of_unknown_classes(objective: Objective, examples: Sequence[Example]) -> None:
    """Warn of classes that the model cannot predict, as in a file of another benchmark."""
    if not isinstance(objective, Classification):
        return
    found = {name for example in examples for part in _classes(objective, example) for name in part}
    if unknown := sorted(found - set(objective.labels)):
        warnings.warn(
            f"the recipe lacks {len(unknown)} of the {len(found)} classes in the files, such as "
            f"{unknown[0]!r}: they count as missed",
            stacklevel=3,
        )


def _classes(objective: Classification, example: Example) -> Sequence[tuple[str, ...]]:
    """Return the correct classes of a document, or of each of its parts."""
    if isinstance(objective, AnchorClassification):
        return example.section_labels
    return [example.labels]


def _write_predictions(
    objective: Objective,
    predictions: Sequence[Prediction],
    examples: Sequence[Example],
    path: str | PathLike[str],
) -> None:
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        for prediction, example in zip(predictions, examples, strict=True):
            correct: dict[str, Any] = {"references": example.references}
            if isinstance(objective, AnchorClassification):
                correct = {"labels": example.section_labels}
            elif isinstance(objective, Classification):
                correct = {"labels": example.labels}
            record = {"id": example.id, "query": example.query, "prediction": prediction, **correct}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def _check_has_head(model: str | PathLike[str], config: Any, objective: Objective) -> None:
    """Check that a checkpoint is more than an encoder, which would get a random head."""
    classes = config.architectures or []
    is_bare = bool(classes) and not any("For" in name for name in classes)
    if is_bare and not config.is_encoder_decoder and objective.auto_class is not AutoModel:
        raise ValueError(
            f"{model} is an encoder without a head ({', '.join(classes)}), which makes no "
            "predictions: fine-tune it with this recipe first"
        )


def _check_classes(model: str | PathLike[str], config: Any, objective: Objective) -> None:
    """Check that a checkpoint has the recipe's classes, which take the place of its own."""
    expected = objective.config_options().get("id2label")
    names = [name for _, name in sorted(config.id2label.items())]
    if expected is None or all(re.fullmatch(r"LABEL_\d+", name) for name in names):
        return
    if names != [*expected.values()]:
        raise ValueError(
            f"{model} was trained for the classes {names} and this recipe has "
            f"{[*expected.values()]}: evaluate it with the recipe that it was trained with"
        )


def _check_kind(
    model: str | PathLike[str], config: Any, objective: Objective, trained: PreTrainedModel
) -> None:
    """Check that a checkpoint has the recipe's head; heads of two kinds may have equal weights."""
    heads = [name for name in config.architectures or [] if "For" in name]
    loaded = type(trained).__name__
    if heads and loaded not in heads and objective.auto_class is not AutoModel:
        raise ValueError(
            f"{model} is a {heads[0]} and this recipe is for a {loaded}: "
            "evaluate it with the recipe that it was trained with"
        )


def _score(
    objective: Objective, predictions: Sequence[Prediction], examples: Sequence[Example]
) -> dict[str, float]:
    if isinstance(objective, Classification):
        found: Sequence[Any] = predictions
        correct: Sequence[Any] = [example.labels for example in examples]
        if isinstance(objective, AnchorClassification):
            found, correct = _parts(objective, predictions, examples)
        scores = label_f1(found, correct)
        return {f"{average} F1": score for average, score in scores.items()}
    texts = [str(prediction) for prediction in predictions]
    references = [example.references for example in examples]
    if all(example.choices for example in examples):
        return {"accuracy": exact_match(texts, references)}
    scores = rouge(texts, references)
    if any(example.query for example in examples):
        answers = {"exact match": exact_match(texts, references), "F1": token_f1(texts, references)}
        return {**answers, **scores}
    return scores


def _score_subsets(
    objective: Objective, predictions: Sequence[Prediction], examples: Sequence[Example]
) -> dict[str, Evaluation]:
    """Score the questions with each label by themselves."""
    if isinstance(objective, Classification):  # labels are what is predicted
        return {}
    subsets = {}
    for label in sorted({label for example in examples for label in example.labels}):
        chosen = [i for i, example in enumerate(examples) if label in example.labels]
        scores = _score(objective, [predictions[i] for i in chosen], [examples[i] for i in chosen])
        subsets[label] = Evaluation(len(chosen), scores, {})
    return subsets


def _parts(
    objective: AnchorClassification, predictions: Sequence[Any], examples: Sequence[Example]
) -> tuple[list[Any], list[Any]]:
    """List the predicted and the correct classes of all parts that have labels."""
    pairs = [
        (predicted, correct)
        for parts, example in zip(predictions, examples, strict=True)
        for predicted, correct in zip(parts, example.section_labels, strict=True)
        if correct or objective.multi_label
    ]
    return [predicted for predicted, _ in pairs], [correct for _, correct in pairs]
