"""Encoders in the forms that users run them in: eager, compiled, and each as a CUDA graph.

- "eager": as the model comes.
- "compiled": every layer by `torch.compile(dynamic=False)` in its default mode, once for each
  length. Layers of one kind share what is compiled; what surrounds them, embeddings and a norm, is
  eager.
- "captured" and "compiled, captured": the whole forward pass or training step replayed as one CUDA
  graph of its fixed shape, which takes the host's part out of the time. Models for which foveate
  has a `capture` of its own use that: embeddings, heads and the loss are not part of its graphs.

A training step is a forward and a backward pass without dropout; an optimizer would cost all
encoders the same. Inputs have no padding, so no encoder is given a mask. Times are medians with
quartiles; memory is the peak above weights and inputs. "difference" is the norm of the difference
between an output and the first of the same weights and inputs, relative to the norm of that one.

Every encoder runs in a process beside this one, which is replaced when it fails or takes too long,
so that whatever goes wrong costs one measurement, which is recorded with the reason.
"""

import gc
import logging
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import quantiles
from typing import Any, Literal, NamedTuple

import torch
import transformers
from torch import Tensor, nn
from torch._dynamo.utils import counters

from benchmarks import report

Built = tuple[nn.Module, dict[str, Any]]
"""An encoder, and its inputs besides the ids."""
Row = dict[str, Any]

EAGER, CAPTURED, COMPILED, BOTH = FORMS = ("eager", "captured", "compiled", "compiled, captured")
FORWARD, STEP = PARTS = ("forward", "training step")
Form = Literal["eager", "captured", "compiled", "compiled, captured"]
Part = Literal["forward", "training step"]
PACKAGES = ("triton", "transformers")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CAPTURED_UP_TO = 131_072
"""Beyond these tokens the host is done long before the GPU, and a graph changes nothing."""
COMPILED_UP_TO = 262_144
SECONDS, FEWEST_RUNS, MOST_RUNS = 0.2, 5, 60
LONGEST = 45.0
"""Seconds for a measurement, what is compiled for it included."""
STARTING = 120.0
"""Seconds for a process to start."""
OUT_OF_MEMORY, LEFT_OUT, WAITS = "out of memory", "left out", "waits for the device"
TOO_SLOW = "took over"
MAY_DO = (OUT_OF_MEMORY, LEFT_OUT)
"""How reasons begin for which another form may do better."""


class Encoder(NamedTuple):
    """How to build an encoder, and which measurements of it make sense.

    Attributes:
        build: A function, importable in another process, that returns a model and its inputs
            besides the ids for a number of sequences and of tokens; on the default device.
        ours: Whether it is foveate's; others are left out once they are far slower.
        own_capture: Whether `foveate.models.speed_ups.cuda_graphs.capture` takes it.
        parts: What is measured of it.
        forms: The forms it is measured in.
        group: Encoders are compared with those of ours in their group.
        weights: A name shared by encoders with the same weights and inputs, whose outputs are
            compared; by default those of no other are.
    """

    build: Callable[[int, int], Built]
    ours: bool = False
    own_capture: bool = False
    parts: tuple[str, ...] = PARTS
    forms: tuple[str, ...] = FORMS
    group: str = ""
    weights: str = ""


@dataclass(frozen=True)
class Measurement:
    """What to measure: one part of an encoder in one form, at one length.

    Attributes:
        name: Of the encoder.
        encoder: How to build it.
        tokens: Length of a sequence.
        batch: Number of sequences.
        part: One of `PARTS`.
        form: One of `FORMS`.
    """

    name: str
    encoder: Encoder
    tokens: int
    batch: int
    part: str
    form: str

    def __str__(self) -> str:
        batch = f" × {self.batch}" if self.batch > 1 else ""
        return f"{self.name}, {self.tokens:,} tokens{batch}, {self.part}, {self.form}"


# In the process that measures


