"""Facts in long texts, asked for in front of them: who still finds them, by the length of the text.

    python studies/needle.py --prepare data.npz.xz             # texts as tokens; needs no GPU
    python studies/needle.py --data data.npz.xz --minutes 9
    python studies/needle.py --docs --plot                     # saved results into the page
    python studies/needle.py --data data.npz.xz --smoke        # under a minute on a CPU

16 facts stand in running text, each one token that says "key i has value j"; in front of it, eight
tokens each ask for one of the keys. The answer is one of 16 values. Texts below 512 tokens have one
fact in 32 tokens.

Encoders that differ in their attention only are trained from scratch, at equal steps on the same
batches, with three seeds: VCC with the questions as VIP tokens, windows with the questions as
global tokens (Longformer), LongT5's transient-global attention, Fovea, HDT with the questions under
the document's anchor, and dense attention. VCC is also trained with shorter segments in its first
layers, and with one seed each with other blocks and other numbers of them. Lengths double during
training, from 32 to 4,096 tokens; the test is on held-out texts of up to 131,072.

With --start, VCC begins with the weights of dense attention, a finished run of the arm "dense" with
the same seed; --steps 0 then tests it just after the conversion.

Processes share one GPU and advance in rounds, see `rounds.py`. A run that is interrupted, or that
--minutes stop, continues when the command is repeated. The results are saved after every length
that was tested, and name the trainings that miss one.
"""

import argparse
import json
import sys
import tempfile
import time
from functools import partial
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

import rounds
import runs
from benchmarks import report
from fovea_texts import prepare
from needle_data import PIECE, Batch, Needles
from needle_models import (
    ARMS,
    MAIN,
    SEGMENTS,
    SEGMENTS_SWEEP,
    SWEEP,
    SWEEPS,
    Reader,
)
from rounds import Plan, Trainings, train_in_rounds

PAGE = report.STUDIES / "vcc.md"
IMAGE = report.STUDIES / "needle.png"
RESULTS = report.STUDIES / "results" / "needle.json"
SEGMENTS_RESULTS = report.STUDIES / "results" / "needle-segments.json"
"""A later run of VCC alone, with segments of several sizes."""
SMALL_BUDGET_RESULTS = report.STUDIES / "results" / "needle-small-budget.json"
"""One of VCC with short segments and two blocks, with five seeds."""
BUDGETS_RESULTS = report.STUDIES / "results" / "needle-budgets.json"
"""A small one on a CPU, of models that are tested with other budgets than those of training."""
FROM_DENSE_RESULTS = report.STUDIES / "results" / "needle-from-dense.json"
"""VCC from the weights of dense attention, and what it is compared with."""
TEMPORARY = Path(tempfile.gettempdir()) / "foveate"
WARM_UP = 50  # steps
SMOKE = {
    "width": 32,
    "head": 16,
    "layers": 3,
    "segment": 32,
    "fovea_block": 16,
    "sentence": 8,
    "curriculum": [64, 128],
    "double_every": 4,
    "tokens": 256,
    "every": 4,
    "steps": 12,
    "reserve": 0.0,
    "seeds": 2,
    "sweep_seeds": 1,
    "processes": 2,
    "lengths": [64, 256],
    "examples": (2, 4),
    "test_tokens": 1024,
    "state": TEMPORARY / "needle-smoke",
    "results": TEMPORARY / "needle-smoke.json",
}
SETTING = [
    "seeds",
    "sweep_seeds",
    "read_with",
    "layers",
    "width",
    "head",
    "segment",
    "fovea_block",
    "neighbours",
    "sentence",
    "keys",
    "values",
    "planted",
    "asked",
    "curriculum",
    "double_every",
    "tokens",
    "rate",
    "lengths",
]


class Name(NamedTuple):
    """A training: which arm, with which seed."""

    arm: str
    seed: int

    def __str__(self) -> str:
        return f"{self.arm}, seed {self.seed}"


def main() -> None:
    options = parse()
    if options.docs or options.plot:
        saved = report.load(options.results)
        if options.docs:
            report.write_tables(
                PAGE,
                {
                    "length": length_table(saved),
                    "segments": segments_table(report.load(SEGMENTS_RESULTS)),
                    "small budget": read_with_table(report.load(SMALL_BUDGET_RESULTS)),
                    "read with": read_with_table(report.load(BUDGETS_RESULTS)),
                    "from dense": from_dense_table(report.load(FROM_DENSE_RESULTS)),
                },
            )
        if options.plot:
            plot(saved)
    elif options.prepare:
        options.length = PIECE
        prepare(options.documents, options.prepare, options)
    else:
        conduct(options)


