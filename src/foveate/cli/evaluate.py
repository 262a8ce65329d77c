"""`foveate evaluate`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from . import common

if TYPE_CHECKING:
    from foveate.training.objectives import Objective
    from foveate.training.predict import Prediction


def command(
    recipe: Annotated[
        str,
        typer.Argument(metavar="RECIPE", help="What the model was trained by.", show_default=False),
    ],
    model: Annotated[
        Path,
        typer.Option("--model", "-m", metavar="FOLDER", help="The trained model."),
    ],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE...]",
            help="Files as those of the recipe; default: those that it holds out.",
            show_default=False,
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="ENTRY=VALUE",
            help="Change an entry of the recipe.",
            show_default=False,
        ),
    ] = None,
    beams: Annotated[int, typer.Option(min=1, help="Of beam search, where the model writes.")] = 1,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Number of examples.", show_default=False)
    ] = None,
    device: common.Device = None,
    json: common.Json = False,
) -> None:
    """Let a trained model summarize, answer or classify a benchmark, and score it.

    \b
    foveate evaluate hdt-ed-summarization --model hdt-ed-summarization test.jsonl --beams 4
    """
    common.quiet()
    from foveate.data.corpus import Corpus
    from foveate.evaluation import read
    from foveate.training.predict import check_predicts, predict
    from foveate.training.recipe import Recipe
    from foveate.training.run import examples, load

    loaded = Recipe.load(recipe, changes or [])
    check_predicts(loaded.objective)
    paths = tuple(files or ()) or loaded.data.dev
    if not paths:
        raise ValueError(f"{recipe} holds out no files: name some to evaluate on")
    found, _ = examples(loaded, paths, read)
    if isinstance(found, Corpus):
        found = list(found.whole())
    asked = _answered(loaded.objective, found)[:limit]
    if not asked:
        raise ValueError(f"{', '.join(paths)} keeps the answers to itself: name a file with them")
    trained, reader = load(loaded, model, device)
    predictions = predict(trained, reader, loaded.objective, asked, beams=beams)
    scores = _scores(loaded.objective, predictions, asked)
    if json:
        common.print_json({"examples": len(asked), **scores})
        return
    table = Table("", "%", box=None, show_header=False)
    for name, score in scores.items():
        table.add_row(name, f"{score:.1f}")
    common.console.print(f"{len(asked)} examples")
    common.console.print(table)


def _answered(objective: "Objective", examples: Sequence[Any]) -> list[Any]:
    """Examples whose answer is known; where any number of classes may be right, none is one too."""
    from foveate.training.objectives import Classification

    answered = [example for example in examples if example.references or example.labels]
    if answered and isinstance(objective, Classification) and objective.several:
        return list(examples)
    return answered


def _scores(
    objective: "Objective", predictions: "Sequence[Prediction]", examples: Sequence[Any]
) -> dict[str, float]:
    """Of classes F1; of answers exact match and F1 of words; of summaries ROUGE."""
    from foveate.evaluation import exact_match, label_f1, rouge, token_f1
    from foveate.training.objectives import Classification

    if isinstance(objective, Classification):
        scores = label_f1(predictions, [example.labels for example in examples])
        return {f"{average} F1": score for average, score in scores.items()}
    texts = [str(prediction) for prediction in predictions]
    references = [example.references for example in examples]
    if any(example.question for example in examples):
        answers = {"exact match": exact_match(texts, references)}
        return {**answers, "F1": token_f1(texts, references), **rouge(texts, references)}
    return rouge(texts, references)
