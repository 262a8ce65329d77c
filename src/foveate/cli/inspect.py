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
            help="Checkpoint whose tokenizer says what a token is. Default: all-MiniLM-L6-v2.",
            show_default=False,
        ),
    ] = None,
    json: common.Json = False,
) -> None:
    """Show how a document is read: its outline in tokens, its depth, and how much is attended.

    \b
    foveate inspect thesis.pdf
    foveate inspect book.txt --json
    """
    common.quiet()
    from foveate.models.loading import load_tokenizer
    from foveate.tasks.inspect import inspect

    document = common.read([file], format, language)[0]
    tokenizer = None if model is None else load_tokenizer(model)
    found = inspect(document, tokenizer=tokenizer)
    where = found.longest.place
    longest = common.Located.of(document, found.longest.sentence, where.path, where.speaker)
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
            }
        )
        return
    outline = Table(title=escape(common.name_of(document)), box=None, title_justify="left")
    common.add_titles(outline, "section", beside=24)
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
