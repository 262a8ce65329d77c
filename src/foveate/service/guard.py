"""Middleware of every request: who may ask, how much may be sent, and the security headers."""

import asyncio
import hmac
import ipaddress
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from foveate.service.errors import Refusal, refuse
from foveate.service.limits import Limits

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' blob: data:; connect-src 'self'; font-src 'self'; manifest-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached only from this machine.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
        (True, True, False)
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class Heads:
    """Answers HEAD as GET; the server leaves the content out."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] == "http" and scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}  # a copy: the server looks at its own
        await self._app(scope, receive, send)


class SecurityHeaders:
    """Adds headers that keep browsers from loading foreign content and showing responses as pages.

    Args:
        app: The application.
        allowed_origins: Origins whose pages may read the answers.
    """

    def __init__(self, app: ASGIApp, allowed_origins: Iterable[str] = ()) -> None:
        self._app = app
        self._headers = dict(SECURITY_HEADERS)
        if list(allowed_origins):
            self._headers["Cross-Origin-Resource-Policy"] = "cross-origin"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
                # Files of the page may be kept if they are asked for again; documents may not.
                headers.setdefault("Cache-Control", "no-cache" if "etag" in headers else "no-store")
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)


class Access:
    """Refuses requests without the token, or from hosts or origins that are not allowed.

    A browser sends what any page asks it to, and so a page elsewhere could use a service on this
    machine. It cannot choose the headers Host and Origin: the first reveals a name that was made to
    point here (DNS rebinding), the second a cross-site request.

    Args:
        app: The application.
        token: The token that clients must send; None if anybody may ask.
        is_open: Whether a path needs no token.
        allowed_hosts: Host names under which the service may be addressed; None for any.
        allowed_origins: Origins whose pages may use the service.
    """

    def __init__(
        self,
        app: ASGIApp,
        token: str | None,
        is_open: Callable[[str], bool],
        allowed_hosts: Iterable[str] | None = None,
        allowed_origins: Iterable[str] = (),
    ) -> None:
        self._app = app
        self._token = None if token is None else token.encode()
        self._is_open = is_open
        self._hosts = None if allowed_hosts is None else frozenset(allowed_hosts)
        self._origins = frozenset(allowed_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope, Headers(scope=scope))
        if refusal is None:
            await self._app(scope, receive, send)
        else:
            await refuse(scope["path"], refusal)(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> Refusal | None:
        host = headers.get("host", "")
        if self._hosts is not None and host_name(host) not in self._hosts:
            return Refusal(
                421,
                "This service is not called by that name: use localhost, or start it with "
                "--allow-origin and the address that others use.",
            )
        origin = headers.get("origin")
        is_foreign = origin is not None and not (
            origin in self._origins or _host_of(origin) == host
        )
        if is_foreign and scope["method"] not in _SAFE_METHODS:
            return Refusal(
                403,
                "Pages of other sites may not use this service: start it with --allow-origin and "
                "the site's address.",
            )
        if self._token is None or self._is_open(scope["path"]):
            return None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        is_right = hmac.compare_digest(given.strip().encode(), self._token)
        if scheme.lower() == "bearer" and is_right:
            return None
        return Refusal(
            401, "This service needs a token: send Authorization: Bearer TOKEN.", code="no_token"
        )


class Bodies:
    """Reads the bodies of requests within limits, before anything else is done with them.

    Args:
        app: The application, which gets each body in one piece.
        limits: The limits of the service.
    """

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body of a request, and pass it on or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                body = await self._read(receive, Headers(scope=scope).get("content-length", ""))
        except TimeoutError:
            refusal = Refusal(408, "The request took too long to arrive: send it faster.")
            await refuse(scope["path"], refusal)(scope, receive, send)
        except Refusal as refusal:
            await refuse(scope["path"], refusal)(scope, receive, send)
        else:
            if body is not None:
                await self._app(scope, _replayed(body, receive), send)

    async def _read(self, receive: Receive, announced: str) -> bytes | None:
        """Return the body; None if the client left before all of it came."""
        if announced.isdecimal():
            self._check_size(int(announced[:20]))
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            self._check_size(len(body))
            if not message.get("more_body", False):
                return bytes(body)

    def _check_size(self, num_bytes: int) -> None:
        if num_bytes > self._limits.body_bytes:
            raise Refusal(
                413,
                f"The request is larger than {self._limits.body_bytes / 2**20:,.0f} MiB, which is "
                "the most that this service takes: send less.",
            )


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a function that returns a body, and then the messages of the connection."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return first.pop() if first else await receive()

    return replay


def host_name(host: str) -> str:
    """Return the Host header without its port, in lower case."""
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    return name.lower().rstrip(".")


def _host_of(origin: str) -> str | None:
    """Return the host and port of an origin; None if it is no address."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None
