"""`foveate inspect`."""

from dataclasses import asdict, dataclass

from rich.markup import escape
from rich.table import Table

from foveate.documents import Document
from foveate.tasks.parameters import parameter
from foveate.tasks.surroundings import title_of

from . import common
from .command import JSON
from .models import TOKENIZER, checkpoint, prepare
from .reading import FILE, ReadingOptions

_MAX_LINES = 3  # of those that are left out
_MAX_AUTHORS = 5  # that are shown


@dataclass(kw_only=True)
class InspectCommand(ReadingOptions):
    """Show a document's outline, its size in tokens, and the cost of tree attention on it.

    \b
    foveate inspect paper.pdf
    foveate inspect book.txt --model allenai/longformer-base-4096 --json
    """

    file: str = parameter(FILE, metavar="FILE", is_argument=True)
    model: str | None = checkpoint(TOKENIZER)
    json: bool = parameter(JSON, False)

    def __call__(self) -> None:
        document = self.read_one(self.file)
        prepare()
        from foveate.tasks.inspect import inspect

        inspection = inspect(document, model=self.model)
        if self.json:
            common.print_json(
                {
                    "title": inspection.title,
                    "authors": document.authors,
                    "date": document.date,
                    "language": document.language,
                    "sections": [asdict(section) for section in inspection.sections],
                    "depth": inspection.depth,
                    "num_sentences": inspection.num_sentences,
                    "num_tokens": inspection.num_tokens,
                    "num_nodes": inspection.num_nodes,
                    "longest": {
                        **common.span_as_json(inspection.longest),
                        "num_tokens": inspection.longest_tokens,
                    },
                    "num_attended_pairs": inspection.num_attended_pairs,
                    "density": inspection.density,
                    "left_out": document.left_out,
                }
            )
            return
        title = "\n".join(filter(None, (title_of(document), _origin(document))))
        outline = Table(title=escape(title), box=None, title_justify="left")
        common.add_titles(outline, "section", reserved=24)
        outline.add_column("sentences", justify="right", min_width=9)
        outline.add_column("tokens", justify="right", min_width=9)
        for section in inspection.sections:
            heading = "  " * (section.depth - 1) + (section.span.text or "(untitled)")
            outline.add_row(
                escape(heading), f"{section.num_sentences:,}", f"{section.num_tokens:,}"
            )
        show = common.console.print
        show(outline)
        show()
        show(
            f"{inspection.num_tokens:,} tokens in {inspection.num_sentences:,} sentences, "
            f"{len(inspection.sections):,} sections, {inspection.depth} deep"
        )
        where = common.place(inspection.longest)
        show(f"longest sentence: {inspection.longest_tokens:,} tokens, {escape(where)}")
        show(
            f"attended pairs: {inspection.num_attended_pairs:,} of {inspection.num_nodes**2:,}, "
            f"{inspection.density:.3%} of dense attention"
        )
        if document.left_out:
            shown = ", ".join(
                f"“{line}”" for line in [*dict.fromkeys(document.left_out)][:_MAX_LINES]
            )
            show(
                f"left out: {len(document.left_out):,} lines at the edges of pages, such as "
                f"{escape(shown)} (all with --json)"
            )


def _origin(document: Document) -> str:
    """Say who wrote a document and when, as far as it states that."""
    authors = list(document.authors[:_MAX_AUTHORS])
    if more := len(document.authors) - len(authors):
        authors.append(f"{more} more")
    return ", ".join([*authors, *filter(None, [document.date])])
