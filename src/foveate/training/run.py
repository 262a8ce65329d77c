"""From a recipe to a `Trainer`, and training."""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors import SafetensorError, safe_open
from transformers import PreTrainedModel, Trainer, TrainingArguments
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from foveate.data.corpus import Corpus
from foveate.files import atomic_write
from foveate.models.accelerate import accelerated
from foveate.models.device import device_named
from foveate.models.loading import load_config, load_model, load_tokenizer

from .entries import different, loaded
from .objectives.base import Example
from .packs import Packs, join
from .parts import check_reading, model_of, reader_of, vocabulary
from .reading import Reader
from .recipe import Recipe
from .rows import Row

Read = Callable[[str, str], Iterable[Example]]
"""Reads a benchmark's file: `foveate.evaluation.read`."""

_MEASURED = 32
"""Documents from which the tokens of a byte are estimated."""


def train(recipe: Recipe, output: str | PathLike[str], read: Read | None = None) -> Trainer:
    """Train by a recipe, from the last checkpoint in the output folder if there is one.

    A run that was broken off goes on as if it had not been, with the vocabulary that it has. The
    recipe is saved in the output folder as `recipe.yaml` at the beginning; the model, and what it
    needs to read, at the end.

    Args:
        recipe: what to do.
        output: folder of checkpoints and the model.
        read: reads the files of benchmarks, where the recipe names one.

    Raises:
        ValueError: entries of the recipe that do not fit together, or an output folder with a run
            by another recipe.
        OSError: files or checkpoints that are not there.
        ImportError: what `report_to` names is not installed.
    """
    trainer = prepare(recipe, output, read)
    trainer.train(resume_from_checkpoint=_last_checkpoint(output))
    trainer.save_model()
    trainer.save_state()
    return trainer


def load(
    recipe: Recipe, model: str | PathLike[str], device: str | None = None
) -> tuple[PreTrainedModel, Reader]:
    """Load what a recipe trained, accelerated where it can be, and the way that it reads.

    Args:
        recipe: what it was trained by.
        model: the output folder.
        device: to load it to, by default CUDA if there is one, else the CPU.

    Raises:
        OSError: there is no such folder, or no model in it.
        ValueError: a model that does not read as the recipe says.
    """
    load_config(model)
    tokenizer = load_tokenizer(model)
    trained = load_model(recipe.objective.auto, model, **recipe.objective.configuration())
    check_reading(trained, recipe.data.read)
    return accelerated(trained).to(device_named(device)), reader_of(recipe, tokenizer)


def prepare(recipe: Recipe, output: str | PathLike[str], read: Read | None = None) -> Trainer:
    """Build the `Trainer` of a recipe; arguments and errors as `train`."""
    if not isinstance(recipe, Recipe):
        kind = type(recipe).__name__
        raise TypeError(f"expected a Recipe, got {kind}: make one with Recipe.load")
    given = dict(recipe.training)
    if "gradient_checkpointing" in given and hasattr(TrainingArguments, "activation_checkpointing"):
        # Newer versions of transformers renamed it.
        given["activation_checkpointing"] = given.pop("gradient_checkpointing")
    arguments = TrainingArguments(
        **{
            "report_to": "none",
            "prediction_loss_only": True,
            "use_cpu": not torch.accelerator.is_available(),  # else it refuses bf16
            **given,
            "output_dir": str(output),
            "per_device_train_batch_size": 1,  # pack, whose size is the recipe's
            "per_device_eval_batch_size": 1,
            "train_sampling_strategy": "sequential",  # packs are in random order already
            "remove_unused_columns": False,
        }
    )
    checkpoint = _last_checkpoint(output)
    _keep(recipe, Path(output), checkpoint is not None, arguments.should_save)
    train_examples, train_sizes = examples(recipe, recipe.data.train, read)
    reader = reader_of(recipe, vocabulary(recipe, train_examples, checkpoint))
    torch.manual_seed(arguments.seed)
    model = model_of(recipe, reader.tokenizer)

    def packs(found: Sequence[Example], sizes: Sequence[int]) -> Packs[Example]:
        rows = partial(recipe.objective.rows, reader)
        if recipe.batch.documents is not None:
            lengths, budget = [1] * len(found), recipe.batch.documents
        else:
            lengths = _lengths(found, sizes, rows, recipe.data.max_length)
            budget = recipe.batch.tokens or 0
        return Packs(found, lengths, budget, rows, seed=arguments.seed)

    training = packs(train_examples, train_sizes)
    training.number = _number(training, arguments)
    held_out = None
    if recipe.data.dev:
        held_out = packs(*examples(recipe, recipe.data.dev, read))
    try:
        return Trainer(
            model,
            arguments,
            data_collator=partial(join, partial(recipe.objective.collate, reader)),
            train_dataset=training,
            eval_dataset=held_out,
            processing_class=reader.saved,
            compute_loss_func=recipe.objective.measure,
        )
    except RuntimeError as error:
        if "to be installed" not in str(error):
            raise
        raise ImportError(str(error)) from error  # what `report_to` names


