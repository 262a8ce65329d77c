"""A Model Context Protocol server over a library: assistants read it from coarse to fine.

The tools only read. Their results are text, with the place of everything that is quoted.
"""

try:
    import mcp.server.mcpserver  # noqa: F401
except ImportError as error:
    raise ImportError(
        "the server needs the Model Context Protocol SDK, version 2 or later: "
        "run `pip install 'foveate[mcp]'`"
    ) from error

from .server import make_server

__all__ = ["make_server"]