def timed(run: Callable[[], Any], device: str, seconds: float = SECONDS) -> list[float]:
    """Milliseconds of each of several calls, after a first one."""
    begun = time.perf_counter()
    run()
    _wait(device)
    runs = int(seconds / (time.perf_counter() - begun))
    runs = min(max(runs, FEWEST_RUNS), MOST_RUNS)
    if device != "cuda":
        times = []
        for _ in range(runs):
            begun = time.perf_counter()
            run()
            times.append((time.perf_counter() - begun) * 1e3)
        return times
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(runs)]
    for begin, end in events:
        begin.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) for begin, end in events]


def layers(model: nn.Module) -> list[nn.Module]:
    """The layers of a model: the members of its outermost `nn.ModuleList`s."""
    found: list[nn.Module] = []
    for child in model.children():
        found += child if isinstance(child, nn.ModuleList) else layers(child)
    return found


class Subject:
    """An encoder of one length on the device, to be measured in all forms.

    Args:
        wanted: The first measurement of it.
        device: "cuda" or "cpu".
    """

    def __init__(self, wanted: Measurement, device: str) -> None:
        counters.clear()
        self.device = device
        self.own_capture = wanted.encoder.own_capture
        torch.manual_seed(0)
        with torch.device(device):
            self.model, self.inputs = wanted.encoder.build(wanted.batch, wanted.tokens)
            self.model.to(torch.bfloat16 if device == "cuda" else torch.float32)
            torch.manual_seed(1)
            vocabulary = self.model.config.vocab_size
            self.inputs["input_ids"] = torch.randint(5, vocabulary, (wanted.batch, wanted.tokens))

    def measure(self, part: str, form: str) -> tuple[Row, Tensor | None]:
        """Measure a part in a form; also return the output, on the host, of a forward pass."""
        compiled = [] if form in (EAGER, CAPTURED) else layers(self.model) or [self.model]
        self.model.train(part == STEP)
        try:
            for module in compiled:
                module.compile(dynamic=False)
            with torch.inference_mode(part == FORWARD):
                if form in (CAPTURED, BOTH):
                    found = self._measure_captured(part)
                else:
                    found = self._measure_direct(self.function(part))
            if compiled and not counters["stats"]["unique_graphs"]:
                raise RuntimeError("nothing was compiled")
            return found
        finally:
            for module in compiled:
                module._compiled_call_impl = None
            self.model.zero_grad(set_to_none=True)

    def function(self, part: str) -> Callable[[], Tensor | None]:
        """Return what does a part of the work once."""

        def forward() -> Tensor:
            return self.model(**self.inputs).last_hidden_state

        def training_step() -> None:
            self.model.zero_grad(set_to_none=True)
            forward().float().square().mean().backward()

        return forward if part == FORWARD else training_step

    def _measure_direct(self, run: Callable[[], Tensor | None]) -> tuple[Row, Tensor | None]:
        for _ in range(2):  # a shape may be captured the second time
            run()
        _wait(self.device)
        before = _reset_peak(self.device)
        output = run()
        _wait(self.device)
        peak = _peak(self.device, before)
        output = None if output is None else output.cpu()
        return _row(timed(run, self.device), peak), output

    def _measure_captured(self, part: str) -> tuple[Row, Tensor | None]:
        if self.device != "cuda":
            raise RuntimeError("there are no CUDA graphs without a GPU")
        if self.own_capture:
            from foveate.models.speed_ups.cuda_graphs import capture, release

            capture(self.model)
            try:
                return self._measure_direct(self.function(part))
            finally:
                release(self.model)
        run = self.function(part)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):  # compiles, and builds the tables that are cached for a stream
                run()
            stream.synchronize()
            torch.cuda.set_sync_debug_mode("error")  # fails where a capture would, but recoverably
            try:
                run()
            finally:
                torch.cuda.set_sync_debug_mode("default")
            stream.synchronize()
        self.model.zero_grad(set_to_none=True)
        before = _reset_peak(self.device)
        graph = torch.cuda.CUDAGraph()
        try:
            options = {"stream": stream, "capture_error_mode": "thread_local"}
            with torch.cuda.graph(graph, **options):
                output = run()
        except Exception as error:
            raise _BrokenDeviceError(_reason(error)) from None
        graph.replay()
        torch.cuda.synchronize()
        peak = _peak(self.device, before)
        output = None if output is None else output.cpu()
        return _row(timed(graph.replay, self.device), peak), output


