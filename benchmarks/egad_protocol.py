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
from typing import Any, NamedTuple

import transformers
from transformers import AutoModelForSeq2SeqLM, PreTrainedModel

from finetune import Tuning, encode, fit, write
from foveate.data import Example
from foveate.detectors import Detector, detector_by_name
from foveate.evaluation.metrics import ROUGE, rouge
from foveate.files import atomic_write, check_writable
from foveate.inference.encoder import Encoder
from foveate.models.loading import load_model
from foveate.models.utils import resolve_device
from foveate.preprocessing import Features, LEDProcessor, load_tokenizer
from foveate.progress import progress

_DRAWN = ("random", "gibberish")
"""Methods that give other keywords with another seed."""


class Method(NamedTuple):
    """How the input is made.

    Attributes:
        detector: name of what detects the keywords: of `foveate.detectors.METHODS`, or of the
            detectors that `few_shot` is given.
        keywords: number of them; without any, the method is the model as it is.
    """

    detector: str
    keywords: int


METHODS = tuple(Method("tfidf", keywords) for keywords in (0, 10, 20))


@dataclass(frozen=True, slots=True)
class Protocol:
    """How often, on how much, and how a method is tried.

    Attributes:
        examples: numbers of training examples, and as many for validation; with 0 the model writes
            as it is.
        runs: with seeds from 0. The seed draws the examples, the same for every method.
        max_length: tokens of an input at most, None for the tokenizer's own limit.
        tuning: how the model is fine-tuned and writes.
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

    For each number of examples, seed and method: the checkpoint is loaded anew, fine-tuned on
    examples drawn by the seed (all, if there are not that many), put back to the epoch of the
    lowest validation loss, and its summaries of the test part are scored by ROUGE-1, 2 and L. What
    neither training nor seed can change is run once.

    After every run the results are written whole. Called again, with the same setting, it goes on
    where it stopped; methods may come and go, but those of the same name must make the same inputs.

    Args:
        checkpoint: a sequence-to-sequence model, by name or path. One without global tokens only
            reads the keywords.
        train: where training examples are drawn from; the first reference is the target, and
            queries are not read.
        validation: where validation examples are drawn from.
        test: what is summarized; each needs a reference.
        output: JSON file of results.
        methods: what to compare.
        protocol: how, by default as in the paper.
        detectors: other detectors by name, which give the same keywords every time.
        device: by default CUDA if there is one, else the CPU.
        prepare: what is done to each model once it is loaded, such as `foveate.speed_up`.

    Returns:
        The runs: `detector`, `keywords`, `examples`, `seed`, `rouge1`, `rouge2`, `rougeL`,
        `validation_loss` of every epoch, `inputs`, a digest of what is summarized, and `seconds`.
        `table` sums them up.

    Raises:
        ValueError: no examples, or none to score by; `output` holds results of another setting, or
            of another detector of the same name; there is no such detector; or the checkpoint
            lacks weights or a tokenizer.
        OSError: `output` cannot be written, or there is no such checkpoint.
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
            part: [len(own), _digest([(one.document.text, one.references) for one in own])]
            for part, own in (("train", train), ("validation", validation), ("test", test))
        },
    }
    check_writable(output)
    runs = _begun(Path(output), setting)
    done = {_key(run): run.get("inputs") for run in runs}
    tokenizer = load_tokenizer(checkpoint)

    @cache
    def processor(method: Method, seed: int) -> LEDProcessor:
        found = (detectors or {}).get(method.detector)
        if found is None:
            encoder = Encoder.from_pretrained() if method.detector == "embedding" else None
            found = detector_by_name(method.detector, seed=seed, encoder=encoder)
        return LEDProcessor(
            tokenizer,
            max_length=protocol.max_length or tokenizer.model_max_length,
            num_keywords=method.keywords,
            detector=found,
        )

    @cache
    def inputs(method: Method, seed: int) -> tuple[list[Features], str]:
        features = encode(processor(method, seed), [example.document for example in test])
        columns = [{name: x.tolist() for name, x in example.items()} for example in features]
        return features, _digest(columns)

    plan = _plan(methods, protocol)
    for count, seed, method in plan:
        if (count, seed, method) in done:
            _, digest = inputs(method, _of_detector(method, seed))
            if digest != done[count, seed, method]:
                raise ValueError(
                    f"{output} holds results of another detector {method.detector!r}: name another "
                    "file or detector, or remove it"
                )
    todo = [key for key in plan if key not in done]
    with progress("Few-shot", len(todo)) as advance:
        for count, seed, method in todo:
            begun = time.perf_counter()
            transformers.set_seed(seed)
            model = load_model(AutoModelForSeq2SeqLM, checkpoint)
            model.to(resolve_device(device))
            if prepare is not None:
                model = prepare(model)
            own = processor(method, _of_detector(method, seed))
            test_features, digest = inputs(method, _of_detector(method, seed))
            losses: list[float] = []
            if count:
                drawn_train, drawn_validation = (
                    _encoded(own, draw(part, count, seed), protocol.tuning)
                    for part in (train, validation)
                )
                losses = fit(model, own.pad, drawn_train, drawn_validation, protocol.tuning, seed)
            summaries = write(model, own, test_features, protocol.tuning)
            scores = rouge(summaries, [example.references for example in test])
            result = {**method._asdict(), "examples": count, "seed": seed, **scores}
            result |= {"validation_loss": losses, "inputs": digest}
            result["seconds"] = time.perf_counter() - begun
            runs.append(result)
            with atomic_write(output) as temporary:
                temporary.write_text(json.dumps({"setting": setting, "runs": runs}, indent=1))
            advance()
    return runs


def draw(examples: Sequence[Example], count: int, seed: int) -> list[Example]:
    """Draw examples without putting them back; all, if there are not that many."""
    return random.Random(seed).sample(list(examples), min(count, len(examples)))


def table(runs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Sum up the runs of `few_shot`.

    Returns:
        For each number of examples and method: `examples`, `detector`, `keywords`, `runs`, and for
        each ROUGE its mean, and with `_spread` behind its name the standard deviation over the
        runs, 0 if there is one.
    """
    groups: dict[tuple[int, str, int], list[Mapping[str, Any]]] = {}
    for run in runs:
        groups.setdefault((run["examples"], run["detector"], run["keywords"]), []).append(run)
    rows = []
    for (examples, name, keywords), own in groups.items():
        row: dict[str, Any] = {"examples": examples, "detector": name, "keywords": keywords}
        row["runs"] = len(own)
        for measure in ROUGE:
            scores = [run[measure] for run in own]
            row[measure] = fmean(scores)
            row[f"{measure}_spread"] = stdev(scores) if len(scores) > 1 else 0.0
        rows.append(row)
    return rows


