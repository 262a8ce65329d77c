"""`foveate search`."""

from typing import Annotated

import typer

from . import common


def command(
    query: Annotated[str, typer.Argument(help="What to look for, in plain words.")],
    files: common.Files,
    top_k: Annotated[int, typer.Option("--top-k", "-k", help="Number of sentences.")] = 5,
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
    foveate search "white whale" books/*.txt --top-k 10 --json
    """
    documents = common.read(files, format, language)
    common.quiet()
    from foveate.tasks.search import search

    hits = search(query, documents, top_k=top_k, model=common.encoder(model, device, dtype))
    if json:
        common.print_json(
            [common.as_json(documents[hit.document_idx], hit.span, hit.score) for hit in hits]
        )
        return
    for hit in hits:
        common.show_result(hit.span, hit.score, common.place_among(documents, hit))
