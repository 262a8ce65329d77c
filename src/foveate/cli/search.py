"""`foveate search`."""

from typing import Annotated

import typer

from . import common
from .reading import Files, Reading, takes_reading_options


@takes_reading_options
def command(
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="What to look for, in plain words.")
    ],
    files: Files,
    top_k: Annotated[int, typer.Option("--top-k", "-k", help="Number of sentences.")] = 5,
    model: common.Model = None,
    device: common.Device = None,
    dtype: common.DType = None,
    json: common.Json = False,
    *,
    reading: Reading,
) -> None:
    """Find the sentences of documents that match a query best, with their places.

    \b
    foveate search "who pays for delays?" contract.docx
    foveate search "white whale" books/*.txt --top-k 10 --json
    """
    common.check_order("foveate search", "query", query, files)
    documents = reading.documents(files)
    common.quiet()
    from foveate.tasks.search import search

    hits = search(query, documents, top_k=top_k, model=common.load_encoder(model, device, dtype))
    if json:
        common.print_json([common.as_json(hit.span, hit.score) for hit in hits])
        return
    for hit in hits:
        common.show_result(documents, hit)
