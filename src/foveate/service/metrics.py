"""The metrics of the service, for Prometheus."""

from time import perf_counter

from prometheus_client import CollectorRegistry, Gauge, Histogram, ProcessCollector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "POST")
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """What a service counts and measures."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # its memory, time and open files
        self.seconds = Histogram(
            "foveate_request_seconds",
            "Time from a request's first byte to the end of its answer.",
            ("method", "route", "status"),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.running = Gauge(
            "foveate_requests_running",
            "Requests that are worked on or wait for the model.",
            registry=self.registry,
        )


class Measured:
    """Counts requests and their time.

    Args:
        app: The application.
        metrics: What is counted and measured.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = perf_counter()
        status = 500

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        finally:
            # The route's pattern rather than the path, of which there are too many.
            route = getattr(scope.get("route"), "path", "other")
            method = scope["method"] if scope["method"] in _METHODS else "other"
            seconds = perf_counter() - started
            self._metrics.seconds.labels(method, route, str(status)).observe(seconds)