def examples(
    recipe: Recipe, paths: Sequence[str], read: Read | None = None
) -> tuple[Sequence[Example], list[int]]:
    """Give the examples of files, and their sizes in bytes or characters; errors as `train`."""
    if not recipe.data.benchmark:
        corpus = Corpus(paths)
        return corpus, corpus.sizes
    if read is None:
        raise ValueError(f"give a function that reads files of {recipe.data.benchmark}")
    found = [example for path in paths for example in read(recipe.data.benchmark, path)]
    return found, [len(example.document.text) for example in found]


def _lengths(
    examples: Sequence[Example],
    sizes: Sequence[int],
    rows: Callable[..., list[Row]],
    max_length: int | None,
) -> list[int]:
    """Estimate the tokens of each example from its size and the tokens of a few."""
    rng = torch.Generator().manual_seed(0)
    few = range(0, len(examples), max(1, len(examples) // _MEASURED))
    made: dict[int, list[Row]] = {}
    for i in few:
        try:
            made[i] = rows(examples[i], rng)
        except ValueError as error:  # of which `Packs` warns
            reason = error
    if not made:
        raise reason
    tokens = {i: sum(len(row["input_ids"]) for row in own) for i, own in made.items()}
    longest = math.inf
    if max_length is not None:
        longest = max_length * max(len(own) for own in made.values())
    whole = [i for i in tokens if tokens[i] < longest] or list(tokens)  # not cut at the limit
    rate = sum(tokens[i] for i in whole) / max(1, sum(sizes[i] for i in whole))
    return [int(min(longest, max(1, rate * size))) for size in sizes]


def _last_checkpoint(output: str | PathLike[str]) -> str | None:
    """The latest checkpoint that was written to its end, where `Trainer` puts its own state."""
    found = {}
    for state in Path(output).glob(f"{PREFIX_CHECKPOINT_DIR}-*/{TRAINER_STATE_NAME}"):
        with suppress(ValueError):  # of names without a number, and of what is no whole JSON
            json.loads(state.read_text(encoding="utf-8"))
            found[int(state.parent.name.removeprefix(f"{PREFIX_CHECKPOINT_DIR}-"))] = state.parent
    if not found:
        return None
    latest = found[max(found)]
    for weights in latest.glob("*.safetensors"):
        try:
            with safe_open(weights, "pt"):
                pass
        except SafetensorError as error:
            raise ValueError(
                f"{weights} is damaged ({error}): remove its folder, to go on from the checkpoint "
                "before it"
            ) from error
    return str(latest)


def _keep(recipe: Recipe, folder: Path, goes_on: bool, saves: bool) -> None:
    """Save the recipe in the output folder; a run that goes on must be of the one there."""
    file, entries = folder / "recipe.yaml", recipe.entries()
    if goes_on and file.exists():
        if others := different(loaded(file.read_text(encoding="utf-8")), entries):
            raise ValueError(
                f"{folder} holds a run by another recipe, which differs in {', '.join(others)}: "
                f"name another output folder, or change {file} to go on with it all the same"
            )
    elif saves:
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(file) as temporary:
            temporary.write_text(yaml.safe_dump(entries, sort_keys=False), encoding="utf-8")


def _number(packs: Packs[Any], arguments: TrainingArguments) -> int:
    """Packs that all devices take in the whole run."""
    at_once = arguments.gradient_accumulation_steps * arguments.world_size
    if arguments.max_steps > 0:
        return arguments.max_steps * at_once
    epochs = math.ceil(arguments.num_train_epochs)
    steps = max(1, int(packs.packs_of(epochs) * arguments.num_train_epochs / epochs) // at_once)
    # One pass over all packs is one epoch of Trainer, whatever the number of epochs in them.
    arguments.num_train_epochs, arguments.max_steps = 1, steps
    return steps * at_once
