"""Running of long tasks: limited in number and time, and only while a client waits."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from starlette.requests import Request

from foveate.service.errors import Refusal
from foveate.service.limits import Limits

P = ParamSpec("P")
T = TypeVar("T")

_CLIENT_GONE = 499
"""The status, which nobody sees, of requests whose client did not wait."""

_RETRY_SECONDS = 5


class Work:
    """Requests that need the model or a reader, of which a limited number is accepted.

    Args:
        limits: The limits of the service.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._threads = ThreadPoolExecutor(limits.requests, "foveate-request")
        self.num_running = 0

    def stop(self) -> None:
        """Wait for the threads to end."""
        self._threads.shutdown()

    async def run(self, request: Request, answer: Callable[[], Awaitable[T]]) -> T:
        """Answer a request, unless there are too many, it takes too long, or its client leaves.

        Args:
            request: The request, whose body has been read.
            answer: Answers it; what it computes, it computes with `call`.

        Raises:
            Refusal: It was not answered.
        """
        if self.num_running >= self._limits.requests:
            raise Refusal(503, "The service is busy: try again later.", retry_after=_RETRY_SECONDS)
        self.num_running += 1
        answering = asyncio.ensure_future(answer())
        leaving = asyncio.ensure_future(client_left(request))
        try:
            done, _ = await asyncio.wait(
                (answering, leaving),
                timeout=self._limits.request_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if answering in done:
                return answering.result()
            if leaving in done:
                raise Refusal(_CLIENT_GONE, "The client has left.")
            raise Refusal(
                504,
                f"This takes more than {self._limits.request_seconds:g} seconds: "
                "try again later, or send a shorter document.",
            )
        finally:
            self.num_running -= 1
            for task in (answering, leaving):
                task.cancel()
            await asyncio.gather(answering, leaving, return_exceptions=True)

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Compute something in a thread.

        The thread continues after a request has been given up, and counts as a running request
        until it is done.
        """
        future = self._threads.submit(function, *args, **kwargs)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            self._count_until_done(future)
            raise

    def _count_until_done(self, future: "Future[T]") -> None:
        loop = asyncio.get_running_loop()
        if not future.done():
            self.num_running += 1
            future.add_done_callback(lambda _: loop.call_soon_threadsafe(self._count_down))

    def _count_down(self) -> None:
        self.num_running -= 1


async def client_left(request: Request) -> None:
    """Wait until the client closes the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
