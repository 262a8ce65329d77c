"""`foveate ask`."""

import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from . import common


def command(
    question: Annotated[str, typer.Argument(help="What to answer, in plain words.")],
    files: common.Files,
    top_k: Annotated[int, typer.Option("--top-k", "-k", help="Number of passages.")] = 3,
    choice: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ANSWER",
            help="An answer to choose from, for a model that writes; may be repeated.",
            show_default=False,
        ),
    ] = None,
    format: common.Format = None,
    language: common.Language = "en",
    model: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Checkpoint, a folder or a name on the hub. A T5 reads everything and writes an "
            "answer, with the passages it looked at most; an encoder finds passages. "
            "Default: all-MiniLM-L6-v2, installed with foveate.",
            show_default=False,
        ),
    ] = None,
    device: common.Device = None,
    dtype: common.DType = None,
    json: common.Json = False,
) -> None:
    """Ask documents a question: the passages that answer it best, with their places.

    \b
    foveate ask "who pays for delays?" contract.docx
    foveate ask "what does the captain hunt, and why?" book.txt --top-k 5 --json
    foveate ask "what did it cost?" report.pdf --model google/flan-t5-base
    """
    if Path(question).is_file() and not Path(files[0]).exists():
        raise ValueError(
            f"the question comes first: foveate ask {shlex.quote(files[0])} {shlex.quote(question)}"
        )
    documents = common.read(files, format, language)
    common.quiet()
    from foveate.inference import Answerer
    from foveate.tasks.ask import ask

    loaded = common.encoder_or(Answerer, model, device, dtype)
    answer = ask(question, documents, top_k=top_k, choices=choice or (), model=loaded)
    if json:
        common.print_json(
            {
                "question": question,
                "answer": answer.text,
                "passages": [
                    common.as_json(documents[found.document_idx], found.span, found.score)
                    for found in answer.passages
                ],
            }
        )
        return
    if answer.text is not None:
        common.console.print(f"[bold]{escape(answer.text)}[/bold]\n")
    for found in answer.passages:
        common.show_result(found.span, found.score, common.place_among(documents, found))
