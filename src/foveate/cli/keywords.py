"""`foveate keywords`."""

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from foveate.documents.language import FALLBACK
from foveate.tasks.surroundings import title_of

from . import common
from .reading import File, Reading, takes_options


@takes_options
def command(
    file: File,
    top_k: Annotated[
        int, typer.Option("--top-k", "-k", metavar="N", min=1, help="Number of keywords.")
    ] = 20,
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="phrases: words and phrases, by their places in the document and how unusual they "
            "are; tfidf: words that are more frequent than usual; random, gibberish: controls for "
            "experiments.",
        ),
    ] = "phrases",
    json: common.Json = False,
    *,
    reading: Reading,
) -> None:
    """Find the words and phrases that characterize a document, and where they first occur.

    \b
    foveate keywords minutes.txt
    foveate keywords paper.pdf -k 50 --method tfidf --json
    foveate keywords protokoll.txt --language de
    """
    document = reading.document(file)
    from foveate.tasks.keywords import keywords

    language = document.language or FALLBACK
    detected = keywords(document, top_k=top_k, method=method, language=language)
    if json:
        common.print_json(
            [
                {
                    "text": keyword.text,
                    "score": float(f"{keyword.score:.4g}"),
                    "language": document.language,
                    "spans": [common.span_as_json(span) for span in keyword.spans],
                }
                for keyword in detected
            ]
        )
        return
    table = Table(title=escape(title_of(document)), box=None, title_justify="left")
    common.add_titles(table, "keyword", reserved=40)
    for heading in ("score", "places", "first place"):
        table.add_column(heading, justify="right")
    for keyword in detected:
        first = keyword.spans[0].place if keyword.spans else "–"
        table.add_row(
            escape(keyword.text), f"{keyword.score:,.3g}", f"{len(keyword.spans):,}", escape(first)
        )
    common.console.print(table)
    if not detected and method == "tfidf":
        common.console.print(
            f"no keywords: none of its words is known in {language!r}; try another --language"
        )
    elif not detected:
        common.console.print("no keywords: it has no words, or only very common ones")
