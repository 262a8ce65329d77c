"""Masked language modelling from scratch (HDT, Figure 1b and Table 9): who learns faster?

    python studies/convergence.py --prepare data.npz --corpus corpus   # tokenize the documents
    python studies/convergence.py --data data.npz --minutes 10 --gpus 0 1 2 3
    python studies/convergence.py --data data.npz --rates-of a.json b.json --results seeds.json
    python studies/convergence.py --docs --plot        # write saved results into the page

The corpus is what `training_corpus.py` writes: papers, Python Enhancement Proposals, technical
proposals, meetings and manuals; every twentieth document is held out. Documents are cut into pieces
of --length tokens. All models see the same pieces in the same order and predict the same masked
15 % of the tokens:

- true sections: HDT with the documents' own sections;
- pseudo-sections: HDT with 32 sentences to a section;
- Longformer: HDT's layers over the tokens without anchors, 256 to each side of a token and one
  global token;
- dense: the same, each token attending to all;
- HAT: as `hat.py` describes, which has a third more layers across segments.

Each has positions of two kinds: added to the embeddings (HDT's own sinusoids on three levels;
sinusoids of the index in Longformer and dense attention; HAT's own, which are learned) and rotary,
by the index in reading order, in HAT by the index in the segment. torch.compile fuses HAT; HDT's
own kernels, which Longformer and dense attention share, are what they are.

Each model trains with several learning rates for the same minutes on a GPU of its own, and with the
best of them with further seeds; pseudo-sections have the best rate of true sections. With
--rates-of, the best rates come from earlier files, and all seeds run with them. A GPU that is named
several times runs as many models at once. The loss is measured on held-out pieces. Seconds are
those of the training steps alone, without the first ones. A run that is interrupted continues when
the command is repeated, and is named in the results. Losses are compared where all runs have
arrived.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from scipy.stats import ttest_rel
from torch import Tensor, nn

import runs
from benchmarks import report
from convergence_models import COPIES, MASKED, MODELS, Batch, Data, Loader, build
from document_nodes import VOCABULARY, prepare
from foveate.models.hdt import HDTConfig
from small_encoders import mixed_precision

RESULTS = report.STUDIES / "results" / "convergence.json"
SEEDS = report.STUDIES / "results" / "convergence-seeds.json"
LONG = report.STUDIES / "results" / "convergence-long.json"
HAT = report.STUDIES / "results" / "convergence-hat.json"
PASSAGES = report.STUDIES / "results" / "convergence-passages.json"
PASSAGE_SEEDS = report.STUDIES / "results" / "convergence-passage-seeds.json"
"""Cut short by the end of the machine's time; on a corpus of nearly the same documents."""
MADE_UP = report.STUDIES / "results" / "convergence-made-up.json"
LONG_SEEDS = report.STUDIES / "results" / "convergence-long-seeds.json"
IMAGE = report.STUDIES / "convergence.png"
PAGE = report.STUDIES / "convergence.md"
STATE = Path(tempfile.gettempdir()) / "foveate" / "convergence"
WARM_UP = 500
UNCOUNTED = 20  # the first steps, in which kernels are compiled
LEARNING_RATES = {  # without those that were worse in earlier runs
    "true sections": (1e-3, 2e-3),
    "true sections, rotary": (1e-3, 2e-3),
    "passages of 128, rotary": (1e-3, 2e-3),
    "passages of 256, rotary": (1e-3, 2e-3),
    "passages of 512, rotary": (1e-3, 2e-3),
    "Longformer": (1e-3, 2e-3),
    "Longformer, rotary": (1e-3, 2e-3),
    "dense": (1e-3, 2e-3),
    "dense, rotary": (1e-3, 2e-3),
    "HAT": (1e-3,),
    "HAT, rotary": (5e-4, 1e-3),
}

