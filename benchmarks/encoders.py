"""Encoders on one GPU: time and memory of a forward pass and of a training step, by length.

    python benchmarks/encoders.py                 # measure, print, save results/encoders.json
    python benchmarks/encoders.py --plot          # draw docs/images/encoders.png from the results

One document, base size (12 layers, width 768; ModernBERT has 22 layers), bfloat16, random weights.
The forward pass starts at token ids, mask and parents in the padded form that users pass, so that
packing and building the tree are part of HDT's time; "packed" starts at nodes in level order with
their tree, as a data loader can prepare them; "checkpointed" recomputes each block's activations in
the backward pass. A training step is a forward and a backward pass without dropout; an optimizer
would cost all encoders the same. Times are medians of triton.testing.do_bench, and memory is the
peak above the weights. A model that runs out of memory, or takes over ten times HDT's time, is left
out at greater lengths.

The floor is arithmetic: two operations per token and matrix weight, three times that for a training
step, at the rate that this card reaches on a large matrix product.
"""

import argparse
import gc
import json
import random
from collections.abc import Callable
from pathlib import Path

import torch

import report
from tree_documents import document

LENGTHS = (4096, 16384, 65536, 262144, 1048576)
RESULTS = report.RESULTS / "encoders.json"
IMAGE = Path(__file__).parents[1] / "docs" / "images" / "encoders.png"
VOCABULARY = 32768


def parents_of(length: int) -> torch.Tensor:
    """Draw a document and truncate it to `length` nodes, anchors included."""
    return torch.tensor(document(length, random.Random(0))[:length], device="cuda")


def hdt(length: int) -> tuple[torch.nn.Module, dict]:
    from foveate.models.hdt import HDTConfig, HDTModel

    parents = parents_of(length)[None]
    return HDTModel(HDTConfig(vocab_size=VOCABULARY, dropout_rate=0.0)), {"parent_ids": parents}


def hdt_packed(length: int) -> tuple[torch.nn.Module, dict]:
    from foveate.models.hdt import HDTConfig, HDTModel
    from foveate.ops.tree_attention import Tree

    tree = Tree.from_parents(parents_of(length)).in_level_order
    return HDTModel(HDTConfig(vocab_size=VOCABULARY, dropout_rate=0.0)), {"tree": tree}


def hdt_checkpointed(length: int) -> tuple[torch.nn.Module, dict]:
    model, inputs = hdt_packed(length)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    return model, inputs


def longformer(length: int) -> tuple[torch.nn.Module, dict]:
    from transformers import LongformerConfig, LongformerModel

    config = LongformerConfig(
        vocab_size=VOCABULARY,
        max_position_embeddings=length + 2,
        attention_window=512,
        pad_token_id=1,
        attention_probs_dropout_prob=0.0,
        hidden_dropout_prob=0.0,
    )
    global_attention = torch.zeros(1, length, dtype=torch.long, device="cuda")
    global_attention[:, 0] = 1
    model = LongformerModel(config, add_pooling_layer=False)
    return model, {"global_attention_mask": global_attention}


def modernbert(length: int) -> tuple[torch.nn.Module, dict]:
    from transformers import ModernBertConfig, ModernBertModel

    config = ModernBertConfig(
        vocab_size=VOCABULARY,
        max_position_embeddings=length,
        pad_token_id=0,
        bos_token_id=1,
        cls_token_id=1,
        eos_token_id=2,
        sep_token_id=2,
    )
    config._attn_implementation = "sdpa"
    return ModernBertModel(config), {}


def pegasus_x(length: int) -> tuple[torch.nn.Module, dict]:
    from transformers import PegasusXConfig
    from transformers.models.pegasus_x.modeling_pegasus_x import PegasusXEncoder

    config = PegasusXConfig(
        vocab_size=VOCABULARY,
        d_model=768,
        encoder_layers=12,
        encoder_attention_heads=12,
        encoder_ffn_dim=3072,
        max_position_embeddings=length,
        dropout=0.0,
    )
    return PegasusXEncoder(config), {}


