"""`foveate inspect`."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from . import common


def command(
    file: common.File,
    format: common.Format = None,
    language: common.Language = "en",
    model: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Checkpoint whose tokens are counted. Default: all-MiniLM-L6-v2.",
            show_default=False,
        ),
    ] = None,
    json: common.Json = False,
) -> None:
    """Show a document's outline, its size in tokens, and what tree attention computes of it.

    \b
    foveate inspect paper.pdf
    foveate inspect book.txt --model allenai/longformer-base-4096 --json
    """
    [document] = common.read([file], format, language)
    common.quiet()
    from foveate.tasks.inspect import inspect

    found = inspect(document, model=model)
    if json:
        longest = {**asdict(found.longest), "line": document.line_of(found.longest.start)}
        common.print_json(
            {
                "title": found.title,
                "sections": [asdict(section) for section in found.sections],
                "depth": found.depth,
                "num_sentences": found.num_sentences,
                "num_tokens": found.num_tokens,
                "num_nodes": found.num_nodes,
                "longest": {**longest, "num_tokens": found.longest_tokens},
                "num_attended_pairs": found.num_attended_pairs,
                "density": found.density,
            }
        )
        return
    outline = Table(title=escape(common.name_of(document)), box=None, title_justify="left")
    common.add_titles(outline, "section", beside=24)
    outline.add_column("sentences", justify="right", min_width=9)
    outline.add_column("tokens", justify="right", min_width=9)
    for section in found.sections:
        title = "  " * (section.depth - 1) + (section.path[-1] or "(untitled)")
        outline.add_row(escape(title), f"{section.num_sentences:,}", f"{section.num_tokens:,}")
    show = common.console.print
    show(outline)
    show()
    show(
        f"{found.num_tokens:,} tokens in {found.num_sentences:,} sentences, "
        f"{len(found.sections):,} sections, {found.depth} deep"
    )
    where = common.place(document, found.longest)
    show(f"longest sentence: {found.longest_tokens:,} tokens, {escape(where)}")
    show(
        f"attended pairs: {found.num_attended_pairs:,} of {found.num_nodes**2:,}, "
        f"{found.density:.3%} of dense attention"
    )