Job = tuple[str, float, int]
"""A model, a learning rate and a seed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prepare", type=Path, metavar="FILE", help="write the data and stop")
    parser.add_argument("--corpus", type=Path, help="folder that training_corpus.py wrote")
    parser.add_argument("--limit", type=int, help="maximum documents to prepare")
    parser.add_argument("--data", type=Path, help="file written by --prepare")
    parser.add_argument("--models", nargs="*", choices=MODELS, default=MODELS)
    parser.add_argument("--rates", type=float, nargs="*", help="the same for all models")
    parser.add_argument(
        "--rates-of", type=Path, nargs="+", help="saved results that tried learning rates"
    )
    parser.add_argument("--seeds", type=int, default=3, help="seeds with the best learning rate")
    parser.add_argument("--first-seed", type=int, default=0, help="with --rates-of")
    parser.add_argument("--minutes", type=float, default=10, help="of training, for each run")
    parser.add_argument("--steps", type=int, help="most steps of each run")
    parser.add_argument(
        "--gpus", type=int, nargs="+", default=[0], help="one run at a time for each number"
    )
    parser.add_argument("--every", type=int, default=200, help="steps between points of the curve")
    parser.add_argument("--length", type=int, default=4096, help="tokens per piece")
    parser.add_argument("--batch", type=int, default=16, help="pieces per step")
    parser.add_argument("--held-out", type=int, default=64, help="number of held-out pieces")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--state", type=Path, default=STATE, help="folder of interrupted runs")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--plot", action="store_true", help="draw the picture from saved results")
    parser.add_argument("--docs", action="store_true", help="write saved results into the page")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.plot or options.docs:
        long, hat, long_seeds, seeds, passages, passage_seeds = (
            report.load(file)["runs"]
            for file in (LONG, HAT, LONG_SEEDS, SEEDS, PASSAGES, PASSAGE_SEEDS)
        )
        if options.docs:
            tables = {
                "passages": passage_table(passages),
                "passage seeds": passage_seeds_table([*passages, *passage_seeds], 1000),
                "long": run_table(by_rate(long)),
                "long seeds": seed_table(by_rate(long_seeds)),
                "sections": section_table(
                    long_seeds, "true sections, rotary", "pseudo-sections, rotary", 3000
                ),
                "sections of passages": section_table(
                    report.load(MADE_UP)["runs"],
                    "passages of 256, rotary",
                    "pseudo-sections of passages of 256, rotary",
                    250,
                ),
                "seeds": run_table(seeds),
            }
            report.write_tables(PAGE, tables)
        if options.plot:
            plot(by_rate([*long, *hat]))
    elif options.prepare:
        prepare(options.corpus, options.prepare, options.limit)
    elif options.worker:
        name, rate, seed = options.worker
        train((name, float(rate), int(seed)), options)
    elif options.rates_of:
        tried = [run for file in options.rates_of for run in report.load(file)["runs"]]
        best = {name: best_rate(name, tried) for name in options.models}
        seeds = range(options.first_seed, options.seeds)
        run_all(with_seeds(best, seeds), [], best, options)
    else:
        for name in options.models:
            if source_of_rate(name) not in options.models:
                parser.error(
                    f"{name} takes the learning rate of {source_of_rate(name)}: add that to "
                    "--models, or give --rates-of"
                )
        rates = [
            (name, rate, 0)
            for name in options.models
            for rate in options.rates or LEARNING_RATES.get(name, ())
        ]
        run_all(rates, [], {}, options)
        tried = collect(rates, options)
        best = {name: best_rate(name, tried) for name in options.models}
        further = [job for job in with_seeds(best, range(options.seeds)) if job not in rates]
        run_all(further, rates, best, options)


def with_seeds(best: dict[str, float], seeds: Iterable[int]) -> list[Job]:
    """Return the runs of every model with its best rate, all models with one seed first."""
    return [(name, rate, seed) for seed in seeds for name, rate in best.items()]


def run_all(
    jobs: Sequence[Job], earlier: Sequence[Job], best: dict[str, float], options: argparse.Namespace
) -> None:
    """Run jobs in processes, one at a time on each GPU, and save all results after each."""
    free: SimpleQueue[int] = SimpleQueue()
    for gpu in options.gpus:
        free.put(gpu)

    def run(job: Job) -> None:
        gpu = free.get()
        command = [
            sys.executable,
            __file__,
            "--worker",
            *map(str, job),
            "--data",
            str(options.data),
        ]
        for name in ("minutes", "every", "length", "batch", "held_out", "layers", "width", "state"):
            command += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
        if options.steps:
            command += ["--steps", str(options.steps)]
        subprocess.run(command, check=False, env=os.environ | {"CUDA_VISIBLE_DEVICES": str(gpu)})
        free.put(gpu)
        gather([*earlier, *jobs], best, options)

    with ThreadPoolExecutor(len(options.gpus)) as pool:
        list(pool.map(run, jobs))


def run_name(job: Job) -> str:
    name, rate, seed = job
    return f"{name} rate {rate:g} seed {seed}"


def source_of_rate(name: str) -> str:
    """Return the model whose best rate a model takes: made-up sections take that of true ones."""
    return name.replace("pseudo-sections of ", "").replace("pseudo-", "true ")


def best_rate(name: str, tried: Sequence[dict[str, Any]]) -> float:
    """Return the rate of the run of a model that ended lowest, of the finished ones if any is."""
    name = source_of_rate(name)
    runs_of = [run for run in tried if run["model"] == name and run["curve"]]
    runs_of = [run for run in runs_of if run.get("finished")] or runs_of
    losses = {run["rate"]: run["curve"][-1]["loss"] for run in runs_of}
    if not losses:
        raise SystemExit(f"no run of {name} has begun: give more --minutes, or repeat the command")
    return min(losses, key=losses.__getitem__)


def loss_of(model: nn.Module, batch: Batch) -> Tensor:
    """Loss of each masked token."""
    hidden_states = model(batch.ids, batch.tree)[batch.masked_index]
    logits = model.predictions(hidden_states).float()
    return F.cross_entropy(logits, batch.truth, reduction="none")


def train(job: Job, options: argparse.Namespace) -> None:
    name, rate, seed = job
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data = Data(options.data, name, options.length, options.held_out, device)
    torch.manual_seed(seed)
    config = HDTConfig(
        vocab_size=data.vocabulary,
        d_model=options.width,
        d_kv=64,
        d_ff=4 * options.width,
        num_layers=options.layers,
        num_heads=max(1, options.width // 64),
        dropout_rate=0.0,
    )
    model = build(name, config, options.length).to(device)
    loader = Loader(data)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        trained, lr=rate, betas=(0.9, 0.98), weight_decay=0.01, fused=device == "cuda"
    )
    folder = runs.run_folder(options.state, run_name(job))
    log = runs.resume(folder, model, optimizer)
    if log.get("finished"):
        return
    log["parameters"] = sum(p.numel() for p in trained)
    log["pieces"] = [len(data.train), len(data.held_out)]
    per_epoch = len(data.train) // options.batch
    if not per_epoch or not data.held_out:
        raise SystemExit("there are too few pieces: reduce --length or --batch")
    began, before = time.perf_counter(), log["seconds"]
    evaluating = 0.0
    first = log["step"]

    def seconds() -> float:
        if device == "cuda":
            torch.cuda.synchronize()
        return before + time.perf_counter() - began - evaluating

    while not log.get("finished"):
        epoch, place = divmod(log["step"], per_epoch)
        order = np.random.default_rng([seed, epoch]).permutation(len(data.train))
        chosen = [data.train[i] for i in order[place * options.batch :][: options.batch]]
        model.train()
        with mixed_precision(device):
            loss = loss_of(model, loader.load(chosen, seed=10**6 * seed + log["step"])).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.param_groups[0]["lr"] = rate * min(1.0, (log["step"] + 1) / WARM_UP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        log["step"] += 1
        if log["step"] == first + UNCOUNTED:
            seconds()
            began, evaluating = time.perf_counter(), 0.0
        if log["step"] % options.every == 0:
            log["seconds"] = seconds()
            is_late = log["seconds"] > 60 * options.minutes
            log["finished"] = is_late or log["step"] >= (options.steps or math.inf)
            pause = time.perf_counter()
            loss, by_copy = held_out_loss(model, data, options.batch)
            point = {
                "step": log["step"],
                "seconds": round(log["seconds"], 2),
                "loss": round(loss, 4),
                "by copy": {place: round(x, 4) for place, x in by_copy.items()},
            }
            log["curve"].append(point)
            print(run_name(job), json.dumps(point), flush=True)
            runs.save(folder, model, optimizer, log)
            evaluating += time.perf_counter() - pause


@torch.no_grad()
def held_out_loss(model: nn.Module, data: Data, batch: int) -> tuple[float, dict[str, float]]:
    """Return the mean loss of masked tokens, and that by where the nearest copy of each stands."""
    model.eval()
    losses, places = [], []
    with mixed_precision(data.device):
        for start in range(0, len(data.held_out), batch):
            masked = data.batch(data.held_out[start : start + batch], seed=10**9 + start)
            losses.append(loss_of(model, masked))
            places.append(data.copies[start : start + batch].gather(1, masked.masked).flatten())
    loss, place = torch.cat(losses), torch.cat(places)
    return float(loss.mean()), {
        name: float(loss[place == number].mean()) for number, name in enumerate(COPIES)
    }


def collect(jobs: Sequence[Job], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Load the runs that have saved something."""
    logs = runs.logs(options.state, [run_name(job) for job in jobs])
    return [
        {"model": name, "rate": rate, "seed": seed, **logs[run_name((name, rate, seed))]}
        for name, rate, seed in jobs
        if run_name((name, rate, seed)) in logs
    ]


