"""Models of transformers, without and with `speed_up`: time and memory by length.

On a GPU, models whose encoder can be captured as a CUDA graph are also measured after `capture`.

    python benchmarks/speed_up.py                                   # everything, saves results/
    python benchmarks/speed_up.py --models "LED encoder" --lengths 4096 16384 --batches 1
    python benchmarks/speed_up.py --device cpu --lengths 512 1024 4096 --batches 1

Encoders of base size with random weights, bfloat16 on a GPU and float32 on a CPU, no padding, the
first token global in Longformer and LED. All forms of a model are measured in one run. The
forward pass starts at token ids; a training step is a forward and a backward pass without dropout.
Times are medians, on a GPU of triton.testing.do_bench, on a CPU of runs in which the forms
alternate. Memory is the peak above the weights, on a CPU in a separate process. "difference" is the
norm of the difference between the outputs, relative to that of the outputs of transformers.
"""

import argparse
import gc
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

import report
from foveate.models.accelerate import speed_up
from foveate.models.accelerate.cuda_graphs import capture

LENGTHS, BATCHES, VOCABULARY = (4096, 16_384, 65_536), (1, 4), 32_768
FORMS, PARTS = ("transformers", "foveate"), ("forward", "training step")


def longformer(length: int) -> nn.Module:
    from transformers import LongformerConfig, LongformerModel

    config = LongformerConfig(
        vocab_size=VOCABULARY,
        max_position_embeddings=length + 514,
        attention_window=512,
        pad_token_id=1,
        attention_probs_dropout_prob=0.0,
        hidden_dropout_prob=0.0,
    )
    return LongformerModel(config, add_pooling_layer=False)


def led(length: int) -> nn.Module:
    from transformers import LEDConfig, LEDModel

    config = LEDConfig(
        vocab_size=VOCABULARY,
        d_model=768,
        encoder_layers=6,
        decoder_layers=1,
        encoder_attention_heads=12,
        decoder_attention_heads=12,
        encoder_ffn_dim=3072,
        decoder_ffn_dim=3072,
        attention_window=1024,
        max_encoder_position_embeddings=length + 1024,
        dropout=0.0,
    )
    return LEDModel(config).encoder


def longt5(kind: str) -> Callable[[int], nn.Module]:
    def build(length: int) -> nn.Module:
        from transformers import LongT5Config, LongT5EncoderModel

        config = LongT5Config(
            vocab_size=VOCABULARY,
            d_model=768,
            d_ff=2048,
            num_layers=12,
            num_heads=12,
            encoder_attention_type=kind,
            feed_forward_proj="gated-gelu",
            dropout_rate=0.0,
        )
        return LongT5EncoderModel(config)

    return build


def t5(length: int) -> nn.Module:
    from transformers import T5Config, T5EncoderModel

    config = T5Config(
        vocab_size=VOCABULARY,
        d_model=768,
        d_ff=2048,
        num_layers=12,
        num_heads=12,
        feed_forward_proj="gated-gelu",
        dropout_rate=0.0,
    )
    return T5EncoderModel(config)


MODELS: dict[str, Callable[[int], nn.Module]] = {
    "LED encoder": led,
    "Longformer": longformer,
    "LongT5 transient-global": longt5("transient-global"),
    "LongT5 local": longt5("local"),
    "T5 encoder": t5,
}
HAVE_GLOBAL_TOKENS = ("LED encoder", "Longformer")
CAN_BE_CAPTURED = ("LED encoder", "Longformer", "LongT5 transient-global", "LongT5 local")


def build(
    name: str, form: str, batch: int, length: int, device: str
) -> dict[str, Callable[[], Any]]:
    """Build a model, and return the functions to be measured by name."""
    torch.manual_seed(0)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    model = MODELS[name](length).to(device, dtype)
    if form != "transformers":
        speed_up(model)
    if form == "captured":
        capture(model)
    ids = torch.randint(5, VOCABULARY, (batch, length), device=device)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if name in HAVE_GLOBAL_TOKENS:
        inputs["global_attention_mask"] = torch.zeros_like(ids)
        inputs["global_attention_mask"][:, 0] = 1

    def forward() -> Tensor:
        if model.training:
            model.eval()
        with torch.inference_mode():
            return model(**inputs).last_hidden_state

    def training_step() -> None:
        if not model.training:
            model.train()
        model.zero_grad(set_to_none=True)
        model(**inputs).last_hidden_state.float().square().mean().backward()

    return dict(zip(PARTS, (forward, training_step), strict=True))


