"""How the encoders did, by distance and by what the published coverage hides, and tables."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import default_rng
from numpy.typing import NDArray
from scipy.stats import t as student_t

from benchmarks import report
from fovea_arms import NEIGHBOURS
from fovea_studies import Facts, Words, distance_names, hidden_facts, word_groups

RESAMPLES = 1000


Scores = dict[tuple[str, int], NDArray[np.float32]]


def mean_over_seeds(scores: Scores) -> dict[str, NDArray[np.float32]]:
    """Return the mean of each arm's scores over its seeds."""
    names = dict.fromkeys(name for name, _ in scores)
    return {
        name: np.mean([values for (other, _), values in scores.items() if other == name], axis=0)
        for name in names
    }


def mean_in_group(values: NDArray[Any], group: NDArray[np.bool_]) -> float | None:
    """Return the mean of the values in a group; nan is left out. None if there are none."""
    chosen = values[group & ~np.isnan(values)]
    return round(float(chosen.mean()), 5) if len(chosen) else None


def difference(
    a: NDArray[Any], b: NDArray[Any], group: NDArray[np.bool_], axes: tuple[int, ...]
) -> dict[str, float] | None:
    """Return the mean of a - b in a group with its 95 % interval.

    Args:
        a: Scores of one arm.
        b: Scores of another, of the same items.
        group: Which items count.
        axes: All axes but that of the pieces, or texts, which are drawn with replacement.
    """
    group = group & ~np.isnan(a - b)
    sums = np.where(group, a - b, 0).sum(axes, dtype=np.float64)
    counts = group.sum(axes)
    if not counts.sum():
        return None
    drawn = default_rng(0).integers(len(sums), size=(RESAMPLES, len(sums)))
    totals = counts[drawn].sum(1)
    means = sums[drawn].sum(1)[totals > 0] / totals[totals > 0]
    low, high = np.quantile(means, [0.025, 0.975])
    mean = sums.sum() / counts.sum()
    return {"mean": round(mean, 5), "low": round(low, 5), "high": round(high, 5)}


def compare(
    scores: Scores, groups: dict[str, NDArray[np.bool_]], axes: tuple[int, ...]
) -> list[dict[str, Any]]:
    """Compare pairs of arms in all groups, over the seeds that both have."""
    pairs = [(f"Fovea k={k} full", f"Fovea k={k} paper") for k in NEIGHBOURS]
    pairs += [(f"Fovea k={k} full", f"window as k={k}") for k in (1, 2)]
    pairs += [(f"Fovea k={k} full, sizes", f"Fovea k={k} full") for k in (1, 2)]
    pairs += [("Fovea k=1 full", "transient-global")]
    pairs += [(f"Fovea k={k} full", "dense") for k in NEIGHBOURS]
    pairs += [("Fovea k=2 full", "Fovea k=1 full"), ("Fovea k=4 full", "Fovea k=2 full")]
    compared = []
    for a, b in pairs:
        seeds = sorted(
            {seed for name, seed in scores if name == a}
            & {seed for name, seed in scores if name == b}
        )
        if not seeds:
            continue
        one, other = (np.mean([scores[name, seed] for seed in seeds], axis=0) for name in (a, b))
        found = {}
        for name, group in groups.items():
            found[name] = difference(one, other, group, axes)
            if found[name] is not None:
                both = group & ~np.isnan(one - other)
                found[name]["a"], found[name]["b"] = (mean_in_group(x, both) for x in (one, other))
                found[name]["by seed"] = [
                    mean_in_group(scores[a, seed] - scores[b, seed], group) for seed in seeds
                ]
        compared.append({"a": a, "b": b, "seeds": seeds, "difference": found})
    return compared


def measure_words(study: Words, scores: Scores, options: argparse.Namespace) -> dict[str, Any]:
    """Losses by group, nats per token, and how pairs of arms differ."""
    groups = word_groups(study, options.block)
    groups |= {
        kind: np.broadcast_to((study.texts.kinds == kind)[None, :, None], groups["all"].shape)
        for kind in np.unique(study.texts.kinds)
    }
    return {
        "pieces": {"train": len(study.train), "held out": len(study.held_out)},
        "tokens": {name: int(group.sum()) for name, group in groups.items()},
        "loss": {
            name: {group: mean_in_group(values, where) for group, where in groups.items()}
            for name, values in mean_over_seeds(scores).items()
        },
        "loss by seed": {
            f"{name}, seed {seed}": mean_in_group(values, groups["all"])
            for (name, seed), values in scores.items()
        },
        "differences": compare(scores, groups, (0, 2)),
    }


