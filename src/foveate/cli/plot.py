"""`foveate plot`."""

from typing import Annotated

import typer
from rich.markup import escape

from foveate.cli import common

app = typer.Typer(
    no_args_is_help=True,
    help="""Draw what attends to what, as a PNG, SVG, PDF, JPEG or WebP picture.

    \b
    foveate plot tree thesis.pdf -o tree.png
    foveate plot fovea book.txt -o fovea.svg
    foveate plot windows
    foveate plot vip "who pays for the bridge?" minutes.txt
    """,
)

_Tokenizer = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="PATH",
        help="Checkpoint whose tokenizer is used. Default: all-MiniLM-L6-v2.",
        show_default=False,
    ),
]
_Output = Annotated[
    str,
    typer.Option(
        "--output", "-o", metavar="PICTURE.png", help="The picture; its suffix gives the format."
    ),
]


@app.command("tree")
def tree(
    file: common.File,
    output: _Output = "tree.png",
    window: Annotated[
        int, typer.Option(help="Number of nodes to draw one by one, if there are more.")
    ] = 192,
    format: common.Format = None,
    language: common.Language = "en",
    model: _Tokenizer = None,
) -> None:
    """Draw tree attention, which follows the document's sections and sentences.

    \b
    foveate plot tree thesis.pdf
    foveate plot tree book.txt -o book.svg --window 64
    """
    common.quiet()
    from foveate.tasks.plots import plot_tree

    document = common.read([file], format, language)[0]
    plot_tree(document, output, window=window, model=model)
    _report(output)


@app.command("fovea")
def fovea(
    file: common.File,
    output: _Output = "fovea.png",
    neighbours: Annotated[
        int, typer.Option("--neighbours", help="Number of nodes of each level on each side.")
    ] = 1,
    format: common.Format = None,
    language: common.Language = "en",
    model: _Tokenizer = None,
) -> None:
    """Draw Fovea attention, which averages the text, the more so the farther away it is.

    \b
    foveate plot fovea book.txt
    foveate plot fovea book.txt -o fovea.svg --neighbours 2
    """
    common.quiet()
    from foveate.tasks.plots import plot_fovea

    document = common.read([file], format, language)[0]
    plot_fovea(document, output, k_neighbours=neighbours, model=model)
    _report(output)


@app.command("windows")
def windows(
    output: _Output = "windows.png",
    tokens: Annotated[int, typer.Option(help="Length of the sequence.")] = 48,
    window: Annotated[
        int, typer.Option(help="Number of neighbours, on both sides together, that a token sees.")
    ] = 8,
    keywords: Annotated[int, typer.Option(help="Number of keyword tokens.")] = 5,
) -> None:
    """Draw full, Longformer, BigBird and keyword attention side by side; this takes no file.

    \b
    foveate plot windows
    foveate plot windows -o patterns.svg --tokens 64 --keywords 8
    """
    from foveate.tasks.plots import plot_windows

    plot_windows(output, num_tokens=tokens, window=window, num_keywords=keywords)
    _report(output)


@app.command("vip")
def vip(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to read the document for.")],
    file: common.File,
    output: _Output = "vip.png",
    format: common.Format = None,
    language: common.Language = "en",
    model: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Checkpoint that reads: BERT, RoBERTa, T5 or VCC, a folder or a name on the hub. "
            "Default: all-MiniLM-L6-v2.",
            show_default=False,
        ),
    ] = None,
    device: common.Device = None,
) -> None:
    """Draw what a model with VIP compression looks at closely in each layer, given a query.

    \b
    foveate plot vip "who pays for the bridge?" minutes.txt
    foveate plot vip "melting point" handbook.pdf -o seen.png --model roberta-base
    """
    common.quiet()
    from foveate.tasks.plots import plot_vip

    document = common.read([file], format, language)[0]
    plot_vip(query, document, output, model=model, device=device)
    _report(output)


def _report(output: str) -> None:
    common.console.print(f"picture: {escape(output)}")