def gather(jobs: Sequence[Job], best: dict[str, float], options: argparse.Namespace) -> None:
    """Save the results of the runs, and print them."""
    found = collect(jobs, options)
    finished = {(run["model"], run["rate"], run["seed"]) for run in found if run.get("finished")}
    missing = [run_name(job) for job in jobs if job not in finished]
    keys = ("layers", "width", "length", "batch", "minutes", "seeds", "rates")
    recipe = {key: getattr(options, key) for key in keys}
    results = {
        "recipe": recipe | {"masked": MASKED, "vocabulary": VOCABULARY},
        "best rates": best,
        "runs": found,
    }
    if not best:
        missing.append("further seeds")
    report.save(options.results, results, missing=missing)
    if any(run["curve"] for run in found):
        print(f"\n{run_table(found)}")
        print(f"\n{seed_table(found)}")


def run_table(of: list[dict[str, Any]]) -> str:
    """Return every run's loss at equal steps and times, of the finished ones if any is.

    The learning rate does not fall, so that curves can be compared wherever all runs have arrived.
    """
    measured = [run for run in of if run.get("finished")] or [run for run in of if run["curve"]]
    steps, seconds = arrived(measured)
    rows = [
        [
            run["model"],
            f"{run['rate']:g}",
            run["seed"],
            f"{1e3 * run['seconds'] / run['step']:.1f}",
            f"{loss_at(run, 'step', steps):.3f}",
            f"{loss_at(run, 'seconds', seconds):.3f}",
        ]
        for run in measured
    ]
    header = ["", "learning rate", "seed", "ms a step", f"{steps:,} steps", f"{seconds:.0f} s"]
    return report.table(header, rows)


