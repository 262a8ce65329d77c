"""What Fovea's attention learns: masked words, and facts by distance, against its peers.

    python studies/fovea_quality.py --prepare data.npz.xz      # texts as tokens; needs no GPU
    python studies/fovea_quality.py --data data.npz.xz --study words --minutes 6
    python studies/fovea_quality.py --data data.npz.xz --study facts --minutes 4
    python studies/fovea_quality.py --data data.npz.xz --study words --seeds 1 --arms ...
    python studies/fovea_quality.py --data data.npz.xz --study facts --start STATE --steps 600 ...
    python studies/fovea_quality.py --docs                     # write the tables of the page

Ten encoders are trained from scratch: Fovea with k = 1, 2, 4 and both coverages; windows in which a
query sees as many keys, on average, as with Fovea of k = 1 and of k = 2 (full coverage); LongT5's
transient-global attention with as many keys as Fovea of k = 1; and T5's dense attention. They have
T5's relative position bias, equal depth and width, see the same batches with the same masks, and
take the same number of steps.

- words: masked language modelling on papers, proposals, meetings and novels, 15 % of the words
  masked. The loss on texts that were held out is reported by how far away the nearest visible
  occurrence of the masked word is, on either side, and by whether the published coverage hides all
  occurrences.
- facts: 16 facts stand in a text, each one token that means "key i has value j", and at a distance
  from each a token that asks for key i; the answer is one of 16 values. Lengths double during
  training. The share of right answers is reported by distance, and by whether the published
  coverage hides the fact from the block that asks.

Each arm is a process; all share one GPU and advance together, so that they have taken the same
number of steps whenever it is time for the learning rate to fall. That is when the rest of
--minutes is what a third of the steps taken so far still takes. Other seeds then take as many
steps. An interrupted run continues when the command is repeated.

With --start, Fovea begins with the weights of dense attention, a finished run of the same study and
seed in that folder; --steps 0 then tests it just after the conversion. In arms with "sizes", an
average of m tokens has log(m) added to its scores, so that it weighs as much as they.
"""

import argparse
import json
import math
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

import rounds
import runs
from benchmarks import report
from fovea_arms import ARMS, Reader, keys_and_radius
from fovea_scores import measure_facts, measure_words, tables
from fovea_studies import STUDIES
from fovea_texts import prepare
from rounds import Plan, Trainings, train_in_rounds

PAGE = report.STUDIES / "fovea.md"
TEMPORARY = Path(tempfile.gettempdir()) / "foveate"
WARM_UP = 100  # steps
SMOKE = {
    "width": 32,
    "head": 16,
    "layers": 2,
    "block": 8,
    "length": 128,
    "tokens": 512,
    "lengths": [32, 64, 128],
    "double_every": 4,
    "asked": 4,
    "distances": [8, 16, 64],
    "examples": 4,
    "held_out": 4,
    "every": 4,
    "steps": 12,
    "processes": 2,
    "reserve": 0,
    "state": TEMPORARY / "fovea_quality-smoke",
    "results": TEMPORARY / "fovea_quality-smoke",
}


def main() -> None:
    parser = rounds.parser(__doc__.splitlines()[0], ARMS)
    parser.set_defaults(minutes=6.0, reserve=40.0, every=50, save_every=120.0)
    parser.add_argument("--study", choices=STUDIES, default="words")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--block", type=int, default=64, help="tokens in a block of Fovea")
    parser.add_argument("--length", type=int, default=4096, help="words: tokens of a piece")
    parser.add_argument("--held-out", type=int, help="words: maximum held-out pieces of each kind")
    parser.add_argument("--draws", type=int, default=2, help="words: masks of each held-out piece")
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=[512, 1024, 2048, 4096, 8192], help="facts"
    )
    parser.add_argument("--double-every", type=int, default=200, help="facts: steps per length")
    parser.add_argument("--asked", type=int, default=16, help="facts, and questions, in a text")
    parser.add_argument("--words", type=int, default=16, help="number of keys, and of values")
    parser.add_argument(
        "--distances",
        type=int,
        nargs="+",
        default=[64, 128, 256, 512, 1024, 2048, 4096, 6144],
        help="facts: at which right answers are counted, in texts of the last length",
    )
    parser.add_argument("--examples", type=int, default=64, help="facts: texts per distance")
    parser.add_argument("--state", type=Path, default=TEMPORARY / "fovea_quality")
    parser.add_argument(
        "--start", type=Path, metavar="STATE", help="begin with dense attention's weights there"
    )
    parser.add_argument("--results", type=Path, default=report.STUDIES / "results", help="folder")
    if "--smoke" in sys.argv:
        parser.set_defaults(**SMOKE)
    options = parser.parse_args()
    if options.docs:
        report.write_tables(PAGE, tables(options.results))
    elif options.prepare:
        prepare(options.documents, options.prepare, options)
    elif options.data is None:
        parser.error("--data is needed: a file written by --prepare")
    else:
        conduct(options)


# Training: a process for each arm and seed.


