"""The parameters of tasks: what the command, the service and the MCP server are asked.

Their names, defaults, limits and descriptions stand here alone. The options of the command, the
bodies of the service's requests and the schemas of the server's tools are made of them.
"""

from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from foveate.tasks.arguments import Unit
from foveate.tasks.tokens import DEFAULT_TOKENS


def parameter(description: str, default: Any = MISSING, **more: Any) -> Any:
    """Declare a parameter as a field of a dataclass.

    Args:
        description: What it is.
        default: Its default; without one, it must be given.
        more: `ge` and `le`, its least and its greatest value, and what says how the command takes
            it, see `foveate.cli.command`.
    """
    return field(default=default, metadata={"description": description, **more})


def pydantic_field(parameters: type, name: str, **more: Any) -> Any:
    """Return a parameter as a field of pydantic.

    Args:
        parameters: The dataclass that declares it.
        name: Its name.
        more: Options of pydantic's `Field` that are added or differ.
    """
    from pydantic import Field  # takes a moment

    declared = next(one for one in fields(parameters) if one.name == name)
    given: dict[str, Any] = {one: declared.metadata.get(one) for one in ("description", "ge")}
    default = ... if declared.default is MISSING else declared.default
    return Field(default, **given | more)


@dataclass(kw_only=True)
class ShownParameters:
    """What is shown of results."""

    context: int = parameter(
        "Number of sentences to show before and after each result.", 0, ge=0, short="-C"
    )


@dataclass(kw_only=True)
class FoundParameters(ShownParameters):
    """What is shown of hits."""

    explain: bool = parameter("Show which words of a result match which words of the query.", False)


@dataclass(kw_only=True)
class ReadingParameters:
    """How closely documents are read."""

    thorough: bool = parameter(
        "Read long documents as a whole. Default: only the passages that the words of the query "
        "point at.",
        False,
    )


@dataclass(kw_only=True)
class SearchParameters:
    """What to look for."""

    query: str = parameter("What to look for, in plain words.", metavar="QUERY", is_argument=True)
    by: Unit = parameter(
        "What to find. For sections and documents, the best sentence is shown.", "passage"
    )
    top_k: int = parameter("Number of results.", 5, ge=1, short="-k")


@dataclass(kw_only=True)
class AskParameters:
    """What to answer."""

    query: str = parameter("What to answer, in plain words.", metavar="QUESTION", is_argument=True)
    top_k: int = parameter("Number of passages.", 3, ge=1, short="-k")


@dataclass(kw_only=True)
class ContextParameters:
    """What a prompt is to show, and how long it may be."""

    query: str | None = parameter(
        "What is looked for; by default a digest, for which name a document.", None
    )
    tokens: int = parameter("The budget in tokens.", DEFAULT_TOKENS, ge=1, short="-t")


@dataclass(kw_only=True)
class SummarizeParameters:
    """How long a summary may be, and what it should be about."""

    sentences: int | None = parameter("Number of sentences. Default: 5.", None, ge=1, short="-s")
    words: int | None = parameter("Number of words, instead of sentences.", None, ge=1, short="-w")
    query: str | None = parameter(
        "What the summary should be about.", None, short="-q", metavar="TEXT"
    )


@dataclass(kw_only=True)
class KeywordsParameters:
    """Which keywords to find."""

    top_k: int = parameter("Number of keywords.", 20, ge=1, short="-k")
    method: str = parameter(
        "phrases: words and phrases, by their places in the document and how unusual they are; "
        "tfidf: words that are more frequent than usual; random, gibberish: controls for "
        "experiments.",
        "phrases",
        metavar="NAME",
    )


@dataclass(kw_only=True)
class ConditionParameters:
    """What of a library is used."""

    where: list[str] | None = parameter(
        'A condition on documents or sentences, such as "language = \'en\'" or "page < 10"; may '
        "be repeated. Columns: source, file, title, authors, date, language, format, size, "
        "modified, indexed, num_sentences, num_sections; text, section, page, speaker, place.",
        None,
        metavar="SQL",
        panel="Library",
    )
    path: str | None = parameter(
        "Only this file, the files in this folder, or those that match this pattern. What is no "
        "path here is compared with the end or any folder of the documents' paths: minutes.txt, "
        "papers, 'papers/*.pdf'.",
        None,
        metavar="PATH",
        panel="Library",
    )
    section: str | None = parameter(
        "Only sections whose title contains this.", None, metavar="TITLE", panel="Library"
    )
