"""`foveate evaluate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from . import common

if TYPE_CHECKING:
    from foveate.evaluation.benchmark import Evaluation


def command(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE",
            help="The recipe that the model was trained with.",
            show_default=False,
        ),
    ],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Files in the recipe's format, by default those that it holds out.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            metavar="PATH",
            help="Folder of the trained model.",
            show_default=False,
        ),
    ] = None,
    overrides: common.Overrides = None,
    beams: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Number of beams, for a model that generates text."),
    ] = 1,
    limit: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Number of examples to score. Default: all.",
            show_default=False,
        ),
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write what the model predicts for each example, as JSON Lines.",
            show_default=False,
        ),
    ] = None,
    device: common.Device = None,
    json: common.Json = False,
) -> None:
    """Score a model on a benchmark: its summaries, answers or classes.

    \b
    foveate evaluate hdt-ed-summarization --model hdt-ed test.jsonl --beams 4
    foveate evaluate vcc-roberta-quality -m quality QuALITY.v1.0.1.dev
    """
    from foveate.training.recipes import find_recipe

    find_recipe(recipe)  # fails before the Trainer, which takes seconds to import
    if model is None:
        raise ValueError("name the folder of the model that the recipe trained, with --model")
    common.prepare()
    from foveate.evaluation.benchmark import evaluate
    from foveate.training import Recipe

    evaluation = evaluate(
        Recipe.load(recipe, overrides or []),
        model,
        files or [],
        num_beams=beams,
        limit=limit,
        device=device,
        predictions_file=predictions,
    )
    if json:
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
