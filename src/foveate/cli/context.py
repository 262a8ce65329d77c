"""`foveate context`."""

from typing import Annotated

import typer

from foveate.tasks.tokens import DEFAULT_TOKENS

from . import common
from .reading import FilesOrNone, Reading, takes_options
from .writing import make_prompt


@takes_options
def command(
    query: Annotated[
        str,
        typer.Argument(
            metavar="QUERY", help='What is looked for, in plain words; "" for a digest.'
        ),
    ],
    files: FilesOrNone = None,
    tokens: Annotated[
        int, typer.Option("--tokens", "-t", metavar="N", min=1, help="The budget.")
    ] = DEFAULT_TOKENS,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="What counts tokens: a checkpoint with a tokenizer, a folder or a name on the "
            "Hugging Face hub, or a tokenizer.json. Default: estimated, one for four bytes.",
            show_default=False,
        ),
    ] = None,
    model: common.LibraryModel = None,
    json: common.Json = False,
    *,
    library: common.Library,
    loading: common.Loading,
    reading: Reading,
) -> None:
    """Write documents as a prompt of limited length for a language model.

    \b
    foveate context "who pays for delays?" contract.docx
    foveate context "why does Ahab hunt?" book.txt --tokens 8000 > prompt.md
    foveate context "" report.pdf --tokens 500
    foveate context "who pays?" --library work.library --json

    What answers the query is shown in full, what is near to it by its best
    sentences, and the rest by its headings or a count of sentences.
    """
    about = query if query.strip() else None
    if about is not None:
        common.check_query("foveate context", "query", about, files or [])
    library.check(files, reading)
    prompt, _ = make_prompt(about, files, tokens, tokenizer, model, library, loading, reading)
    if json:
        spans = [
            {"number": number, **common.span_as_json(span)} for number, span in prompt.spans.items()
        ]
        common.print_json(
            {"query": about, "tokens": prompt.tokens, "text": prompt.text, "sentences": spans}
        )
        return
    print(prompt.text)
