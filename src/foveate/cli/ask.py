"""`foveate ask`."""

from typing import Annotated

import typer
from rich.markup import escape

from foveate.progress import progress

from . import common
from .reading import FilesOrNone, Reading, takes_options
from .writing import Writing, make_prompt, show_written, written_as_json


@takes_options
def command(
    question: Annotated[
        str, typer.Argument(metavar="QUESTION", help="What to answer, in plain words.")
    ],
    files: FilesOrNone = None,
    top_k: Annotated[
        int, typer.Option("--top-k", "-k", metavar="N", min=1, help="Number of passages.")
    ] = 3,
    choice: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ANSWER",
            help="An answer to choose from, for a generative model; may be repeated.",
            show_default=False,
        ),
    ] = None,
    context: common.Context = 0,
    model: common.WriterModel = None,
    rerank: common.Rerank = None,
    explain: common.Explain = False,
    json: common.Json = False,
    *,
    writing: Writing,
    library: common.Library,
    loading: common.Loading,
    reading: Reading,
) -> None:
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
    common.check_query("foveate ask", "question", question, files or [])
    library.check(files, reading)
    if (llm := writing.server()) is not None:
        if choice:
            raise ValueError("--choice is for a checkpoint that writes itself: leave out --llm")
        prompt, encoder = make_prompt(
            question, files, writing.budget, None, model, library, loading, reading
        )
        from foveate.tasks.write import write_answer

        with progress("Waiting for the answer", None):
            answered = write_answer(question, prompt, llm=llm, model=encoder)
        if json:
            common.print_json({"question": question, **written_as_json([answered])})
        else:
            show_written(answered)
        return
    if library.folder is not None:
        if choice:
            raise ValueError("--choice is for a generative model, which reads files, not a library")
        from foveate.tasks.ask import Answer

        index = common.open_library(library.folder, model, loading)
        hits = index.search(
            question, top_k=top_k, rerank=rerank, explain=explain, **library.conditions
        )
        documents, passages = common.documents_of(library, index, hits)
        answer = Answer(None, tuple(passages))
    else:
        documents = reading.documents(files or [])
        common.prepare()
        from foveate.tasks.ask import ask

        if model is not None:
            from foveate.inference import Answerer  # takes seconds

            loaded = common.load_encoder_or(Answerer, model, loading, reading.cache)
        else:
            loaded = common.load_encoder(None, loading, reading.cache)
        answer = ask(
            question,
            documents,
            top_k=top_k,
            choices=choice or (),
            model=loaded,
            rerank=rerank,
            explain=explain,
        )
    if json:
        common.print_json(
            {
                "question": question,
                "answer": answer.text,
                "passages": common.results_as_json(documents, answer.passages, context),
            }
        )
        return
    if answer.text is not None:
        common.console.print(f"[bold]{escape(answer.text)}[/bold]\n")
    common.show_results(
        documents, answer.passages, context, are_named=library.folder is not None or None
    )
