"""ListOps (HDT, 4.1, Table 1 and Figure 11): does attending along a tree help to evaluate one?

    python studies/listops.py                      # train all models with three seeds each
    python studies/listops.py --models dense Longformer HAT --results FILE     # some of them
    python studies/listops.py --docs --plot        # write saved results into page and picture

The models are those of `listops_models.py`: 12 layers, width 128. 85,000 expressions to train on,
5,000 for the learning curve, 10,000 for the accuracy; batches of 200; AdamW, learning rate 3e-4.
All train for the same number of epochs on the same batches in the same order; a seed draws the
weights, the order and the dropout. Before that, every model is timed by itself.

Small models keep the CPU busier than the GPU, so each run is a process, and several share a GPU;
after `nvidia-cuda-mps-control -d` their kernels run beside each other, which on H200s was worth 2.3
times the epochs. A run that is interrupted, or stopped by --minutes, continues when the command is
repeated; a model that has not finished all its epochs with every seed is named in the results and
left out of tables.
"""

import argparse
import json
import tempfile
import time
from itertools import pairwise, product
from pathlib import Path
from statistics import mean, median
from typing import Any, cast

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import runs
from benchmarks import report
from foveate.ops.tree_attention import Tree
from listops_data import Expressions, generate
from listops_models import MODELS, ListOpsModel, build

RESULTS = report.STUDIES / "results" / "listops.json"
SEQUENCES = report.STUDIES / "results" / "listops-sequences.json"
"""The finished run of the models that read sequences, which had no time left in the first."""
DENSE = report.STUDIES / "results" / "listops-dense.json"
"""What `listops_dense.py` found; other seeds have files with more at the end of the name."""
IMAGE = report.STUDIES / "listops.png"
PAGE = report.STUDIES / "listops.md"
STATE = Path(tempfile.gettempdir()) / "foveate" / "listops"
RATE, WARM_UP = 3e-4, 500
TIMED_STEPS = 60
BINS = (0, 16, 32, 64, 128, 256, 512)
EPOCHS = (30, 100, 200)  # after which the table of long trainings has the accuracy
PUBLISHED = {"dense": 75.9, "all edges": 79.7, "siblings and children": 85.6, "children only": 86.2}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="*", choices=MODELS, default=MODELS)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="limit of this run")
    parser.add_argument("--examples", type=int, nargs=3, default=(85_000, 5_000, 10_000))
    parser.add_argument("--depth", type=int, default=20, help="most nested operators")
    parser.add_argument("--operands", type=int, default=5, help="most operands of an operator")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--batch", type=int, default=200)
    parser.add_argument("--state", type=Path, default=STATE, help="folder of interrupted runs")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--plot", action="store_true", help="draw the picture from saved results")
    parser.add_argument("--docs", action="store_true", help="write saved results into the page")
    options = parser.parse_args()
    if options.plot or options.docs:
        trees, sequences = (report.load(file) for file in (RESULTS, SEQUENCES))
        if options.docs:
            others = {f"{name}, sequences": table for name, table in tables(sequences).items()}
            dense = [report.load(file) for file in sorted(DENSE.parent.glob(f"{DENSE.stem}*.json"))]
            report.write_tables(PAGE, tables(trees) | others | dense_tables(dense))
        if options.plot:
            plot(sequences["models"] | finished(trees))
        return
    begun = time.perf_counter()
    torch.set_num_threads(1)  # as in `train`
    write_data(options)
    times = {name: step_times(name, options) for name in options.models}
    options.minutes -= (time.perf_counter() - begun) / 60
    jobs = [(*job, options) for job in product(options.models, range(options.seeds))]
    try:
        runs.run_in_parallel(train, jobs)
    finally:
        gather(options, times)


def write_data(options: argparse.Namespace) -> None:
    """Draw the expressions, which all runs share."""
    options.state.mkdir(parents=True, exist_ok=True)
    number = sum(options.examples)
    data = generate(number, max_depth=options.depth, max_operands=options.operands)
    save_file(vars(data), options.state / "data.safetensors")


def read_data(options: argparse.Namespace) -> tuple[Expressions, tuple[Tensor, ...]]:
    """Return the expressions, and which of them are for training, curve and test."""
    data = Expressions(**load_file(options.state / "data.safetensors"))
    everything = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))
    return data, everything.split([*options.examples])


def loss_of(
    model: ListOpsModel, data: Expressions, chosen: Tensor, device: str
) -> tuple[Tensor, Tensor]:
    """Compute the loss and the logits of some expressions."""
    with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
        logits = model(to_device(model.read(data, chosen), device))
        return F.cross_entropy(logits.float(), data.answers[chosen].to(device)), logits


