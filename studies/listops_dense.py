"""ListOps with dense attention for as many epochs as published: 300, with one head and with four.

    python studies/listops_dense.py --minutes 11       # train as far as that goes; repeat to go on
    python studies/listops.py --docs                   # write saved results into the page

Models, expressions, batch size and learning rate are those of `listops.py`. Batches hold
expressions of like length, so that little is padded and few shapes occur; every expression is in
one batch of an epoch, and batches come in random order. On a GPU a step is one CUDA graph for each
width: both models train beside each other in it, on the same batches. A step without graphs, with
launches one by one, takes ten times as long.

All is saved every few epochs. The learning rate is constant, so training may end at any of them.
"""

import argparse
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import runs
from benchmarks import report
from listops import DENSE, RATE, STATE, WARM_UP, by_length, percent, read_data, write_data
from listops_data import PADDING, Expressions
from listops_models import Dense, build

WIDTHS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 520)
"""Lengths to which batches are padded, START included; multiples of 8 suit the kernels."""
TOKENS = 25_600
"""Tokens that go forward and backward at once, which bounds memory: about 2 GB a model."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heads", type=int, nargs="+", default=[1, 4], help="of each model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--every", type=int, default=5, help="epochs from one saving to the next")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="limit of this run")
    parser.add_argument("--examples", type=int, nargs=3, default=(85_000, 5_000, 10_000))
    parser.add_argument("--depth", type=int, default=20, help="most nested operators")
    parser.add_argument("--operands", type=int, default=5, help="most operands of an operator")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--batch", type=int, default=200)
    parser.add_argument("--state", type=Path, default=STATE, help="folder of interrupted runs")
    parser.add_argument("--results", type=Path, default=DENSE)
    options = parser.parse_args()
    end = time.perf_counter() + 60 * options.minutes
    torch.set_num_threads(1)
    if not (options.state / "data.safetensors").exists():
        write_data(options)
    with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):  # cuDNN plans each shape
        train(Training(options), options, end)


class Padded:
    """All expressions, padded, on the device.

    Attributes:
        tokens: `(expressions, longest width)` uint8.
        answers: `(expressions,)` int64.
        width: The number of each expression's width in `WIDTHS`, `(expressions,)` int64, on the
            CPU.
    """

    def __init__(self, data: Expressions, device: str) -> None:
        self.width = torch.bucketize(1 + data.lengths, torch.tensor(WIDTHS))
        tokens = data.sequences(torch.arange(len(data))).to(torch.uint8)
        missing = WIDTHS[-1] - tokens.shape[1]
        self.tokens = F.pad(tokens, (0, missing), value=PADDING).to(device)
        self.answers = data.answers.to(device)

    def by_width(self, chosen: Tensor, batch: int) -> list[tuple[Tensor, int]]:
        """Return batches of expressions of like width, the narrowest first, and their widths."""
        ordered = chosen[self.width[chosen].argsort(stable=True)]
        return [(part, WIDTHS[int(self.width[part[-1]])]) for part in ordered.split(batch)]


class Training:
    """The models in training, and the graphs of their steps.

    Attributes:
        models: Dense models by their number of heads.
        log: What is known of them; has "step", the steps taken so far.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        on_gpu = self.device == "cuda"
        expressions, self.parts = read_data(options)
        self.lengths = expressions.lengths
        self.data = Padded(expressions, self.device)
        self.models = nn.ModuleDict(
            {str(n): build("dense", options.layers, n, options.seed) for n in options.heads}
        ).to(self.device)
        self.optimizer = torch.optim.AdamW(
            self.models.parameters(),
            torch.tensor(0.0, device=self.device),
            weight_decay=0.01,
            fused=on_gpu,
            capturable=on_gpu,
        )
        self.chosen = torch.zeros(options.batch, dtype=torch.int64, device=self.device)
        self.losses = torch.zeros(len(self.models), device=self.device)
        self.streams = [torch.cuda.Stream() for _ in self.models] if on_gpu else []
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        if on_gpu:
            self.warm_up()
        names = "-".join(self.models)
        self.folder = runs.run_folder(options.state, f"dense {names} seed {options.seed}")
        self.log = runs.resume(self.folder, self.models, self.optimizer)
        torch.manual_seed(1000 * options.seed + self.log["step"])  # of dropout
        if on_gpu:
            self.capture()
        self.losses.zero_()

    def warm_up(self) -> None:
        """Load all kernels and make Adam's state, without a change to the models."""
        torch.cuda.synchronize()
        with torch.cuda.stream(torch.cuda.Stream()):
            for width in WIDTHS:
                self.compute_gradients(width)
            self.optimizer.step()  # at a rate of 0
        torch.cuda.synchronize()
        for state in self.optimizer.state.values():
            for tensor in state.values():
                tensor.zero_()

    def capture(self) -> None:
        """Capture a step at each width; nothing is computed."""
        pool = torch.cuda.graph_pool_handle()
        for width in WIDTHS:
            self.graphs[width] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graphs[width], pool=pool):
                self.compute_gradients(width)
                self.optimizer.step()

    def step(self, chosen: Tensor, width: int) -> None:
        """Train on a batch of expressions, on the device, up to a width."""
        rate = RATE * min(1.0, (self.log["step"] + 1) / WARM_UP)
        self.optimizer.param_groups[0]["lr"].fill_(rate)
        self.chosen.copy_(chosen)
        if self.graphs:
            self.graphs[width].replay()
        else:
            self.compute_gradients(width)
            self.optimizer.step()
        self.log["step"] += 1

    def compute_gradients(self, width: int) -> None:
        """Compute the gradients of all models for `chosen`, and add up their losses."""
        self.optimizer.zero_grad(set_to_none=True)
        for i, model in enumerate(self.models.values()):
            with self.beside(i):
                for part in self.chosen.split(max(1, TOKENS // width)):
                    logits = self.logits(model, part, width).float()
                    loss = F.cross_entropy(logits, self.data.answers[part], reduction="sum")
                    loss = loss / len(self.chosen)
                    loss.backward()
                    self.losses[i] += loss.detach()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for stream in self.streams:
            torch.cuda.current_stream().wait_stream(stream)

    @contextmanager
    def beside(self, i: int) -> Iterator[None]:
        """On a GPU, run beside the other models."""
        with ExitStack() as stack:
            if self.streams:
                self.streams[i].wait_stream(torch.cuda.current_stream())
                stack.enter_context(torch.cuda.stream(self.streams[i]))
            yield

    def logits(self, model: nn.Module, chosen: Tensor, width: int) -> Tensor:
        """Compute the logits of expressions, on the device, of up to a width."""
        assert isinstance(model, Dense)
        tokens = self.data.tokens[:, :width].index_select(0, chosen).long()
        with torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda"):
            logits: Tensor = model.classifier(model.first_tokens(tokens))
        return logits

    @torch.no_grad()
    def is_correct(self, part: Tensor, batch: int) -> dict[str, Tensor]:
        """Return for each model whether its answers to a part are right, on the CPU."""
        self.models.eval()
        right = {heads: torch.zeros(len(self.lengths), dtype=torch.bool) for heads in self.models}
        for chosen, width in self.data.by_width(part, batch):
            there = chosen.to(self.device)
            for heads, model in self.models.items():
                answers = self.logits(model, there, width).argmax(-1)
                right[heads][chosen] = (answers == self.data.answers[there]).cpu()
        self.models.train()
        return {heads: of_model[part] for heads, of_model in right.items()}


def train(training: Training, options: argparse.Namespace, end: float) -> None:
    """Train until all epochs are over or time is, saving every few epochs, and test."""
    train_part, dev_part, test_part = training.parts
    log = training.log
    per_epoch = len(train_part) // options.batch
    begun, before = time.perf_counter(), log["seconds"]
    print(f"from step {log['step']}, {per_epoch} an epoch", flush=True)
    every = min(options.every, options.epochs)
    slowest = 0.0
    while log["step"] < options.epochs * per_epoch and time.perf_counter() + slowest < end:
        started = time.perf_counter()
        first = log["step"] // per_epoch
        last = min(first + every, options.epochs)
        for epoch in range(first, last):
            training.losses.zero_()
            generator = torch.Generator().manual_seed(1000 * options.seed + epoch)
            chosen = train_part[torch.randperm(len(train_part), generator=generator)]
            batches = training.data.by_width(chosen[: per_epoch * options.batch], options.batch)
            there = torch.stack([batch for batch, _ in batches]).to(training.device)
            for i in torch.randperm(len(batches), generator=generator).tolist():
                training.step(there[i], batches[i][1])
        losses = (training.losses / per_epoch).tolist()
        right = training.is_correct(dev_part, options.batch)
        log["seconds"] = before + time.perf_counter() - begun
        point = {
            "epoch": last,
            "seconds": round(log["seconds"], 1),
            "loss": [round(loss, 4) for loss in losses],
            "accuracy": [percent(of_model) for of_model in right.values()],
        }
        log["curve"].append(point)
        runs.save(training.folder, training.models, training.optimizer, log)
        print(line(point, training.models), flush=True)
        slowest = max(slowest, time.perf_counter() - started)
    finish(training, test_part, options)


def line(point: dict[str, Any], models: Iterable[str]) -> str:
    """Write a point of the curve for a person to read."""
    found = [
        f"heads {heads}: loss {loss:.3f}, {accuracy:.2f} % held out"
        for heads, loss, accuracy in zip(models, point["loss"], point["accuracy"], strict=True)
    ]
    return f"epoch {point['epoch']}, {point['seconds']:.0f} s | {' | '.join(found)}"


def finish(training: Training, part: Tensor, options: argparse.Namespace) -> None:
    """Test the models and save the results."""
    lengths = training.lengths[part]
    models = {
        f"dense, {heads} head{'' if heads == '1' else 's'}": {
            "accuracy": percent(right),
            "by length": by_length(right, lengths),
            "curve": [
                {key: point[key] for key in ("epoch", "seconds")}
                | {key: point[key][i] for key in ("loss", "accuracy")}
                for point in training.log["curve"]
            ],
            "parameters": sum(p.numel() for p in training.models[heads].parameters()),
        }
        for i, (heads, right) in enumerate(training.is_correct(part, options.batch).items())
    }
    recipe = {
        name: getattr(options, name)
        for name in ("layers", "batch", "examples", "seed", "depth", "operands")
    }
    epochs = training.log["curve"][-1]["epoch"] if training.log["curve"] else 0
    results = {"recipe": recipe | {"epochs": epochs}, "models": models}
    report.save(options.results, results)
    for name, model in models.items():
        print(f"{name}: {model['accuracy']} % after {epochs} epochs", flush=True)


if __name__ == "__main__":
    main()
