"""Recipes: training runs described in YAML."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from os import PathLike
from typing import Any, ClassVar, Self, get_args

import yaml
from pydantic import ConfigDict
from pydantic_core import to_jsonable_python

from foveate.data import BENCHMARKS
from foveate.data.validation import Texts, validated
from foveate.inference import default_model_path

from .config import apply_override, check_names, load_yaml
from .objectives import OBJECTIVES, Objective
from .recipes import find_recipe

RESERVED_ARGUMENTS = {
    "output_dir",
    "per_device_train_batch_size",
    "per_device_eval_batch_size",
    "train_sampling_strategy",
    "remove_unused_columns",
    "resume_from_checkpoint",
    "label_smoothing_factor",
}
"""Arguments of `TrainingArguments` that follow from the rest of a recipe, or have no effect."""


@dataclass(frozen=True)
class Data:
    """What to train on.

    Attributes:
        train: Files, folders or patterns to train on.
        dev: Files, folders or patterns to measure the loss on; empty for none.
        benchmark: The benchmark in whose format the files are, one of `foveate.data.BENCHMARKS`;
            "" for a `foveate.data.Corpus`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    train: Texts
    dev: Texts = ()
    benchmark: str = ""

    def __post_init__(self) -> None:
        # An empty path would stand for the working directory.
        for name, paths in (("train", self.train), ("dev", self.dev)):
            if not all(paths) or (name == "train" and not paths):
                raise ValueError(f"{name} names no files: give paths or patterns of files")
        if self.benchmark and self.benchmark not in BENCHMARKS:
            raise ValueError(
                f"benchmark must be one of {', '.join(BENCHMARKS)}, got {self.benchmark!r}"
            )


@dataclass(frozen=True)
class Batch:
    """What one device reads in one step, before gradient accumulation; exactly one field is given.

    Attributes:
        tokens: A token budget for documents of similar length.
        documents: A number of documents.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    tokens: int | None = None
    documents: int | None = None

    def __post_init__(self) -> None:
        if (self.tokens is None) == (self.documents is None):
            raise ValueError("give either tokens or documents")
        if (self.tokens or self.documents or 0) < 1:
            raise ValueError("must be at least 1")


@dataclass(frozen=True)
class Recipe:
    """A training run.

    Attributes:
        model: A `checkpoint`, that is a folder, a name on the hub or "default" for the model that
            is installed with foveate; or the `type` of a new model, as configurations name it
            ("hdt"); or both, to load the weights of a checkpoint into another type (LongT5's into
            "fovea"). Other entries override the configuration.
        objective: What the model is trained to do.
        data: What it is trained on.
        batch: How much of it in one step.
        tokenizer: A folder or a name on the hub; or, for a new model, the size of a vocabulary to
            train on the documents; None for the checkpoint's own tokenizer.
        processor: Options of the processor of the model's family, such as `max_length`,
            `num_keywords` (EGAD) or `levels` (HDT).
        training: Any other `transformers.TrainingArguments`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    model: Mapping[str, Any]
    objective: Objective
    data: Data
    batch: Batch
    tokenizer: str | int | None = None
    processor: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        has_checkpoint = self.model.get("checkpoint") is not None
        if not has_checkpoint and self.model.get("type") is None:
            raise ValueError("model: give a checkpoint or a type")
        if not has_checkpoint and self.tokenizer is None:
            raise ValueError("tokenizer: name one, or give the size of a vocabulary to train")
        if has_checkpoint and isinstance(self.tokenizer, int):
            raise ValueError(
                "tokenizer: a checkpoint has its own vocabulary: omit the entry or name a tokenizer"
            )
        _check_training(self.training)

    @property
    def checkpoint(self) -> str | None:
        """Folder or name of the checkpoint, None for a new model.

        Raises:
            ImportError: It is the default model, which is not installed.
            ValueError: It is the default model, whose weights are not the published ones.
        """
        checkpoint = self.model.get("checkpoint")
        if checkpoint == "default":
            return str(default_model_path())
        return None if checkpoint is None else str(checkpoint)

    @classmethod
    def load(cls, name: str | PathLike[str], overrides: Sequence[str] = ()) -> Self:
        """Load a recipe.

        Args:
            name: A YAML file, or one of `foveate.training.recipe_names()`.
            overrides: Entries to change, such as `training.max_steps=10`. With other training
                files than the recipe's, its held-out files are dropped, unless they are given too.

        Raises:
            FileNotFoundError: There is no such file or recipe.
            ValueError: It is not a valid recipe; the message says where.
        """
        path = find_recipe(name)
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not valid UTF-8: convert it to UTF-8") from error
        try:
            data = load_yaml(text)
            for override in overrides:
                apply_override(data, override)
            names = {override.partition("=")[0] for override in overrides}
            if "data.train" in names and "data.dev" not in names:
                data["data"].pop("dev", None)  # held out from the recipe's own training files
            return cls.from_dict(data)
        except (ValueError, yaml.YAMLError) as error:
            raise ValueError(f"{name}: {error}") from error

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Make a recipe from the content of a YAML file.

        Raises:
            ValueError: It is not a valid recipe; the message says where.
        """
        sections = dict(validated(Mapping[str, Any], data))
        options = dict(validated(Mapping[str, Any], sections.get("objective"), "objective"))
        name = options.pop("name", None)
        if name not in OBJECTIVES:
            raise ValueError(
                f"objective: name must be one of {', '.join(OBJECTIVES)}, got {name!r}"
            )
        sections["objective"] = validated(OBJECTIVES[name], options, "objective")
        recipe: Self = validated(cls, sections)
        return recipe

    def to_dict(self) -> dict[str, Any]:
        """Return a dict that `from_dict` turns into this recipe, in types that YAML can write."""
        [name] = (name for name, kind in OBJECTIVES.items() if kind is type(self.objective))
        sections = {
            **{section.name: getattr(self, section.name) for section in fields(self)},
            "objective": {"name": name, **asdict(self.objective)},
            "data": asdict(self.data),
            "batch": asdict(self.batch),
        }
        return dict(to_jsonable_python(sections))


def _check_training(arguments: Mapping[str, Any]) -> None:
    """Check the numbers and booleans; `TrainingArguments` itself checks the rest."""
    from transformers import TrainingArguments

    known = {argument.name: argument for argument in fields(TrainingArguments) if argument.init}
    check_names(arguments, known.keys() - RESERVED_ARGUMENTS, "training")
    for name, value in arguments.items():
        kind = known[name].type
        if {*(get_args(kind) or (kind,))} <= {bool, int, float, type(None)}:
            validated(kind, value, f"training: {name}", strict=True)
    if arguments.get("gradient_accumulation_steps", 1) < 1:
        raise ValueError("training: gradient_accumulation_steps must be at least 1")
    metric = arguments.get("metric_for_best_model")
    if metric not in (None, "loss", "eval_loss"):
        raise ValueError(
            "training: metric_for_best_model must be loss, which is all that is measured on "
            f"held-out examples, got {metric!r}"
        )
    if arguments.get("max_steps", -1) <= 0 and arguments.get("num_train_epochs", 1) <= 0:
        raise ValueError("training: either num_train_epochs or max_steps must be above 0")
