"""From a recipe to a `Trainer`, and training."""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Trainer,
    TrainingArguments,
)
from transformers.trainer_utils import get_last_checkpoint

from foveate.models import fovea, hdt, vcc  # noqa: F401  (makes them known to the Auto classes)
from foveate.models.device import device_named

from .corpus import Corpus
from .objectives.base import Example
from .packs import Packs, join
from .reading import Reader, as_text, as_tree, with_keywords
from .recipe import Recipe
from .rows import Row
from .tokenizer import learn_tokenizer

Read = Callable[[str, str], Iterable[Example]]
"""Reads a benchmark's file: `foveate.evaluation.read`."""

_MEASURED = 32
"""Documents from which the tokens of a byte are estimated."""
_LEARNED_FROM = 5000
"""Documents from which a vocabulary is learned."""


def train(recipe: Recipe, output: str | PathLike[str], read: Read | None = None) -> Trainer:
    """Train by a recipe, from the last checkpoint in the output folder if there is one.

    A run that was broken off goes on as if it had not been. The model, and what it needs to read,
    are saved in the output folder at the end.

    Args:
        recipe: what to do.
        output: folder of checkpoints and the model.
        read: reads the files of benchmarks, where the recipe names one.

    Raises:
        ValueError: entries of the recipe that do not fit together.
        OSError: files or checkpoints that are not there.
    """
    trainer = prepare(recipe, output, read)
    folder = Path(output)
    trainer.train(
        resume_from_checkpoint=get_last_checkpoint(str(folder)) if folder.is_dir() else None
    )
    trainer.save_model()
    trainer.save_state()
    return trainer


def load(
    recipe: Recipe, model: str | PathLike[str], device: str | None = None
) -> tuple[PreTrainedModel, Reader]:
    """Load what a recipe trained, and the way that it reads.

    Args:
        recipe: what it was trained by.
        model: the output folder.
        device: to load it to, by default CUDA if there is one, else the CPU.

    Raises:
        OSError: there is no such folder, or no model in it.
    """
    tokenizer = AutoTokenizer.from_pretrained(model)
    own = recipe.objective.configuration()
    trained = recipe.objective.auto.from_pretrained(model, use_safetensors=True, **own)
    return trained.to(device_named(device)), _reader(recipe, tokenizer)


def prepare(recipe: Recipe, output: str | PathLike[str], read: Read | None = None) -> Trainer:
    """Build the `Trainer` of a recipe; arguments and errors as `train`."""
    given = dict(recipe.training)
    if "gradient_checkpointing" in given and hasattr(TrainingArguments, "activation_checkpointing"):
        # Newer versions of transformers renamed it.
        given["activation_checkpointing"] = given.pop("gradient_checkpointing")
    arguments = TrainingArguments(
        **{
            "report_to": "none",
            "prediction_loss_only": True,
            **given,
            "output_dir": str(output),
            "per_device_train_batch_size": 1,  # pack, whose size is the recipe's
            "per_device_eval_batch_size": 1,
            "train_sampling_strategy": "sequential",  # packs are in random order already
            "remove_unused_columns": False,
        }
    )
    train_examples, train_sizes = examples(recipe, recipe.data.train, read)
    reader = _reader(recipe, _tokenizer(recipe, train_examples))
    torch.manual_seed(arguments.seed)
    model = _model(recipe, reader.tokenizer)

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
    return Trainer(
        model,
        arguments,
        data_collator=partial(join, partial(recipe.objective.collate, reader)),
        train_dataset=training,
        eval_dataset=held_out,
        processing_class=reader.saved,
        compute_loss_func=recipe.objective.measure,
    )


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
    made = {i: rows(examples[i], rng) for i in few}
    tokens = {i: sum(len(row["input_ids"]) for row in own) for i, own in made.items()}
    longest = math.inf
    if max_length is not None:
        longest = max_length * max(len(own) for own in made.values())
    whole = [i for i in few if tokens[i] < longest] or list(few)  # not cut at the limit
    rate = sum(tokens[i] for i in whole) / max(1, sum(sizes[i] for i in whole))
    return [int(min(longest, max(1, rate * size))) for size in sizes]


def _tokenizer(recipe: Recipe, examples: Sequence[Example]) -> PreTrainedTokenizerBase:
    if isinstance(recipe.tokenizer, int):
        few = range(0, len(examples), max(1, len(examples) // _LEARNED_FROM))
        return learn_tokenizer((examples[i].document for i in few), recipe.tokenizer)
    return AutoTokenizer.from_pretrained(recipe.tokenizer or recipe.model["checkpoint"])


def _reader(recipe: Recipe, tokenizer: PreTrainedTokenizerBase) -> Reader:
    data = recipe.data
    if data.read == "keywords":
        return with_keywords(tokenizer, data.max_length, data.keywords)
    if data.read == "tree":
        return as_tree(tokenizer, data.max_length)
    return as_text(tokenizer, data.max_length, vips=data.read == "vips")


def _model(recipe: Recipe, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    own = {**recipe.model, **recipe.objective.configuration()}
    checkpoint, kind = own.pop("checkpoint", None), own.pop("type", None)
    auto = recipe.objective.auto
    if checkpoint is not None:
        reads = AutoConfig if kind is None else type(AutoConfig.for_model(kind))
        config = reads.from_pretrained(checkpoint, **own)
        return auto.from_pretrained(checkpoint, config=config, use_safetensors=True)
    special = {
        "vocab_size": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "decoder_start_token_id": tokenizer.pad_token_id,
    }
    config = AutoConfig.for_model(kind, **{**special, **own})
    return auto.from_config(config)


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