class _BrokenDeviceError(RuntimeError):
    """A failure after which the process should not measure anything else."""


def serve(connection: Any, device: str) -> None:
    """Measure what is asked for through a connection, until None is."""
    warnings.filterwarnings("ignore")
    torch._logging.set_logs(all=logging.CRITICAL)
    transformers.logging.set_verbosity_error()
    # What is not compiled any more would be measured as if it were.
    torch._dynamo.config.fail_on_recompile_limit_hit = True
    torch._dynamo.config.recompile_limit = 64
    connection.send("ready")
    subject, subject_key, first_output, output_key = None, None, None, None
    while (wanted := connection.recv()) is not None:
        # Not one for both parts: what a model caches in inference mode is of no use in training.
        key = wanted.name, wanted.batch, wanted.tokens, wanted.part
        row: Row = {"failed": None}
        try:
            if key != subject_key:
                subject, subject_key = None, None
                _free()
                subject, subject_key = Subject(wanted, device), key
            measured, output = subject.measure(wanted.part, wanted.form)
            row |= measured
            key = wanted.encoder.weights or wanted.name, wanted.batch, wanted.tokens
            if output is not None and key != output_key:
                first_output, output_key = output, key
            elif output is not None:
                expected = first_output.float()
                row["difference"] = float((output - expected).norm() / expected.norm())
                del expected
            del output
        except _BrokenDeviceError as error:
            row |= {"failed": str(error), "broken": True}
        except Exception as error:
            row["failed"] = _reason(error)
            traceback.clear_frames(error.__traceback__)  # which hold tensors
        _free(reset=wanted.form in (COMPILED, BOTH) and row["failed"] is not None)
        if row["failed"] and device == "cuda":
            try:
                torch.cuda.synchronize()
            except RuntimeError:
                row["broken"] = True
        connection.send(row)


def _row(times: list[float], peak: float | None) -> Row:
    low, middle, high = quantiles(times, n=4)
    return {"ms": middle, "ms quartiles": [low, high], "runs": len(times), "GiB": peak}


def _reason(error: Exception) -> str:
    """Why a measurement failed, in one line, with the model's line of code if there is one."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    if "out of memory" in str(error).lower():
        return OUT_OF_MEMORY
    if "synchroniz" in text:
        text = WAITS
        places = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if "/torch/" not in frame.filename and Path(frame.filename).name != "forms.py"
        ]
        if places:
            text += f", {Path(places[-1].filename).name}:{places[-1].lineno}: {places[-1].line}"
    else:
        text = f"{type(error).__name__}: {text}"
    return text if len(text) <= 200 else f"{text[:199]}…"


def _free(reset: bool = True) -> None:
    if reset:
        torch._dynamo.reset()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _reset_peak(device: str) -> int:
    if device != "cuda":
        return 0
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()


def _peak(device: str, before: int) -> float | None:
    if device != "cuda":
        return None
    return (torch.cuda.max_memory_allocated() - before) / 2**30


# In the process that asks


class Worker:
    """A process that measures, started anew after it broke or took too long.

    Args:
        device: "cuda" or "cpu".
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._process: Any = None
        self._connection: Any = None

    def measure(self, wanted: Measurement) -> Row:
        """Measure in the process."""
        begun = time.perf_counter()
        try:
            if self._process is None:
                self._start()
            self._connection.send(wanted)
            if self._connection.poll(LONGEST):
                row = self._connection.recv()
            else:
                row = {"failed": f"{TOO_SLOW} {LONGEST:.0f} s", "broken": True}
        except (EOFError, OSError):
            self._process.join(5)
            row = {"failed": f"the process ended, {self._process.exitcode}", "broken": True}
        if row.pop("broken", False):
            self.stop()
        return row | {"seconds": round(time.perf_counter() - begun, 1)}

    def _start(self) -> None:
        context = get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=serve, args=(other, self._device))
        self._process.start()
        other.close()
        if not self._connection.poll(STARTING):
            raise OSError("the process did not start")
        self._connection.recv()

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
        self._process = None


