"""The metrics of the service, for Prometheus."""

from time import perf_counter

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "POST")
_BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
_TOKENS = (16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576)
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """The counters of a service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # its memory, time and open files
        labels = ("method", "route", "status")
        self.requests = Counter(
            "foveate_requests", "Requests answered or refused.", labels, registry=self.registry
        )
        self.seconds = Histogram(
            "foveate_request_seconds",
            "Time from a request's first byte to the end of its answer.",
            ("method", "route"),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.batch_requests = Histogram(
            "foveate_batch_requests",
            "Requests whose texts and documents the model read at once.",
            buckets=_BATCH_SIZES,
            registry=self.registry,
        )
        self.batch_tokens = Histogram(
            "foveate_batch_tokens",
            "Tokens, by estimate, that the model read at once.",
            buckets=_TOKENS,
            registry=self.registry,
        )
        self.running = Gauge(
            "foveate_requests_running",
            "Requests that are worked on or wait for the model.",
            registry=self.registry,
        )
        self.uploads = Gauge(
            "foveate_uploads", "Uploaded documents that are kept.", registry=self.registry
        )
        self.upload_bytes = Gauge(
            "foveate_upload_bytes",
            "Memory of the uploaded documents, by estimate.",
            registry=self.registry,
        )

    def observe_batch(self, num_requests: int, num_tokens: int) -> None:
        """Count a batch."""
        self.batch_requests.observe(num_requests)
        self.batch_tokens.observe(num_tokens)


class Measured:
    """Counts requests and their time.

    Args:
        app: The application.
        metrics: The counters.
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
            self._metrics.requests.labels(method, route, str(status)).inc()
            self._metrics.seconds.labels(method, route).observe(perf_counter() - started)
