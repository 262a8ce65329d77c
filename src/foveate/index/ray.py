"""Reading and encoding on a Ray cluster, for `Index.add`.

The driver, which is the process that calls `Index.add`, finds what has changed. Workers read and
encode it, and write the rows to the library's place; the driver commits what they have written,
which is a matter of a few bytes. Documents get their numbers from one counter.
"""

import logging
import os
import socket
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import torch

import foveate
from foveate.documents import DocumentError
from foveate.index.build import Job
from foveate.index.identity import identify
from foveate.index.reading import Done, Part, Unit, read_unit
from foveate.index.records import renumber
from foveate.index.state import IN_MEMORY, ModelRecord
from foveate.index.store import Store, write
from foveate.inference import Encoder

if not find_spec("ray"):
    raise ImportError("a cluster needs Ray: run `pip install 'foveate[cluster]'`")

_MAX_RETRIES = 3
"""How often a unit is begun again after its worker has died."""

_PATIENCE = 10
"""Seconds in which a cluster must answer."""


class RayCluster:
    """A cluster whose machines read, encode and write the files of a library.

    All machines need the same version of foveate, and the files, the model and the library's folder
    at the same paths. A library that one process makes has the same rows, but for the numbers
    of its documents. Files are added again if the machine that works on them is lost.

    If Ray is already initialized, that session is used, and continues afterwards.

    Args:
        address: Address of the cluster, such as "head:6379"; this machine must be part of it. By
            default the cluster that `RAY_ADDRESS` names or that this machine is part of or, if
            there is none, one that is started on this machine for as long as it takes.
        workers: Number of workers; by default as many as fit while leaving one CPU free.
        cpus_per_worker: CPUs of each, which are also its threads; may be a fraction.
        gpus_per_worker: GPUs of each; may be a fraction, for several workers on one.

    Raises:
        ValueError: A number is not positive, or the number of GPUs is negative.

    Example:
        >>> from foveate.index.ray import RayCluster
        >>> cluster = RayCluster(workers=8, gpus_per_worker=0.25)  # on two GPUs
        >>> cluster.workers
        8
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        workers: int | None = None,
        cpus_per_worker: float = 1,
        gpus_per_worker: float = 0,
    ) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"the number of workers must be at least 1, got {workers}")
        if cpus_per_worker <= 0:
            raise ValueError(f"a worker needs more than {cpus_per_worker:g} CPUs: give it 1")
        if gpus_per_worker < 0:
            raise ValueError(f"a worker cannot have {gpus_per_worker:g} GPUs: give it 0, or 0.5")
        self.address = address
        self.workers = workers
        self.cpus_per_worker = cpus_per_worker
        self.gpus_per_worker = gpus_per_worker

    def __call__(self, job: Job, units: Iterator[Unit]) -> Iterator[Part]:
        """Have units read, encoded and written, and yield their parts as they are done.

        Raises:
            ConnectionError: No cluster answers at the address.
            RuntimeError: A worker cannot load the model, or fails otherwise.
            ValueError: The cluster has no room for the workers, or they cannot load the model
                because it was never saved.
        """
        if job.model.name == IN_MEMORY:
            raise ValueError(
                "the workers of a cluster load the model by its name or path, and this one was "
                "never saved: save it where all of them can read it, and name that folder"
            )
        first = next(units, None)
        if first is None:
            return  # so that no cluster is needed
        with _connected(self.address):
            yield from self._run(job, first, units)

    def _run(self, job: Job, first: Unit, units: Iterator[Unit]) -> Iterator[Part]:
        import ray

        counter: Any = ray.remote(num_cpus=0)(_Counter).remote(job.writer.next_document)
        make: Any = ray.remote(
            num_cpus=self.cpus_per_worker,
            num_gpus=self.gpus_per_worker,
            max_restarts=-1,
            max_task_retries=_MAX_RETRIES,
        )(_Worker)
        given = (
            counter,
            job.writer.store,
            job.model,
            job.load_encoder().linear_dtype,
            "cuda" if self.gpus_per_worker else "cpu",
            job.stops_at_error,
            dict(job.options),
            foveate.__version__,
        )
        running: dict[Any, tuple[Any, Unit]] = {}

        def begin(worker: Any, unit: Unit | None) -> None:
            if unit is not None:
                running[worker.encode.remote(unit)] = worker, unit

        begin(make.remote(*given), first)
        for _ in range(self._count_workers() - 1):
            if unit := next(units, None):
                begin(make.remote(*given), unit)
        while running:
            [done], _ = ray.wait(list(running))
            worker, unit = running.pop(done)
            begin(worker, next(units, None))
            try:
                parts, warned = ray.get(done)
            except ray.exceptions.RayActorError:
                yield _lost(unit, job.stops_at_error)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            else:
                for text in warned:
                    warnings.warn(text, stacklevel=1)
                yield from parts

    def _count_workers(self) -> int:
        """Return the number of workers to start.

        Raises:
            ValueError: The cluster has no room for them.
        """
        import ray

        nodes = [
            node["Resources"]
            for node in ray.nodes()  # type: ignore[no-untyped-call]
            if node["Alive"]
        ]
        size = f"{self.cpus_per_worker:g} CPUs"
        if self.gpus_per_worker:
            size += f" and {self.gpus_per_worker:g} GPUs"
        room = sum(map(self._room, nodes))
        if room < (self.workers or 1):
            raise ValueError(
                f"the cluster has room for {room} workers of {size}, not for {self.workers or 1}: "
                "ask for fewer or smaller ones, or add machines"
            )
        cpus = sum(node.get("CPU", 0) for node in nodes)
        return self.workers or max(1, min(room, int((cpus - 1) / self.cpus_per_worker)))

    def _room(self, node: Mapping[str, float]) -> int:
        """Return the number of workers that fit on a machine with some resources."""
        rooms = [node.get("CPU", 0) / self.cpus_per_worker]
        if self.gpus_per_worker:
            rooms.append(node.get("GPU", 0) / self.gpus_per_worker)
        return int(min(rooms))


class _Counter:
    """Numbers documents.

    Args:
        first: The number of the first one.
    """

    def __init__(self, first: int) -> None:
        self._next = first

    def take(self, number: int) -> int:
        """Return the first of so many numbers."""
        self._next += number
        return self._next - number


class _Worker:
    """Encodes units in a process of the cluster.

    The model is loaded with the first unit, so that what is wrong with it can be returned.

    Args:
        counter: Where documents get their numbers.
        store: The library.
        model: What identifies the model.
        dtype: Dtype of its linear layers.
        device: Where it runs.
        stops_at_error: See `Job`.
        options: See `Job`.
        version: The driver's version of foveate.
    """

    def __init__(
        self,
        counter: Any,
        store: Store,
        model: ModelRecord,
        dtype: torch.dtype,
        device: str,
        stops_at_error: bool,
        options: Mapping[str, Any],
        version: str,
    ) -> None:
        self._counter = counter
        self._store = store
        self._model = model
        self._dtype = dtype
        self._device = device
        self._stops_at_error = stops_at_error
        self._options = options
        self._version = version
        self._encoder: Encoder | None = None

    def encode(self, unit: Unit) -> tuple[list[Part], list[str]]:
        """Return the parts of a unit, and what was warned of meanwhile."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default", UserWarning)
            parts = list(self._parts(unit))
        return parts, [str(one.message) for one in caught if one.category is UserWarning]

    def _parts(self, unit: Unit) -> Iterator[Part]:
        import ray

        table = self._store.open()
        for part in read_unit(unit, self._options, self._stops_at_error, self._load_encoder):
            if part.rows is not None:
                first = ray.get(self._counter.take.remote(part.num_documents))
                written = write(renumber(part.rows, first), table, self._store)
                yield replace(part, rows=None, written=written)
            else:
                yield part

    def _load_encoder(self) -> Encoder:
        if self._encoder is not None:
            return self._encoder
        where = socket.gethostname()
        if foveate.__version__ != self._version:
            raise RuntimeError(
                f"{where} has foveate {foveate.__version__}, and the library is written by "
                f"{self._version}: install the same version on all machines"
            )
        encoder = Encoder.from_pretrained(
            self._model.name,
            **self._model.loading,
            device=self._device,
            dtype=self._dtype,
        )
        if identify(encoder).sha256 != self._model.sha256:
            raise ValueError(
                f"{where} has weights of {self._model.name or 'the default model'} that differ "
                "from those on the machine that writes the library: give all machines the same"
            )
        self._encoder = encoder
        return encoder


