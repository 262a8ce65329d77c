"""Shared by the commands that listen for clients."""

import socket
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from foveate.tasks.parameters import parameter

from . import common
from .command import Command


@dataclass(kw_only=True)
class ListeningOptions(Command):
    """The options that say where a command listens, and to whom."""

    host: str = parameter(
        "Address to listen on. One that others can reach needs a token.",
        "127.0.0.1",
        metavar="ADDRESS",
    )
    token: str | None = parameter(
        "Token that clients must send. Prefer the environment variable FOVEATE_TOKEN, which other "
        "users of this machine cannot see.",
        None,
        metavar="TEXT",
        envvar="FOVEATE_TOKEN",
        show_envvar=False,
    )

    @property
    def allowed_hosts(self) -> list[str] | None:
        """The names by which clients may call this machine; None for all."""
        from foveate.service.guard import LOOPBACK_NAMES, is_loopback

        return [*LOOPBACK_NAMES, self.host] if is_loopback(self.host) else None

    def listen(self, port: int) -> AbstractContextManager[socket.socket]:
        """Listen at a port.

        Raises:
            ValueError: Others can reach the address, and there is no token; or the token is short.
            OSError: The address cannot be used.
        """
        from foveate.service.server import check_address, listen

        check_address(self.host, self.token)
        return listen(self.host, port)

    def serve(self, app: Any, opened: socket.socket, path: str = "") -> None:
        """Serve an ASGI application until the command is interrupted."""
        from foveate.service.server import run

        address = f"[{self.host}]" if ":" in self.host else self.host
        url = f"http://{address}:{opened.getsockname()[1]}{path}"
        run(app, opened, lambda: common.console.print(f"foveate serves {url}", markup=False))
