"""The model card (README.md) of a trained model: how it was trained, and on what."""

from collections.abc import Sequence
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

import torch
import yaml
from transformers import Trainer

from foveate.files import atomic_write

from .recipe import Recipe

_LICENSE = "# license: replace this line by the license under which you publish the model"
"""The line of a card that the user has not finished yet."""

_ENTRIES = ("learning_rate", "lr_scheduler_type", "warmup_steps", "weight_decay", "seed")


def write_model_card(trainer: Trainer, recipe: Recipe, folder: str | PathLike[str]) -> None:
    """Write the card of a trained model, unless there is one that the user has finished.

    A card is unfinished as long as its license line is. Only the last component of a path is
    written.

    Args:
        trainer: The `Trainer` after the run.
        recipe: The recipe of the run.
        folder: The folder of the model.

    Raises:
        OSError: The card cannot be written.
    """
    card = Path(folder) / "README.md"
    if card.exists() and _LICENSE not in card.read_text(encoding="utf-8"):
        return
    with atomic_write(card) as temporary:
        temporary.write_text(model_card(trainer, recipe, Path(folder).name), encoding="utf-8")


def model_card(trainer: Trainer, recipe: Recipe, name: str) -> str:
    """Write out the card: a header for the hub, then a table in Markdown.

    Args:
        trainer: The `Trainer` after the run.
        recipe: The recipe of the run.
        name: The name of the model.
    """
    model: Any = trainer.model
    checkpoint = str(recipe.model.get("checkpoint") or "")
    is_on_hub = checkpoint not in ("", "default") and not Path(checkpoint).exists()
    header: dict[str, Any] = {"library_name": "transformers", "tags": ["foveate"]}
    if is_on_hub:
        header["base_model"] = checkpoint
    rows = {
        "Class": f"`{type(model).__name__}`, {model.num_parameters():,} parameters",
        "Base model": checkpoint if is_on_hub else _base_model(checkpoint),
        "Objective": _inline(recipe.to_dict()["objective"]),
        "Processor": _inline(dict(recipe.processor)) or "its defaults",
        "Training data": _data(recipe, recipe.data.train, trainer.train_dataset),
        "Held-out data": _data(recipe, recipe.data.dev, trainer.eval_dataset),
        "Batch": f"{_batch_size(trainer, recipe)} a step",
        "Steps": f"{trainer.state.global_step:,}",
        "Hyperparameters": _inline({x: recipe.training.get(x) for x in _ENTRIES}),
        "Training loss": _last(trainer, "loss"),
        "Held-out loss": _last(trainer, "eval_loss"),
        "Device": f"{trainer.args.world_size} × {_device_name(trainer)}",
        "Software": ", ".join(f"{x} {version(x)}" for x in ("foveate", "transformers", "torch")),
    }
    return "\n".join(
        [
            "---",
            yaml.safe_dump(header, sort_keys=False).strip(),
            _LICENSE,
            "---",
            "",
            f"# {name}",
            "",
            "Trained with foveate. `recipe.yaml` describes the whole run.",
            "",
            "| | |",
            "|---|---|",
            *(f"| {what} | {text.replace('|', '/')} |" for what, text in rows.items() if text),
            "",
        ]
    )


def _base_model(checkpoint: str) -> str:
    """Name a base model that is not on the hub."""
    if checkpoint == "default":
        return "foveate's default model"
    return Path(checkpoint).resolve().name if checkpoint else "none: trained from random weights"


def _data(recipe: Recipe, paths: Sequence[str], dataset: Any) -> str:
    if not paths:
        return ""
    names = ", ".join(Path(path).name for path in paths)
    kind = f"{recipe.data.benchmark}: " if recipe.data.benchmark else ""
    return f"{kind}{names}, {len(dataset.examples):,} examples"


def _batch_size(trainer: Trainer, recipe: Recipe) -> str:
    batch, packs = recipe.batch, trainer.args.gradient_accumulation_steps * trainer.args.world_size
    if batch.tokens is not None:
        return f"up to {batch.tokens * packs:,} tokens"
    return f"{(batch.documents or 0) * packs:,} documents"


def _last(trainer: Trainer, name: str) -> str:
    """Return the last value that was logged; empty if there is none."""
    values = [log[name] for log in trainer.state.log_history if name in log]
    return f"{values[-1]:.4g}" if values else ""


def _device_name(trainer: Trainer) -> str:
    device = trainer.args.device
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type.upper()


def _inline(values: dict[str, Any]) -> str:
    """Write the values that are not None on one line."""
    return ", ".join(f"{name}: {value}" for name, value in values.items() if value is not None)
