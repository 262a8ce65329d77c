"""`foveate ask`."""

from dataclasses import dataclass
from typing import Any

from rich.markup import escape

from foveate.progress import progress
from foveate.tasks.parameters import AskParameters, FoundParameters, parameter

from . import common
from .command import JSON
from .models import RERANKER, WRITER, checkpoint, prepare
from .sources import QuerySourceOptions, say_share_read
from .writing import WritingOptions, show_written, written_as_json


@dataclass(kw_only=True)
class AskCommand(QuerySourceOptions, WritingOptions, FoundParameters, AskParameters):
    """Find the passages that answer a question best, with their places, or write an answer.

    \b
    foveate ask "who pays for delays?" contract.docx
    foveate ask "what does the captain hunt, and why?" book.txt --top-k 5 --json
    foveate ask "what did it cost?" report.pdf --model google/flan-t5-base
    foveate ask "who pays for delays?" --library contracts.library
    foveate ask "who pays?" a.docx --llm http://host:11434/v1 --llm-model qwen3

    With --llm, that server's model answers from the context of the question
    (see `foveate context`), and each of its sentences is checked.
    """

    choice: list[str] | None = parameter(
        "An answer to choose from, for a generative model; may be repeated.", None, metavar="ANSWER"
    )
    model: str | None = checkpoint(WRITER)
    rerank: str | None = checkpoint(RERANKER)
    json: bool = parameter(JSON, False)

    def __call__(self) -> None:
        common.check_query("foveate ask", "question", self.query, self.files)
        self.check_sources()
        if (llm := self.server()) is not None:
            if self.choice:
                raise ValueError("--choice is for a checkpoint that writes itself: leave out --llm")
            prompt, encoder = self.make_prompt(self.query, self.budget, thorough=self.thorough)
            from foveate.tasks.write import write_answer

            with progress("Waiting for the answer", None):
                answered = write_answer(self.query, prompt, llm=llm, model=encoder)
            if self.json:
                common.print_json({"question": self.query, **written_as_json([answered])})
            else:
                show_written(answered)
            return
        how: dict[str, Any] = {
            "top_k": self.top_k,
            "rerank": self.rerank,
            "explain": self.explain,
            "context": self.context,
        }
        if self.library is not None:
            if self.choice:
                raise ValueError(
                    "--choice is for a generative model, which reads files, not a library"
                )
            from foveate.tasks.ask import Answer

            hits = self.open_library(self.library).search(self.query, **how, **self.conditions)
            self.check_found(hits)
            answer, num_documents = Answer(None, tuple(hits)), None
        else:
            documents = self.read(self.files or [])
            if self.model is not None:
                prepare()
                from foveate.inference import Answerer  # takes seconds

                loaded = self.load_encoder_or(Answerer, self.cache)
            else:
                loaded = self.load_encoder(self.cache)
            from foveate.inference import Encoder
            from foveate.tasks.ask import ask

            how["thorough"] = self.thorough
            answer = ask(self.query, documents, choices=self.choice or (), model=loaded, **how)
            if isinstance(loaded, Encoder) and not self.thorough:
                say_share_read(documents, loaded)
            num_documents = len(documents)
        if self.json:
            passages = common.hits_as_json(answer.passages)
            common.print_json({"question": self.query, "answer": answer.text, "passages": passages})
            return
        if answer.text is not None:
            common.console.print(f"[bold]{escape(answer.text)}[/bold]\n")
        common.show_hits(answer.passages, num_documents)