def parse() -> argparse.Namespace:
    parser = rounds.parser(__doc__.splitlines()[0], ARMS)
    parser.set_defaults(minutes=9.0, reserve=80.0, every=25, save_every=240.0)
    parser.add_argument("--seeds", type=int, default=3, help="of the main arms, and of segments")
    parser.add_argument("--sweep-seeds", type=int, default=1, help="of arms with other budgets")
    parser.add_argument(
        "--segment",
        type=int,
        default=512,
        help="tokens in VCC's segments and in Longformer's window; LongT5's is half as wide",
    )
    parser.add_argument("--fovea-block", type=int, default=64, help="tokens in a block of Fovea")
    parser.add_argument("--neighbours", type=int, default=2, help="k of Fovea")
    parser.add_argument("--sentence", type=int, default=32, help="HDT: tokens in a sentence")
    parser.add_argument("--keys", type=int, default=32)
    parser.add_argument("--values", type=int, default=16)
    parser.add_argument("--planted", type=int, default=16, help="facts in a text")
    parser.add_argument("--asked", type=int, default=8, help="questions in front of it")
    parser.add_argument(
        "--curriculum", type=int, nargs="+", default=[2**n for n in range(5, 13)], help="tokens"
    )
    parser.add_argument("--double-every", type=int, default=75, help="steps per length")
    parser.add_argument(
        "--read-with",
        type=int,
        nargs="*",
        default=[],
        metavar="COUNT",
        help="test VCC with other numbers of blocks seen token by token as well",
    )
    parser.add_argument(
        "--start", type=Path, metavar="STATE", help="begin with dense attention's weights there"
    )
    parser.add_argument("--lengths", type=int, nargs="+", default=[2**n for n in range(9, 18)])
    parser.add_argument(
        "--examples", type=int, nargs=2, default=(16, 64), help="fewest and most texts per length"
    )
    parser.add_argument("--test-tokens", type=int, default=2**20, help="tokens per length, about")
    parser.add_argument("--state", type=Path, default=TEMPORARY / "needle", help="folder")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--plot", action="store_true", help="draw the picture from saved results")
    if "--smoke" in sys.argv:
        parser.set_defaults(**SMOKE)
    options = parser.parse_args()
    if options.data is None and not (options.docs or options.plot or options.prepare):
        parser.error("--data is needed: a file written by --prepare")
    return options


def names_of(options: argparse.Namespace) -> list[Name]:
    """List the trainings, seed by seed, so that processes get a bit of each."""
    most = max(options.seeds, options.sweep_seeds)
    return [
        Name(arm, seed)
        for seed in range(most)
        for arm in options.arms
        if seed < seeds_of(arm, vars(options))
    ]


def seeds_of(arm: str, setting: dict[str, Any]) -> int:
    """Return the number of seeds of an arm; results of older runs do not say that of sweeps."""
    number: int = setting.get("sweep_seeds", 1) if arm in SWEEPS else setting["seeds"]
    return number


def conduct(options: argparse.Namespace) -> None:
    """Train everything, test it length by length, and save the results after each."""
    end = time.perf_counter() + 60 * options.minutes
    names = names_of(options)
    trainings = Trainings(partial(Learner, options=options), names, options.processes)
    file = options.state / "plan.json"
    is_trained = train_in_rounds(
        trainings,
        file,
        end - options.reserve,
        end,
        every=options.every,
        steps=options.steps,
        save_every=options.save_every,
    )
    if is_trained:
        trainings.ask("save")
        for count, length in product((None, *options.read_with), options.lengths):
            trainings.ask("test", length, count)
            gather(options, names)
            print(
                f"tested {key_of(length, count)}, {end - time.perf_counter():.0f} s left",
                flush=True,
            )
            if time.perf_counter() > end:
                break
    trainings.close()
    gather(options, names)
    saved = report.load(options.results)
    for table in (length_table, segments_table, read_with_table):
        print(f"\n{table(saved)}")