def plan(
    encoders: Mapping[str, Encoder],
    lengths: Sequence[int],
    batches: Sequence[int] = (1,),
    forms: Sequence[str] = FORMS,
    parts: Sequence[str] = PARTS,
) -> list[Measurement]:
    """List all measurements: what needs no compiler first, and of that short sequences.

    Args:
        encoders: By name.
        lengths: Tokens.
        batches: Numbers of sequences.
        forms: Those wanted; long sequences are not captured or not compiled, see above.
        parts: Those wanted.
    """
    return [
        Measurement(name, encoder, tokens, batch, part, form)
        for together in ((EAGER, CAPTURED), (COMPILED, BOTH))
        for tokens in lengths
        for batch in batches
        for name, encoder in encoders.items()
        for part in encoder.parts
        if part in parts
        for form in encoder.forms
        if form in forms
        and form in together
        and (form not in (CAPTURED, BOTH) or tokens <= CAPTURED_UP_TO)
        and (form != COMPILED or tokens <= COMPILED_UP_TO)
    ]


def measure_all(
    wanted: Sequence[Measurement],
    worker: Worker,
    minutes: float,
    slowest: float,
) -> Iterator[tuple[list[Row], list[str]]]:
    """Measure, and yield all rows so far with what is missing after each.

    What fails, or is left out, at one length fails or is left out at greater ones too. Others than
    ours are left out, in a part, after all of their forms that were measured took over `slowest`
    times ours.

    Args:
        wanted: What to measure.
        worker: Where.
        minutes: No measurement begins later than this.
        slowest: How many times the time of ours is too slow.
    """
    begun = time.monotonic()
    rows: list[Row] = []
    for number, one in enumerate(wanted):
        if time.monotonic() - begun > minutes * 60:
            break
        if (failed := _known_failure(one, rows, slowest)) is not None:
            measured: Row = {"failed": failed}
        else:
            measured = worker.measure(one)
        row = {
            "encoder": one.name,
            "ours": one.encoder.ours,
            "group": one.encoder.group,
            "batch": one.batch,
            "tokens": one.tokens,
            "part": one.part,
            "form": one.form,
        }
        for key in ("ms", "ms quartiles", "runs", "GiB", "difference", "seconds", "failed"):
            row[key] = measured.get(key)
        rows.append(row)
        found = row["failed"] or f"{row['ms']:.2f} ms"
        print(f"{time.monotonic() - begun:5.0f} s  {one}: {found}", flush=True)
        yield rows, [str(later) for later in wanted[number + 1 :]]


