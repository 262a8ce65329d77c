"""The base class of all objectives."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from pydantic import ConfigDict
from torch import Tensor

from foveate.data.example import Example
from foveate.preprocessing import DocumentProcessor, Features


@dataclass(frozen=True)
class Objective:
    """What a model is trained to do.

    Attributes:
        auto_class: The Auto class of the models that can be trained for it.
        target_columns: The columns of a batch that hold the targets.
        compute_loss: The `compute_loss_func` for a `Trainer`, None if the model computes the loss.
        trainer_class: A `Trainer` whose first argument is the objective, for a loss that takes more
            than a single forward pass; None for `transformers.Trainer`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    auto_class: ClassVar[Any]
    target_columns: ClassVar[tuple[str, ...]] = ("labels",)
    compute_loss: ClassVar[Callable[..., Tensor] | None] = None
    trainer_class: ClassVar[Any] = None

    def features(
        self, processor: DocumentProcessor, example: Example, generator: torch.Generator
    ) -> list[Features]:
        """Tokenize an example, with its targets.

        Args:
            processor: The model's processor.
            example: The example.
            generator: The source of randomness.

        Returns:
            Usually one set of features; several where a model reads an example in several ways.

        Raises:
            ValueError: The example cannot be used.
        """
        raise NotImplementedError

    def collate(self, processor: DocumentProcessor, features: Sequence[Features]) -> dict[str, Any]:
        """Collate features into a batch of model inputs; by default, by padding."""
        columns = (*processor.columns, *self.target_columns)
        return dict(processor.pad([select_columns(example, columns) for example in features]))

    def config_options(self) -> dict[str, Any]:
        """Return what the model's configuration must contain for this objective."""
        return {}


def select_columns(features: Features, columns: Sequence[str]) -> Features:
    """Return the features without any other columns."""
    return {name: column for name, column in features.items() if name in columns}
