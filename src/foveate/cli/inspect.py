"""`foveate inspect`."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from . import common

if TYPE_CHECKING:
    from foveate.documents import Document
    from foveate.tasks.inspect import Inspection

_PATTERNS = ("tree", "fovea", "windows")


def command(
    file: common.File,
    plot: Annotated[
        str | None,
        typer.Option(
            metavar="PICTURE.png",
            help="Also draw the attention pattern, or with --query what is looked at.",
            show_default=False,
        ),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What to draw: tree, attention along the document's structure; fovea, which "
            "averages what is far; or windows, full, Longformer, BigBird and keyword attention "
            "side by side, for a few tokens. Default: tree.",
            show_default=False,
        ),
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(
            "--query",
            "-q",
            help="Draw instead what a model with VIP compression looks at closely in each layer, "
            "when it reads the document for this.",
            show_default=False,
        ),
    ] = None,
    format: common.Format = None,
    language: common.Language = "en",
    model: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Checkpoint whose tokenizer says what a token is and that reads for --query, "
            "BERT, RoBERTa, T5 or VCC. Default: all-MiniLM-L6-v2.",
            show_default=False,
        ),
    ] = None,
    json: common.Json = False,
) -> None:
    """Show how a document is read: its outline in tokens, its depth, what is attended.

    \b
    foveate inspect thesis.pdf
    foveate inspect book.txt --plot pattern.png
    foveate inspect book.txt --plot nodes.png --pattern fovea
    foveate inspect minutes.txt --plot seen.png --query "who pays for the bridge?"
    """
    _check(plot, pattern, query)
    common.quiet()
    from foveate.models.loading import load_tokenizer
    from foveate.tasks.inspect import inspect

    document = common.read([file], format, language)[0]
    tokenizer = None if model is None else load_tokenizer(model)
    found = inspect(document, tokenizer=tokenizer)
    if plot is not None and query is not None:
        _draw_segments(document, query, model, plot)
    elif plot is not None:
        _draw_pattern(found, pattern or _PATTERNS[0], plot, common.name_of(document))

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
                "plot": plot,
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
    if plot is not None:
        show(f"picture: {escape(plot)}")


def _check(plot: str | None, pattern: str | None, query: str | None) -> None:
    """Find out before the work whether the options go together and the picture can be written."""
    if pattern not in (None, *_PATTERNS):
        raise ValueError(f"there is no pattern {pattern}: choose among {', '.join(_PATTERNS)}")
    if pattern is not None and query is not None:
        raise ValueError("--pattern and --query are two pictures: draw one, not both")
    if plot is not None:
        from foveate.files import check_writable
        from foveate.tasks.plots.picture import check_format

        check_format(plot)
        check_writable(plot)
    elif pattern is not None or query is not None:
        option = f"--pattern {pattern}" if query is None else "--query"
        raise ValueError(f"{option} says what to draw: name a picture with --plot")


def _draw_pattern(found: "Inspection", pattern: str, plot: str, title: str) -> None:
    if pattern == "tree":
        from foveate.tasks.plots.tree import plot_pattern

        plot_pattern(found.parents, plot, title=title)
    elif pattern == "fovea":
        from foveate.models.fovea import FoveaConfig
        from foveate.tasks.plots.nodes import plot_nodes

        plot_nodes(-(-found.tokens // FoveaConfig.block_size), plot, title=title)
    else:
        from foveate.tasks.plots.windows import plot_patterns

        plot_patterns(plot)


def _draw_segments(document: "Document", query: str, model: str | None, plot: str) -> None:
    from foveate.tasks.plots.segments import plot_segments
    from foveate.tasks.segments import segments

    plot_segments(segments(document, query, model=model), document, query, plot)
