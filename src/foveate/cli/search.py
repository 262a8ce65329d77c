"""`foveate search`."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape

from . import common


def command(
    query: Annotated[str, typer.Argument(help="What to look for, in your own words.")],
    files: common.Files,
    top: Annotated[int, typer.Option("--top", "-k", help="Number of sentences.")] = 5,
    format: common.Format = None,
    language: common.Language = "en",
    model: common.Model = None,
    device: common.Device = None,
    dtype: common.DType = None,
    json: common.Json = False,
) -> None:
    """Find the sentences of one or many documents that answer best, with their sections.

    \b
    foveate search "who pays for delays?" contract.docx
    foveate search "white whale" books/*.txt --top 10 --json
    """
    documents = common.read(files, format, language)
    common.quiet()
    from foveate.tasks.search import search

    hits = search(query, documents, top=top, encoder=common.encoder(model, device, dtype))
    located = [
        common.Located.of(documents[hit.document], hit.sentence, hit.place.path, hit.place.speaker)
        for hit in hits
    ]
    found = list(zip(hits, located, strict=True))
    if json:
        common.print_json(
            [
                {
                    "source": hit.source,
                    "title": hit.title,
                    **asdict(where),
                    "score": round(hit.score, 4),
                }
                for hit, where in found
            ]
        )
        return
    for hit, where in found:
        source = f"{hit.source}: " if len(documents) > 1 else ""
        common.console.print(
            f"[bold]{hit.score:.2f}[/bold]  {escape(where.text)}\n"
            f"      [dim]{escape(source + where.place)}[/dim]\n"
        )
