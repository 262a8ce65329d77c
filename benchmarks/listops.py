"""ListOps (HDT, 4.1, Table 1 and Figure 11): does attending along a tree help to evaluate one?

    python benchmarks/listops.py --minutes 8      # train all models in parallel on one GPU
    python benchmarks/listops.py --plot           # draw docs/images/listops.png from the results

12 layers, width 128, 85,000 expressions to train on, 5,000 for the learning curve, 10,000 for the
accuracy, batches of 200, AdamW with learning rate 3e-4. HDT reads trees without positions and
answers at the outermost operator; its edges are all ("all edges"), those to siblings and children,
or those to children only. BERT and Longformer (with `speed_up`) read the sequence form and answer
at its first token.

Small models keep the CPU busier than the GPU, so each model trains in a separate process. A run
that is interrupted, or stopped by --minutes, continues when the command is repeated.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor, nn

import report
import runs
from foveate.models.accelerate import speed_up
from foveate.models.hdt import HDTConfig, HDTForSequenceClassification
from foveate.ops.tree_attention import Tree
from listops_data import PADDING, VOCABULARY, Expressions, generate

RESULTS = report.RESULTS / "listops.json"
IMAGE = Path(__file__).parents[1] / "docs" / "images" / "listops.png"
STATE = Path(tempfile.gettempdir()) / "foveate" / "listops"
RATE, WARM_UP = 3e-4, 500
SHORT = 0.95
"""Share of a batch, its shorter expressions, that is padded separately: few are long."""
BINS = (0, 16, 32, 64, 128, 256, 512)

EDGES = {
    "all edges": ("parent", "siblings", "children"),
    "siblings and children": ("siblings", "children"),
    "children only": ("children",),
}
MODELS = ("dense", "longformer", *EDGES)
PUBLISHED = {"dense": 75.9, "all edges": 79.7, "siblings and children": 85.6, "children only": 86.2}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="*", choices=MODELS, default=MODELS)
    parser.add_argument(
        "--steps", type=int, default=20_000, help="total number of steps; an epoch has 425"
    )
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="maximum minutes of this run"
    )
    parser.add_argument("--every", type=int, default=425, help="steps between points of the curve")
    parser.add_argument("--examples", type=int, nargs=3, default=(85_000, 5_000, 10_000))
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--batch", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--state", type=Path, default=STATE, help="folder of interrupted runs")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--plot", action="store_true", help="draw the picture from saved results")
    options = parser.parse_args()
    if options.plot:
        plot(options.results)
        return
    if len(options.models) == 1:
        train(options.models[0], options)
        return
    others = sys.argv[1:]
    if "--models" in others:
        start = others.index("--models")
        others[start : start + 1 + len(options.models)] = []
    processes = [
        subprocess.Popen([sys.executable, __file__, "--models", model, *others])
        for model in options.models
    ]
    codes = [run.wait() for run in processes]
    if any(codes):
        sys.exit("a run failed")
    gather(options)


def build(name: str, layers: int) -> nn.Module:
    """Build a classifier of width 128 with ten classes, the digits."""
    torch.manual_seed(0)
    if name in EDGES:
        config = HDTConfig(
            vocab_size=VOCABULARY,
            d_model=128,
            d_kv=32,
            d_ff=512,
            num_layers=layers,
            num_heads=4,
            edges=EDGES[name],
            num_labels=10,
            problem_type="single_label_classification",
            pad_token_id=PADDING,
        )
        model = HDTForSequenceClassification(config)
        positions = model.model.encoder.embed_positions.scale_factor
        positions.requires_grad_(False).zero_()
        return model
    import transformers

    sizes = {
        "vocab_size": VOCABULARY,
        "hidden_size": 128,
        "intermediate_size": 512,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "max_position_embeddings": 1024,  # Longformer pads to its window
        "num_labels": 10,
        "problem_type": "single_label_classification",
        "pad_token_id": PADDING,
    }
    if name == "dense":
        return transformers.BertForSequenceClassification(transformers.BertConfig(**sizes))
    config = transformers.LongformerConfig(**sizes, attention_window=64, sep_token_id=PADDING)
    return speed_up(transformers.LongformerForSequenceClassification(config))


def forward(model: nn.Module, data: Expressions, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Loss and logits of some expressions."""
    if isinstance(model, HDTForSequenceClassification):
        tokens, parents = data.forest(chosen)
        tree, answers = Tree.from_parents(parents), data.answers[chosen]
        outputs = model(tree.to_level_order(tokens)[None], tree=tree.in_level_order, labels=answers)
        return outputs.loss, outputs.logits
    order = data.lengths[chosen].argsort()
    losses, logits = [], []
    for part in filter(len, order.tensor_split([int(SHORT * len(order))])):
        tokens = data.sequences(chosen[part])
        answers = data.answers[chosen[part]]
        outputs = model(tokens, attention_mask=(tokens != PADDING).long(), labels=answers)
        losses.append(outputs.loss * (len(part) / len(order)))
        logits.append(outputs.logits)
    return torch.stack(losses).sum(), torch.cat(logits)[order.argsort()]


