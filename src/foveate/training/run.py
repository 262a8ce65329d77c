"""Training with a recipe, on transformers' Trainer."""

import json
import math
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any

import torch
import yaml
from transformers import PreTrainedModel, Trainer, TrainingArguments
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR
from transformers.training_args import ParallelMode
from transformers.utils import CONFIG_NAME

from foveate.files import atomic_write
from foveate.models.speed_ups import capture
from foveate.models.speed_ups.cuda_graphs import CapturableEncoder
from foveate.ops.precision import supported_dtype

from .building import (
    build_dataset,
    build_model,
    build_processor,
    build_tokenizer,
    load_examples,
)
from .packing import PackedDataset, collate_packs
from .recipe import Recipe


def train(recipe: Recipe | str | PathLike[str], output: str | PathLike[str]) -> Trainer:
    """Train a model with a recipe, resuming from the last checkpoint in the output folder.

    An interrupted run continues as if it had not been interrupted, with the vocabulary it started
    with. The recipe is saved in the output folder as `recipe.yaml` at the beginning, the model and
    its processor at the end, with the draft of a model card, `README.md`, unless there is one.

    On one GPU, the encoder's training steps are launched as CUDA graphs, see
    `foveate.models.speed_ups.capture`.

    Args:
        recipe: A recipe, its YAML file, or the name of one that is installed with the package.
        output: The folder of checkpoints and of the trained model.

    Returns:
        The `Trainer`, with the trained model.

    Raises:
        ValueError: Entries of the recipe contradict each other, or the output folder holds a run
            of another recipe, or a model that was not trained with a recipe.
        OSError: The recipe, its files or its checkpoint do not exist, or the output folder cannot
            be written to.
        ImportError: accelerate, of the `training` extra, or a package that `report_to` names is not
            installed.

    Example:
        >>> import foveate
        >>> foveate.train("hdt-e", "model")  # doctest: +SKIP
    """
    trainer = build_trainer(recipe, output)
    trainer.train(resume_from_checkpoint=_last_checkpoint(output))
    trainer.save_model()
    trainer.save_state()
    if trainer.args.should_save and not (Path(output) / "README.md").exists():
        trainer.create_model_card(tags="foveate")
    return trainer


def build_trainer(recipe: Recipe | str | PathLike[str], output: str | PathLike[str]) -> Trainer:
    """Build the `Trainer` of a recipe; arguments and errors are those of `train`."""
    if not isinstance(recipe, Recipe):
        recipe = Recipe.load(recipe)
    arguments = _training_arguments(recipe, output)
    checkpoint = _last_checkpoint(output)
    examples, sizes = load_examples(recipe.data, recipe.data.train)
    dev_data = load_examples(recipe.data, recipe.data.dev) if recipe.data.dev else None
    _save_recipe(recipe, Path(output), arguments.should_save)
    tokenizer = build_tokenizer(recipe, examples, checkpoint)
    torch.manual_seed(arguments.seed)
    model = build_model(recipe, tokenizer)
    processor = build_processor(recipe, model.config, tokenizer)
    objective, seed = recipe.objective, arguments.seed
    train_dataset = build_dataset(examples, sizes, objective, processor, recipe.batch, seed)
    train_dataset.num_packs = _total_packs(train_dataset, arguments)
    eval_dataset = None
    if dev_data is not None:
        eval_dataset = build_dataset(*dev_data, objective, processor, recipe.batch, seed)
    trainer_class: Callable[..., Trainer] = Trainer
    if objective.trainer_class is not None:
        trainer_class = partial(objective.trainer_class, objective)
    try:
        trainer = trainer_class(
            model,
            arguments,
            data_collator=partial(collate_packs, partial(objective.collate, processor)),
            train_dataset=train_dataset,
            eval_dataset=eval_dataset,
            processing_class=processor,
            compute_loss_func=objective.compute_loss,
        )
    except RuntimeError as error:
        if "to be installed" not in str(error):
            raise
        raise ImportError(str(error)) from error  # for what `report_to` names
    if _repeats_steps(model, arguments):
        capture(model)
    return trainer


