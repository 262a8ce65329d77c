"""HDT's matrix products by cuBLAS and by QuACK, in CUDA graphs on one Hopper GPU.

    python benchmarks/products.py            # measure, print, save results/products.json
    python benchmarks/products.py --docs     # write the saved tables into the page of numbers

First every kind of product of HDT of base size (width 768, inner states 3,072) by itself, with what
surrounds it: "down, residual and norm" is the product, the sum with the residual and RMSNorm with
cuBLAS, and the product that adds the residual and sums squares with QuACK, after which the next
product, "up after norm", scales its rows. "Down's gradient" is that of its input, with the mask of
ReLU. The floor is the larger of arithmetic, at the rate of a large product on this card, and memory
traffic, every tensor read and written once, at the rate of a large copy.

Then the model, one document packed with its tree: the forward pass and the training step, in one
graph each, and the error of the last hidden states relative to the same weights in float32.
"""

import argparse
import random
from collections.abc import Callable
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import report
from foveate.models.hdt import HDTConfig, HDTModel
from foveate.models.projections import lay_out_weights
from foveate.ops.linear import for_graphs, products
from foveate.ops.linear.products import add_product, deferred_product
from foveate.ops.rms_norm import residual_rms_norm
from foveate.ops.tree_attention import Tree
from timing import copy_rate, graph_milliseconds, matmul_rate
from tree_documents import document

RESULTS = report.RESULTS / "products.json"
PAGE = report.ROOT / "docs" / "numbers" / "hdt.md"
PACKAGES = "triton", "transformers", "quack-kernels", "nvidia-cutlass-dsl"
WIDTH, INNER, EPS = 768, 3072, 1e-6
VOCABULARY = 32768
LENGTHS = (4096, 16_384, 65_536)
CUBLAS, QUACK = LIBRARIES = ("cuBLAS", "QuACK")
CONTEXTS = {CUBLAS: nullcontext, QUACK: for_graphs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="tokens")
    parser.add_argument("--output", type=Path, default=RESULTS, help="file of the results")
    parser.add_argument("--docs", action="store_true", help="write saved results into the page")
    options = parser.parse_args()
    if options.docs:
        report.write_tables(PAGE, tables(report.load(options.output)))
        return
    if find_spec("quack") is None:
        parser.error("QuACK is not installed: run pip install 'foveate[quack]'")
    rates = {"matrix TFLOP/s": matmul_rate() / 1e12, "copy TB/s": copy_rate() / 1e12}
    results: dict[str, Any] = {**rates, "products": [], "models": []}
    with torch.no_grad():
        for length in options.lengths:
            results["products"] += measure_products(length)
            report.save(options.output, results, *PACKAGES)
    for length in options.lengths:
        results["models"] += [measure_model(length, part) for part in ("forward", "training step")]
        report.save(options.output, results, *PACKAGES)
    for name, text in tables(results).items():
        print(f"{name}\n\n{text}\n")


