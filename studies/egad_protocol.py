"""Few-shot summarization with keywords: the protocol of EGAD, 3.1 and 3.3."""

import json
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from hashlib import sha256
from itertools import product
from os import PathLike
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple, TypeVar

import transformers
from transformers import AutoModelForSeq2SeqLM, PreTrainedModel

from finetune import Tuning, encode, fit, write
from foveate.data import Example
from foveate.detectors import Detector, detector_by_name
from foveate.evaluation.metrics import ROUGE, rouge
from foveate.files import atomic_write, check_writable
from foveate.models.loading import load_model
from foveate.models.utils import resolve_device
from foveate.preprocessing import Features, LEDProcessor, load_tokenizer
from foveate.progress import progress

T = TypeVar("T")

_DRAWN = ("random", "gibberish")
"""Methods whose keywords depend on the seed."""


class Method(NamedTuple):
    """How inputs are made.

    Attributes:
        detector: Name of a keyword detector, in `foveate.detectors.METHODS` or among the detectors
            passed to `few_shot`.
        keywords: Number of keywords; 0 is the model without keywords.
    """

    detector: str
    keywords: int


METHODS = tuple(Method("tfidf", keywords) for keywords in (0, 10, 20))


@dataclass(frozen=True, slots=True)
class Protocol:
    """How methods are compared.

    Attributes:
        examples: Numbers of training examples; the same number is drawn for validation. With 0 the
            model is not fine-tuned.
        runs: Number of runs, with seeds from 0. The seed draws the examples, the same for every
            method.
        max_length: Maximum tokens of an input; None is the tokenizer's limit.
        tuning: How the model is fine-tuned and generates.
    """

    examples: tuple[int, ...] = (0, 10, 100)
    runs: int = 5
    max_length: int | None = None
    tuning: Tuning = field(default_factory=Tuning)


def few_shot(
    checkpoint: str | PathLike[str],
    train: Sequence[Example],
    validation: Sequence[Example],
    test: Sequence[Example],
    output: str | PathLike[str],
    *,
    methods: Sequence[Method] = METHODS,
    protocol: Protocol | None = None,
    detectors: Mapping[str, Detector] | None = None,
    device: str | None = None,
    prepare: Callable[[PreTrainedModel], PreTrainedModel] | None = None,
) -> list[dict[str, Any]]:
    """Fine-tune a checkpoint on few examples with every method, and score what it writes.

    For each number of examples, seed and method, the checkpoint is loaded again, fine-tuned on
    examples drawn with the seed (all of them if there are fewer), and reset to the epoch with the
    lowest validation loss; its summaries of the test part are scored by ROUGE-1, 2 and L. Runs that
    depend on neither training nor seed are done once.

    The results are saved after every run. Called again with the same setting, the function
    continues where it stopped. Methods may be added or removed, but a method of the same name must
    make the same inputs.

    Args:
        checkpoint: Name or path of a sequence-to-sequence model. One without global tokens just
            reads the keywords as text.
        train: Training examples to draw from; the first reference is the target, and queries are
            ignored.
        validation: Validation examples to draw from.
        test: Examples to summarize; each needs a reference.
        output: JSON file for the results.
        methods: The methods to compare.
        protocol: How they are compared, by default as in the paper.
        detectors: Further detectors by name, which must be deterministic.
        device: CUDA if available, else the CPU, by default.
        prepare: Applied to each model after loading, such as `speed_up`.

    Returns:
        The runs: `detector`, `keywords`, `examples`, `seed`, `rouge1`, `rouge2`, `rougeL`,
        `validation_loss` of every epoch, `inputs`, a digest of the test inputs, and `seconds`.
        `table` summarizes them.

    Raises:
        ValueError: A part has no examples, or a test example has no reference; `output` holds
            results of another setting, or of another detector of the same name; a detector is
            unknown; or the checkpoint has no weights or no tokenizer.
        OSError: `output` cannot be written, or the checkpoint does not exist.
    """
    protocol = protocol or Protocol()
    if not (train and validation and test and all(example.references for example in test)):
        raise ValueError(
            "there is nothing to train, to validate or to test on: give examples of each, and for "
            "the test some with references"
        )
    setting = {
        "checkpoint": str(checkpoint),
        "protocol": json.loads(json.dumps(asdict(protocol))),
        "examples": {
            part: [
                len(examples),
                _digest([(example.document.text, example.references) for example in examples]),
            ]
            for part, examples in (("train", train), ("validation", validation), ("test", test))
        },
    }
    check_writable(output)
    runs = _load_runs(Path(output), setting)
    done = {_key(run): run.get("inputs") for run in runs}
    tokenizer = load_tokenizer(checkpoint)

    @cache
    def processor(method: Method, seed: int) -> LEDProcessor:
        detector = (detectors or {}).get(method.detector)
        if detector is None:
            detector = detector_by_name(method.detector, seed=seed)
        return LEDProcessor(
            tokenizer,
            max_length=protocol.max_length or tokenizer.model_max_length,
            num_keywords=method.keywords,
            detector=detector,
        )

    @cache
    def inputs(method: Method, seed: int) -> tuple[list[Features], str]:
        features = encode(processor(method, seed), [example.document for example in test])
        columns = [{name: x.tolist() for name, x in example.items()} for example in features]
        return features, _digest(columns)

    @cache
    def examples_with_targets(method: Method, seed: int) -> tuple[list[Features], ...]:
        run_processor = processor(method, seed)
        return tuple(
            _encode_examples(run_processor, part, protocol.tuning) for part in (train, validation)
        )

    planned = plan(methods, protocol)
    for count, seed, method in planned:
        if (count, seed, method) in done:
            _, digest = inputs(method, _detector_seed(method, seed))
            if digest != done[count, seed, method]:
                raise ValueError(
                    f"{output} holds results of another detector {method.detector!r}: name another "
                    "file or detector, or remove it"
                )
    todo = [key for key in planned if key not in done]
    with progress("Few-shot", len(todo)) as advance:
        for count, seed, method in todo:
            begun = time.perf_counter()
            transformers.set_seed(seed)
            model = load_model(AutoModelForSeq2SeqLM, checkpoint)
            model.to(resolve_device(device))
            if prepare is not None:
                model = prepare(model)
            run_processor = processor(method, _detector_seed(method, seed))
            test_features, digest = inputs(method, _detector_seed(method, seed))
            losses: list[float] = []
            if count:
                drawn_train, drawn_validation = (
                    draw(part, count, seed)
                    for part in examples_with_targets(method, _detector_seed(method, seed))
                )
                losses = fit(
                    model, run_processor.pad, drawn_train, drawn_validation, protocol.tuning, seed
                )
            summaries = write(model, run_processor, test_features, protocol.tuning)
            scores = rouge(summaries, [example.references for example in test])
            result = {**method._asdict(), "examples": count, "seed": seed, **scores}
            result |= {"validation_loss": losses, "inputs": digest}
            result["seconds"] = time.perf_counter() - begun
            runs.append(result)
            with atomic_write(output) as temporary:
                temporary.write_text(json.dumps({"setting": setting, "runs": runs}, indent=1))
            advance()
    return runs