def to_device(inputs: Any, device: str) -> Any:
    """Move tensors and trees in nested tuples, lists and dictionaries."""
    if isinstance(inputs, Tensor | Tree):
        return inputs.to(device)
    if isinstance(inputs, dict):
        return {name: to_device(value, device) for name, value in inputs.items()}
    if isinstance(inputs, tuple) and hasattr(inputs, "_fields"):
        return type(inputs)(*(to_device(value, device) for value in inputs))
    if isinstance(inputs, list | tuple):
        return type(inputs)(to_device(value, device) for value in inputs)
    return inputs


def start_training(
    name: str, seed: int, options: argparse.Namespace, device: str
) -> tuple[nn.Module, torch.optim.AdamW]:
    """Build a model and its optimizer."""
    model = build(name, options.layers, options.heads, seed).to(device).train()
    trained = [p for p in model.parameters() if p.requires_grad]
    fused = device == "cuda"
    return model, torch.optim.AdamW(trained, lr=RATE, weight_decay=0.01, fused=fused)


def take_step(
    model: nn.Module,
    optimizer: torch.optim.AdamW,
    data: Expressions,
    chosen: Tensor,
    step: int,
) -> Tensor:
    """Train on a batch and return its loss."""
    device = next(model.parameters()).device.type
    loss, _ = loss_of(cast(ListOpsModel, model), data, chosen, device)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.param_groups[0]["lr"] = RATE * min(1.0, (step + 1) / WARM_UP)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach()


def step_times(name: str, options: argparse.Namespace) -> dict[str, float]:
    """Measure the milliseconds of a step on the first GPU while nothing else runs."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data, (part, *_) = read_data(options)
    model, optimizer = start_training(name, 0, options, device)
    times = []
    for step, chosen in enumerate(part.split(options.batch)[:TIMED_STEPS]):
        begun = time.perf_counter()
        take_step(model, optimizer, data, chosen, step)
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - begun))
    times = times[len(times) // 3 :]  # kernels are compiled before
    found = {"median": round(median(times), 2), "least": round(min(times), 2)}
    print(name, "ms a step:", found, flush=True)
    return found


def train(name: str, seed: int, options: argparse.Namespace) -> None:
    """Train one model for the given epochs or minutes, and save its state."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_num_threads(1)
    data, (train_part, dev_part, test_part) = read_data(options)
    model, optimizer = start_training(name, seed, options, device)
    folder = runs.run_folder(options.state, run_name(name, seed))
    log = runs.resume(folder, model, optimizer)
    per_epoch = len(train_part) // options.batch
    torch.manual_seed(1000 * seed + log["step"])  # of dropout

    begun = time.perf_counter()
    before = log["seconds"]
    while log["step"] < options.epochs * per_epoch:
        epoch = log["step"] // per_epoch
        generator = torch.Generator().manual_seed(1000 * seed + epoch)
        order = train_part[torch.randperm(len(train_part), generator=generator)]
        losses = [
            take_step(model, optimizer, data, chosen, log["step"] + i)
            for i, chosen in enumerate(order[: per_epoch * options.batch].split(options.batch))
        ]
        log["step"] += per_epoch
        log["seconds"] = before + time.perf_counter() - begun
        point = {
            "epoch": epoch + 1,
            "seconds": round(log["seconds"], 1),
            "loss": round(float(torch.stack(losses).mean()), 4),
            "accuracy": percent(is_correct(model, data, dev_part, options.batch)),
        }
        log["curve"].append(point)
        runs.save(folder, model, optimizer, log)
        print(name, seed, json.dumps(point), flush=True)
        if time.perf_counter() - begun > 60 * options.minutes:
            return

    right = is_correct(model, data, test_part, options.batch)
    log["accuracy"] = percent(right)
    log["by length"] = by_length(right, data.lengths[test_part])
    log["parameters"] = sum(p.numel() for p in model.parameters() if p.requires_grad)
    runs.save(folder, model, optimizer, log)
    print(f"{name}, seed {seed}: {log['accuracy']} %", flush=True)


def run_name(name: str, seed: int) -> str:
    return f"{name} seed {seed}"


def percent(right: Tensor) -> float:
    return round(100 * float(right.float().mean()), 2)


def by_length(right: Tensor, lengths: Tensor) -> list[dict[str, int]]:
    """Count the right answers in each range of lengths."""
    return [
        {"up to": end, "expressions": int(in_bin.sum()), "right": int(right[in_bin].sum())}
        for start, end in pairwise(BINS)
        if (in_bin := (lengths > start) & (lengths <= end)).any()
    ]


@torch.no_grad()
def is_correct(model: nn.Module, data: Expressions, part: Tensor, batch: int) -> Tensor:
    """Return whether each expression is answered correctly, on the CPU."""
    model.eval()
    order = data.lengths[part].argsort()  # little padding
    device = next(model.parameters()).device.type
    right = torch.zeros(len(part), dtype=torch.bool)
    for places in order.split(batch):
        _, logits = loss_of(cast(ListOpsModel, model), data, part[places], device)
        right[places] = logits.argmax(-1).cpu() == data.answers[part[places]]
    model.train()
    return right


