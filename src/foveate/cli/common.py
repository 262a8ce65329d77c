"""Shared by the commands: arguments, reading inputs, loading models, printing."""

import json
import logging
import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from foveate.cache import Cache
from foveate.documents import Document, Span
from foveate.documents.structure import format_path
from foveate.progress import progress
from foveate.tasks import arguments
from foveate.tasks.hits import format_matches

from .reading import Reading

if TYPE_CHECKING:
    from foveate.index import Index
    from foveate.inference import Answerer, Encoder, Summarizer
    from foveate.inference.reranker import Reranker
    from foveate.tasks.hits import Hit
    from foveate.tasks.surroundings import NearbySentence

_log = logging.getLogger(__name__)
_PANEL = "Library"
_MODEL_PANEL = "Encoders of other authors"
Writer = TypeVar("Writer", "Answerer", "Summarizer")

_UNLIMITED = 10_000
"""Width of what is not printed on a terminal: nothing is wrapped or cut there."""

_is_terminal = sys.stdout is not None and sys.stdout.isatty()
console = Console(
    highlight=False, soft_wrap=True, emoji=False, width=None if _is_terminal else _UNLIMITED
)


def check_model(name_or_path: str | None) -> str | None:
    """Check that there is such a checkpoint before anything is read or imported."""
    if name_or_path is not None:
        silence()
        from foveate.checkpoints import check_name_or_path  # takes a moment

        check_name_or_path(name_or_path)
    return name_or_path


Model = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        callback=check_model,
        help="Encoder checkpoint, a folder or a name on the Hugging Face hub. Default: foveate's "
        "own model.",
        show_default=False,
    ),
]
LibraryModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="PATH",
        callback=check_model,
        help="Encoder checkpoint, a folder or a name on the Hugging Face hub. Default: foveate's "
        "own model; with a library, the one that it was built with.",
        show_default=False,
    ),
]
WriterModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="PATH",
        callback=check_model,
        help="Checkpoint, a folder or a name on the hub. An encoder chooses what is shown; a model "
        "that generates text (ask: T5; summarize: T5, BART, LED …) writes in its own words. "
        "Default: foveate's own model; with a library, the one that it was built with.",
        show_default=False,
    ),
]
TokenizerModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="PATH",
        callback=check_model,
        help="Checkpoint whose tokenizer is used. Default: foveate's own model.",
        show_default=False,
    ),
]
Rerank = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        callback=check_model,
        help="Checkpoint of a reranker, a folder or a name on the hub: a cross-encoder sorts the "
        "best 50 passages, a multi-vector model the best 200.",
        show_default=False,
    ),
]
Explain = Annotated[
    bool,
    typer.Option("--explain", help="Show which words of a result match which words of the query."),
]
Device = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Where the model runs: cpu, cuda, cuda:1 … Default: the GPU, if there is one.",
        show_default=False,
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="ENTRY=VALUE",
        help="Change an entry of the recipe, such as training.max_steps=100; may be repeated.",
        show_default=False,
    ),
]
Host = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS",
        help="Address to listen on. One that others can reach needs a token.",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        envvar="FOVEATE_TOKEN",
        metavar="TEXT",
        help="Token that clients must send. Prefer the environment variable FOVEATE_TOKEN, which "
        "other users of this machine cannot see.",
        show_default=False,
        show_envvar=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Context = Annotated[
    int,
    typer.Option(
        "--context",
        "-C",
        metavar="N",
        min=0,
        help="Number of sentences to show before and after each result.",
    ),
]