def draw(examples: Sequence[T], count: int, seed: int) -> list[T]:
    """Draw examples without replacement; all of them if there are fewer."""
    return random.Random(seed).sample(list(examples), min(count, len(examples)))


def table(runs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Summarize the runs of `few_shot`.

    Returns:
        For each number of examples and method: `examples`, `detector`, `keywords`, `runs`, the mean
        of each ROUGE, and its standard deviation over the runs, with the suffix `_spread`; 0 for a
        single run.
    """
    groups: dict[tuple[int, str, int], list[Mapping[str, Any]]] = {}
    for run in runs:
        groups.setdefault((run["examples"], run["detector"], run["keywords"]), []).append(run)
    rows = []
    for (examples, name, keywords), group in groups.items():
        row: dict[str, Any] = {"examples": examples, "detector": name, "keywords": keywords}
        row["runs"] = len(group)
        for measure in ROUGE:
            scores = [run[measure] for run in group]
            row[measure] = fmean(scores)
            row[f"{measure}_spread"] = stdev(scores) if len(scores) > 1 else 0.0
        rows.append(row)
    return rows


def plan(methods: Sequence[Method], protocol: Protocol) -> list[tuple[int, int, Method]]:
    """List the runs of `few_shot`, each by its number of examples, its seed and its method."""
    return [
        (count, seed, method)
        for count, seed, method in product(protocol.examples, range(protocol.runs), methods)
        if seed == 0 or count or (method.keywords and method.detector in _DRAWN)
    ]


def _detector_seed(method: Method, seed: int) -> int:
    """Return the seed of a run's keywords, which is 0 for deterministic detectors."""
    return seed if method.detector in _DRAWN else 0


def _key(run: Mapping[str, Any]) -> tuple[int, int, Method]:
    return run["examples"], run["seed"], Method(run["detector"], run["keywords"])


def _encode_examples(
    processor: LEDProcessor, examples: Sequence[Example], tuning: Tuning
) -> list[Features]:
    return encode(
        processor,
        [example.document for example in examples],
        [example.references[0] for example in examples],
        max_target_length=tuning.max_target_length,
    )


def _digest(content: Any) -> str:
    """Return a short hash of some content."""
    return sha256(json.dumps(content).encode()).hexdigest()[:16]


def _load_runs(output: Path, setting: dict[str, Any]) -> list[dict[str, Any]]:
    if not output.exists():
        return []
    saved = json.loads(output.read_text())
    if saved["setting"] != setting:
        raise ValueError(
            f"{output} holds results of another setting: name another file, or remove it"
        )
    return saved["runs"]
