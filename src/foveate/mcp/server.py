"""The server: which tools it has, and how their errors are worded."""

import inspect
from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, InputRequiredResult, TextContent, ToolAnnotations
from pydantic import ValidationError

from foveate import __version__

from .tools import Tools

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

    from foveate.index import Index
    from foveate.inference import Encoder

INSTRUCTIONS = """\
A library of documents, kept ready to be searched. It only finds: what it returns are the documents'
own sentences with their places, so quote them and name the document and the page or section.

Go from coarse to fine: `outline` lists the documents and shows how one is built; `search` finds
passages, sections or documents; `context` shows whole documents in a limited space, closely where
they answer, or without a query a digest of one; `read` gives a part word for word. Where a tool
takes a document, give the number that the others return, or the name if no other document has
the same."""

_EXPECTED = (ValueError, OSError, ImportError, MemoryError)
"""Exceptions whose message is a sentence for the assistant."""

_READ_ONLY = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)


class _ToolServer(MCPServer):
    """A server whose errors are one sentence."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        schemas = {tool.name: tool.input_schema for tool in await self.list_tools()}
        known = schemas.get(name, {}).get("properties", arguments)
        if unknown := arguments.keys() - known:
            return _error(f"{name} takes no {', '.join(sorted(unknown))}, only {', '.join(known)}")
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            cause = error.__cause__
            if isinstance(cause, ValidationError):
                sentence = "; ".join(_fault(fault, known) for fault in cause.errors())
            elif isinstance(cause, _EXPECTED):
                sentence = " ".join(str(cause).split())
            else:
                raise
            return _error(sentence)


def _fault(fault: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """Say what is wrong with an argument, whose schema is among those of the known ones."""
    if fault["type"] not in ("greater_than_equal", "less_than_equal"):
        return f"{'.'.join(map(str, fault['loc']))}: {fault['msg'].lower()}"
    name = fault["loc"][0]
    limits = known[name].get("anyOf", [known[name]])[0]
    least, most = limits["minimum"], limits.get("maximum")
    within = f"at least {least}" if most is None else f"from {least} to {most}"
    return f"{name} must be {within}, got {fault['input']}"


def _error(sentence: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=sentence)], is_error=True)


def make_server(
    library: str | PathLike[str],
    *,
    model: "Encoder | str | PathLike[str] | None" = None,
    rerank: "CrossEncoder | str | PathLike[str] | None" = None,
    **options: Any,
) -> MCPServer:
    """Make a server over a library.

    Its `run` serves an assistant over standard input and output, and its `streamable_http_app` is
    an ASGI application, which asks for no token: `foveate mcp --port` adds that. The library is
    opened when a tool is first used, and the model is loaded, once, when one needs it.

    Args:
        library: The folder of the library.
        model: See `Index.open`.
        rerank: What sorts the passages that `search` finds, see `Index.search`.
        options: See `Index.open`.

    Example:
        >>> import asyncio
        >>> from mcp import Client
        >>> from foveate import Document, Index
        >>> from foveate.mcp import make_server
        >>> library = getfixture("tmp_path") / "library"
        >>> fish = Document.from_sections("Sea", [("Fish", "Cod swim. They eat herring.")])
        >>> _ = Index.create(library).add(fish)
        >>> async def ask(query):
        ...     async with Client(make_server(library)) as client:
        ...         return await client.call_tool("search", {"query": query})
        >>> result = asyncio.run(ask("What do fish eat?"))
        >>> print(result.content[0].text)
        1. Sea · line 3 · Fish · document 0, sentences 1 to 2
        Cod swim. They eat herring.
    """
    server = _ToolServer(
        "foveate",
        title="Library of documents",
        instructions=INSTRUCTIONS,
        version=__version__,
        log_level="WARNING",
    )

    def open_index() -> "Index":
        from foveate.index import Index  # takes a moment, and assistants wait for their servers

        return Index.open(library, model=model, **options)

    tools = Tools(open_index, rerank)
    for title, tool in (
        ("Show what there is", tools.outline),
        ("Search the library", tools.search),
        ("Read within a budget of tokens", tools.context),
        ("Read a document", tools.read),
    ):
        server.add_tool(
            tool,
            title=title,
            description=inspect.getdoc(tool),
            annotations=_READ_ONLY,
            structured_output=False,
        )
    return server
