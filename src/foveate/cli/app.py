"""The commands together, and what they do when something is wrong."""

import sys

import typer

from . import ask, embed, evaluate, inspect, keywords, search, summarize, train

_EXPECTED = (ValueError, OSError, ImportError)
"""What the library raises with a sentence for the user."""

app = typer.Typer(
    name="foveate",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Read long documents: summarize, search, embed and inspect papers, contracts, minutes and "
    "books of any length, on this machine.",
)
app.command("summarize")(summarize.command)
app.command("search")(search.command)
app.command("ask")(ask.command)
app.command("embed")(embed.command)
app.command("inspect")(inspect.command)
app.command("train")(train.command)
app.command("evaluate")(evaluate.command)
app.command("keywords")(keywords.command)


def main() -> None:
    """Run the command; expected errors are one line on standard error and exit code 2."""
    try:
        app()
    except _EXPECTED as error:
        print(f"foveate: {_sentence(error)}", file=sys.stderr)
        sys.exit(2)


def _sentence(error: BaseException) -> str:
    """The error's own words; for those of the system, without the number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split())
