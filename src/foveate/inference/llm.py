"""Language models on servers that users name, by OpenAI's protocol."""

import os
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

KEY = "FOVEATE_LLM_KEY"
"""The environment variable with the server's key, if it needs one."""

_THOUGHTS = ("<think>", "</think>")  # of models that reason, which some servers send as text
_LONGEST = 200  # characters of a server's reasons


@dataclass(frozen=True, slots=True)
class LLM:
    """A language model on a server with OpenAI's API, such as Ollama, vLLM or llama.cpp.

    What it is asked goes to that server and nowhere else, with the key in the environment variable
    FOVEATE_LLM_KEY, if there is one.

    Attributes:
        url: Address of the API, such as http://localhost:11434/v1.
        model: Name of the model there.
        timeout: Seconds to wait for the server's next word.
    """

    url: str
    model: str
    timeout: float = 300

    def stream(self, instructions: str, request: str) -> Iterator[str]:
        """Ask for a text, and yield its pieces as they come, without the model's thoughts.

        Args:
            instructions: What the model has to do: its system prompt.
            request: What it is asked.

        Raises:
            ImportError: The client is not installed.
            ConnectionError: The server is not there, refuses, is too slow, or does not answer as
                OpenAI's does.

        Warns:
            UserWarning: The text ends where the server allows no more tokens.
        """
        try:
            import httpx  # which openai is built on
            import openai
        except ImportError as error:
            raise ImportError(
                "language models on servers need OpenAI's client: run `pip install 'foveate[llm]'`"
            ) from error
        try:
            yield from _without_thoughts(self._pieces(instructions, request))
        except (openai.APITimeoutError, httpx.TimeoutException) as error:
            raise ConnectionError(
                f"{self.url} was silent for {self.timeout:g} seconds: it may be overloaded"
            ) from error
        except openai.APIStatusError as error:
            raise ConnectionError(f"{self.url} refuses: {_shortened(error.message)}") from error
        except (openai.APIConnectionError, httpx.TransportError) as error:
            cause = _shortened(str(error.__cause__ or error))
            raise ConnectionError(
                f"there is no answer from {self.url} ({cause}): is the server running?"
            ) from error
        except (openai.APIError, ValueError, AttributeError, TypeError) as error:
            raise ConnectionError(
                f"{self.url} does not answer as OpenAI's API does ({_shortened(str(error))}): most "
                "such addresses end in /v1"
            ) from error

    def _pieces(self, instructions: str, request: str) -> Iterator[str]:
        import openai

        client = openai.OpenAI(
            base_url=self.url,
            api_key=os.environ.get(KEY) or "none",
            timeout=self.timeout,
            max_retries=0,
        )
        messages: Any = [
            {"role": "system", "content": instructions},
            {"role": "user", "content": request},
        ]
        is_answered = False
        with (
            client,
            client.chat.completions.create(
                model=self.model, messages=messages, stream=True
            ) as chunks,
        ):
            for chunk in chunks:
                for choice in chunk.choices[:1]:  # none in the last chunk of some servers
                    is_answered = True
                    if choice.delta.content:
                        yield choice.delta.content
                    if choice.finish_reason == "length":
                        warnings.warn(
                            f"{self.url} allows no longer text: its end is missing", stacklevel=2
                        )
        if not is_answered:
            raise ValueError("it sent no text")


def _without_thoughts(pieces: Iterable[str]) -> Iterator[str]:
    """Leave out what stands between marks of thinking."""
    begin, end = _THOUGHTS
    held = ""
    for piece in pieces:
        held += piece
        start = held.lstrip()
        if start.startswith(begin):
            _, ends, held = held.partition(end)
            if not ends:
                held = start
                continue
        if held and not begin.startswith(held.lstrip()):
            yield held
            held = ""
    if not held.lstrip().startswith(begin):
        yield held


def _shortened(text: str) -> str:
    """Return the first characters of a text, on one line."""
    words = " ".join(text.split()).rstrip(".")
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]} …"
