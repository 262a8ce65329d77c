"""Many trainings side by side, in rounds, so that all have taken as many steps when time is over.

Small models keep a GPU less than busy: several processes share it, and each has several trainings,
which take turns. A round is a number of steps of all of them. When the rest of the time is just
what a last stretch of falling learning rate takes, a plan is made: from which step it falls, and
where training ends. The plan is saved, and holds for trainings that are added later.
"""

import argparse
import json
import math
import multiprocessing
import sys
import time
import traceback
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import torch

from benchmarks import report

DECAY = 0.25  # of all steps, in which the learning rate falls to 0


class Training(Protocol):
    """A model in training, with other methods that `Trainings.ask` can call.

    Attributes:
        log: What is known of it, for JSON; has "step", the steps taken so far.
    """

    log: dict[str, Any]

    def train(self, until: int, plan: "Plan | None") -> None:
        """Train up to a step; without a plan at the full learning rate."""

    def save(self) -> None:
        """Save the state."""


@dataclass(frozen=True)
class Plan:
    """Where the learning rate begins to fall, and where training ends.

    Attributes:
        decay_from: The step from which the learning rate falls, to 0 at the last.
        steps: Steps in all.
    """

    decay_from: int
    steps: int

    @classmethod
    def of_steps(cls, steps: int) -> "Plan":
        """Plan a number of steps."""
        return cls(round(steps * (1 - DECAY)), steps)

    def rate(self, step: int) -> float:
        """Return the factor on the learning rate at a step."""
        return min(1.0, (self.steps - step) / (self.steps - self.decay_from))


class Trainings:
    """The processes of several trainings; those that fail are left out from then on.

    Args:
        make: Builds the training of a name, or resumes it. It is called in another process.
        names: What to train.
        processes: Number of processes.
    """

    def __init__(
        self, make: Callable[[Any], Training], names: Sequence[Hashable], processes: int
    ) -> None:
        context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
        self.connections: list[Connection] = []
        for first in range(min(processes, len(names))):
            ours, theirs = context.Pipe()
            arguments = (theirs, make, names[first::processes])
            context.Process(target=_work, args=arguments, daemon=True).start()
            theirs.close()
            self.connections.append(ours)
        self._receive()

    def ask(self, method: str, *arguments: Any) -> None:
        """Have all trainings do the same, and wait until they have."""
        for connection in self.connections:
            try:
                connection.send((method, arguments))
            except OSError:
                continue  # found out when its answer is received
        self._receive()

    def _receive(self) -> None:
        self.logs: dict[Any, dict[str, Any]] = {}
        for connection in list(self.connections):
            try:
                self.logs |= connection.recv()
            except (EOFError, OSError):
                print("a process has died", file=sys.stderr, flush=True)
                self.connections.remove(connection)
                connection.close()

    def close(self) -> None:
        """Let the processes end."""
        for connection in self.connections:
            connection.close()


def _work(
    connection: Connection, make: Callable[[Any], Training], names: Sequence[Hashable]
) -> None:
    """Do what is asked with each training in turn, and answer with the logs."""
    torch.set_num_threads(1)
    trainings: dict[Hashable, Training] = {}
    for name in names:
        try:
            trainings[name] = make(name)
        except Exception:
            _report(name)
    while True:
        try:
            connection.send({name: training.log for name, training in trainings.items()})
            method, arguments = connection.recv()
        except (EOFError, OSError):
            return
        for name, training in list(trainings.items()):
            try:
                getattr(training, method)(*arguments)
            except Exception:
                _report(name)
                del trainings[name]


def _report(name: Hashable) -> None:
    print(f"{name} has failed\n{traceback.format_exc()}", file=sys.stderr, flush=True)


def train_in_rounds(
    trainings: Trainings,
    file: Path,
    end: float,
    limit: float,
    *,
    every: int,
    steps: int | None = None,
    save_every: float = math.inf,
) -> bool:
    """Train until the steps of the plan are taken, or up to the limit; return whether they are.

    Args:
        trainings: What to train.
        file: Where the plan is, or will be.
        end: When training should end, by the plan that is made, on the clock of
            `time.perf_counter`.
        limit: When it stops, wherever it is.
        every: Steps in a round.
        steps: Steps in all, as many as fit if None. A plan that is saved comes first.
        save_every: Seconds between savings.
    """
    plan = Plan(**json.loads(file.read_text())) if file.exists() else None
    if plan is None and steps is not None:
        plan = _save(Plan.of_steps(steps), file)
    saved, rounds = time.perf_counter(), list[float]()  # seconds of each; the first compiles
    while trainings.logs:
        step = min(log["step"] for log in trainings.logs.values())
        if plan and step >= plan.steps:
            return True
        begun = time.perf_counter()
        slowest = max(rounds[1:][-3:], default=0.0)
        if begun + slowest > limit:
            break
        until = min(step + every, plan.steps) if plan else step + every
        trainings.ask("train", until, plan)
        now = time.perf_counter()
        rounds.append(now - begun)
        print(f"step {until}, {rounds[-1]:.1f} s, {end - now:.0f} s left", flush=True)
        slowest = max(rounds[1:][-3:], default=0.0)
        rest = math.ceil(until * DECAY / (1 - DECAY))
        if plan is None and slowest and end - now < (rest / every + 1) * slowest:
            fit = int((end - now) / slowest * every)
            plan = _save(Plan(until, until + max(every, min(rest, fit))), file)
        if now - saved > save_every:
            trainings.ask("save")
            saved = time.perf_counter()
    trainings.ask("save")
    return False


def _save(plan: Plan, file: Path) -> Plan:
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(vars(plan)))
    partial.replace(file)
    return plan


def parser(description: str, arms: Collection[str]) -> argparse.ArgumentParser:
    """Return the options that the scripts share; some of their defaults are the script's to set."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--prepare", type=Path, metavar="FILE", help="write the texts and stop")
    parser.add_argument("--documents", type=Path, default=report.DATA)
    parser.add_argument("--pieces", type=int, default=3000, help="maximum pieces to train with")
    parser.add_argument("--vocabulary", type=int, default=8192, help="of the prepared texts")
    parser.add_argument("--data", type=Path, help="the file that --prepare wrote")
    parser.add_argument("--arms", nargs="+", choices=arms, default=list(arms), metavar="ARM")
    parser.add_argument("--steps", type=int, help="steps in all; as --minutes allow without it")
    parser.add_argument("--minutes", type=float, help="everything included")
    parser.add_argument("--reserve", type=float, help="seconds of --minutes for the evaluation")
    parser.add_argument("--processes", type=int, default=10, help="on the GPU at a time")
    parser.add_argument("--every", type=int, help="steps in a round")
    parser.add_argument("--save-every", type=float, help="seconds between savings")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--head", type=int, default=64, help="channels of a head")
    parser.add_argument("--rate", type=float, default=1e-3, help="highest learning rate")
    parser.add_argument("--tokens", type=int, default=32_768, help="tokens per step")
    parser.add_argument("--smoke", action="store_true", help="tiny models and texts, for a CPU")
    parser.add_argument("--docs", action="store_true", help="write saved results into the page")
    return parser
