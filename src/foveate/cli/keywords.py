"""`foveate keywords`."""

from bisect import bisect_left
from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from foveate.detectors import Keyword
from foveate.documents import Document
from foveate.documents.language import FALLBACK

from . import common
from .reading import File, Reading, takes_reading_options


@takes_reading_options
def command(
    file: File,
    top_k: Annotated[int, typer.Option("--top-k", "-k", help="Number of keywords.")] = 20,
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="tfidf: words that are more frequent than usual; yake: phrases, by statistics of "
            "this document; embedding: phrases whose meaning is close to the document's; random, "
            "gibberish: controls for experiments.",
        ),
    ] = "tfidf",
    model: common.Model = None,
    device: common.Device = None,
    dtype: common.DType = None,
    json: common.Json = False,
    *,
    reading: Reading,
) -> None:
    """Find the words or phrases that characterize a document, and where they first occur.

    \b
    foveate keywords minutes.txt
    foveate keywords paper.pdf -k 50 --method yake --json
    foveate keywords protokoll.txt --language de
    """
    if method != "embedding" and (model, device, dtype) != (None, None, None):
        raise ValueError(
            "only --method embedding uses a model: leave out --model, --device, --dtype"
        )
    document = reading.document(file)
    from foveate.tasks.keywords import keywords

    language = document.language or FALLBACK
    encoder = common.load_encoder(model, device, dtype) if method == "embedding" else None
    detected = keywords(document, top_k=top_k, method=method, model=encoder, language=language)
    lines = _lines(document, detected)
    if json:
        common.print_json(
            [
                {
                    "text": keyword.text,
                    "score": float(f"{keyword.score:.4g}"),  # YAKE's are tiny
                    "spans": [asdict(span) for span in keyword.spans],
                    "lines": keyword_lines,
                }
                for keyword, keyword_lines in zip(detected, lines, strict=True)
            ]
        )
        return
    table = Table(title=escape(common.name_of(document)), box=None, title_justify="left")
    common.add_titles(table, "keyword", reserved=36)
    for heading in ("score", "places", "first line"):
        table.add_column(heading, justify="right")
    for keyword, keyword_lines in zip(detected, lines, strict=True):
        first = f"{keyword_lines[0]:,}" if keyword_lines else "–"
        score, occurrences = f"{keyword.score:,.3g}", f"{len(keyword_lines):,}"
        table.add_row(escape(keyword.text), score, occurrences, first)
    common.console.print(table)
    if not detected and method == "tfidf":
        common.console.print(
            f"no keywords: none of its words is known in {language!r}; try another --language"
        )
    elif not detected:
        common.console.print("no keywords: it has no words")


def _lines(document: Document, keywords: list[Keyword]) -> list[list[int]]:
    """Return the lines of the source on which each keyword's spans begin."""
    newlines = [i for i, character in enumerate(document.text) if character == "\n"]
    return [
        [bisect_left(newlines, span.start) + 1 for span in keyword.spans] for keyword in keywords
    ]