def _training_arguments(recipe: Recipe, output: str | PathLike[str]) -> TrainingArguments:
    if find_spec("accelerate") is None:
        raise ImportError("training needs accelerate: run `pip install 'foveate[training]'`")
    options = dict(recipe.training)
    if "gradient_checkpointing" in options and hasattr(
        TrainingArguments, "activation_checkpointing"
    ):
        # Newer versions of transformers renamed it.
        options["activation_checkpointing"] = options.pop("gradient_checkpointing")
    if not recipe.data.dev:
        options |= {"eval_strategy": "no", "load_best_model_at_end": False}
    if "dataloader_num_workers" in options:  # recipes are written for larger machines
        num_workers = options["dataloader_num_workers"]
        options["dataloader_num_workers"] = min(num_workers, os.cpu_count() or 1)
    use_cpu = options.get("use_cpu", not torch.accelerator.is_available())  # else it rejects bf16
    if options.get("bf16") and not use_cpu and torch.cuda.is_available():
        dtype = supported_dtype(torch.bfloat16, torch.device("cuda"))
        options |= {"bf16": dtype == torch.bfloat16, "fp16": dtype == torch.float16}
    # A batch is copied while the GPU computes, and nobody waits for a loss before it is logged.
    copies_ahead = not use_cpu and options.get("dataloader_pin_memory", True)
    return TrainingArguments(
        **{
            "accelerator_config": {"non_blocking": copies_ahead},
            "logging_nan_inf_filter": False,
            "report_to": "none",
            "prediction_loss_only": True,
            "use_cpu": use_cpu,
            **options,
            "output_dir": str(output),
            "per_device_train_batch_size": 1,  # one pack, whose size is that of the recipe
            "per_device_eval_batch_size": 1,
            "train_sampling_strategy": "sequential",  # packs are in random order already
            "remove_unused_columns": False,
        }
    )


def _repeats_steps(model: PreTrainedModel, arguments: TrainingArguments) -> bool:
    """Return whether CUDA graphs of the encoder can replace the launches of a training step.

    Wrappers for several devices and compilers replace what a graph would have captured.
    """
    has_encoder = any(isinstance(part, CapturableEncoder) for part in model.modules())
    alone = arguments.parallel_mode == ParallelMode.NOT_PARALLEL
    return has_encoder and alone and not arguments.torch_compile


def _last_checkpoint(output: str | PathLike[str]) -> str | None:
    """Find the last complete checkpoint; an incomplete one has no trainer state, or part of it."""
    checkpoints = {}
    for state in Path(output).glob(f"{PREFIX_CHECKPOINT_DIR}-*/{TRAINER_STATE_NAME}"):
        with suppress(ValueError):  # names without a number, and truncated JSON
            json.loads(state.read_text(encoding="utf-8"))
            step = int(state.parent.name.removeprefix(f"{PREFIX_CHECKPOINT_DIR}-"))
            checkpoints[step] = state.parent
    return str(checkpoints[max(checkpoints)]) if checkpoints else None


def _save_recipe(recipe: Recipe, folder: Path, saves: bool) -> None:
    """Save the recipe in the output folder, unless it holds another run or someone else's model."""
    file = folder / "recipe.yaml"
    saved = _load_saved_recipe(file)
    sections = recipe.to_dict()
    before = sections if saved is None else saved.to_dict()
    changed = [name for name in sections if before[name] != sections[name]]
    holds_model = _last_checkpoint(folder) is not None or (folder / CONFIG_NAME).exists()
    if holds_model and saved is None:
        raise ValueError(
            f"{folder} holds a model, but no recipe.yaml that says how it was trained: name "
            "another output folder"
        )
    if holds_model and changed:
        raise ValueError(
            f"{folder} holds a run of another recipe, which differs in {', '.join(changed)}: "
            f"name another output folder, or edit {file} to resume with the changes"
        )
    if saves and (saved is None or changed):
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(file) as temporary:
            temporary.write_text(yaml.safe_dump(sections, sort_keys=False), encoding="utf-8")


def _load_saved_recipe(file: Path) -> Recipe | None:
    """Load the recipe in the output folder, if there is one."""
    if not file.exists():
        return None
    try:
        return Recipe.load(file)
    except ValueError as error:
        raise ValueError(f"{error}: correct this file, or name another output folder") from error


def _total_packs(dataset: PackedDataset[Any], arguments: TrainingArguments) -> int:
    """Count the packs that all devices read in the whole run."""
    packs_per_step: int = arguments.gradient_accumulation_steps * arguments.world_size
    if arguments.max_steps > 0:
        return arguments.max_steps * packs_per_step
    num_epochs = math.ceil(arguments.num_train_epochs)
    num_packs = dataset.count_packs(num_epochs) * arguments.num_train_epochs / num_epochs
    steps = max(1, int(num_packs) // packs_per_step)
    # To Trainer, one pass over all packs is one epoch, however many epochs of examples they hold.
    arguments.num_train_epochs, arguments.max_steps = 1, steps
    return steps * packs_per_step