def gather(options: argparse.Namespace, times: dict[str, dict[str, float]]) -> None:
    """Save and print the results of all runs."""
    names = [run_name(name, seed) for name in options.models for seed in range(options.seeds)]
    logs = runs.logs(options.state, names)
    unfinished = [name for name in names if "accuracy" not in logs.get(name, {})]
    results = {
        "recipe": {
            name: getattr(options, name)
            for name in (
                "layers",
                "heads",
                "batch",
                "examples",
                "epochs",
                "seeds",
                "depth",
                "operands",
            )
        },
        "ms a step, alone": times,
        "models": {
            name: [log for seed in range(options.seeds) if (log := logs.get(run_name(name, seed)))]
            for name in options.models
        },
    }
    report.save(options.results, results, missing=unfinished)
    for table in tables(results).values():
        print(f"\n{table}")


def tables(results: dict[str, Any]) -> dict[str, str]:
    """Return the tables of models that finished with every seed."""
    if not finished(results):
        return {}
    rows = [
        [
            name,
            report.mean_and_deviation([log["accuracy"] for log in logs]),
            ", ".join(f"{log['accuracy']:.1f}" for log in logs),
            PUBLISHED.get(name),
            f"{results['ms a step, alone'][name]['median']:.1f}",
            f"{logs[0]['parameters'] / 1e6:.2f} M",
        ]
        for name, logs in finished(results).items()
    ]
    header = ["", "test accuracy %", "each seed", "published %", "ms a step, alone", "parameters"]
    found = {"accuracy": report.table(header, rows)}
    bins = next(iter(finished(results).values()))[0]["by length"]
    rows = [
        [
            name,
            *(report.mean_and_deviation([rate(log, i) for log in logs]) for i in range(len(bins))),
        ]
        for name, logs in finished(results).items()
    ]
    header = ["tokens up to", *(f"{b['up to']}: {b['expressions']}" for b in bins)]
    found["length"] = report.table(header, rows)
    return found


def dense_tables(results: list[dict[str, Any]]) -> dict[str, str]:
    """Return the table of long trainings, of one seed each."""
    rows = [
        [
            f"{name}, seed {of_seed['recipe']['seed']}",
            *(accuracy.get(epoch) for epoch in EPOCHS),
            str(of_seed["recipe"]["epochs"]),
            f"{log['accuracy']:.1f}",
            *(f"{rate(log, i):.1f}" for i in range(len(log["by length"]))),
        ]
        for of_seed in results
        for name, log in of_seed["models"].items()
        for accuracy in [{p["epoch"]: f"{p['accuracy']:.1f}" for p in log["curve"]}]
    ]
    if not rows:
        return {}
    header = ["", *(f"held out, {epoch} epochs" for epoch in EPOCHS), "epochs", "test"]
    header += [f"up to {end}" for end in BINS[1:]]
    return {"long": report.table(header, rows)}


def finished(results: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the logs of the models that finished with every seed."""
    return {
        name: logs
        for name, logs in results["models"].items()
        if sum("accuracy" in log for log in logs) == results["recipe"]["seeds"]
    }


def rate(log: dict[str, Any], i: int) -> float:
    """Return the accuracy in the i-th range of lengths, in percent."""
    of_range = log["by length"][i]
    return 100 * of_range["right"] / of_range["expressions"]


def plot(models: dict[str, list[dict[str, Any]]]) -> None:
    """Draw the curves of all seeds and, of finished trainings, the mean accuracy by length."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4), layout="constrained")
    curves, by_length = figure.subplots(1, 2)
    curves.set(xlabel="epochs", ylabel="accuracy on 5,000 held out, %", title="every seed")
    by_length.set(xlabel="tokens up to", ylabel="test accuracy, %", xscale="log")
    for number, (name, logs) in enumerate(models.items()):
        for log in logs:
            points = [(point["epoch"], point["accuracy"]) for point in log["curve"]]
            label = name if log is logs[0] else None
            curves.plot(*zip(*points, strict=True), color=f"C{number}", label=label, linewidth=1)
        if done := [log for log in logs if "by length" in log]:
            ends = [b["up to"] for b in done[0]["by length"]]
            rates = [mean(rate(log, i) for log in done) for i in range(len(ends))]
            by_length.plot(ends, rates, marker="o", color=f"C{number}")
    by_length.set_xticks(BINS[1:], [str(end) for end in BINS[1:]])
    by_length.minorticks_off()
    for axes in figure.axes:
        axes.grid(alpha=0.3)
    figure.legend(loc="outside right center")
    IMAGE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(IMAGE, dpi=110)


if __name__ == "__main__":
    main()
