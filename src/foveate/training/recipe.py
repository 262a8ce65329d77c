"""Recipes: a training run on a page of YAML."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any, Self, get_args

import yaml

from .entries import change, check, loaded, made, mapping, plain, value
from .objectives import OBJECTIVES, Objective

OURS = {
    "output_dir",
    "per_device_train_batch_size",
    "per_device_eval_batch_size",
    "train_sampling_strategy",
    "remove_unused_columns",
}
"""Arguments of `TrainingArguments` that follow from the rest of a recipe."""


READ = ("tree", "text", "keywords", "vips")


@dataclass(frozen=True)
class Data:
    """What is read.

    Attributes:
        train: files, folders or patterns.
        dev: likewise, to measure the loss on; none if empty.
        benchmark: whose form the files have, as `foveate.evaluation.read` names it; "" for a
            `Corpus`.
        read: "tree" for HDT; "text" for other models; "keywords" for text with keywords (EGAD);
            "vips" for text with VIP tokens (VCC).
        max_length: tokens (of trees: nodes) of a document at most, None for no limit.
        keywords: number of keywords.
    """

    train: tuple[str, ...]
    dev: tuple[str, ...] = ()
    benchmark: str = ""
    read: str = "tree"
    max_length: int | None = 8192
    keywords: int = 20

    def __post_init__(self) -> None:
        if self.read not in READ:
            raise ValueError(f"read must be one of {', '.join(READ)}, got {self.read!r}")
        if not self.train:
            raise ValueError("train names no files")
        if self.max_length is not None and self.max_length < 1:
            raise ValueError(f"max_length must be at least 1, got {self.max_length}")
        if self.keywords < 1:
            raise ValueError(f"keywords must be at least 1, got {self.keywords}")


@dataclass(frozen=True)
class Batch:
    """What one device reads in one step, before gradients are accumulated: one of the two.

    Attributes:
        tokens: documents of like length that have about so many tokens together.
        documents: a number of documents.
    """

    tokens: int | None = None
    documents: int | None = None

    def __post_init__(self) -> None:
        if (self.tokens is None) == (self.documents is None):
            raise ValueError("give it tokens or documents, one of the two")
        if (self.tokens or self.documents or 0) < 1:
            raise ValueError("must be at least 1")


@dataclass(frozen=True)
class Recipe:
    """A training run.

    Attributes:
        model: `checkpoint`, a folder or a name on the hub; or `type`, as configurations name it
            ("hdt"), for a new model; or both, for a checkpoint whose weights another type takes
            (LongT5's by "fovea"). Other entries change the configuration.
        tokenizer: a folder or a name on the hub; or, for a new model, the size of a vocabulary to
            learn from the documents; None for the checkpoint's own.
        objective: what is to be learned.
        data: what is read.
        batch: how much of it at once.
        training: the rest, as `transformers.TrainingArguments` names it.
    """

    model: Mapping[str, Any]
    objective: Objective
    data: Data
    batch: Batch
    tokenizer: str | int | None = None
    training: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not {"checkpoint", "type"} & set(self.model):
            raise ValueError("model: give it a checkpoint or a type")
        if "checkpoint" not in self.model and self.tokenizer is None:
            raise ValueError("tokenizer: name one, or give the size of one to learn")
        if "checkpoint" in self.model and isinstance(self.tokenizer, int):
            raise ValueError(
                "tokenizer: a checkpoint knows its own vocabulary: leave the entry out, or name one"
            )
        _check_training(self.training)

    @classmethod
    def load(cls, name: str | PathLike[str], changes: Sequence[str] = ()) -> Self:
        """Read a recipe.

        Args:
            name: a YAML file, or one of `names()`.
            changes: entries to change, such as `training.max_steps=10`.

        Raises:
            FileNotFoundError: there is no such file or recipe.
            ValueError: it is not a recipe; the message says where.
        """
        path = Path(name)
        if path.suffix not in (".yaml", ".yml"):
            if str(name) not in names():
                raise FileNotFoundError(
                    f"there is no recipe {str(name)!r}: name a .yaml file or one of "
                    f"{', '.join(names())}"
                )
            path = _folder() / f"{name}.yaml"
        elif not path.exists():
            raise FileNotFoundError(
                f"{path} does not exist: check the path, or name one of {', '.join(names())}"
            )
        try:
            data = loaded(path.read_text(encoding="utf-8"))
            for one in changes:
                change(data, one)
            return cls.of(data)
        except (ValueError, yaml.YAMLError) as error:
            raise ValueError(f"{name}: {error}") from error

    @classmethod
    def of(cls, data: Any) -> Self:
        """Make a recipe of what YAML gives.

        Raises:
            ValueError: it is not a recipe; the message says where.
        """
        data = dict(mapping(data, "a recipe"))
        check(data, {entry.name for entry in fields(cls)}, "")
        for name in ("model", "objective", "data", "batch"):
            if name not in data:
                raise ValueError(f"{name} is missing")
            data[name] = mapping(data[name], name)
        data["training"] = {
            # YAML reads a bare no as false.
            name: "no" if name.endswith("_strategy") and value is False else value
            for name, value in mapping(data.get("training") or {}, "training").items()
        }
        objective = dict(data["objective"])
        kind = objective.pop("name", None)
        if kind not in OBJECTIVES:
            raise ValueError(
                f"objective: name must be one of {', '.join(OBJECTIVES)}, got {kind!r}"
            )
        data["objective"] = made(OBJECTIVES[kind], objective, "objective")
        data["data"] = made(Data, data["data"], "data")
        data["batch"] = made(Batch, data["batch"], "batch")
        if "tokenizer" in data:
            data["tokenizer"] = value(data["tokenizer"], str | int | None, "tokenizer")
        return cls(**data)

    def entries(self) -> dict[str, Any]:
        """Return what `of` makes this recipe of, in the values that YAML has."""
        [name] = (name for name, kind in OBJECTIVES.items() if kind is type(self.objective))
        entries = {
            **{entry.name: getattr(self, entry.name) for entry in fields(self)},
            "objective": {"name": name, **asdict(self.objective)},
            "data": asdict(self.data),
            "batch": asdict(self.batch),
        }
        return dict(plain(entries))


def names() -> list[str]:
    """Return the recipes that come along."""
    return sorted(path.stem for path in _folder().glob("*.yaml"))


def _folder() -> Path:
    return Path(str(files(__package__))) / "recipes"


def _check_training(given: Mapping[str, Any]) -> None:
    """Numbers and truth values are checked here; `TrainingArguments` checks the rest."""
    from transformers import TrainingArguments

    known = {argument.name: argument for argument in fields(TrainingArguments) if argument.init}
    check(given, known.keys() - OURS, "training")
    for name, one in given.items():
        kind = known[name].type
        if {*(get_args(kind) or (kind,))} <= {bool, int, float, type(None)}:
            value(one, kind, f"training: {name}")
    if given.get("gradient_accumulation_steps", 1) < 1:
        raise ValueError("training: gradient_accumulation_steps must be at least 1")
    if given.get("max_steps", -1) <= 0 and given.get("num_train_epochs", 1) <= 0:
        raise ValueError("training: num_train_epochs must be above 0, or max_steps be given")
