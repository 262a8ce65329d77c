"""`foveate search`."""

from typing import Annotated

import typer

from foveate.tasks.arguments import Unit

from . import common
from .reading import FilesOrNone, Reading, takes_options


@takes_options
def command(
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="What to look for, in plain words.")
    ],
    files: FilesOrNone = None,
    by: Annotated[
        Unit,
        typer.Option(help="What to find. For sections and documents, the best sentence is shown."),
    ] = "passage",
    top_k: Annotated[
        int, typer.Option("--top-k", "-k", metavar="N", min=1, help="Number of results.")
    ] = 5,
    context: common.Context = 0,
    model: common.LibraryModel = None,
    rerank: common.Rerank = None,
    explain: common.Explain = False,
    json: common.Json = False,
    *,
    library: common.Library,
    loading: common.Loading,
    reading: Reading,
) -> None:
    """Find the passages, sections or documents that match a query best, with their places.

    \b
    foveate search "who pays for delays?" contract.docx
    foveate search "white whale" books/*.txt --top-k 10 --context 2
    foveate search "how are releases signed?" handbook.pdf --by section
    foveate search "Counts of fish. Nets and sonar." papers/ --by document
    foveate search "who pays?" --library work.library --where "format = 'pdf'"
    """
    common.check_query("foveate search", "query", query, files or [])
    library.check(files, reading)
    if library.folder is not None:
        index = common.open_library(library.folder, model, loading)
        hits = index.search(
            query, by=by, top_k=top_k, rerank=rerank, explain=explain, **library.conditions
        )
        documents, hits = common.documents_of(library, index, hits)
    else:
        documents = reading.documents(files or [])
        encoder = common.load_encoder(model, loading, reading.cache)
        from foveate.tasks.search import search

        hits = search(
            query, documents, by=by, top_k=top_k, model=encoder, rerank=rerank, explain=explain
        )
    if json:
        common.print_json(common.results_as_json(documents, hits, context))
        return
    common.show_results(documents, hits, context, are_named=library.folder is not None or None)
