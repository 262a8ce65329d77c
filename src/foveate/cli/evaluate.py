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
            metavar="RECIPE", help="The recipe that the model was trained by.", show_default=False
        ),
    ],
    model: Annotated[
        Path,
        typer.Option("--model", "-m", metavar="FOLDER", help="The trained model."),
    ],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE...]",
            help="Files of the same form as the recipe's; default: those that it holds out.",
            show_default=False,
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="ENTRY=VALUE",
            help="Change an entry of the recipe; may be repeated.",
            show_default=False,
        ),
    ] = None,
    beams: Annotated[
        int, typer.Option(min=1, help="Beams of beam search, if the model generates text.")
    ] = 1,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Number of examples to score.", show_default=False)
    ] = None,
    device: common.Device = None,
    json: common.Json = False,
) -> None:
    """Score a trained model's summaries, answers or classes on a benchmark.

    \b
    foveate evaluate hdt-ed-summarization --model hdt-ed-summarization test.jsonl --beams 4
    """
    common.quiet()
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
