"""Encoders on a CPU: their runs alternate, each of them eager.

A process's memory is measured in a process of its own.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from statistics import quantiles
from typing import Any

import torch
from torch import Tensor

from benchmarks import forms
from benchmarks.forms import EAGER, FORWARD, PARTS, STEP, Encoder, Measurement, Row
from benchmarks.processes import in_new_process
from benchmarks.timing import Memory, timed


def run_on_cpu(
    encoders: Mapping[str, Encoder],
    lengths: Sequence[int],
    parts: Sequence[str],
    turns: int,
) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Measure encoders group by group, and yield the results and what is missing after each.

    FlexAttention is left out: it has no backward pass on a CPU.

    Args:
        encoders: The encoders, by name.
        lengths: Tokens.
        parts: What to measure of each.
        turns: How often each is measured.
    """
    encoders = {name: encoder for name, encoder in encoders.items() if "Flex" not in name}
    groups = sorted({encoder.group for encoder in encoders.values()})
    wanted = [*product(lengths, groups)]
    rows: list[Row] = []
    for number, (length, group) in enumerate(wanted, 1):
        its = {name: encoder for name, encoder in encoders.items() if encoder.group == group}
        rows += compare(its, 1, length, parts, turns)
        missing = [f"{group} {length:,} tokens".strip() for length, group in wanted[number:]]
        yield {"rows": rows}, missing
    print(forms.table(rows))


def compare(
    encoders: Mapping[str, Encoder], batch: int, length: int, parts: Sequence[str], turns: int
) -> list[Row]:
    """Measure encoders of a group, one row for each part."""
    times = in_new_process(alternate, encoders, batch, length, parts, turns)
    rows: list[Row] = []
    expected: dict[str, Tensor] = {}  # by the name that encoders with the same weights share
    for name, encoder in encoders.items():
        for part in parts:
            memory, output = in_new_process(memory_of, encoder, batch, length, part)
            low, middle, high = quantiles(times[name, part], n=4)
            row = {
                "encoder": name,
                "ours": encoder.ours,
                "group": encoder.group,
                "batch": batch,
                "tokens": length,
                "part": part,
                "form": EAGER,
                "ms": middle,
                "ms quartiles": [low, high],
                "runs": turns,
                "GiB": memory,
                "difference": None,
                "failed": None,
            }
            if part == FORWARD and encoder.weights in expected:
                first = expected[encoder.weights]
                row["difference"] = float((output - first).norm() / first.norm())
            elif part == FORWARD and encoder.weights:
                expected[encoder.weights] = output
            rows.append(row)
    return rows


def alternate(
    encoders: Mapping[str, Encoder], batch: int, length: int, parts: Sequence[str], turns: int
) -> dict[tuple[str, str], list[float]]:
    """Return the milliseconds of each encoder and part, with the encoders alternating.

    A processor's speed drifts, so measuring one after the other would favour one of them.
    """
    runs = {name: functions(encoder, batch, length) for name, encoder in encoders.items()}
    times: dict[tuple[str, str], list[float]] = {}
    for part in parts:
        for turn in range(turns + 1):
            for name in encoders:
                seconds, _ = timed(runs[name][part])
                if turn:  # the first turn warms up
                    times.setdefault((name, part), []).append(1e3 * seconds)
    return times


def memory_of(encoder: Encoder, batch: int, length: int, part: str) -> tuple[float, Any]:
    """Return the peak GiB above the weights, measured in this process, and the output."""
    run = functions(encoder, batch, length)[part]
    memory = Memory.start("cpu")
    output = run()
    return memory.peak() / 2**30, output


def functions(encoder: Encoder, batch: int, length: int) -> dict[str, Callable[[], Any]]:
    """Build an encoder, and return the functions to be measured, by part."""
    subject = forms.Subject(Measurement("", encoder, length, batch, FORWARD, EAGER), "cpu")

    def in_mode(part: str) -> Callable[[], Any]:
        run = subject.function(part)

        def call() -> Any:
            subject.model.train(part == STEP)
            with torch.inference_mode(part == FORWARD):
                return run()

        return call

    return {part: in_mode(part) for part in PARTS}
