"""The predictions of a trained model, which depend on its training objective."""

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from foveate.data import Example
from foveate.models.decoding import has_length_limit, max_new_tokens
from foveate.preprocessing import DocumentProcessor, Features, VCCProcessor
from foveate.progress import progress
from foveate.training.objectives import (
    AnchorClassification,
    Classification,
    Contrastive,
    HotpotQA,
    MultipleChoice,
    Objective,
    QuestionAnswering,
    Retrieval,
    SequenceToSequence,
)
from foveate.training.objectives.classification import choice_features
from foveate.training.objectives.question_answering import ANSWER_TYPES, input_text

Prediction = str | tuple[str, ...] | tuple[tuple[str, ...], ...]
"""A text, the names of classes, or the names of the classes of each section or sentence."""

DEFAULT_TARGET_TOKENS = 512
"""Longest generated text in tokens where neither the objective nor the checkpoint sets a limit."""

_MAX_ANSWER_TOKENS = 30


@torch.inference_mode()
def predict(
    model: PreTrainedModel,
    processor: DocumentProcessor,
    objective: Objective,
    examples: Sequence[Example],
    *,
    num_beams: int = 1,
) -> list[Prediction]:
    """Let a model generate, classify, choose or find its answers.

    Args:
        model: The model, on the device to run on.
        processor: Its processor.
        objective: The objective that it was trained for.
        examples: The examples to read, one at a time; their targets are not used.
        num_beams: Number of beams, if the model generates.

    Returns:
        For each example, the text that the model generated, chose or found, or its classes; texts
        are as long as the objective allows, else the checkpoint, else 512 tokens at most. For
        `AnchorClassification`, the classes of each part, none for those that were truncated.

    Raises:
        ValueError: The objective makes no predictions.
    """
    check_predicts(objective)
    model.eval()
    predictions: list[Prediction] = []
    with progress("Evaluating", len(examples)) as advance:
        for example in examples:
            predictions.append(_predict(objective, model, processor, example, num_beams))
            advance()
    return predictions


def check_predicts(objective: Objective) -> None:
    """Check that models trained for an objective make predictions.

    Raises:
        ValueError: The objective makes no predictions.
    """
    if _predict.dispatch(type(objective)) is not _predict.dispatch(object):
        return
    name = type(objective).__name__
    if isinstance(objective, Contrastive | Retrieval):
        raise ValueError(f"{name} trains an encoder for its vectors, which makes no predictions")
    raise ValueError(
        f"{name} is for pretraining and makes no predictions: evaluate a fine-tuned model"
    )


@singledispatch
def _predict(
    objective: Objective, model: Any, processor: DocumentProcessor, example: Example, num_beams: int
) -> Prediction:
    raise NotImplementedError


@_predict.register
def _(
    objective: SequenceToSequence,
    model: Any,
    processor: DocumentProcessor,
    example: Example,
    num_beams: int,
) -> Prediction:
    inputs = _model_inputs(model, processor, [_features(processor, example)])
    limit = objective.max_target_length
    if limit is None and not has_length_limit(model.generation_config):
        # transformers would stop after 20 tokens.
        limit = max_new_tokens(model.config, DEFAULT_TARGET_TOKENS)
    length = {} if limit is None else {"max_new_tokens": limit}
    [token_ids] = model.generate(**inputs, num_beams=num_beams, **length)
    return str(processor.tokenizer.decode(token_ids, skip_special_tokens=True)).strip()


@_predict.register
def _(
    objective: Classification,
    model: Any,
    processor: DocumentProcessor,
    example: Example,
    num_beams: int,
) -> Prediction:
    inputs = _model_inputs(model, processor, [_features(processor, example)])
    [logits] = model(**inputs).logits
    return _classes(objective, logits)


@_predict.register
def _(
    objective: AnchorClassification,
    model: Any,
    processor: DocumentProcessor,
    example: Example,
    num_beams: int,
) -> Prediction:
    features = objective.model_features(processor, example)
    [logits] = model(**_model_inputs(model, processor, [features])).logits
    anchors = objective.anchor_nodes(processor, features, example)
    found = tuple(_classes(objective, logits[node]) for node in anchors.tolist())
    num_truncated = example.num_sections - len(found)
    return found + ((),) * num_truncated


@_predict.register
def _(
    objective: MultipleChoice,
    model: Any,
    processor: DocumentProcessor,
    example: Example,
    num_beams: int,
) -> Prediction:
    features = choice_features(processor, example, example.choices)
    inputs = _model_inputs(model, processor, features)
    if not isinstance(processor, VCCProcessor):
        inputs = {name: column[None] for name, column in inputs.items()}
    [logits] = model(**inputs).logits
    return example.choices[int(logits.argmax())]


@_predict.register
def _(
    objective: QuestionAnswering,
    model: Any,
    processor: DocumentProcessor,
    example: Example,
    num_beams: int,
) -> Prediction:
    text = input_text(processor, example)
    features = _features(processor, example)
    output = model(**_model_inputs(model, processor, [features]))
    if isinstance(objective, HotpotQA):
        kind = ANSWER_TYPES[int(output.answer_type_logits.argmax())]
        if kind != "span":
            return kind
    start, end = _best_span(output.start_logits[0].cpu(), output.end_logits[0].cpu())
    offsets = features["offset_mapping"]
    return text[int(offsets[start, 0]) : int(offsets[end, 1])].strip()


def _classes(objective: Classification, logits: Tensor) -> tuple[str, ...]:
    """Name the classes by their logits `(classes,)`."""
    if objective.multi_label:
        return tuple(name for name, x in zip(objective.labels, logits, strict=True) if x > 0)
    return (objective.labels[int(logits.argmax())],)


def _features(processor: DocumentProcessor, example: Example) -> Features:
    return processor.features(example.document, query=example.query, choices=example.choices)


def _model_inputs(
    model: PreTrainedModel, processor: DocumentProcessor, features: Sequence[Features]
) -> Features:
    batch = processor.pad([processor.model_inputs(example) for example in features])
    return {name: column.to(model.device) for name, column in batch.items()}


def _best_span(start_logits: Tensor, end_logits: Tensor) -> tuple[int, int]:
    """Return the span of at most `_MAX_ANSWER_TOKENS` with the highest sum of logits."""
    longest = min(_MAX_ANSWER_TOKENS, len(end_logits))
    padded = torch.nn.functional.pad(end_logits, (0, longest - 1), value=-torch.inf)
    scores, lengths = (start_logits[:, None] + padded.unfold(0, longest, 1)).max(dim=1)
    start = int(scores.argmax())
    return start, start + int(lengths[start])
