"""Encoders on a CPU: their runs alternate, each of them eager.

A process's memory is measured in a process of its own.
"""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from statistics import quantiles
from typing import Any

import torch
from torch import Tensor, nn

import forms
import report
from encoders import VOCABULARY
from forms import EAGER, FORWARD, PARTS, Encoder, Row
from timing import Memory


def run_on_cpu(
    encoders: Mapping[str, Encoder],
    options: argparse.Namespace,
    target: Path,
    batches: Sequence[int] = (1,),
) -> None:
    """Measure the chosen encoders, group by group, and save after each.

    FlexAttention is left out: it has no backward pass on a CPU.

    Args:
        encoders: The encoders, by name.
        options: Those of `forms.parser`.
        target: The file of the results.
        batches: Numbers of sequences.
    """
    chosen = {
        name: encoder
        for name, encoder in encoders.items()
        if name.startswith(tuple(options.encoders)) and "Flex" not in name
    }
    groups = sorted({encoder.group for encoder in chosen.values()})
    wanted = [
        (group, batch, length)
        for length in options.lengths
        for group in groups
        for batch in batches
    ]
    rows: list[Row] = []
    begun = time.monotonic()
    for number, (group, batch, length) in enumerate(wanted):
        if time.monotonic() - begun > options.minutes * 60:
            break
        its = {name: encoder for name, encoder in chosen.items() if encoder.group == group}
        rows += compare(its, batch, length, options.parts, options.turns)
        missing = [
            f"{group}{', ' if group else ''}{length:,} tokens × {batch}"
            for group, batch, length in wanted[number + 1 :]
        ]
        report.save(target, {"rows": rows}, "transformers", missing=missing)
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
                begun = time.perf_counter()
                runs[name][part]()
                if turn:  # the first turn warms up
                    passed = (time.perf_counter() - begun) * 1e3
                    times.setdefault((name, part), []).append(passed)
    return times


def memory_of(encoder: Encoder, batch: int, length: int, part: str) -> tuple[float, Any]:
    """Return the peak GiB above the weights, measured in this process, and the output."""
    run = functions(encoder, batch, length)[part]
    memory = Memory.start("cpu")
    output = run()
    return memory.peak() / 2**30, output


def functions(encoder: Encoder, batch: int, length: int) -> dict[str, Callable[[], Any]]:
    """Build an encoder, and return the functions to be measured, by part."""
    torch.manual_seed(0)
    built, inputs = encoder.build(batch, length)
    model: nn.Module = built
    torch.manual_seed(1)
    inputs["input_ids"] = torch.randint(5, VOCABULARY, (batch, length))

    def forward() -> Tensor:
        model.eval()
        with torch.inference_mode():
            return model(**inputs).last_hidden_state

    def training_step() -> None:
        model.train()
        model.zero_grad(set_to_none=True)
        model(**inputs).last_hidden_state.float().square().mean().backward()

    return dict(zip(PARTS, (forward, training_step), strict=True))


def in_new_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a new process."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)
