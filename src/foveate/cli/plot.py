"""`foveate plot`."""

from typing import Annotated

import typer

from . import common
from .reading import File, Reading, takes_options

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

_PdfFile = Annotated[
    str,
    typer.Argument(metavar="FILE", help="A PDF. - stands for standard input.", show_default=False),
]
_Output = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Where to write the picture; the suffix gives the format.",
    ),
]


@app.command("pdf")
@takes_options
def pdf(
    file: _PdfFile,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where to write the PDF.")
    ] = "highlights.pdf",
    search: Annotated[
        str | None,
        typer.Option(
            metavar="QUERY",
            help="Highlight the sentences that match a query best, instead of a summary.",
            show_default=False,
        ),
    ] = None,
    sentences: Annotated[
        int,
        typer.Option(
            "--sentences", "-s", metavar="N", min=1, help="Number of sentences to highlight."
        ),
    ] = 5,
    model: common.Model = None,
    *,
    loading: common.Loading,
    reading: Reading,
) -> None:
    """Highlight a summary, or what a search finds, in a copy of a PDF.

    \b
    foveate plot pdf paper.pdf
    foveate plot pdf contract.pdf --search "who pays for delays?" -o delays.pdf
    """
    document = reading.document(file)
    from foveate.tasks.plots.pdf import check_pdf, plot_pdf

    check_pdf(document, output)
    encoder = common.load_encoder(model, loading, reading.cache)
    from foveate.tasks.search import search as find
    from foveate.tasks.summarize import summarize

    if search is None:
        chosen = summarize(document, sentences=sentences, model=encoder).sentences
        spans = [sentence.span for sentence in chosen]
    else:
        spans = [hit.span for hit in find(search, document, top_k=sentences, model=encoder)]
    plot_pdf(document, spans, output)
    common.show_path("PDF", output)


@app.command("tree")
@takes_options
def tree(
    file: File,
    output: _Output = "tree.png",
    window: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, help="Number of nodes to draw individually, next to the whole tree."
        ),
    ] = 192,
    model: common.TokenizerModel = None,
    *,
    reading: Reading,
) -> None:
    """Draw tree attention, which follows the document's sections and sentences.

    \b
    foveate plot tree thesis.pdf
    foveate plot tree book.txt -o book.svg --window 64
    """
    document = reading.document(file)
    common.prepare()
    from foveate.tasks.plots import plot_tree

    plot_tree(document, output, window=window, model=model)
    common.show_path("picture", output)


@app.command("vip")
@takes_options
def vip(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to read the document for.")],
    file: File,
    output: _Output = "vip.png",
    model: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            callback=common.check_model,
            help="BERT, RoBERTa, T5 or VCC checkpoint, a folder or a name on the hub. "
            "Default: foveate's own model.",
            show_default=False,
        ),
    ] = None,
    device: common.Device = None,
    *,
    reading: Reading,
) -> None:
    """Draw which parts of a document a model with VIP compression sees in detail, by layer.

    \b
    foveate plot vip "who pays for the bridge?" minutes.txt
    foveate plot vip "melting point" handbook.pdf -o seen.png --model roberta-base
    """
    common.check_query("foveate plot vip", "query", query, [file])
    document = reading.document(file)
    common.prepare()
    from foveate.tasks.plots import plot_vip

    plot_vip(query, document, output, model=model, device=device)
    common.show_path("picture", output)