ENCODERS: dict[str, Callable[[int], tuple[torch.nn.Module, dict]]] = {
    "HDT (foveate)": hdt,
    "HDT (foveate), packed": hdt_packed,
    "HDT (foveate), packed, checkpointed": hdt_checkpointed,
    "PEGASUS-X": pegasus_x,
    "ModernBERT": modernbert,
    "Longformer": longformer,
}
HDT = "HDT (foveate)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="*", default=LENGTHS)
    parser.add_argument("--plot", action="store_true", help="draw the picture from saved results")
    options = parser.parse_args()
    if options.plot:
        plot()
        return

    rate = matrix_rate()
    print(f"matrix rate {rate / 1e12:.0f} TFLOP/s")
    results = []
    slow: dict[str, set[str]] = {"forward": set(), "training step": set()}
    for length in options.lengths:
        for name, build in ENCODERS.items():
            row = {"encoder": name, "tokens": length}
            for what in ("forward", "training step"):
                timed = None if name in slow[what] else measure(build, length, what)
                if timed is None:
                    slow[what].add(name)
                row[f"{what} ms"], row[f"{what} GiB"] = timed or (None, None)
                if name.startswith(HDT) and timed:
                    floor = 2 * 85e6 * length * (1 if what == "forward" else 3) / rate * 1e3
                    row[f"{what} share of rate"] = floor / timed[0]
            results.append(row)
            print(report.table(list(row), [list(row.values())]), flush=True)
        fastest = {row["encoder"]: row for row in results if row["tokens"] == length}
        for what, names in slow.items():
            limit = fastest[HDT][f"{what} ms"]
            names |= {
                n for n, r in fastest.items() if limit and (r[f"{what} ms"] or 0) > 10 * limit
            }
    report.save(RESULTS, {"matrix TFLOP/s": rate / 1e12, "rows": results}, "triton", "transformers")


def matrix_rate() -> float:
    """Measure the operations per second of a large bfloat16 matrix product."""
    from triton.testing import do_bench

    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    return 2 * 8192**3 / (do_bench(lambda: a @ a, return_mode="median") * 1e-3)


def measure(build: Callable, length: int, what: str) -> tuple[float, float] | None:
    """Median milliseconds and peak GiB above the weights; None when memory runs out."""
    from triton.testing import do_bench

    gc.collect()  # frees the previous model
    torch.cuda.empty_cache()
    torch.manual_seed(0)
    model, inputs = build(length)
    model = model.to("cuda", torch.bfloat16)
    ids = torch.randint(5, VOCABULARY, (1, length), device="cuda")
    mask = torch.ones_like(ids)

    def forward() -> torch.Tensor:
        return model(input_ids=ids, attention_mask=mask, **inputs).last_hidden_state

    def training_step() -> None:
        model.zero_grad(set_to_none=True)
        forward().float().square().mean().backward()

    try:
        if what == "forward":
            model.eval()
            with torch.inference_mode():
                return timed(forward, do_bench)
        model.train()
        return timed(training_step, do_bench)
    except torch.OutOfMemoryError:
        return None


def timed(run: Callable, do_bench: Callable) -> tuple[float, float]:
    run()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - before
    return do_bench(run, warmup=100, rep=600, return_mode="median"), peak / 2**30


def plot() -> None:
    from matplotlib.figure import Figure

    saved = json.loads(RESULTS.read_text())
    rows, rate = saved["results"]["rows"], saved["results"]["matrix TFLOP/s"] * 1e12
    figure = Figure(figsize=(10, 4), layout="constrained")
    for axes, what in zip(figure.subplots(1, 2), ("forward", "training step"), strict=True):
        for name in ENCODERS:
            points = [(r["tokens"], r[f"{what} ms"]) for r in rows if r["encoder"] == name]
            points = [point for point in points if point[1]]
            axes.plot(*zip(*points, strict=True), marker="o", label=name)
        lengths = sorted({r["tokens"] for r in rows})
        passes = 1 if what == "forward" else 3
        floor = [2 * 85e6 * n * passes / rate * 1e3 for n in lengths]
        axes.plot(lengths, floor, color="black", linestyle=":", label="arithmetic floor of HDT")
        axes.set(xscale="log", yscale="log", xlabel="tokens", ylabel="ms", title=what)
        axes.set_xticks(lengths, [f"{n // 1024}k" for n in lengths], minor=False)
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    axes.legend()
    figure.suptitle(f"{saved['machine']['gpu']}, bfloat16, one document")
    IMAGE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(IMAGE, dpi=110)


if __name__ == "__main__":
    main()
