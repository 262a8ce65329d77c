"""The commands, and how they report errors and warnings."""

import logging
import sys
import warnings
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated, Any, Literal

import typer
from typer.completion import completion_init, show_callback  # type: ignore[attr-defined]

from foveate import __version__

from . import cache, doctor, formats, library, plot, settings
from .ask import AskCommand
from .command import add
from .context import ContextCommand
from .embed import EmbedCommand
from .evaluate import EvaluateCommand
from .index import IndexCommand
from .inspect import InspectCommand
from .keywords import KeywordsCommand
from .mcp import McpCommand
from .search import SearchCommand
from .serve import ServeCommand
from .summarize import SummarizeCommand
from .train import TrainCommand

_log = logging.getLogger(__name__)

_EXPECTED = (ValueError, OSError, ImportError)
"""Exceptions whose message is a sentence for the user."""

_UsageError: Any = typer.BadParameter.__base__  # typer comes with click, or with a copy of it

_SHORTAGE = (
    "there is not enough memory: try fewer or shorter documents, or a model that needs less "
    "(--model, --dtype bfloat16); instead of a GPU, --device cpu"
)

_MAX_ERRORS = 20
"""Most lines of errors that are printed."""

app = typer.Typer(
    name="foveate",
    no_args_is_help=True,
    add_completion=False,  # there is a command
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Read long documents on this machine: summarize and search papers, contracts, minutes and "
    "books of any length, and ask them questions.",
)
add(app, "summarize", SummarizeCommand)
add(app, "search", SearchCommand)
add(app, "ask", AskCommand)
add(app, "context", ContextCommand)
add(app, "index", IndexCommand)
app.add_typer(library.app, name="library")
add(app, "mcp", McpCommand)
app.add_typer(cache.app, name="cache")
add(app, "keywords", KeywordsCommand)
add(app, "embed", EmbedCommand)
add(app, "inspect", InspectCommand)
app.add_typer(plot.app, name="plot")
app.command("formats")(formats.command)
add(app, "serve", ServeCommand)
add(app, "train", TrainCommand)
add(app, "evaluate", EvaluateCommand)
app.command("doctor")(doctor.command)


@app.command("completion")
def _completion(
    context: typer.Context,
    shell: Annotated[
        Literal["bash", "zsh", "fish", "powershell", "pwsh"],
        typer.Argument(help="The shell.", show_default=False),
    ],
) -> None:
    """Print a script that lets a shell complete commands and options.

    \b
    foveate completion bash >> ~/.bashrc
    foveate completion zsh >> ~/.zshrc
    foveate completion fish > ~/.config/fish/completions/foveate.fish
    """
    show_callback(context, context.command.params[0], shell)


def _show_version(is_given: bool) -> None:
    if is_given:
        print(__version__)
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None: ...


def run() -> None:
    """Run the command; expected errors are one line on standard error and exit code 2.

    If some of the files could not be read, this is said last, and the exit code is 1.
    """
    failures: list[Exception] = []  # in reading files, some of which could be read
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # of what a terminal has no code for
    completion_init()
    command: Any = typer.main.get_command(app)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *where: _warn(message)
            code = command(
                obj=failures,
                default_map=settings.defaults(command.commands, settings.settings()),
                prog_name="foveate",
                standalone_mode=False,
            )
    except _UsageError as error:
        if message := error.format_message():  # none, if the help was printed
            _report([ValueError(f"{message.rstrip('.')} (see `{error.ctx.command_path} --help`)")])
        sys.exit(2)
    except _EXPECTED as error:
        _report([*failures, error])
        sys.exit(2)
    except (MemoryError, RuntimeError) as error:
        if not _is_shortage(error):
            raise
        _report([*failures, MemoryError(_SHORTAGE)])
        sys.exit(2)
    _report(failures)
    sys.exit(code or int(bool(failures)))


def _report(errors: Sequence[Exception]) -> None:
    """Print errors, a line each; of very many, the first ones and the last."""
    for error in errors:
        _log.debug("where the error occurred:", exc_info=error)
    lines = [_sentence(error) for error in errors]
    if len(lines) > _MAX_ERRORS:
        num_hidden = len(lines) - _MAX_ERRORS + 1
        lines[_MAX_ERRORS - 2 : -1] = [f"{num_hidden:,} other documents could not be read"]
    for line in lines:
        print(f"foveate: {line}", file=sys.stderr)


def _is_shortage(error: MemoryError | RuntimeError) -> bool:
    """Return whether memory is short, which torch says in a RuntimeError."""
    return isinstance(error, MemoryError) or any(
        words in str(error) for words in ("out of memory", "not enough memory", "allocate memory")
    )


def _warn(message: Warning | str) -> None:
    """Print a warning without its place in the code."""
    print(f"foveate: {_sentence(message)}", file=sys.stderr)


def _sentence(error: BaseException | str) -> str:
    """Return the message on one line; for errors of the system, without their number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split())
