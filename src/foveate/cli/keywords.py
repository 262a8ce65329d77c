"""`foveate keywords`."""

from dataclasses import dataclass

from rich.markup import escape
from rich.table import Table

from foveate.documents.language import FALLBACK
from foveate.tasks.parameters import KeywordsParameters, parameter
from foveate.tasks.surroundings import title_of

from . import common
from .command import JSON
from .reading import FILE, ReadingOptions


@dataclass(kw_only=True)
class KeywordsCommand(ReadingOptions, KeywordsParameters):
    """Find the words and phrases that characterize a document, and where they first occur.

    \b
    foveate keywords minutes.txt
    foveate keywords paper.pdf -k 50 --method tfidf --json
    foveate keywords protokoll.txt --language de
    """

    file: str = parameter(FILE, metavar="FILE", is_argument=True)
    json: bool = parameter(JSON, False)

    def __call__(self) -> None:
        document = self.read_one(self.file)
        from foveate.tasks.keywords import keywords

        language = document.language or FALLBACK
        found = keywords(document, top_k=self.top_k, method=self.method, language=language)
        if self.json:
            common.print_json(
                [
                    {
                        "text": keyword.text,
                        "score": float(f"{keyword.score:.4g}"),
                        "language": document.language,
                        "spans": [common.span_as_json(span) for span in keyword.spans],
                    }
                    for keyword in found
                ]
            )
            return
        table = Table(title=escape(title_of(document)), box=None, title_justify="left")
        common.add_titles(table, "keyword", reserved=40)
        for heading in ("score", "places", "first place"):
            table.add_column(heading, justify="right")
        for keyword in found:
            first = escape(keyword.spans[0].place) if keyword.spans else "–"
            score, number = f"{keyword.score:,.3g}", f"{len(keyword.spans):,}"
            table.add_row(escape(keyword.text), score, number, first)
        common.console.print(table)
        if not found and self.method == "tfidf":
            common.console.print(
                f"no keywords: none of its words is known in {language!r}; try another --language"
            )
        elif not found:
            common.console.print("no keywords: it has no words, or only very common ones")