def train(name: str, options: argparse.Namespace) -> None:
    """Train one model for the given steps or minutes, and save its state."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    begun = time.perf_counter()
    train_size, dev_size, test_size = options.examples
    data = generate(sum(options.examples), seed=options.seed).to(device)
    everything = torch.randperm(len(data), generator=torch.Generator().manual_seed(0)).to(device)
    parts = everything.split([train_size, dev_size, test_size])
    print(f"{name}: data after {time.perf_counter() - begun:.1f} s", flush=True)

    model = build(name, options.layers).to(device)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=RATE, weight_decay=0.01, fused=device == "cuda")
    folder = runs.run_folder(options.state, name)
    log = runs.resume(folder, model, optimizer)
    per_epoch = train_size // options.batch
    torch.manual_seed(log["step"])  # of dropout

    losses = []
    begun = time.perf_counter()
    before = log["seconds"]
    while log["step"] < options.steps and time.perf_counter() - begun < 60 * options.minutes:
        epoch, place = divmod(log["step"], per_epoch)
        if place == 0 or not losses:
            order = torch.randperm(train_size, generator=torch.Generator().manual_seed(epoch))
            order = order.to(device)
        model.train()
        chosen = parts[0][order[place * options.batch : (place + 1) * options.batch]]
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss, _ = forward(model, data, chosen)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.param_groups[0]["lr"] = RATE * min(1.0, (log["step"] + 1) / WARM_UP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
        log["step"] += 1
        if log["step"] % options.every == 0:
            right = is_correct(model, data, parts[1], options.batch).float().mean()
            log["seconds"] = before + time.perf_counter() - begun
            point = {
                "step": log["step"],
                "seconds": round(log["seconds"], 1),
                "loss": round(float(torch.stack(losses).mean()), 4),
                "accuracy": round(100 * float(right), 2),
            }
            losses = losses[-1:]
            log["curve"].append(point)
            runs.save(folder, model, optimizer, log)
            print(name, json.dumps(point), flush=True)

    log["seconds"] = before + time.perf_counter() - begun
    right = is_correct(model, data, parts[2], options.batch).cpu()
    lengths = data.lengths[parts[2]].cpu()
    log["accuracy"] = round(100 * float(right.float().mean()), 2)
    log["by length"] = [
        {"up to": end, "expressions": int(in_bin.sum()), "right": int(right[in_bin].sum())}
        for start, end in pairwise(BINS)
        if (in_bin := (lengths > start) & (lengths <= end)).any()
    ]
    log["parameters"] = sum(parameter.numel() for parameter in trained)
    runs.save(folder, model, optimizer, log)
    print(f"{name}: {log['accuracy']} % after {log['step']} steps", flush=True)


@torch.no_grad()
def is_correct(model: nn.Module, data: Expressions, part: Tensor, batch: int) -> Tensor:
    """Return whether each expression is answered correctly."""
    model.eval()
    part = part[data.lengths[part].argsort()]  # little padding
    order = part.argsort().argsort()
    device = part.device.type
    with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
        right = [
            forward(model, data, chosen)[1].argmax(-1) == data.answers[chosen]
            for chosen in part.split(batch)
        ]
    return torch.cat(right)[order]


def gather(options: argparse.Namespace) -> None:
    """Save and print the results of all models."""
    logs = {
        name: log for name, log in runs.logs(options.state, MODELS).items() if "accuracy" in log
    }
    recipe = {"layers": options.layers, "batch": options.batch, "examples": options.examples}
    recipe["seed"] = options.seed
    report.save(options.results, {"recipe": recipe, "models": logs}, "transformers")
    rows = [
        [name, log["accuracy"], PUBLISHED.get(name), log["step"], round(log["seconds"])]
        for name, log in logs.items()
    ]
    print(report.table(["model", "accuracy %", "published %", "steps", "seconds"], rows))
    rows = [
        [name, *(f"{100 * b['right'] / b['expressions']:.1f}" for b in log["by length"])]
        for name, log in logs.items()
    ]
    first = next(iter(logs.values()))["by length"]
    print(report.table(["model", *(f"≤ {b['up to']}" for b in first)], rows))


def plot(results: Path) -> None:
    from matplotlib.figure import Figure

    models = json.loads(results.read_text())["results"]["models"]
    figure = Figure(figsize=(10, 4), layout="constrained")
    curves, by_length = figure.subplots(1, 2)
    for name, log in models.items():
        points = [(point["step"], point["accuracy"]) for point in log["curve"]]
        curves.plot(*zip(*points, strict=True), label=name)
        points = [(b["up to"], 100 * b["right"] / b["expressions"]) for b in log["by length"]]
        by_length.plot(*zip(*points, strict=True), marker="o", label=name)
    curves.set(xlabel="steps", ylabel="accuracy on 5,000 held out, %", title="learning")
    by_length.set(xlabel="tokens up to", ylabel="test accuracy, %", title="by length", xscale="log")
    by_length.set_xticks(BINS[1:], [str(end) for end in BINS[1:]])
    by_length.minorticks_off()
    for axes in (curves, by_length):
        axes.grid(alpha=0.3)
    curves.legend(loc="lower right")
    IMAGE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(IMAGE, dpi=110)


if __name__ == "__main__":
    main()
