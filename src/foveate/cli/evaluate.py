"""`foveate evaluate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table

from . import common

if TYPE_CHECKING:
    from foveate.evaluation.benchmark import Evaluation
    from foveate.evaluation.scirepeval import Distance, TaskScores

_VECTORS = "scirepeval"
"""The benchmark of vectors, which needs no recipe."""


def command(
    benchmark: Annotated[
        str,
        typer.Argument(
            metavar="BENCHMARK",
            help="scirepeval, for the vectors of any encoder; or the recipe that the model was "
            "trained with, for its summaries, answers or classes.",
            show_default=False,
        ),
    ],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="With scirepeval: folders of tasks, or names of tasks on the hub. With a recipe: "
            "files in its format, by default those that it holds out.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            metavar="PATH",
            help="Folder of the trained model; with scirepeval, any encoder, a folder or a name on "
            "the hub. Default: foveate's own model.",
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
        int,
        typer.Option(metavar="N", min=1, help="Number of beams, for a model that generates text."),
    ] = 1,
    distance: Annotated[
        Literal["euclidean", "cosine"],
        typer.Option(
            help="What scirepeval ranks candidates by: euclidean, as published, or cosine."
        ),
    ] = "euclidean",
    flat: Annotated[
        bool,
        typer.Option(
            "--flat",
            help="With scirepeval: read a paper as one text, truncated to the model's maximum "
            "length, and take the first token's vector, as is usual for SciBERT, SciNCL and "
            "similar models.",
        ),
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Number of examples to score; with scirepeval, per task. Default: all.",
            show_default=False,
        ),
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With a recipe: also write what the model predicts for each example, as JSON "
            "Lines.",
            show_default=False,
        ),
    ] = None,
    device: common.Device = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="With scirepeval: precision of the encoder: float32, bfloat16 or float16.",
            show_default=False,
        ),
    ] = None,
    json: common.Json = False,
) -> None:
    """Score a model on a benchmark: its summaries, answers or classes, or its vectors.

    \b
    foveate evaluate hdt-ed-summarization --model hdt-ed test.jsonl --beams 4
    foveate evaluate vcc-roberta-quality -m quality QuALITY.v1.0.1.dev
    foveate evaluate scirepeval tasks/ --model hdt-e-contrastive --json
    foveate evaluate scirepeval tasks/search tasks/cite_count
    foveate evaluate scirepeval tasks/ --model malteos/scincl --flat
    """
    if benchmark == _VECTORS:
        if overrides or beams != 1 or predictions is not None:
            raise ValueError(
                "scirepeval has no recipe, no beams and no predictions: leave out --set, --beams "
                "and --predictions"
            )
        tasks = _score_vectors(
            files or [],
            model,
            is_flat=flat,
            distance=distance,
            limit=limit,
            device=device,
            dtype=dtype,
        )
        average = sum(task.main_score for task in tasks) / len(tasks)
        if json:
            fields = [_task_as_json(task) for task in tasks]
            common.print_json({"distance": distance, "average": average, "tasks": fields})
        else:
            _show_vectors(tasks, average)
        return
    if dtype is not None or flat or distance != "euclidean":
        raise ValueError("--dtype, --flat and --distance are for scirepeval: leave them out")
    evaluation = _score_recipe(
        benchmark,
        overrides or [],
        model,
        files or [],
        beams=beams,
        limit=limit,
        predictions=predictions,
        device=device,
    )
    if json:
        common.print_json(_evaluation_as_json(evaluation))
    else:
        _show_evaluation(evaluation)


def _score_recipe(
    recipe: str,
    overrides: list[str],
    model: str | None,
    files: list[str],
    *,
    beams: int,
    limit: int | None,
    predictions: Path | None,
    device: str | None,
) -> "Evaluation":
    """Score the summaries, answers or classes of a model that a recipe trained."""
    from foveate.training.recipes import find_recipe

    find_recipe(recipe)  # fails before the Trainer, which takes seconds to import
    if model is None:
        raise ValueError("name the folder of the model that the recipe trained, with --model")
    common.prepare()
    from foveate.evaluation.benchmark import evaluate
    from foveate.training import Recipe

    return evaluate(
        Recipe.load(recipe, overrides),
        model,
        files,
        num_beams=beams,
        limit=limit,
        device=device,
        predictions_file=predictions,
    )


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


def _score_vectors(
    places: list[str],
    model: str | None,
    *,
    is_flat: bool,
    distance: "Distance",
    limit: int | None,
    device: str | None,
    dtype: str | None,
) -> "list[TaskScores]":
    """Score the vectors of an encoder."""
    if not places:
        raise ValueError(
            "name folders of SciRepEval's tasks, or tasks to download, such as scidocs_cite"
        )
    if is_flat and model is None:
        raise ValueError("--flat is for models that read one text: name one with --model")
    common.check_model(model)
    common.prepare()
    from foveate.evaluation.papers import FirstTokens, check_gives_vectors
    from foveate.evaluation.scirepeval import evaluate_scirepeval, find_tasks

    sources = find_tasks(places)
    if model is not None:
        check_gives_vectors(model)
    encoder = (
        FirstTokens.from_pretrained(model, device=device, dtype=dtype)
        if model is not None and is_flat
        else common.load_encoder(model, device, dtype)
    )
    return evaluate_scirepeval(encoder, sources, distance=distance, limit=limit)


def _task_as_json(task: "TaskScores") -> dict[str, Any]:
    """Return the scores of a task."""
    return {"task": task.task, "kind": task.kind, "examples": task.num_examples, **task.scores}


def _show_vectors(tasks: "list[TaskScores]", average: float) -> None:
    """Print the scores of each task and, of several, their average."""
    table = Table("task", "kind", "examples", "", "%", box=None)
    for column in table.columns[2], table.columns[4]:
        column.justify = "right"
    for task in tasks:
        place = (task.task, task.kind, f"{task.num_examples:,}")
        for i, (name, score) in enumerate(task.scores.items()):
            table.add_row(*(place if i == 0 else ("", "", "")), name, f"{score:.1f}")
    if len(tasks) > 1:
        table.add_row("average", "", "", "of each first score", f"{average:.1f}")
    common.console.print(table)
