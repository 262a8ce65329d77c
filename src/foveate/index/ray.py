"""Reading, encoding and writing on a Ray cluster, for `Index.add`.

The driver, which is the process that calls `Index.add`, finds what has changed. Workers add it,
with numbers that they get from one counter. The driver commits what they have written, which is a
matter of a few bytes.
"""

import logging
import os
import socket
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from functools import cache, partial
from importlib.util import find_spec
from itertools import chain, islice
from typing import Any

from foveate import __version__
from foveate.documents import DocumentError
from foveate.index.build import Job
from foveate.index.identity import identify
from foveate.index.lance import Store
from foveate.index.library import Index
from foveate.index.state import check_model
from foveate.index.units import Added, Unit, add_unit
from foveate.inference import Encoder

if not find_spec("ray"):
    raise ImportError("a cluster needs Ray: run `pip install 'foveate[cluster]'`")

_MAX_RETRIES = 3
"""How often a unit is begun again, by any worker, after one that had it has died."""

_PATIENCE = 10
"""Seconds in which a cluster must answer."""


@dataclass(frozen=True)
class RayCluster:
    """A cluster whose machines read, encode and write the files of a library.

    All machines need the same version of foveate, and the files, the model and the library's folder
    at the same paths. A library that one process makes has the same rows, but for the numbers
    of its documents. Files are read again if the machine that works on them is lost.

    If Ray is already initialized, that session is used, and continues afterwards.

    Attributes:
        address: Address of the cluster, such as "head:6379"; this machine must be part of it. By
            default the cluster that `RAY_ADDRESS` names or that this machine is part of or, if
            there is none, one that is started on this machine for as long as it takes.
        workers: Number of workers; by default as many as fit while leaving one CPU free.
        cpus_per_worker: CPUs of each, which are also its threads; may be a fraction.
        gpus_per_worker: GPUs of each; may be a fraction, for several workers on one.

    Example:
        >>> from foveate.index.ray import RayCluster
        >>> cluster = RayCluster(workers=8, gpus_per_worker=0.25)  # on two GPUs
        >>> cluster.workers
        8
    """

    address: str | None = None
    _: KW_ONLY
    workers: int | None = None
    cpus_per_worker: float = 1
    gpus_per_worker: float = 0

    def __call__(self, job: Job, units: Iterator[Unit]) -> Iterator[tuple[Unit, Added]]:
        """Have units added, and return them as they are done; see `foveate.index.build.Workers`.

        Raises:
            ConnectionError: No cluster answers at the address.
            DocumentError: Files of a unit end every process that reads them.
            RuntimeError: A worker has another version of foveate, or none can start.
            ValueError: The cluster has no room for the workers, or a worker has another model.
        """
        first = next(units, None)
        if first is None:
            return  # so that no cluster is needed
        with _connected(self.address):
            yield from self._run(job, chain([first], units))

    def _run(self, job: Job, units: Iterator[Unit]) -> Iterator[tuple[Unit, Added]]:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        first = [*islice(units, self._count_workers())]
        # On this machine, so that no other one that is lost takes it along.
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        numbers: Any = ray.remote(num_cpus=0)(_Numbers)
        counter = numbers.options(scheduling_strategy=here).remote(job.writer.next_document)
        make: Any = ray.remote(num_cpus=self.cpus_per_worker, num_gpus=self.gpus_per_worker)(
            _Worker
        )
        placed = {"dtype": job.dtype, "device": "cuda" if self.gpus_per_worker else "cpu"}
        running: dict[Any, tuple[Any, Unit | None]] = {}  # None while a worker starts

        def start() -> None:
            worker = make.remote(counter, job.writer.store, placed, job.options, __version__)
            running[worker.__ray_ready__.remote()] = worker, None

        for _ in first:
            start()
        units = chain(first, units)
        again: list[Unit] = []
        deaths: Counter[str | None] = Counter()
        following = next(units, None)
        while following or any(unit for _, unit in running.values()):
            [done], _ = ray.wait(list(running))
            worker, unit = running.pop(done)
            try:
                added = ray.get(done)
            except ray.exceptions.RayActorError as error:
                start()  # which waits for room, if a machine was lost
                deaths[unit[0].record.name if unit else None] += 1
                if max(deaths.values()) > _MAX_RETRIES:
                    raise _reason(unit) from error
                if unit:
                    again.append(unit)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            else:
                if following:
                    running[worker.add.remote(following)] = worker, following
                    following = None
                if unit:
                    yield unit, added
                else:
                    deaths.pop(None, None)
            following = following or (again.pop() if again else next(units, None))

    def _count_workers(self) -> int:
        """Return the number of workers to start.

        Raises:
            ValueError: The cluster has no room for them, so that they would be waited for.
        """
        import ray

        resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        room = resources.get("CPU", 0) / self.cpus_per_worker
        if self.gpus_per_worker:
            room = min(room, resources.get("GPU", 0) / self.gpus_per_worker)
        if room < (self.workers or 1):
            raise ValueError(
                f"the cluster has room for {int(room)} workers of {self.cpus_per_worker:g} CPUs "
                f"and {self.gpus_per_worker:g} GPUs, not for {self.workers or 1}: ask for fewer or "
                "smaller ones, or add machines"
            )
        return self.workers or max(1, int(room - 1 / self.cpus_per_worker))


