"""`foveate inspect`."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from . import common


def command(
    file: common.File,
    plot: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN.png",
            help="Also draw the attention pattern, colours by level.",
            show_default=False,
        ),
    ] = None,
    format: common.Format = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Checkpoint whose tokenizer says what a token is. Default: all-MiniLM-L6-v2.",
            show_default=False,
        ),
    ] = None,
    json: common.Json = False,
) -> None:
    """Show how a document is read: its outline in tokens, its depth, what is attended.

    \b
    foveate inspect thesis.pdf
    foveate inspect book.txt --plot pattern.png
    """
    common.quiet()
    from transformers import AutoTokenizer

    from foveate.tasks.inspect import inspect

    document = common.read([file], format)[0]
    tokenizer = None if model is None else AutoTokenizer.from_pretrained(model)
    found = inspect(document, tokenizer=tokenizer)
    if plot is not None:
        from foveate.tasks.plot import plot_pattern

        plot_pattern(found.parents, plot, title=common.name_of(document))

    longest = common.Located.of(document, found.longest.sentence, found.longest.place.path)
    if json:
        common.print_json(
            {
                "title": found.title,
                "sections": [asdict(section) for section in found.sections],
                "depth": found.depth,
                "sentences": found.sentences,
                "tokens": found.tokens,
                "nodes": found.nodes,
                "longest_sentence": {"tokens": found.longest.tokens, **asdict(longest)},
                "attended_pairs": found.attended,
                "density": found.density,
                "plot": plot,
            }
        )
        return
    outline = Table(title=escape(common.name_of(document)), box=None, title_justify="left")
    outline.add_column("section", no_wrap=True, overflow="ellipsis")
    outline.add_column("sentences", justify="right", min_width=9)
    outline.add_column("tokens", justify="right", min_width=9)
    for section in found.sections:
        title = "  " * (section.depth - 1) + (section.path[-1] or "(untitled)")
        outline.add_row(escape(title), f"{section.sentences:,}", f"{section.tokens:,}")
    show = common.console.print
    show(outline)
    show()
    show(
        f"{found.tokens:,} tokens in {found.sentences:,} sentences, {len(found.sections):,} "
        f"sections, {found.depth} deep"
    )
    show(f"longest sentence: {found.longest.tokens:,} tokens, {escape(longest.place)}")
    show(
        f"attended pairs: {found.attended:,} of {found.nodes**2:,}, "
        f"{found.density:.3%} of dense attention"
    )
    if plot is not None:
        show(f"pattern: {escape(plot)}")
