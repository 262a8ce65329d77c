"""Shared by the commands that have language models on servers write."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from foveate.tasks.parameters import parameter
from foveate.tasks.tokens import DEFAULT_TOKENS

from . import common
from .command import Command

if TYPE_CHECKING:
    from foveate.inference import LLM
    from foveate.tasks.citations import Written, WrittenSentence

_PANEL = "Language models on servers"


@dataclass(kw_only=True)
class ServerOptions(Command):
    """The options that name a language model on a server."""

    llm: str | None = parameter(
        "Server with OpenAI's API (Ollama, vLLM, llama.cpp …) whose model writes from documents, "
        "such as http://localhost:11434/v1. A key goes into the environment variable "
        "FOVEATE_LLM_KEY. Default: none, and nothing leaves this machine.",
        None,
        metavar="URL",
        panel=_PANEL,
    )
    llm_model: str | None = parameter(
        "Name of the model there.", None, metavar="NAME", panel=_PANEL
    )

    def server(self) -> "LLM | None":
        """Return the model; None if no server is named.

        Raises:
            ValueError: Only one of the two is given.
        """
        if self.llm is None and self.llm_model is None:
            return None
        if self.llm is None:
            raise ValueError("--llm-model goes with --llm: name a server")
        if not self.llm_model:
            raise ValueError("--llm needs --llm-model: name a model that the server has")
        from foveate.inference.llm import LLM

        return LLM(self.llm, self.llm_model)


@dataclass(kw_only=True)
class WritingOptions(ServerOptions):
    """Those options, and what the model gets."""

    tokens: int | None = parameter(
        f"Longest prompt that it gets, by estimate. Default: {DEFAULT_TOKENS}.",
        None,
        ge=1,
        panel=_PANEL,
    )

    @property
    def budget(self) -> int:
        """The longest prompt in tokens."""
        return self.tokens or DEFAULT_TOKENS

    def server(self) -> "LLM | None":
        """Return the model; None if no server is named.

        Raises:
            ValueError: See `ServerOptions`; or there is a budget without a server.
        """
        found = super().server()
        if found is None and self.tokens is not None:
            raise ValueError("--tokens goes with --llm: name a server")
        return found


def show_written(written: "Written") -> None:
    """Print a text, what is doubtful of it, and the places that it cites."""
    if written.title:
        common.console.print(f"{written.title}\n", style="bold", markup=False)
    common.console.print(f"{written.text}\n", markup=False)
    for one in written.sentences:
        if not one.is_supported:
            common.console.print(f"check: “{one.text.strip()}” {doubt(one)}", markup=False)
    if any(not one.is_supported for one in written.sentences):
        common.console.print()
    names = {span.document for span in written.spans.values()}
    for number, span in written.spans.items():
        where = f"{span.document} · {common.place(span)}" if len(names) > 1 else common.place(span)
        common.console.print(f"[{number}] {span.text}\n    {where}", markup=False)
    if written.spans:
        common.console.print()


def doubt(sentence: "WrittenSentence") -> str:
    """Say what is doubtful of a sentence that is not supported."""
    if sentence.missing:
        return f"cites what was not shown: {', '.join(map(str, sentence.missing))}"
    return "is weakly supported by what it cites" if sentence.numbers else "cites nothing"


def written_as_json(parts: "Sequence[Written]") -> dict[str, Any]:
    """Return the fields of a text that was written in parts."""
    spans = {number: span for one in parts for number, span in one.spans.items()}
    return {
        "text": "\n\n".join(
            f"## {one.title}\n\n{one.text}" if one.title else one.text for one in parts
        ),
        "found": any(one.is_found for one in parts),
        "written": [
            {
                "text": sentence.text.strip(),
                "cites": sentence.numbers,
                "missing": sentence.missing,
                "support": sentence.support,
                "supported": sentence.is_supported,
            }
            for one in parts
            for sentence in one.sentences
        ],
        "cited": [
            {"number": number, **common.span_as_json(span)}
            for number, span in sorted(spans.items())
        ],
    }