def _known_failure(one: Measurement, rows: list[Row], slowest: float) -> str | None:
    """Why a measurement need not be made after what others showed."""
    mine = [row for row in rows if row["encoder"] == one.name]
    for row in mine:
        same_part = row["part"] == one.part
        if (row["tokens"], row["batch"]) == (one.tokens, one.batch):
            if one.form == BOTH and same_part and row["form"] == COMPILED and row["failed"]:
                return row["failed"]
            begins_alike = row["form"] == one.form or (one.form, row["form"]) == (CAPTURED, EAGER)
            if (row["failed"] or "").startswith(TOO_SLOW) and begins_alike:
                return row["failed"]
            tries_again = one.form in (CAPTURED, BOTH) and row["form"] == CAPTURED
            if tries_again and not (row["failed"] or OUT_OF_MEMORY).startswith(MAY_DO):
                return row["failed"]
        elif same_part and row["form"] == one.form and row["failed"] and _shorter(row, one):
            if ", as at " in row["failed"] or row["failed"].startswith(LEFT_OUT):
                return row["failed"]
            return f"{row['failed']}, as at {row['tokens']:,} tokens"
    shorter = [row for row in rows if row["part"] == one.part and row["ms"] and _shorter(row, one)]
    theirs = [row for row in shorter if row["encoder"] == one.name]
    if one.encoder.ours or not theirs:
        return None
    tokens, batch = max((row["tokens"], row["batch"]) for row in theirs)
    same = [row for row in shorter if (row["tokens"], row["batch"]) == (tokens, batch)]
    ours = [row["ms"] for row in same if row["ours"] and row["group"] == one.encoder.group]
    fastest = min(row["ms"] for row in same if row["encoder"] == one.name)
    if ours and fastest > slowest * min(ours):
        return f"{LEFT_OUT}, over {slowest:.0f} × ours at {tokens:,} tokens"
    return None


def _shorter(row: Row, one: Measurement) -> bool:
    return row["tokens"] <= one.tokens and row["batch"] * row["tokens"] < one.batch * one.tokens


# Tables


def table(rows: list[Row]) -> str:
    """Format the eager and the best time of each encoder, and the memory of a training step.

    A row whose "graph" is False ran without one although its form is called captured.
    """
    batches = len({row["batch"] for row in rows}) > 1
    header = ["tokens", *(["batch"] if batches else []), "encoder"]
    for part in PARTS:
        header += [f"{part}, eager ms", "best ms", "form"]
    lines = []
    for size in dict.fromkeys((row["tokens"], row["batch"]) for row in rows):
        at_size = [row for row in rows if (row["tokens"], row["batch"]) == size]
        for name in dict.fromkeys(row["encoder"] for row in at_size if row["ms"]):
            line = [f"{size[0]:,}", *([str(size[1])] if batches else []), name]
            for part in PARTS:
                mine = [
                    row
                    for row in at_size
                    if (row["encoder"], row["part"]) == (name, part) and row["ms"]
                ]
                eager = next((row for row in mine if row["form"] == EAGER), None)
                best = min(mine, key=lambda row: row["ms"], default=None)
                line += [eager and eager["ms"], best and best["ms"], best and _form(best)]
            lines.append([*line, eager and eager["GiB"]])
    return report.table([*header, "eager GiB"], lines)


def _form(row: Row) -> str:
    return row["form"] if row.get("graph", True) else f"{row['form']}, no graph"


# Runs


def run(
    encoders: Mapping[str, Encoder],
    lengths: Sequence[int],
    forms: Sequence[str],
    parts: Sequence[str],
    minutes: float,
    slowest: float,
    batches: Sequence[int] = (1,),
    **settings: Any,
) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Measure encoders, and yield the results with what is missing after every measurement.

    Args:
        encoders: By name.
        lengths: Tokens.
        forms: Those wanted.
        parts: Those wanted.
        minutes: See `measure_all`.
        slowest: See `measure_all`.
        batches: Numbers of sequences.
        settings: What else belongs to the results.
    """
    wanted = plan(encoders, lengths, batches, forms, parts)
    compiled = "layers, torch.compile(dynamic=False), default mode"
    results = {**settings, "compiled": compiled, "minutes": minutes, "rows": []}
    worker = Worker(DEVICE)
    report.machine()
    _free()  # what the settings were measured with
    missing = [str(one) for one in wanted]
    try:
        for results["rows"], missing in measure_all(wanted, worker, minutes, slowest):
            yield results, missing
    finally:
        worker.stop()
    print(table(results["rows"]), end="\n\n")
    if missing:
        print(f"{len(missing)} measurements are missing: time was over")


def chosen(encoders: Mapping[str, Encoder], prefixes: Sequence[str]) -> dict[str, Encoder]:
    """Return the encoders whose names begin so."""
    return {name: one for name, one in encoders.items() if name.startswith(tuple(prefixes))}