def _reason(unit: Unit | None) -> Exception:
    """Say why workers die: of the files that they add or, without any, at once."""
    if not unit:
        return RuntimeError(
            "the workers of the cluster end as they start: /tmp/ray/session_latest/logs says why"
        )
    return DocumentError(
        f"{unit[0].record.name} or one of {len(unit) - 1} files that were read with it ended every "
        "process that did so, most likely because memory was short: give each worker more, or "
        "leave it out"
    )


class _Numbers:
    """Numbers documents, from `first`."""

    def __init__(self, first: int) -> None:
        self._next = first

    def take(self, number: int) -> int:
        """Return the first of so many numbers."""
        self._next += number
        return self._next - number


class _Worker:
    """Adds units in a process of the cluster.

    Args:
        counter: Where documents get their numbers.
        store: The library.
        placed: Dtype of the model's linear layers, and where it runs.
        options: Options of `read_documents`.
        version: The driver's version of foveate.
    """

    def __init__(
        self,
        counter: Any,
        store: Store,
        placed: Mapping[str, Any],
        options: Mapping[str, Any],
        version: str,
    ) -> None:
        self._counter = counter
        self._store = store
        self._encoder = cache(partial(_load_encoder, store, placed, version))
        self._options = options

    def add(self, unit: Unit) -> Added:
        """See `foveate.index.units.add_unit`."""
        return add_unit(unit, self._store, self._encoder, self._take_numbers, self._options)

    def _take_numbers(self, number: int) -> int:
        import ray

        first: int = ray.get(self._counter.take.remote(number))
        return first


def _load_encoder(store: Store, placed: Mapping[str, Any], version: str) -> Encoder:
    if version != __version__:
        raise RuntimeError(
            f"{socket.gethostname()} has foveate {__version__}, and the machine that commits has "
            f"{version}: install the same on all machines"
        )
    index = Index(store, **placed)
    check_model(store.place, index.state.model, identify(index.encoder))
    return index.encoder


@contextmanager
def _connected(address: str | None) -> Iterator[None]:
    """Connect to a cluster, or start one on this machine, unless Ray is initialized already.

    Raises:
        ConnectionError: No cluster answers, which Ray would keep trying for minutes.
    """
    # What Ray has to say is in its own logs, /tmp/ray/session_latest/logs.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    import ray

    if ray.is_initialized():
        yield
        return
    try:
        if address is not None:
            host, _, port = address.rpartition(":")
            socket.create_connection((host, int(port)), _PATIENCE).close()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "lance is not fork-safe")  # only Ray itself is forked
            ray.init(address, log_to_driver=False, logging_level=logging.CRITICAL)
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"no Ray cluster answers at {address or os.environ.get('RAY_ADDRESS')}: give HOST:PORT "
            "as `ray start --head` prints it, or leave the address out for one on this machine"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()
