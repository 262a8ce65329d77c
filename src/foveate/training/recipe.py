"""Recipes: a training run on a page of YAML."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any, Self

import yaml

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
        tokenizer: a folder or a name on the hub; or the size of a vocabulary to learn from the
            documents; None for the checkpoint's own.
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
        from transformers import TrainingArguments

        known = {argument.name for argument in fields(TrainingArguments) if argument.init} - OURS
        _check(self.training, known, "training")

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
        try:
            data = yaml.safe_load(path.read_text(encoding="utf-8"))
            for change in changes:
                _change(data, change)
            return cls.of(data)
        except (ValueError, yaml.YAMLError) as error:
            raise ValueError(f"{name}: {error}") from error

    @classmethod
    def of(cls, data: Any) -> Self:
        """Make a recipe of what YAML gives.

        Raises:
            ValueError: it is not a recipe; the message says where.
        """
        data = dict(_entries(data, "a recipe"))
        _check(data, {entry.name for entry in fields(cls)}, "")
        for name in ("model", "objective", "data", "batch"):
            if name not in data:
                raise ValueError(f"{name} is missing")
            data[name] = _entries(data[name], name)
        data["training"] = {
            # YAML reads a bare no as false.
            name: "no" if name.endswith("_strategy") and value is False else value
            for name, value in _entries(data.get("training") or {}, "training").items()
        }
        objective = dict(data["objective"])
        kind = objective.pop("name", None)
        if kind not in OBJECTIVES:
            raise ValueError(
                f"objective: name must be one of {', '.join(OBJECTIVES)}, got {kind!r}"
            )
        data["objective"] = _made(OBJECTIVES[kind], objective, "objective")
        data["data"] = _made(Data, data["data"], "data")
        data["batch"] = _made(Batch, data["batch"], "batch")
        return cls(**data)


def names() -> list[str]:
    """Return the recipes that come along."""
    return sorted(path.stem for path in _folder().glob("*.yaml"))


def _folder() -> Path:
    return Path(str(files(__package__))) / "recipes"


def _entries(data: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise ValueError(f"{where} must consist of entries, got {data!r}")
    return data


def _check(data: Mapping[str, Any], known: set[str], where: str) -> None:
    for name in data:
        if name not in known:
            near = get_close_matches(str(name), known, 1)
            meant = f": did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"{where + ': ' if where else ''}there is no {name!r}{meant}")


def _made(kind: type, data: Mapping[str, Any], where: str) -> Any:
    """Make a dataclass, its values checked against its annotations."""
    entries = {entry.name: entry for entry in fields(kind)}
    _check(data, set(entries), where)
    values = {}
    for name, entry in entries.items():
        if name in data:
            values[name] = _value(data[name], entry.type, f"{where}: {name}")
        elif entry.default is MISSING and entry.default_factory is MISSING:
            raise ValueError(f"{where}: {name} is missing")
    try:
        return kind(**values)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _value(value: Any, kind: Any, where: str) -> Any:
    """A value of the annotated type: texts may stand for lists of one, integers for numbers."""
    if kind == tuple[str, ...]:
        several = [value] if isinstance(value, str) else value
        if isinstance(several, list) and all(isinstance(one, str) for one in several):
            return tuple(several)
        raise ValueError(f"{where} must be a text or a list of texts, got {value!r}")
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        name = getattr(kind, "__name__", str(kind)).replace("| None", "or null")
        raise ValueError(f"{where} must be of type {name}, got {value!r}")
    return value


def _change(data: Any, change: str) -> None:
    """Change an entry named by its path."""
    path, equals, value = change.partition("=")
    *above, last = path.split(".")
    if not equals or not last:
        raise ValueError(f"a change is written entry.below=value, got {change!r}")
    for name in above:
        if not isinstance(data, dict):
            break
        data = data.setdefault(name, {})
    if not isinstance(data, dict):
        raise ValueError(f"{path} does not stand in the recipe")
    data[last] = yaml.safe_load(value)
