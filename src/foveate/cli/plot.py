"""`foveate plot`."""

from dataclasses import dataclass

import typer

from foveate.tasks.parameters import parameter

from . import common
from .command import add
from .models import DEVICE, TOKENIZER, LoadingOptions, checkpoint, prepare
from .reading import FILE, ReadingOptions

app = typer.Typer(
    no_args_is_help=True,
    help="""Highlight results in a PDF, or draw attention patterns as pictures.

    Pictures are PNG, SVG, PDF, JPEG or WebP.

    \b
    foveate plot pdf paper.pdf -o summary.pdf
    foveate plot pdf paper.pdf --search "how were the fish counted?" -o found.pdf
    foveate plot tree thesis.pdf -o tree.png
    foveate plot vip "who pays for the bridge?" minutes.txt
    """,
)

_PICTURE = "Where to write the picture; the suffix gives the format."


@dataclass(kw_only=True)
class PlotPdfCommand(ReadingOptions, LoadingOptions):
    """Highlight a summary, or what a search finds, in a copy of a PDF.

    \b
    foveate plot pdf paper.pdf
    foveate plot pdf contract.pdf --search "who pays for delays?" -o delays.pdf
    """

    file: str = parameter("A PDF. - stands for standard input.", metavar="FILE", is_argument=True)
    output: str = parameter("Where to write the PDF.", "highlights.pdf", short="-o", metavar="FILE")
    search: str | None = parameter(
        "Highlight the sentences that match a query best, instead of a summary.",
        None,
        metavar="QUERY",
    )
    sentences: int = parameter("Number of sentences to highlight.", 5, ge=1, short="-s")

    def __call__(self) -> None:
        document = self.read_one(self.file)
        from foveate.tasks.plots.pdf import check_pdf, plot_pdf

        check_pdf(document, self.output)
        encoder = self.load_encoder(self.cache)
        from foveate.tasks.search import search
        from foveate.tasks.summarize import summarize

        if self.search is None:
            chosen = summarize(document, sentences=self.sentences, model=encoder).sentences
            spans = [hit.span for hit in chosen]
        else:
            hits = search(self.search, document, top_k=self.sentences, model=encoder)
            spans = [hit.span for hit in hits]
        plot_pdf(document, spans, self.output)
        common.show_path("PDF", self.output)


@dataclass(kw_only=True)
class PlotTreeCommand(ReadingOptions):
    """Draw tree attention, which follows the document's sections and sentences.

    \b
    foveate plot tree thesis.pdf
    foveate plot tree book.txt -o book.svg --window 64
    """

    file: str = parameter(FILE, metavar="FILE", is_argument=True)
    output: str = parameter(_PICTURE, "tree.png", short="-o", metavar="FILE")
    window: int = parameter(
        "Number of nodes to draw individually, next to the whole tree.", 192, ge=1
    )
    model: str | None = checkpoint(TOKENIZER)

    def __call__(self) -> None:
        document = self.read_one(self.file)
        prepare()
        from foveate.tasks.plots import plot_tree

        plot_tree(document, self.output, window=self.window, model=self.model)
        common.show_path("picture", self.output)


@dataclass(kw_only=True)
class PlotVipCommand(ReadingOptions):
    """Draw which parts of a document a model with VIP compression sees in detail, by layer.

    \b
    foveate plot vip "who pays for the bridge?" minutes.txt
    foveate plot vip "melting point" handbook.pdf -o seen.png --model roberta-base
    """

    query: str = parameter("What to read the document for.", metavar="QUERY", is_argument=True)
    file: str = parameter(FILE, metavar="FILE", is_argument=True)
    output: str = parameter(_PICTURE, "vip.png", short="-o", metavar="FILE")
    model: str | None = checkpoint(
        "BERT, RoBERTa, T5 or VCC checkpoint, a folder or a name on the hub. Default: foveate's "
        "own model."
    )
    device: str | None = parameter(DEVICE, None, metavar="NAME")

    def __call__(self) -> None:
        common.check_query("foveate plot vip", "query", self.query, [self.file])
        document = self.read_one(self.file)
        prepare()
        from foveate.tasks.plots import plot_vip

        plot_vip(self.query, document, self.output, model=self.model, device=self.device)
        common.show_path("picture", self.output)


add(app, "pdf", PlotPdfCommand)
add(app, "tree", PlotTreeCommand)
add(app, "vip", PlotVipCommand)