class Learner:
    """An arm in training: its study, its model and its log, saved in a folder."""

    def __init__(self, run: tuple[str, int], options: argparse.Namespace) -> None:
        name, seed = run
        self.seed, self.options = seed, options
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.study = STUDIES[options.study](options, self.device)
        torch.manual_seed(seed)
        study = self.study
        self.model = Reader(ARMS[name], study.vocabulary, study.outputs, study.longest, options)
        self.model.to(self.device)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(),
            options.rate,
            betas=(0.9, 0.98),
            weight_decay=0.01,
            fused=self.device == "cuda",
        )
        self.folder = run_folder(options, name, seed)
        self.log = runs.resume(self.folder, self.model, self.optimizer)
        if options.start and not self.log["step"]:
            dense = runs.run_folder(options.start / options.study, f"dense {seed}")
            runs.load_weights(dense, self.model)
        self.log["parameters"] = sum(p.numel() for p in self.model.parameters())

    def train(self, until: int, plan: Plan | None) -> None:
        """Train up to a step; without a plan at the full learning rate."""
        begun, losses = time.perf_counter(), []
        self.model.train()
        for step in range(self.log["step"], until):
            rate = min(1.0, (step + 1) / WARM_UP)
            if plan is not None:
                rate *= plan.rate(step)
            loss = self.study.loss(self.model, step, self.seed)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.param_groups[0]["lr"] = self.options.rate * rate
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            losses.append(loss.detach())
        if losses:
            mean = round(float(torch.stack(losses).mean()), 4)
            self.log["curve"].append({"step": until, "loss": mean})
            self.log["step"] = until
            self.log["seconds"] += time.perf_counter() - begun

    def save(self) -> None:
        """Save model, optimizer and log."""
        runs.save(self.folder, self.model, self.optimizer, self.log)

    def finish(self) -> None:
        """Evaluate the model, save what it scores, then the log."""
        self.model.eval()
        self.folder.mkdir(parents=True, exist_ok=True)
        partial = self.folder / "partial.npy"
        np.save(partial, self.study.evaluate(self.model))
        partial.replace(self.folder / "scores.npy")
        self.log["finished"] = True
        self.save()


def run_folder(options: argparse.Namespace, name: str, seed: int) -> Path:
    return runs.run_folder(options.state / options.study, f"{name} {seed}".replace("=", ""))


def conduct(options: argparse.Namespace) -> None:
    """Train and evaluate the runs that are not finished, and save the results after each group."""
    end = time.perf_counter() + 60 * options.minutes
    todo = [
        (name, seed)
        for seed in options.seeds
        for name in options.arms
        if not (run_folder(options, name, seed) / "scores.npy").exists()
    ]
    groups = math.ceil(len(todo) / options.processes)
    for group in range(groups):
        first, now = group * options.processes, time.perf_counter()
        runs_of_group = todo[first : first + options.processes]
        learner = partial(Learner, options=options)
        trainings = Trainings(learner, runs_of_group, len(runs_of_group))
        limit = now + (end - now) / (groups - group) - options.reserve
        if train_in_rounds(
            trainings,
            options.state / options.study / "plan.json",
            limit,
            limit,
            every=options.every,
            steps=options.steps,
            save_every=options.save_every,
        ):
            trainings.ask("finish")
        trainings.close()
        gather(options)
        if time.perf_counter() > end:
            break
    if not todo:
        gather(options)


# Results


def gather(options: argparse.Namespace) -> None:
    """Save and print the results of all runs that are finished, and name those that are missing."""
    study = STUDIES[options.study](options, "cpu")
    logs, scores = {}, {}
    seeds = sorted({*options.seeds, *_saved_seeds(options)})
    for name in ARMS:
        for seed in seeds:
            folder = run_folder(options, name, seed)
            if (folder / "scores.npy").exists():
                logs[name, seed] = json.loads((folder / "log.json").read_text())
                scores[name, seed] = np.load(folder / "scores.npy")
    asked = [(name, seed) for seed in options.seeds for name in options.arms]
    missing = [f"{name}, seed {seed}" for name, seed in asked if (name, seed) not in scores]
    measure = measure_words if options.study == "words" else measure_facts
    setting = {
        name: value
        for name, value in vars(options).items()
        if not isinstance(value, Path) and name not in _NO_SETTING
    }
    arms = {}
    for name, arm in ARMS.items():
        keys, radius = keys_and_radius(arm, study.longest, options.block)
        arms[name] = {
            "keys": round(keys, 1),
            "radius": radius,
            "runs": {
                seed: {key: logs[name, seed][key] for key in ("parameters", "step", "seconds")}
                | {"curve": logs[name, seed]["curve"]}
                for seed in seeds
                if (name, seed) in logs
            },
        }
    results = {
        "finished": not missing,
        "missing": missing,
        "setting": setting,
        "arms": arms,
        **(measure(study, scores, options) if scores else {}),
    }
    path = options.results / f"fovea_quality-{options.study}.json"
    report.save(path, results, "transformers", "triton")
    for name, table in tables(options.results).items():
        if name.startswith(options.study):
            print(f"{name}\n\n{table}\n", flush=True)


_NO_SETTING = {"smoke", "docs", "arms", "seeds", "minutes", "reserve", "processes", "save_every"}


def _saved_seeds(options: argparse.Namespace) -> set[int]:
    folders = (options.state / options.study).glob("*/scores.npy")
    return {int(path.parent.name.rsplit("_", 1)[1]) for path in folders}


if __name__ == "__main__":
    main()
