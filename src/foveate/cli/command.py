"""Commands as dataclasses: their fields are what they are given, their docstrings the help."""

import logging
from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, field, fields
from inspect import Parameter, Signature, get_annotations, getdoc
from typing import Annotated, Any

import typer

JSON = "Print the result as JSON."


@dataclass(kw_only=True)
class Command:
    """A command, which is called to run it; what it shares with others it inherits.

    Its fields are options, see `foveate.tasks.parameters.parameter`, which takes as `more`:
    `is_argument`; `short`, the letter of an option; `name`, if it is not that of the field;
    `panel`, under which help shows it; and options of `typer.Option`.

    Attributes:
        failures: Errors in reading some of the files, which are said at the end.
        of_settings: Names of the fields whose values are defaults of the user or the project.
    """

    failures: list[Exception] = field(default_factory=list)
    of_settings: frozenset[str] = frozenset()

    def __call__(self) -> None:
        raise NotImplementedError


def add(app: typer.Typer, name: str, kind: type[Command]) -> None:
    """Add a command."""

    def run(ctx: typer.Context, verbose: bool, **values: Any) -> None:
        sources = ((one, ctx.get_parameter_source(one)) for one in values)
        of_settings = frozenset(one for one, at in sources if at and at.name == "DEFAULT_MAP")
        kind(**values, failures=ctx.obj, of_settings=of_settings)()

    run.__signature__ = Signature([*_parameters(kind)])  # type: ignore[attr-defined]
    app.command(name, help=getdoc(kind))(run)


def options(kind: type) -> list["Field[Any]"]:
    """Return the fields of a command that are options or arguments."""
    return [one for one in fields(kind) if "description" in one.metadata]


def _set_verbose(is_given: bool) -> None:
    if is_given:
        logging.basicConfig(format="%(name)s: %(message)s")
        logging.getLogger("foveate").setLevel(logging.DEBUG)


_Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose",
        callback=_set_verbose,
        is_eager=True,
        help="Say on standard error what is done, and where in the code an error occurred.",
    ),
]


def _parameters(kind: type[Command]) -> Iterator[Parameter]:
    """Yield what typer takes for a command: its own options, and then those that it shares."""
    yield Parameter("ctx", Parameter.KEYWORD_ONLY, annotation=typer.Context)
    yield Parameter("verbose", Parameter.KEYWORD_ONLY, annotation=_Verbose, default=False)
    groups = (base for base in kind.__mro__[1:] if issubclass(base, Command))
    shared = {name for base in groups for name in get_annotations(base)}
    shared -= get_annotations(kind).keys()
    for one in sorted(options(kind), key=lambda one: "panel" in one.metadata or one.name in shared):
        yield Parameter(
            one.name,
            Parameter.KEYWORD_ONLY,
            annotation=Annotated[one.type, _declaration(one)],
            default=Parameter.empty if one.default is MISSING else one.default,
        )


def _declaration(one: "Field[Any]") -> Any:
    """Return the argument or option of typer that a field is."""
    more: dict[str, Any] = {**one.metadata}
    limits = {"min": more.pop("ge", None), "max": more.pop("le", None)}
    given = {
        "help": more.pop("description"),
        "rich_help_panel": more.pop("panel", None),
        "show_default": one.default not in (MISSING, None),
    }
    if more.pop("is_argument", False):
        return typer.Argument(**given, **more)
    names = [f"--{more.pop('name', one.name).replace('_', '-')}"]
    names += filter(None, [more.pop("short", None)])
    if limits["min"] is not None:
        more.setdefault("metavar", "N")
    return typer.Option(names[0], *names[1:], **given, **limits, **more)