def _lost(unit: Sequence[Any], stops_at_error: bool) -> Part:
    """Return what became of a unit that no worker survived: it is added another time, or never.

    Raises:
        DocumentError: The job stops at errors.
    """
    names = [file.name for file in unit]
    error = DocumentError(
        f"{names[0]} or one of {len(names) - 1} files that were read with it ended every process "
        "that did so, most likely because memory was short: give each worker more, or leave it out"
    )
    if stops_at_error:
        raise error
    done = [Done(file.name, file.size, None) for file in unit]
    return Part(done=done, failures=[(name, error) for name in names])


@contextmanager
def _connected(address: str | None) -> Iterator[None]:
    """Connect to a cluster, or start one on this machine, unless Ray is initialized already.

    Raises:
        ConnectionError: No cluster answers, which Ray would keep trying for minutes.
        ValueError: The address is not one of a cluster that this machine is part of.
    """
    # What Ray has to say is in its own logs, /tmp/ray/session_latest/logs.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    import ray

    if ray.is_initialized():
        yield
        return
    try:
        if address is not None and address != "auto":
            host, _, port = address.rpartition(":")
            if not (host and port.isdecimal()) or "/" in host:
                raise ValueError(
                    f"the address of a cluster is HOST:PORT, got {address}: use one that "
                    "`ray start` printed, on a machine of the cluster"
                )
            socket.create_connection((host, int(port)), _PATIENCE).close()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "lance is not fork-safe")  # only Ray itself is forked
            ray.init(address, log_to_driver=False, logging_level=logging.CRITICAL)
    except OSError as error:
        raise ConnectionError(
            f"no Ray cluster answers at {address or os.environ.get('RAY_ADDRESS')}: start one "
            "with `ray start --head`, or leave the address out for one on this machine"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()
