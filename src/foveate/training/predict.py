"""What a trained model makes of examples, by the objective it was trained for."""

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from foveate.progress import progress

from .objectives import Classification, MultipleChoice, Objective, SequenceToSequence, Span
from .objectives.base import INPUTS, only
from .reading import Reader, question_and_text
from .rows import Row

Prediction = str | tuple[str, ...]
"""A text, or names of classes."""


@torch.inference_mode()
def predict(
    model: PreTrainedModel,
    reader: Reader,
    objective: Objective,
    examples: Sequence[Any],
    *,
    beams: int = 1,
) -> list[Prediction]:
    """Let a model write, classify, choose or find.

    Args:
        model: on the device to run on.
        reader: how it reads.
        objective: what it was trained for.
        examples: what to read, one after the other; targets are not looked at.
        beams: of beam search, where it writes.

    Returns:
        For each example the text that it wrote, chose or found, or the classes.

    Raises:
        ValueError: an objective that makes no predictions.
    """
    check_predicts(objective)
    model.eval()
    found: list[Prediction] = []
    with progress("Evaluating", len(examples)) as advance:
        for example in examples:
            found.append(_predict(objective, model, reader, example, beams))
            advance()
    return found


def check_predicts(objective: Objective) -> None:
    """Raise a ValueError at an objective that makes no predictions."""
    if _predict.dispatch(type(objective)) is _predict.dispatch(object):
        raise ValueError(
            f"{type(objective).__name__} prepares a model and makes no predictions: "
            "evaluate what it is fine-tuned to"
        )


@singledispatch
def _predict(
    objective: Objective, model: Any, reader: Reader, example: Any, beams: int
) -> Prediction:
    raise NotImplementedError


@_predict.register
def _(
    objective: SequenceToSequence, model: Any, reader: Reader, example: Any, beams: int
) -> Prediction:
    inputs = _inputs(model, reader, [reader.read(example.document, example.question)])
    longest = (
        {}
        if objective.max_target_length is None
        else {"max_new_tokens": objective.max_target_length}
    )
    [written] = model.generate(**inputs, num_beams=beams, **longest)
    return str(reader.tokenizer.decode(written, skip_special_tokens=True)).strip()


@_predict.register
def _(
    objective: Classification, model: Any, reader: Reader, example: Any, beams: int
) -> Prediction:
    inputs = _inputs(model, reader, [reader.read(example.document, example.question)])
    [scores] = model(**inputs).logits
    if objective.several:
        return tuple(name for name, s in zip(objective.labels, scores, strict=True) if s > 0)
    return (objective.labels[int(scores.argmax())],)


@_predict.register
def _(
    objective: MultipleChoice, model: Any, reader: Reader, example: Any, beams: int
) -> Prediction:
    rows = [
        reader.read(example.document, f"{example.question} {choice}".strip())
        for choice in example.choices
    ]
    inputs = {name: column[None] for name, column in _inputs(model, reader, rows).items()}
    return str(example.choices[int(model(**inputs).logits[0].argmax())])


@_predict.register
def _(objective: Span, model: Any, reader: Reader, example: Any, beams: int) -> Prediction:
    row = reader.read(example.document, example.question)
    output = model(**_inputs(model, reader, [row]))
    start, end = _best_span(output.start_logits[0].cpu(), output.end_logits[0].cpu())
    text = question_and_text(example.document, example.question)
    first, last = row["offsets"][[start, end]].tolist()
    return text[first[0] : last[1]].strip()


_LONGEST_SPAN = 30


def _best_span(starts: Tensor, ends: Tensor) -> tuple[int, int]:
    """The start and end, not before it nor far behind, that score best together."""
    length = min(_LONGEST_SPAN, len(ends))
    behind = torch.nn.functional.pad(ends, (0, length - 1), value=-torch.inf)
    best, ahead = (starts[:, None] + behind.unfold(0, length, 1)).max(dim=1)
    start = int(best.argmax())
    return start, start + int(ahead[start])


def _inputs(model: PreTrainedModel, reader: Reader, rows: Sequence[Row]) -> Row:
    batch = reader.pad([only(row, INPUTS) for row in rows])
    return {name: column.to(model.device) for name, column in batch.items()}
