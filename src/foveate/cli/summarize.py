"""`foveate summarize`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from foveate.documents import Document
from foveate.documents.language import FALLBACK
from foveate.progress import progress
from foveate.tasks.parameters import ShownParameters, SummarizeParameters, parameter
from foveate.tasks.surroundings import title_of

from . import common
from .command import JSON
from .models import WRITER, checkpoint, prepare
from .sources import SourceOptions
from .writing import WritingOptions, show_written, written_as_json

if TYPE_CHECKING:
    from foveate.inference import LLM, Encoder, Summarizer


@dataclass(kw_only=True)
class SummarizeCommand(SourceOptions, WritingOptions, ShownParameters, SummarizeParameters):
    """Summarize documents by their most central sentences, each with its place.

    \b
    foveate summarize paper.pdf
    foveate summarize minutes.txt --words 150 --query "what was decided?"
    foveate summarize report.html --model google/pegasus-x-base-arxiv
    foveate summarize minutes.txt --model allenai/led-base-16384 --keyword budget
    cat notes.md | foveate summarize - --format markdown --json
    foveate summarize book.txt --llm http://localhost:11434/v1 --llm-model qwen3

    With --library, it summarizes what a library says about a query, from the
    documents that match it best; without a query, a document of it.

    \b
    foveate summarize --query "who pays for delays?" --library contracts.library
    foveate summarize --path contract.md --library contracts.library
    """

    keywords: int | None = parameter(
        "Number of keywords to detect, which guide a model with global tokens, such as LED.",
        None,
        ge=1,
    )
    keyword: list[str] | None = parameter(
        "A word or phrase that guides such a model instead; may be repeated.", None, metavar="WORD"
    )
    model: str | None = checkpoint(WRITER)
    json: bool = parameter(JSON, False)

    def __call__(self) -> None:
        if not (self.files or self.library):
            raise ValueError(
                "there is nothing to summarize: name files (- for standard input), or a library "
                "with --library"
            )
        self.check_sources()
        is_guided = self.keywords is not None or self.keyword
        if (llm := self.server()) is not None:
            if is_guided:
                raise ValueError("keywords guide a checkpoint that writes itself: leave out --llm")
            if self.library is None:
                self._write_each(llm)
            else:
                self._write_of_library(llm)
        elif self.library is not None:
            if is_guided:
                raise ValueError(
                    "keywords guide a generative model, which reads files, not a library"
                )
            index = self.open_library(self.library)
            summary = index.summarize(
                self.query, context=self.context, **self._length, **self.conditions
            )
            self.check_found(summary.sentences)
            if self.json:
                hits = common.hits_as_json(summary.sentences)
                common.print_json({"query": self.query, "text": summary.text, "sentences": hits})
            else:
                common.show_hits(summary.sentences, None)
        else:
            self._summarize_each()

    @property
    def _length(self) -> dict[str, Any]:
        return {"sentences": self.sentences, "words": self.words}

    def _summarize_each(self) -> None:
        documents = self.read(self.files or [])
        prepare()
        from foveate.tasks.summarize import summarize

        model = self._load(documents[0].language or FALLBACK)
        printed = []
        for document in documents:  # so that what is done is shown, if interrupted
            summary = summarize(
                document, query=self.query, context=self.context, model=model, **self._length
            )
            if self.json:
                fields = {"text": summary.text, "sentences": common.hits_as_json(summary.sentences)}
                if summary.written is not None:
                    fields |= written_as_json([summary.written])
                printed.append({**_as_json(document), **fields})
                continue
            _show_title(document)
            if summary.written is not None:
                show_written(summary.written)
            for hit in summary.sentences:
                common.show_sentences(hit.sentences, common.place(hit.span))
        if self.json:
            common.print_json(printed)

    def _load(self, language: str) -> "Encoder | Summarizer":
        """Load what summarizes: an encoder or, if the checkpoint writes, a `Summarizer`."""
        from foveate.inference import Encoder

        guidance = _guidance(self.keywords, self.keyword, language)
        if self.model is not None:
            from foveate.inference import Summarizer  # takes seconds

            loaded = self.load_encoder_or(Summarizer, self.cache, **guidance)
        else:
            loaded = self.load_encoder(self.cache)
        if guidance and isinstance(loaded, Encoder):
            raise ValueError(
                "keywords guide a generative model: name one, such as LED, with --model"
            )
        return loaded

    def _write_each(self, llm: "LLM") -> None:
        """Have a language model summarize files; print each part as soon as it is written."""
        encoder = self.load_encoder(self.cache)
        from foveate.tasks.write import write_summary

        printed = []
        for document in self.read(self.files or []):
            if not self.json:
                _show_title(document)
            parts = []
            for part in write_summary(
                document,
                llm=llm,
                query=self.query,
                tokens=self.budget,
                model=encoder,
                **self._length,
            ):
                parts.append(part)
                if not self.json:
                    show_written(part)
            printed.append({**_as_json(document), **written_as_json(parts)})
        if self.json:
            common.print_json(printed)

    def _write_of_library(self, llm: "LLM") -> None:
        """Have a language model summarize a library."""
        from foveate.tasks.write import summary_request, write

        prompt, encoder = self.make_prompt(self.query, self.budget)
        request = summary_request(prompt, self.query, **self._length)
        with progress("Waiting for the summary", None):
            written = write(request, prompt, llm, encoder)
        if self.json:
            common.print_json({"query": self.query, **written_as_json([written])})
        else:
            show_written(written)


def _as_json(document: Document) -> dict[str, Any]:
    """Return the fields of a document whose summary is printed."""
    return {
        "document": document.name,
        "title": document.title,
        "authors": document.authors,
        "date": document.date,
        "language": document.language,
    }


def _guidance(
    num_keywords: int | None, keywords: list[str] | None, language: str
) -> dict[str, Any]:
    """Return the options of `Summarizer.from_pretrained` that say which keywords guide it."""
    from foveate.detectors import given_keywords

    if num_keywords is not None and keywords:
        raise ValueError("give either --keywords, to detect them, or --keyword for each, not both")
    if keywords:
        return {"detector": given_keywords(keywords), "num_keywords": len(keywords)}
    if num_keywords is None:
        return {}
    return {"num_keywords": num_keywords, "language": language}


def _show_title(document: Document) -> None:
    source = f"  [dim]{escape(document.source)}[/dim]" if document.title and document.source else ""
    common.console.print(f"[bold]{escape(title_of(document))}[/bold]{source}\n")