def measure_products(rows: int) -> list[dict[str, Any]]:
    """Measure every kind of product at a number of rows."""

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, device="cuda", dtype=torch.bfloat16)

    x, inner, joint = draw(rows, WIDTH), draw(rows, INNER).relu(), draw(rows, 3 * WIDTH)
    qkv, out = draw(3 * WIDTH, WIDTH) / 30, draw(WIDTH, WIDTH) / 30
    up, down, gain = draw(INNER, WIDTH) / 30, draw(WIDTH, INNER) / 60, draw(WIDTH)
    residual, scales = draw(rows, WIDTH), torch.rand(rows, device="cuda") + 0.5
    product, masked = products.product, products.product_where_positive

    def with_norm(states: Tensor, weight: Tensor) -> Callable[[], Any]:
        def run() -> Any:
            update = product(states, weight)
            return residual_rms_norm(residual, gain, EPS, update=update, dtype=residual.dtype)

        return run

    # What both libraries run, the weight, and the elements of other tensors besides x and output.
    states = rows * WIDTH
    cases: list[tuple[str, dict[str, Callable[[], Any]], Tensor, int]] = [
        ("queries, keys, values", _both(lambda: product(x, qkv)), qkv, 0),
        ("out", _both(lambda: product(x, out)), out, 0),
        ("up with ReLU", _both(lambda: products.product_relu(x, up)), up, 0),
        ("down", _both(lambda: product(inner, down)), down, 0),
        ("gradient of q, k, v's input", _both(lambda: product(joint, qkv.t())), qkv, 0),
        ("gradient of out's input", _both(lambda: product(x, out.t())), out, 0),
        ("gradient of up's input", _both(lambda: product(inner, up.t())), up, 0),
        (
            "gradient of down's input, masked",
            _both(lambda: masked(x, down.t(), inner, 1.0)),
            down,
            rows * INNER,
        ),
        (
            "out, residual, norm",
            {CUBLAS: with_norm(x, out), QUACK: lambda: add_product(residual, x, out, EPS)},
            out,
            states,
        ),
        (
            "down, residual, norm",
            {
                CUBLAS: with_norm(inner, down),
                QUACK: lambda: add_product(residual, inner, down, EPS),
            },
            down,
            states,
        ),
        (
            "up with ReLU after the norm",
            {
                CUBLAS: lambda: products.product_relu(x, up),
                QUACK: lambda: deferred_product(x, scales, up * gain, relu=True),
            },
            up,
            0,
        ),
    ]
    found = []
    for name, runs, weight, others in cases:
        row: dict[str, Any] = {"rows": rows, "product": name}
        row["GFLOP"] = 2 * rows * weight.numel() / 1e9
        row["MB"] = (rows * sum(weight.shape) + weight.numel() + others) * x.element_size() / 1e6
        for library in LIBRARIES:
            with CONTEXTS[library]():
                row[library] = graph_milliseconds(runs[library])
        print(row, flush=True)
        found.append(row)
    return found


def _both(run: Callable[[], Any]) -> dict[str, Callable[[], Any]]:
    return dict.fromkeys(LIBRARIES, run)


def measure_model(length: int, part: str) -> dict[str, Any]:
    """Measure the forward pass or the training step of HDT at one length."""
    torch.manual_seed(0)
    model = HDTModel(HDTConfig(vocab_size=VOCABULARY, dropout_rate=0.0)).cuda()
    tree = Tree.from_parents(torch.tensor(document(length, random.Random(0))[:length])).to("cuda")
    ids = torch.randint(5, VOCABULARY, (1, length), device="cuda")
    inputs = {"input_ids": ids, "tree": tree.in_level_order}
    row: dict[str, Any] = {"tokens": length, "part": part}
    with torch.no_grad():
        exact = model.eval()(**inputs).last_hidden_state
    model = model.to(torch.bfloat16)
    lay_out_weights(model)

    def forward() -> Tensor:
        with torch.no_grad():
            output: Tensor = model(**inputs).last_hidden_state
        return output

    def step() -> None:
        model.zero_grad()
        model(**inputs).last_hidden_state.float().square().mean().backward()

    model.train(part != "forward")
    for library in LIBRARIES:
        with CONTEXTS[library]():
            if part == "forward":
                row[f"{library} error"] = float((forward() - exact).norm() / exact.norm())
            row[library] = graph_milliseconds(forward if part == "forward" else step)
        model.zero_grad()
    print(row, flush=True)
    return row


def tables(results: dict[str, Any]) -> dict[str, str]:
    rows = []
    for row in results["products"]:
        arithmetic = row["GFLOP"] / results["matrix TFLOP/s"]
        traffic = row["MB"] / results["copy TB/s"] / 1e3
        floor, times = max(arithmetic, traffic), [row[library] for library in LIBRARIES]
        ratios = [time / floor for time in times]
        microseconds = [round(time * 1e3, 1) for time in (floor, *times)]
        rows.append([row["rows"], row["product"], *microseconds, *ratios, times[1] / times[0]])
    header = ["rows", "product", "floor µs", *(f"{x}, µs" for x in LIBRARIES)]
    header += [f"{x} × floor" for x in LIBRARIES]
    found = {"products": report.table([*header, "QuACK / cuBLAS"], rows)}
    rows = []
    for row in results["models"]:
        times = [row[library] for library in LIBRARIES]
        errors = [row.get(f"{library} error") for library in LIBRARIES]
        rows.append([row["tokens"], row["part"], *times, times[1] / times[0], *errors])
    header = ["tokens", "part", *(f"{x}, ms" for x in LIBRARIES), "QuACK / cuBLAS"]
    header += [f"{x}, error" for x in LIBRARIES]
    found["products of HDT"] = report.table(header, rows)
    return found


if __name__ == "__main__":
    main()