def seed_table(of: list[dict[str, Any]]) -> str:
    """Return means over the seeds of a model, as far as all of them have arrived."""
    groups: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for run in of:
        if run["curve"]:
            groups.setdefault((run["model"], run["rate"]), []).append(run)
    ends = {of_model: arrived(group)[0] for of_model, group in groups.items()}
    steps = sorted(set(ends.values()))
    rows = [
        [
            name,
            f"{rate:g}",
            len(group),
            *(
                report.mean_and_deviation([loss_at(run, "step", step) for run in group], digits=3)
                if step <= ends[name, rate]
                else "–"
                for step in steps
            ),
        ]
        for (name, rate), group in groups.items()
    ]
    return report.table(
        ["", "learning rate", "seeds", *(f"{step:,} steps" for step in steps)], rows
    )


def passage_table(of: list[dict[str, Any]]) -> str:
    """Return the loss of each model's best run at equal steps and times, and that by copies."""
    best: dict[str, dict[str, Any]] = {}
    for run in sorted(of, key=lambda run: -run["curve"][-1]["loss"]):
        best[run["model"]] = run
    chosen = sorted(best.values(), key=lambda run: MODELS.index(run["model"]))
    steps, seconds = arrived(chosen)
    rows = [
        [
            run["model"],
            f"{run['rate']:g}",
            f"{loss_at(run, 'step', steps):.3f}",
            f"{loss_at(run, 'seconds', seconds):.3f}",
            *(
                f"{point['by copy'][place]:.2f}"
                for point in run["curve"]
                if point["step"] == steps
                for place in COPIES
            ),
        ]
        for run in chosen
    ]
    times = [f"{steps:,} steps", f"{seconds:.0f} s"]
    return report.table(["", "learning rate", *times, *COPIES], rows)