class Learner:
    """A model in training: its task, its optimizer and its log, saved in a folder."""

    def __init__(self, name: Name, options: argparse.Namespace) -> None:
        self.name, self.options = name, options
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.task = Needles.from_options(options, self.device)
        torch.manual_seed(name.seed)
        arm = ARMS[name.arm]
        self.model = Reader(arm, self.task.vocabulary, options.values, options).to(self.device)
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(
            trained,
            options.rate,
            betas=(0.9, 0.98),
            weight_decay=0.01,
            fused=self.device == "cuda",
        )
        self.folder = runs.run_folder(options.state, str(name))
        self.log = runs.resume(self.folder, self.model, self.optimizer)
        if options.start and not self.log["step"]:
            dense = Name("dense", name.seed)
            runs.load_weights(runs.run_folder(options.start, str(dense)), self.model)
        self.log["parameters"] = sum(p.numel() for p in trained)
        self.log.setdefault("right", {})

    def train(self, until: int, plan: Plan | None) -> None:
        """Train up to a step; the learning rate falls as planned."""
        steps = range(self.log["step"], until)
        if not steps:
            return
        begun, losses, right = time.perf_counter(), [], []
        torch.manual_seed(steps.start)  # of VCC's exploring
        self.model.train()
        for step in steps:
            batch = self.task.training_batch(step, self.name.seed)
            logits = self.model(batch)
            loss = F.cross_entropy(logits.flatten(0, 1), batch.answers.flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            rate = min(1.0, (step + 1) / WARM_UP) * (plan.rate(step) if plan else 1.0)
            self.optimizer.param_groups[0]["lr"] = self.options.rate * rate
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            losses.append(loss.detach())
            right.append(is_right(logits, batch).mean())
        self.log["curve"].append(
            {
                "step": until,
                "tokens": batch.ids.shape[1],
                "loss": round(float(torch.stack(losses).mean()), 4),
                "right": round(100 * float(torch.stack(right).mean()), 1),
            }
        )
        self.log["step"] = until
        self.log["seconds"] += time.perf_counter() - begun

    def save(self) -> None:
        """Save model, optimizer and log."""
        runs.save(self.folder, self.model, self.optimizer, self.log)

    @torch.no_grad()
    def test(self, length: int, count: int | None = None) -> None:
        """Count the right answers in each held-out text of a length, and save the log.

        With a `count`, VCC sees as many blocks token by token, however many it did in training;
        encoders of other kinds are not tested again.
        """
        key = key_of(length, count)
        arm = ARMS[self.name.arm]
        if key in self.log["right"] or (count is not None and arm.attention != "VCC"):
            return
        self.model.eval()
        if arm.attention == "VCC":
            self.model.encoder.config.num_fine_blocks = arm.count if count is None else count
        fewest, most = self.options.examples
        number = min(most, max(fewest, self.options.test_tokens // length))
        right = [
            is_right(self.model(batch), batch).sum(1).int()
            for batch in self.task.test_batches(length, number)
        ]
        self.log["right"][key] = torch.cat(right).tolist()
        (self.folder / "log.json").write_text(json.dumps(self.log))


def key_of(length: int, count: int | None = None) -> str:
    """Name what is tested: a length, and the blocks that are seen token by token if they change."""
    return str(length) if count is None else f"{length}, {count} blocks"


def is_right(logits: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Return 1.0 where an answer is right, `(texts, asked)`."""
    return (logits.argmax(-1) == batch.answers).float()


# Results


def gather(options: argparse.Namespace, names: list[Name]) -> None:
    """Save what all trainings have found, and name those that are not tested at every length."""
    lengths = [str(length) for length in options.lengths]
    logs = runs.logs(options.state, [str(name) for name in names])
    missing = [
        str(name)
        for name in names
        if any(length not in logs.get(str(name), {}).get("right", {}) for length in lengths)
    ]
    plan = options.state / "plan.json"
    results = {
        "setting": {name: getattr(options, name) for name in SETTING},
        "plan": json.loads(plan.read_text()) if plan.exists() else None,
        "arms": {
            arm: {
                name.seed: logs[str(name)]
                for name in names
                if name.arm == arm and str(name) in logs
            }
            for arm in ARMS
        },
    }
    report.save(options.results, results, "transformers", "triton", missing=missing)


def shares(log: dict[str, Any], length: int, asked: int, count: int | None = None) -> float | None:
    """Return the right answers of a training at a length in percent, None if it was not tested."""
    right = log["right"].get(key_of(length, count))
    return None if right is None else 100 * mean(right) / asked


def by_length(
    results: dict[str, Any], arm: str, count: int | None = None
) -> dict[int, list[float]]:
    """Return the right answers of an arm with each seed, in percent, for the lengths it finished.

    An arm with several seeds has finished a length when all of them have. With a `count`, VCC has
    seen as many blocks token by token in the test.
    """
    setting, logs = results["setting"], results["arms"].get(arm, {}).values()
    found = {
        length: [shares(log, length, setting["asked"], count) for log in logs]
        for length in setting["lengths"]
    }
    return {
        length: [value for value in values if value is not None]
        for length, values in found.items()
        if len(values) == seeds_of(arm, setting) and None not in values
    }


def length_table(results: dict[str, Any]) -> str:
    """Return the table of right answers by length."""
    means = means_by_arm(results)
    return table_by_length(results, [[arm, *means[arm]] for arm in MAIN if arm in means])


def segments_table(results: dict[str, Any]) -> str:
    """Return the same table of VCC with segments of several sizes."""
    means = means_by_arm(results)
    names = segments_names(results)
    return table_by_length(
        results, [[name, *means[arm]] for arm, name in names.items() if arm in means]
    )


def read_with_table(results: dict[str, Any]) -> str:
    """Return the table of right answers by the blocks that VCC sees token by token in the test."""
    counts = results["setting"].get("read_with", [])
    means = {count: means_by_arm(results, count) for count in (None, *counts)}
    rows = []
    for arm, name in segments_names(results).items():
        tested = {ARMS[arm].count: None} | {count: count for count in counts}
        for blocks, count in sorted(tested.items()):
            if arm in means[count]:
                rows.append([name, str(blocks), *means[count][arm]])
    return table_by_length(results, rows, "blocks in the test")


def from_dense_table(results: dict[str, Any]) -> str:
    """Return the table of VCC from dense attention, with the right answers of each seed."""
    arms = {
        "dense, 1,134 steps": ("dense", "dense"),
        "VCC, 8 of 32, as converted": ("converted", "VCC"),
        "VCC, 32 of 32, as converted": ("converted", "VCC, 32 of 32"),
        "VCC, 8 of 32, 600 steps more": ("continued", "VCC"),
        "VCC, 32 of 32, 600 steps more": ("continued", "VCC, 32 of 32"),
        "VCC, 8 of 32, 1,734 steps from scratch": ("scratch", "VCC"),
    }
    rows: list[list[str | None]] = []
    for name, (run, arm) in arms.items():
        setting, logs = results[run]["setting"], results[run]["arms"][arm].values()
        found = [
            [shares(log, length, setting["asked"]) or 0.0 for log in logs]
            for length in setting["lengths"]
        ]
        rows.append([name, *(", ".join(f"{share:.0f}" for share in row) for row in found)])
    return table_by_length(results["dense"], rows)


def segments_names(results: dict[str, Any]) -> dict[str, str]:
    """Name the arms that vary the segments, to which the main VCC belongs too."""
    names = {arm: arm for arm in SEGMENTS | SEGMENTS_SWEEP}
    return {"VCC": f"VCC, segments of {results['setting']['segment']}"} | names


def means_by_arm(results: dict[str, Any], count: int | None = None) -> dict[str, list[str | None]]:
    """Return the mean and deviation of an arm at each length; None where it is not finished."""
    found = {arm: by_length(results, arm, count) for arm in ARMS}
    return {
        arm: [
            report.mean_and_deviation(values[n]) if n in values else None
            for n in results["setting"]["lengths"]
        ]
        for arm, values in found.items()
        if values
    }


def table_by_length(results: dict[str, Any], rows: list[list[str | None]], *columns: str) -> str:
    """Return a table of right answers: names, other columns if there are any, and all lengths."""
    lengths = (f"{length:,}" for length in results["setting"]["lengths"])
    return report.table(["right %", *columns, *lengths], rows)


def plot(results: dict[str, Any]) -> None:
    """Draw right answers against length: mean and range over seeds, and the sweep."""
    from matplotlib.figure import Figure

    setting = results["setting"]
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    main_axes, sweep_axes = figure.subplots(1, 2, sharey=True)
    seeds = f"{setting['seeds']} seeds: mean and range"
    arms_of = {seeds: (main_axes, [*MAIN]), "VCC": (sweep_axes, ["VCC", *SWEEP])}
    for title, (axes, arms) in arms_of.items():
        for number, arm in enumerate(arms):
            if not (found := by_length(results, arm)):
                continue
            lengths, color = [*found], f"C{number}"
            name = arm
            if axes is not main_axes and arm == "VCC":
                name = f"VCC, {ARMS[arm].count} of {ARMS[arm].block}"
            means = [mean(values) for values in found.values()]
            axes.plot(lengths, means, marker="o", markersize=4, color=color, label=name)
            low, high = ([edge(values) for values in found.values()] for edge in (min, max))
            axes.fill_between(lengths, low, high, color=color, alpha=0.2, linewidth=0)
        axes.axhline(100 / setting["values"], color="gray", linestyle=":")
        axes.axvline(setting["curriculum"][-1], color="gray", linestyle="--", linewidth=1)
        axes.set(xlabel="tokens", xscale="log", ylim=(0, 102), title=title)
        axes.set_xticks(setting["lengths"], [f"{n:,}" for n in setting["lengths"]], rotation=45)
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    main_axes.set_ylabel("right answers, %")
    IMAGE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(IMAGE, dpi=110)
    print(IMAGE)


if __name__ == "__main__":
    main()