@dataclass(frozen=True, slots=True)
class Loading:
    """The options that say how a model is loaded; the last four are for encoders of others."""

    device: Device = None
    dtype: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Precision of the model: float32, bfloat16 or float16. bfloat16 is faster on "
            "processors with instructions for it.",
            show_default=False,
        ),
    ] = None
    dimensions: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Number of dimensions to keep of the vectors of a model that was trained for it.",
            show_default=False,
            rich_help_panel=_MODEL_PANEL,
        ),
    ] = None
    query_prompt: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="What to put before queries, such as 'query: '. Default: what the model says.",
            show_default=False,
            rich_help_panel=_MODEL_PANEL,
        ),
    ] = None
    document_prompt: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="What to put before sentences, such as 'passage: '. Default: what the model says.",
            show_default=False,
            rich_help_panel=_MODEL_PANEL,
        ),
    ] = None
    trust_remote_code: Annotated[
        bool,
        typer.Option(
            "--trust-remote-code",
            help="Run Python code that comes with the model.",
            rich_help_panel=_MODEL_PANEL,
        ),
    ] = False

    def options(self) -> dict[str, Any]:
        """Return the options that are given, as those of `Encoder.from_pretrained`."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        if not self.trust_remote_code:
            del given["trust_remote_code"]
        return given


@dataclass(frozen=True, slots=True)
class Library:
    """The options that say which library is used instead of files, and what of it."""

    folder: Annotated[
        Path | None,
        typer.Option(
            "--library",
            "-l",
            metavar="DIR",
            help="Library built by `foveate index`, to use instead of files.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SQL",
            help="A condition on documents or sentences, such as \"language = 'en'\" or "
            '"page < 10"; may be repeated. Columns: source, file, title, authors, date, language, '
            "format, size, modified, indexed, num_sentences, num_sections; text, section, page, "
            "speaker, place.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None
    path: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Only this file, the files in this folder, or those that match this pattern. What "
            "is no path here is compared with the end or any folder of the documents' paths: "
            "minutes.txt, papers, 'papers/*.pdf'.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None
    section: Annotated[
        str | None,
        typer.Option(
            metavar="TITLE",
            help="Only sections whose title contains this.",
            show_default=False,
            rich_help_panel=_PANEL,
        ),
    ] = None

    @property
    def conditions(self) -> dict[str, Any]:
        """The options that choose what is used of it, as those of `Index.search`."""
        return {"where": self.where, "path": self.path, "section": self.section}

    def check(self, files: list[str] | None, reading: Reading) -> None:
        """Check that there are either files or a library, and only options that go with these.

        Raises:
            ValueError: There are both, or neither, or options for the other.
        """
        if self.folder is None:
            if not files:
                raise ValueError(
                    "there is nothing to search: name files (- for standard input), or a library "
                    "with --library"
                )
            if given := [name for name, value in self.conditions.items() if value]:
                raise ValueError(
                    f"--{given[0]} goes with --library: without one, name the files to read"
                )
            return
        if files:
            raise ValueError(
                "name either files or --library: `foveate index FILE --library DIR` adds files to "
                "one"
            )
        if unused := reading.given():
            raise ValueError(
                f"--{unused[0]} says how files are read, and a library's have been read already: "
                "choose among them with --where"
            )


def place(span: Span) -> str:
    """Describe where a span is: who speaks, on which page or line, in which section."""
    return " · ".join(filter(None, (span.speaker, span.place, format_path(span.path))))


def span_as_json(span: Span) -> dict[str, Any]:
    """Return the fields of a span."""
    return {**asdict(span), "boxes": [box._asdict() for box in span.boxes]}


def results_as_json(
    documents: list[Document], results: "Sequence[Hit]", num_sentences: int
) -> list[dict[str, Any]]:
    """Return the fields of each result: its place, best sentence, score, language and context."""
    return [
        {
            **span_as_json(result.span),
            "best": span_as_json(result.best),
            "score": round(result.score, 4),
            "likely": result.likely,
            "copies": list(result.copies),
            "matches": [asdict(one) for one in result.matches],
            "language": documents[result.document_idx].language,
            "before": _join(one for one in near if one.span.end <= result.quoted.start),
            "after": _join(one for one in near if one.span.start >= result.quoted.end),
        }
        for result, near in zip(results, _contexts(documents, results, num_sentences), strict=True)
    ]


def _join(sentences: "Iterable[NearbySentence]") -> str:
    return "".join(one.separator + one.span.text for one in sentences).strip()


def show_results(
    documents: list[Document],
    results: "Sequence[Hit]",
    num_sentences: int,
    *,
    are_named: bool | None = None,
) -> None:
    """Print results with their scores, the sentences around them and, below, their places.

    The words that match are below the place.

    Args:
        documents: The documents.
        results: The results.
        num_sentences: Number of sentences to show before and after each result.
        are_named: Whether to name the document of each result, as for those from a library; by
            default, if there are several documents.
    """
    if not results:
        console.print("nothing found")
    elif all(result.likely is False for result in results):
        one_or_more = "this document" if len(documents) == 1 else "these documents"
        console.print(f"probably not in {'this library' if are_named else one_or_more}\n")
    are_named = len(documents) > 1 if are_named is None else are_named
    for result, near in zip(results, _contexts(documents, results, num_sentences), strict=True):
        where = [result.span.document] if are_named else []
        where.append(place(result.span) if result.span.path else result.span.text)
        where += [f"also in {name}" for name in result.copies]
        lines = [" · ".join(filter(None, where)), format_matches(result.matches)]
        show_sentences(near, "\n".join(filter(None, lines)), f"{result.score:.2f}")


def show_sentences(near: "list[NearbySentence]", where: str, score: str = "") -> None:
    """Print sentences, with those of the result marked if there are others, and their place.

    On a terminal, the result is bold and the rest dim, and lines are wrapped. Elsewhere, asterisks
    enclose the result, as in Markdown.
    """
    is_styled = console.is_terminal and not console.is_dumb_terminal
    asterisks = "" if is_styled else "**"
    has_marks = len({one.is_marked for one in near}) > 1
    has_speakers = len({one.span.speaker for one in near}) > 1
    text = Text()
    for before, one, after in zip([None, *near], near, [*near[1:], None], strict=False):
        text.append(one.separator if before else "")
        if has_speakers and one.span.speaker and (before is None or one.separator == "\n"):
            text.append(f"{one.span.speaker}: ", "dim")
        is_marked = has_marks and one.is_marked
        opens = is_marked and not (before and before.is_marked)
        closes = is_marked and not (after and after.is_marked)
        style = ("bold" if one.is_marked else "dim") if has_marks else ""
        text.append(f"{asterisks * opens}{one.span.text}{asterisks * closes}", style)
    indent = " " * (len(score) + 2)  # of the place; without a score, the text has none
    if is_styled:
        columns = Table.grid(padding=(0, 2, 0, 0))
        columns.add_row(Text(score, "bold"), text)
        console.print(columns, Padding(Text(where, "dim"), (0, 0, 1, len(indent))), soft_wrap=False)
    else:
        lines = text.plain.replace("\n", f"\n{indent if score else ''}")
        below = where.replace("\n", f"\n{indent}")
        console.print(f"{score}{'  ' if score else ''}{lines}\n{indent}{below}\n", markup=False)


def _contexts(
    documents: list[Document], results: "Sequence[Hit]", num_sentences: int
) -> "list[list[NearbySentence]]":
    """Return the sentences of each result and around it, with one pass over each document."""
    from foveate.tasks.surroundings import surroundings

    found: dict[int, list[NearbySentence]] = {}
    for idx in {result.document_idx for result in results}:
        own = [i for i, result in enumerate(results) if result.document_idx == idx]
        spans = [results[i].quoted for i in own]
        marked = [results[i].best for i in own]
        near = surroundings(documents[idx], spans, num_sentences, marked)
        found |= zip(own, near, strict=True)
    return [found[i] for i in range(len(results))]


def check_query(command: str, kind: str, query: str, files: list[str]) -> None:
    """Check that a query is not blank, and was not given after the files.

    Args:
        command: The command, such as "foveate search".
        kind: What the query is called: "query" or "question".
        query: The first argument.
        files: The other arguments.

    Raises:
        ValueError: The query is blank, or it is a file and the last of the others is not.
    """
    arguments.check_query(query)
    if files and Path(query).is_file() and files[-1] != "-" and not Path(files[-1]).exists():
        corrected = [files[-1], query, *files[:-1]]
        raise ValueError(f"the {kind} comes first: {command} {shlex.join(corrected)}")


def count(number: int, noun: str) -> str:
    """Format a count of things.

    Example:
        >>> count(1, "document"), count(2000, "sentence")
        ('1 document', '2,000 sentences')
    """
    return f"{number:,} {noun if number == 1 else f'{noun}s'}"


def documents_of(
    library: Library, index: "Index", results: "Sequence[Hit]"
) -> "tuple[list[Document], list[Hit]]":
    """Return the documents of results from a library, and the results with their indices.

    Raises:
        ValueError: Nothing was found, since no document satisfies the conditions.
    """
    if not results:
        given = [f"--{name} {value}" for name, value in library.conditions.items() if value]
        raise ValueError(
            f"no document of {library.folder} matches {' and '.join(given) or 'a query'}: "
            f"`foveate library list {library.folder}` shows what it has"
        )
    numbers = list(dict.fromkeys(result.document_idx for result in results))
    placed = [replace(one, document_idx=numbers.index(one.document_idx)) for one in results]
    return [index.document(number) for number in numbers], placed


def show_path(kind: str, path: str | Path) -> None:
    """Say what was written where."""
    console.print(f"{kind}: {path}", markup=False)


def open_library(path: Path, model: str | None = None, loading: Loading | None = None) -> "Index":
    """Open a library, which loads torch only when it must."""
    silence()
    from foveate.index import Index

    return Index.open(path, model=model, **(loading.options() if loading else {}))


def load_encoder(model: str | None, loading: Loading, cache: Cache | None = None) -> "Encoder":
    """Load an encoder, which keeps the vectors of documents in a cache if it is given one."""
    prepare()
    from foveate.inference import Encoder

    with progress("Loading the model", None):
        encoder = Encoder.from_pretrained(model, **loading.options())
    _log.info("model: %s", encoder.describe())
    encoder.cache = cache
    return encoder


def load_reranker(name_or_path: str) -> "Reranker":
    """Load a reranker."""
    prepare()
    from foveate.inference.reranker import as_reranker

    with progress("Loading the reranker", None):
        return as_reranker(name_or_path)


def load_encoder_or(
    writer: "type[Writer]", model: str, loading: Loading, cache: Cache | None, **options: Any
) -> "Encoder | Writer":
    """Load an encoder or, from an encoder-decoder's checkpoint, a generative model."""
    prepare()
    from foveate.inference.encoder import is_writer

    if not is_writer(model):
        return load_encoder(model, loading, cache)
    given = loading.options()
    device, dtype = given.pop("device", None), given.pop("dtype", None)
    if given:
        name = next(iter(given)).replace("_", "-")
        raise ValueError(
            f"--{name} is for encoders, and {model} is a generative model: leave it out"
        )
    with progress("Loading the model", None):
        return writer.from_pretrained(model, device=device, dtype=dtype, **options)


def prepare() -> None:
    """Import what runs models, and turn off the messages of transformers and the hub."""
    silence()
    with progress("Starting", None):
        import foveate.inference.encoder  # noqa: F401  (takes seconds)


def silence() -> None:
    """Turn off messages of transformers and the hub, without importing them."""
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    os.environ["HF_HUB_VERBOSITY"] = os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    if "transformers" in sys.modules:  # it has read the environment already
        from transformers.utils import logging as transformers_logging

        transformers_logging.disable_progress_bar()
        transformers_logging.set_verbosity_error()


def add_titles(table: Table, heading: str, reserved: int) -> None:
    """Add a column of titles, which are shortened to leave room for the other columns.

    Args:
        table: A table without columns yet.
        heading: Heading of the column.
        reserved: Width of the other columns in characters.
    """
    max_width = max(20, console.width - reserved)
    table.add_column(heading, no_wrap=True, overflow="ellipsis", max_width=max_width)


def print_json(value: Any) -> None:
    """Print JSON to standard output."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")