def passage_seeds_table(of: list[dict[str, Any]], step: int) -> str:
    """Return the loss at a step of models of which several seeds have arrived, and their gaps.

    The runs of a model have the rate that its further seeds have. Gaps are to the first model.
    """
    rates = {run["model"]: run["rate"] for run in of}
    losses: dict[str, dict[int, float]] = {}
    for run in of:
        if run["rate"] == rates[run["model"]] and run["curve"] and run["curve"][-1]["step"] >= step:
            losses.setdefault(run["model"], {})[run["seed"]] = loss_at(run, "step", step)
    several = {name: by_seed for name, by_seed in losses.items() if len(by_seed) > 1}
    first = next(iter(several.values()))
    rows = [
        [
            name,
            *(f"{by_seed[seed]:.3f}" for seed in first),
            *(f"{by_seed[seed] - first[seed]:+.3f}" for seed in first),
        ]
        for name, by_seed in several.items()
    ]
    header = ["", *(f"seed {seed}" for seed in first), *(f"gap, seed {seed}" for seed in first)]
    return report.table(header, rows)


def section_table(of: list[dict[str, Any]], true: str, made_up: str, every: int) -> str:
    """Return by how much true sections are worse than made-up ones, seed by seed."""
    pairs = [
        sorted((run for run in of if run["model"] == name), key=lambda run: run["seed"])
        for name in (true, made_up)
    ]
    end, _ = arrived([run for runs_of in pairs for run in runs_of])
    rows = []
    for step in range(every, end + 1, every):
        losses = [[loss_at(run, "step", step) for run in runs_of] for runs_of in pairs]
        gaps = [a - b for a, b in zip(*losses, strict=True)]
        p = ttest_rel(*losses).pvalue
        cells = (
            *(f"{round(gap, 3) + 0:.3f}" for gap in gaps),
            report.mean_and_deviation(gaps, digits=3),
        )
        rows.append([f"{step:,}", *cells, f"{p:.2f}"])
    return report.table(["steps", *(f"seed {run['seed']}" for run in pairs[0]), "mean", "p"], rows)


def arrived(measured: list[dict[str, Any]]) -> tuple[int, float]:
    """Return the step and the second at which all runs have arrived."""
    curves = [run["curve"] for run in measured]
    steps, seconds = (min(curve[-1][by] for curve in curves) for by in ("step", "seconds"))
    return steps, seconds


def loss_at(run: dict[str, Any], by: str, value: float) -> float:
    """Return a run's held-out loss at a step or second, between points on a line."""
    points = run["curve"]
    return float(np.interp(value, [x[by] for x in points], [x["loss"] for x in points]))


def by_rate(of: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort runs by model, then by learning rate."""
    return sorted(of, key=lambda run: (MODELS.index(run["model"]), run["rate"]))


def plot(of: list[dict[str, Any]]) -> None:
    """Draw the curves of all runs: a colour for each model, a line style for each learning rate."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4), layout="constrained")
    models = list(dict.fromkeys(run["model"] for run in of))
    rates = sorted({run["rate"] for run in of})
    for axes, by in zip(figure.subplots(1, 2, sharey=True), ("step", "seconds"), strict=True):
        for run in of:
            points = [(point[by], point["loss"]) for point in run["curve"]]
            axes.plot(
                *zip(*points, strict=True),
                color=f"C{models.index(run['model'])}",
                linestyle=("-", "--", ":", "-.")[rates.index(run["rate"]) % 4],
                label=f"{run['model']}, {run['rate']:g}",
                linewidth=1,
            )
        axes.set(xlabel={"step": "steps", "seconds": "seconds of training"}[by], ylim=(1.8, 4.2))
        axes.grid(alpha=0.3)
    figure.axes[0].set(ylabel="loss on held-out documents")
    handles = figure.axes[1].get_legend_handles_labels()
    figure.legend(*handles, loc="outside right center", fontsize="small")
    IMAGE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(IMAGE, dpi=110)


if __name__ == "__main__":
    main()
