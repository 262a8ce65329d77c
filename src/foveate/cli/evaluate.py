"""`foveate evaluate`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from . import common


def command(
    recipe: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE", help="The recipe that the model was trained with.", show_default=False
        ),
    ],
    model: Annotated[
        Path,
        typer.Option("--model", "-m", metavar="FOLDER", help="Folder of the trained model."),
    ],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Files in the format of the recipe's. Default: those that the recipe holds out.",
            show_default=False,
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="ENTRY=VALUE",
            help="Change an entry of the recipe, such as data.dev=test.jsonl; may be repeated.",
            show_default=False,
        ),
    ] = None,
    beams: Annotated[
        int, typer.Option(min=1, help="Number of beams, for a model that generates text.")
    ] = 1,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Number of examples to score. Default: all.", show_default=False),
    ] = None,
    device: common.Device = None,
    json: common.Json = False,
) -> None:
    """Score a trained model's summaries, answers or classes on a benchmark.

    \b
    foveate evaluate hdt-ed-summarization --model hdt-ed-summarization test.jsonl --beams 4
    """
    from foveate.training.recipes import find_recipe

    find_recipe(recipe)  # fails before the Trainer, which takes seconds to import
    common.prepare()
    from foveate.evaluation.benchmark import evaluate
    from foveate.training import Recipe

    num_examples, scores = evaluate(
        Recipe.load(recipe, overrides or []),
        model,
        files or (),
        num_beams=beams,
        limit=limit,
        device=device,
    )
    if json:
        common.print_json({"examples": num_examples, **scores})
        return
    table = Table("", "%", box=None, show_header=False)
    for name, score in scores.items():
        table.add_row(name, f"{score:.1f}")
    common.console.print(f"{num_examples} examples")
    common.console.print(table)