def _plan(methods: Sequence[Method], protocol: Protocol) -> list[tuple[int, int, Method]]:
    return [
        (count, seed, method)
        for count, seed, method in product(protocol.examples, range(protocol.runs), methods)
        if seed == 0 or count or (method.keywords and method.detector in _DRAWN)
    ]


def _of_detector(method: Method, seed: int) -> int:
    """Seed of the keywords of a run."""
    return seed if method.detector in _DRAWN else 0


def _key(run: Mapping[str, Any]) -> tuple[int, int, Method]:
    return run["examples"], run["seed"], Method(run["detector"], run["keywords"])


def _encoded(processor: LEDProcessor, examples: list[Example], tuning: Tuning) -> list[Features]:
    return encode(
        processor,
        [example.document for example in examples],
        [example.references[0] for example in examples],
        max_target_length=tuning.max_target_length,
    )


def _digest(content: Any) -> str:
    """What tells a content from others."""
    return sha256(json.dumps(content).encode()).hexdigest()[:16]


def _begun(output: Path, setting: dict[str, Any]) -> list[dict[str, Any]]:
    if not output.exists():
        return []
    found = json.loads(output.read_text())
    if found["setting"] != setting:
        raise ValueError(
            f"{output} holds results of another setting: name another file, or remove it"
        )
    return found["runs"]
