"""`foveate evaluate`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from foveate.tasks.parameters import parameter

from . import common
from .command import JSON, Command
from .models import DEVICE, prepare
from .train import OVERRIDES

if TYPE_CHECKING:
    from foveate.evaluation.benchmark import Evaluation


@dataclass(kw_only=True)
class EvaluateCommand(Command):
    """Score a model on a benchmark: its summaries, answers or classes.

    \b
    foveate evaluate hdt-ed-summarization --model hdt-ed test.jsonl --beams 4
    foveate evaluate vcc-roberta-quality -m quality QuALITY.v1.0.1.dev
    """

    recipe: str = parameter(
        "The recipe that the model was trained with.", metavar="RECIPE", is_argument=True
    )
    files: list[str] | None = parameter(
        "Files in the recipe's format, by default those that it holds out.",
        None,
        metavar="FILE",
        is_argument=True,
    )
    model: str | None = parameter("Folder of the trained model.", None, short="-m", metavar="PATH")
    overrides: list[str] | None = parameter(OVERRIDES, None, name="set", metavar="ENTRY=VALUE")
    beams: int = parameter("Number of beams, for a model that generates text.", 1, ge=1)
    limit: int | None = parameter("Number of examples to score. Default: all.", None, ge=1)
    predictions: Path | None = parameter(
        "Also write what the model predicts for each example, as JSON Lines.", None, metavar="FILE"
    )
    device: str | None = parameter(DEVICE, None, metavar="NAME")
    json: bool = parameter(JSON, False)

    def __call__(self) -> None:
        from foveate.training.recipes import find_recipe

        find_recipe(self.recipe)  # fails before the Trainer, which takes seconds to import
        if self.model is None:
            raise ValueError("name the folder of the model that the recipe trained, with --model")
        prepare()
        from foveate.evaluation.benchmark import evaluate
        from foveate.training import Recipe

        evaluation = evaluate(
            Recipe.load(self.recipe, self.overrides or []),
            self.model,
            self.files or [],
            num_beams=self.beams,
            limit=self.limit,
            device=self.device,
            predictions_file=self.predictions,
        )
        if self.json:
            common.print_json(_evaluation_as_json(evaluation))
        else:
            _show_evaluation(evaluation)


def _evaluation_as_json(evaluation: "Evaluation") -> dict[str, Any]:
    """Return the scores of all examples and, if there are any, of subsets."""
    result: dict[str, Any] = {"examples": evaluation.num_examples, **evaluation.scores}
    if evaluation.subsets:
        result["subsets"] = {
            label: {"examples": subset.num_examples, **subset.scores}
            for label, subset in evaluation.subsets.items()
        }
    return result


def _show_evaluation(evaluation: "Evaluation") -> None:
    """Print a row for each score, with a column for each subset."""
    num_examples, scores, subsets = evaluation
    table = Table("", "all", *subsets, box=None, show_header=bool(subsets))
    if subsets:
        sizes = (f"{subset.num_examples:,}" for subset in subsets.values())
        table.add_row("examples", f"{num_examples:,}", *sizes)
    else:
        common.console.print(f"{num_examples:,} example{'s' if num_examples != 1 else ''}")
    for name, score in scores.items():
        of_subsets = (subset.scores.get(name) for subset in subsets.values())
        percent = ("" if one is None else f"{one:.1f}" for one in (score, *of_subsets))
        table.add_row(name, *percent)
    common.console.print(table)