def measure_facts(study: Facts, scores: Scores, options: argparse.Namespace) -> dict[str, Any]:
    """Shares of right answers by distance and by what is hidden, and how pairs of arms differ."""
    shape = next(iter(scores.values())).shape
    groups = {"all": np.ones(shape, dtype=bool)}
    for i, distance in enumerate(study.distances):
        groups[str(distance)] = np.arange(shape[0])[:, None, None] == i
        groups[str(distance)] = np.broadcast_to(groups[str(distance)], shape)
    for k in NEIGHBOURS:
        hidden = hidden_facts(study, options.block, k)
        groups[f"hidden k={k}"], groups[f"shown k={k}"] = hidden, ~hidden
        for distance in study.distances:
            groups[f"hidden k={k}, {distance}"] = groups[str(distance)] & hidden
            groups[f"shown k={k}, {distance}"] = groups[str(distance)] & ~hidden
    answered = ~np.isnan(next(iter(scores.values())))
    return {
        "questions": {name: int((group & answered).sum()) for name, group in groups.items()},
        "right": {
            name: {group: mean_in_group(values, where) for group, where in groups.items()}
            for name, values in mean_over_seeds(scores).items()
        },
        "right by seed": {
            f"{name}, seed {seed}": mean_in_group(values, groups["all"])
            for (name, seed), values in scores.items()
        },
        "differences": compare(scores, groups, (0, 2)),
    }


def tables(folder: Path) -> dict[str, str]:
    """Return the tables of the studies that have results, by name."""
    found = {}
    for study, make in (("words", word_tables), ("facts", fact_tables)):
        path = folder / f"fovea_quality-{study}.json"
        results = report.load(path) if path.exists() else {}
        if "differences" in results:
            found |= make(results)
    stages = {
        stage: report.load(path)
        for stage in ("dense", "converted", "continued")
        if (path := folder / f"fovea_quality-facts-{stage}.json").exists()
    }
    if stages:
        found["facts, from dense"] = from_dense_table(stages)
    return found


def from_dense_table(stages: dict[str, dict[str, Any]]) -> str:
    """Compare dense attention, Fovea with its weights, and the same after further training."""
    rows, distances = [], []
    for stage, results in stages.items():
        distances = [str(distance) for distance in results["setting"]["distances"]]
        steps = f"{results['setting']['steps']:,}"
        for name, right in results["right"].items():
            shares = (_digits(right[group], 1, 100) for group in ("all", *distances))
            rows.append([name, stage, steps, *_keys_and_runs(results, name), *shares])
    headings = [f"{int(distance):,}" for distance in distances]
    return report.table(["right %", "", "steps", "keys", "runs", "all", *headings], rows)


def word_tables(results: dict[str, Any]) -> dict[str, str]:
    groups = ["all", *distance_names(), "nowhere"]
    rows: list[list[Any]] = [["masked tokens", None, None]]
    rows[0] += [f"{results['tokens'][group]:,}" for group in groups]
    rows += [
        [name, *_keys_and_runs(results, name), *(_digits(loss[group], 3) for group in groups)]
        for name, loss in results["loss"].items()
    ]
    return {"words": report.table(["", "keys", "runs", *groups], rows)}


def fact_tables(results: dict[str, Any]) -> dict[str, str]:
    distances = [str(distance) for distance in results["setting"]["distances"]]
    rows = [
        [
            name,
            *_keys_and_runs(results, name),
            *(_digits(right[group], 1, 100) for group in ("all", *distances)),
        ]
        for name, right in results["right"].items()
    ]
    compared = [
        [f"{pair['a']} − {pair['b']}", _interval(pair, "all"), _each_seed(pair)]
        for pair in results["differences"]
    ]
    headings = [f"{int(distance):,}" for distance in distances]
    return {
        "facts": report.table(["right %", "keys", "runs", "all", *headings], rows),
        "facts, differences": report.table(["", "right %", "each seed"], compared),
        "facts, hidden": hidden_table(results, results["questions"]),
    }


def hidden_table(results: dict[str, Any], numbers: dict[str, int]) -> str:
    """Compare both coverages where the published one hides something, and where it does not."""
    rows = []
    for pair in results["differences"]:
        k = pair["a"].split()[1]
        if pair["b"] != f"Fovea {k} paper":
            continue
        for what in ("hidden", "shown"):
            group = f"{what} {k}"
            found = pair["difference"][group] or {}
            values = (_digits(found.get(one), 1, 100) for one in ("b", "a"))
            rows.append([k, what, f"{numbers[group]:,}", *values, _interval(pair, group)])
    return report.table(["", "", "number", "paper", "full", "full − paper"], rows)


def _keys_and_runs(results: dict[str, Any], name: str) -> list[Any]:
    arm = results["arms"][name]
    return [f"{arm['keys']:,.0f}", len(arm["runs"])]


def _digits(value: float | None, digits: int, factor: float = 1) -> str | None:
    return None if value is None else f"{factor * value:.{digits}f}"


def _interval(pair: dict[str, Any], group: str) -> str | None:
    found = pair["difference"].get(group)
    if found is None:
        return None
    bounds = _over_seeds(found["by seed"]) or (found["low"], found["high"])
    mean, low, high = (f"{100 * value:+.1f}" for value in (found["mean"], *bounds))
    return f"{mean} ({low} to {high})".replace("-", "−")


def _over_seeds(values: list[float]) -> tuple[float, float] | None:
    """Return the 95 % interval of the mean over seeds, by Student's t; None of one seed."""
    if len(values) < 2:
        return None
    half = student_t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / len(values) ** 0.5
    middle = float(np.mean(values))
    return middle - float(half), middle + float(half)


def _each_seed(pair: dict[str, Any]) -> str:
    found = pair["difference"]["all"]["by seed"]
    return ", ".join(f"{100 * value:+.1f}" for value in found).replace("-", "−")
