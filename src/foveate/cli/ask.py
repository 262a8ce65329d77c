"""`foveate ask`."""

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from foveate.documents import Sentence

from . import common


def command(
    file: common.File,
    question: Annotated[str, typer.Argument(help="What to answer, in your own words.")],
    top: Annotated[int, typer.Option("--top", "-k", help="Number of passages.")] = 3,
    format: common.Format = None,
    language: common.Language = "en",
    model: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Checkpoint, a folder or a name on the hub. A T5 reads the whole document and "
            "writes an answer, with the passages it looked at most; an encoder finds passages. "
            "Default: all-MiniLM-L6-v2, installed with foveate.",
            show_default=False,
        ),
    ] = None,
    device: common.Device = None,
    dtype: common.DType = None,
    json: common.Json = False,
) -> None:
    """Ask a document a question: the passages that answer it best, with their places.

    \b
    foveate ask contract.docx "who pays for delays?"
    foveate ask book.txt "what does the captain hunt, and why?" --top 5 --json
    foveate ask report.pdf "what did it cost?" --model google/flan-t5-base
    """
    if not Path(file).exists() and Path(question).is_file():
        raise ValueError(f"the document comes first: foveate ask {question} {shlex.quote(file)}")
    [document] = common.read([file], format, language)
    common.quiet()
    from foveate.tasks.ask import ask

    answer = ask(question, document, top=top, **_reader_or_encoder(model, device, dtype))
    located = [
        common.Located.of(document, Sentence(p.text, p.start, p.end), p.path, p.speaker)
        for p in answer.passages
    ]
    found = list(zip(answer.passages, located, strict=True))
    if json:
        common.print_json(
            {
                "source": document.source,
                "title": document.title,
                "question": question,
                "answer": answer.text,
                "passages": [
                    {**asdict(where), "score": round(passage.score, 4)} for passage, where in found
                ],
            }
        )
        return
    if answer.text is not None:
        common.console.print(f"[bold]{escape(answer.text)}[/bold]\n")
    for passage, where in found:
        common.console.print(
            f"[bold]{passage.score:.2f}[/bold]  {escape(where.text)}\n"
            f"      [dim]{escape(where.place)}[/dim]\n"
        )


def _reader_or_encoder(model: str | None, device: str | None, dtype: str | None) -> dict[str, Any]:
    """Load what is named: a model that answers, or an encoder."""
    if model is not None:
        from foveate.models.loading import load_config
        from foveate.tasks.ask import Reader

        if load_config(model).is_encoder_decoder:
            return {"model": Reader.from_pretrained(model, device=device, dtype=dtype)}
    return {"encoder": common.encoder(model, device, dtype)}