def on_gpu(name: str, form: str, part: str, batch: int, length: int) -> Any:
    """Median milliseconds, peak GiB above the weights, and output; None if memory runs out."""
    from triton.testing import do_bench

    gc.collect()  # frees the previous model
    torch.cuda.empty_cache()
    try:
        run = build(name, form, batch, length, "cuda")[part]
        run()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        output = run()  # a shape is captured the second time
        torch.cuda.synchronize()
        peak = torch.cuda.max_memory_allocated() - before
        output = None if output is None else output.cpu()
        return do_bench(run, warmup=50, rep=300, return_mode="median"), peak / 2**30, output
    except torch.OutOfMemoryError:
        return None


def memory_on_cpu(name: str, form: str, part: str, batch: int, length: int) -> tuple[float, Any]:
    """Peak GiB above the weights, measured in this process, and output."""
    run = build(name, form, batch, length, "cpu")[part]
    Path("/proc/self/clear_refs").write_text("5")  # forget the highest memory so far
    before = _memory("VmRSS")
    output = run()
    return (_memory("VmHWM") - before) / 2**20, output


def alternate(name: str, batch: int, length: int, turns: int) -> dict[tuple[str, str], float]:
    """Median milliseconds of each form and part on a CPU, with the forms alternating.

    A processor's speed drifts, so measuring one form after the other would favour one of them.
    """
    models = {form: build(name, form, batch, length, "cpu") for form in FORMS}
    times: dict[tuple[str, str], list[float]] = {}
    for part in PARTS:
        for turn in range(turns + 1):
            for form in FORMS:
                start = time.perf_counter()
                models[form][part]()
                if turn:  # the first turn warms up
                    passed = (time.perf_counter() - start) * 1e3
                    times.setdefault((form, part), []).append(passed)
    return {key: median(measured) for key, measured in times.items()}


def _memory(field: str) -> int:
    """Return a memory field of this process, such as its current or peak use, in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def in_new_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a new process."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def compare(name: str, batch: int, length: int, device: str, turns: int) -> list[dict[str, Any]]:
    """Measure all forms of a model, one record each."""
    rows: list[dict[str, Any]] = []
    outputs = []
    times = {} if device == "cuda" else in_new_process(alternate, name, batch, length, turns)
    forms = (*FORMS, "captured") if device == "cuda" and name in CAN_BE_CAPTURED else FORMS
    for form in forms:
        row: dict[str, Any] = {"model": name, "form": form, "batch": batch, "tokens": length}
        for part in PARTS:
            if form == "captured" and part != "forward":
                row[f"{part} ms"] = row[f"{part} GiB"] = None
                continue
            arguments = name, form, part, batch, length
            if device == "cuda":
                measured = on_gpu(*arguments) or ("out of memory", None, None)
            else:
                measured = times[form, part], *in_new_process(memory_on_cpu, *arguments)
            row[f"{part} ms"], row[f"{part} GiB"], output = measured
            if part == "forward":
                outputs.append(output)
        row["difference"] = None
        if len(outputs) > 1 and outputs[0] is not None and outputs[-1] is not None:
            slow, fast = outputs[0].float(), outputs[-1].float()
            row["difference"] = float((fast - slow).norm() / slow.norm())
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="tokens")
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES, help="sequences")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--turns", type=int, default=7, help="measurements of each form on a CPU")
    parser.add_argument("--output", type=Path, help="where to save the results")
    options = parser.parse_args()
    target = options.output or report.RESULTS / f"speed_up-{options.device}.json"
    rows = []
    for length in options.lengths:
        for name in options.models:
            for batch in options.batches:
                forms = compare(name, batch, length, options.device, options.turns)
                rows += forms
                print(report.table(list(forms[0]), [list(r.values()) for r in forms]), flush=True)
        report.save(target, rows, "transformers", "triton")


if __name__ == "__main__":
    main()
