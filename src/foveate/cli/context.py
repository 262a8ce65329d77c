"""`foveate context`."""

from dataclasses import dataclass

from foveate.tasks.parameters import ContextParameters, parameter

from . import common
from .command import JSON
from .sources import QuerySourceOptions


@dataclass(kw_only=True)
class ContextCommand(QuerySourceOptions, ContextParameters):
    """Write documents as a prompt of limited length for a language model.

    \b
    foveate context "who pays for delays?" contract.docx
    foveate context "why does Ahab hunt?" book.txt --tokens 8000 > prompt.md
    foveate context "" report.pdf --tokens 500
    foveate context "who pays?" --library work.library --json

    What answers the query is shown in full, what is near to it by its best
    sentences, and the rest by its headings or a count of sentences.
    """

    query: str = parameter(
        'What is looked for, in plain words; "" for a digest.', metavar="QUERY", is_argument=True
    )
    tokenizer: str | None = parameter(
        "What counts tokens: a checkpoint with a tokenizer, a folder or a name on the Hugging Face "
        "hub, or a tokenizer.json. Default: estimated, one for four bytes.",
        None,
        metavar="PATH",
    )
    json: bool = parameter(JSON, False)

    def __call__(self) -> None:
        query = self.query if self.query.strip() else None
        if query is not None:
            common.check_query("foveate context", "query", query, self.files)
        self.check_sources()
        prompt, _ = self.make_prompt(query, self.tokens, self.tokenizer, thorough=self.thorough)
        if self.json:
            spans = [
                {"number": number, **common.span_as_json(span)}
                for number, span in prompt.spans.items()
            ]
            common.print_json(
                {"query": query, "tokens": prompt.tokens, "text": prompt.text, "sentences": spans}
            )
        else:
            print(prompt.text)
