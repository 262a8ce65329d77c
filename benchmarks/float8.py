"""HDT in 8-bit floating point on one GPU: time, and the error it introduces.

    python benchmarks/float8.py            # measure, print, save results/float8.json
    python benchmarks/float8.py --docs     # write the saved tables into the page of numbers

HDT of base size (12 layers, width 768) and of large size (24 layers, width 1,024) with random
weights, one document packed with its tree, as one CUDA graph, in bfloat16, with `use_float8`, and
with torchao's linear layers in 8-bit floating point, scaled by rows too, compiled block by block
since their rounding is many kernels otherwise. The floor is arithmetic: two operations per token
and matrix weight at the rate of a large product, bfloat16 or 8-bit. The error is the relative norm
of the difference of last hidden states from those of the same weights in float32.

Then the default model on the example, from which sentences are compared: the error of their
vectors against float32, and how often the sentence nearest to another stays the same.
"""

import argparse
import random
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import report
from foveate import Encoder, read_documents
from foveate.models.hdt import HDTConfig, HDTModel
from foveate.models.projections import lay_out_weights
from foveate.models.speed_ups import use_float8
from foveate.ops.float8 import quantize_rows
from foveate.ops.tree_attention import Tree
from timing import graph_milliseconds, matmul_rate, milliseconds
from tree_documents import document

RESULTS = report.RESULTS / "float8.json"
PAGE = report.ROOT / "docs" / "numbers" / "hdt.md"
EXAMPLE = report.ROOT / "examples" / "pep-0703.rst"
PACKAGES = "triton", "transformers", "torchao"
VOCABULARY = 32768
SIZES: dict[str, dict[str, int]] = {
    "base": {},
    "large": {"d_model": 1024, "d_ff": 4096, "num_layers": 24, "num_heads": 16},
}
LENGTHS = (4096, 16_384, 65_536)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="tokens")
    parser.add_argument("--output", type=Path, default=RESULTS, help="file of the results")
    parser.add_argument("--docs", action="store_true", help="write saved results into the page")
    options = parser.parse_args()
    if options.docs:
        saved = report.load(options.output)
        report.write_tables(PAGE, tables(saved))
        return
    wanted = list(product(FORMS, SIZES, options.lengths))
    missing = [f"{form}, {size}, {length}" for form, size, length in wanted]
    results: dict[str, Any] = {
        "matrix TFLOP/s": matmul_rate() / 1e12,
        "8-bit matrix TFLOP/s": float8_rate() / 1e12,
        "rows": [],
    }
    results["sentences"] = sentences()
    # Compiling takes the longest, so forms that need it come last.
    for form, size, length in wanted:
        results["rows"].append(measure(form, size, length))
        print(results["rows"][-1], flush=True)
        missing.remove(f"{form}, {size}, {length}")
        report.save(options.output, results, *PACKAGES, missing=missing)
    for name, text in tables(results).items():
        print(f"{name}\n\n{text}\n")


def float8_rate() -> float:
    """Measure the operations per second of a large product of 8-bit numbers."""
    size = 8192
    a, b = (quantize_rows(torch.randn(size, size, device="cuda")).values for _ in range(2))
    one = torch.ones((), device="cuda")

    def run() -> Tensor:
        product: Tensor = torch._scaled_mm(
            a, b.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True
        )
        return product

    return 2 * size**3 / milliseconds(run) * 1e3


def with_weights_laid_out(model: nn.Module) -> nn.Module:
    lay_out_weights(model)
    return model


def with_torchao(model: nn.Module) -> nn.Module:
    from torchao.quantization import (
        Float8DynamicActivationFloat8WeightConfig,
        PerRow,
        quantize_,
    )

    encoder: nn.Module = model.encoder
    quantize_(encoder, Float8DynamicActivationFloat8WeightConfig(granularity=PerRow()))
    for block in encoder.block:
        block.compile()
    return model


FORMS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "bfloat16": with_weights_laid_out,
    "use_float8": use_float8,
    "torchao": with_torchao,
}


def measure(form: str, size: str, length: int) -> dict[str, Any]:
    """Measure a form of a model at one length."""
    torch.manual_seed(0)
    config = HDTConfig(vocab_size=VOCABULARY, dropout_rate=0.0, **SIZES[size])
    model = HDTModel(config).eval().cuda()
    tree = Tree.from_parents(torch.tensor(document(length, random.Random(0))[:length])).to("cuda")
    inputs = {
        "input_ids": torch.randint(5, VOCABULARY, (1, length), device="cuda"),
        "tree": tree.in_level_order,
    }
    weights = sum(x.numel() for x in model.encoder.block.parameters() if x.ndim == 2)
    row: dict[str, Any] = {"size": size, "tokens": length, "form": form}
    row["TFLOP"] = 2 * weights * length / 1e12
    try:
        with torch.no_grad():
            exact = model(**inputs).last_hidden_state
        changed = FORMS[form](model.to(torch.bfloat16))
        with torch.inference_mode():
            output = changed(**inputs).last_hidden_state
            row["error"] = float((output - exact).norm() / exact.norm())
            row["ms"] = graph_milliseconds(lambda: changed(**inputs))
    except Exception as error:
        row["failed"] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    torch.compiler.reset()
    return row


def sentences() -> dict[str, Any]:
    """Compare sentence vectors of the default model on the example with those in float32."""
    (example,) = read_documents([EXAMPLE])
    exact = Encoder.from_pretrained(device="cuda").encode(example).sentences
    found: dict[str, Any] = {"sentences": len(exact)}
    for name in ("bfloat16", "use_float8"):
        encoder = Encoder.from_pretrained(device="cuda", dtype=torch.bfloat16)
        if name == "use_float8":
            use_float8(encoder.model)
        vectors = encoder.encode(example).sentences
        same = nearest(vectors) == nearest(exact)
        error = float((vectors - exact).norm() / exact.norm())
        found[name] = {"error": error, "same nearest": float(same.float().mean())}
    return found


def nearest(vectors: Tensor) -> Tensor:
    """The sentence that is most similar to each, other than itself."""
    unit = torch.nn.functional.normalize(vectors, dim=1)
    return (unit @ unit.T).fill_diagonal_(-1).argmax(1)


def tables(results: dict[str, Any]) -> dict[str, str]:
    rows = []
    for row in sorted(results["rows"], key=lambda row: (row["size"], row["tokens"])):
        rate = "matrix TFLOP/s" if row["form"] == "bfloat16" else "8-bit matrix TFLOP/s"
        floor = row["TFLOP"] / results[rate] * 1e3
        values = [row.get("ms"), floor, row.get("error"), row.get("failed", "")]
        rows.append([row["size"], row["tokens"], row["form"], *values])
    header = ["size", "tokens", "products", "forward ms", "floor ms", "error", ""]
    found = {"float8": report.table(header, rows)}
    if compared := results.get("sentences"):
        rows = [[name, *compared[name].values()] for name in ("bfloat16", "use_float8")]
        found["float8 sentences"] = report.table(["products", "error", "same nearest"], rows)
    return found


if __name__ == "__main__":
    main()
