"""Running the service with uvicorn."""

import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import uvicorn
from starlette.types import ASGIApp

from foveate.service.guard import is_loopback

_SHUTDOWN_SECONDS = 60
_MAX_CONNECTIONS = 1000


def check_address(host: str, token: str | None) -> None:
    """Check that an address that other machines can reach is protected by a token.

    Raises:
        ValueError: It is not.
    """
    if token is not None and (not token.isascii() or len(token) < 16 or not token.isprintable()):
        raise ValueError(
            "the token must have at least 16 ASCII characters: make one with "
            "`python -c 'import secrets; print(secrets.token_urlsafe())'`"
        )
    if token is None and not is_loopback(host):
        raise ValueError(
            f"others can reach this machine at {host}: give a token that they have to send "
            "(--token or FOVEATE_TOKEN), or use 127.0.0.1"
        )


def check_origins(origins: Iterable[str]) -> None:
    """Check that origins are written as browsers send them: a scheme and a host, no final slash.

    Raises:
        ValueError: One is not.
    """
    for origin in origins:
        parts = urlsplit(origin)
        if not parts.netloc or origin != f"{parts.scheme}://{parts.netloc}":
            raise ValueError(
                f"{origin} is not an origin: name a site as in https://example.org, without a path"
            )


def listen(host: str, port: int) -> socket.socket:
    """Open the socket, before the long work of loading a model.

    Raises:
        OSError: The address is in use, or not one of this machine's.
    """
    try:
        [(family, _, _, _, address), *_] = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        opened = socket.create_server(address, family=family, reuse_port=False)
        # Connections inherit it. asyncio would set it, but not for sockets that were opened like
        # this; without it, answers wait 40 ms for a client's acknowledgement.
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        raise OSError(
            f"{host}:{port} cannot be used ({error.strerror or error}): name another --port"
        ) from error
    opened.set_inheritable(True)
    return opened


def run(app: ASGIApp, opened: socket.socket, on_start: Callable[[], None]) -> None:
    """Serve until a signal says to stop, and finish what runs then.

    Args:
        app: The application.
        opened: The socket.
        on_start: Called when requests are answered.
    """
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    server = _HttpServer(config, on_start)
    with _signals_for_server():
        server.run(sockets=[opened])


class _HttpServer(uvicorn.Server):
    """A server that says when it is ready."""

    def __init__(self, config: uvicorn.Config, on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        if self.started:
            self._on_start()


@contextmanager
def _signals_for_server() -> Iterator[None]:
    """Leave Ctrl-C to the server, which finishes what runs; elsewhere it ends the process at once.

    `foveate.cli.interrupts` learns of signals by this file descriptor.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.set_wakeup_fd(-1)
    try:
        yield
    finally:
        signal.set_wakeup_fd(previous)
