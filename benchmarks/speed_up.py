"""Models of transformers, without and with `speed_up`, in the forms that users run them in.

    python benchmarks/speed_up.py                      # everything, saves results/
    python benchmarks/speed_up.py --encoders LED Longformer --lengths 4096 16384
    python benchmarks/speed_up.py --docs               # write the tables into the page of numbers
    python benchmarks/speed_up.py --device cpu --lengths 512 1024 4096

Encoders of base size with random weights, bfloat16 on a GPU and float32 on a CPU, no padding, the
first token global in Longformer and LED. T5 in transformers runs with each attention it has: eager,
SDPA and FlexAttention; the others have one. The forms are those of `forms.py`.

On a CPU all encoders are eager, and their runs alternate; a process's memory is measured in a
process of its own.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import quantiles
from typing import Any

import torch
from torch import Tensor, nn

import forms
import report
from encoders import VOCABULARY, first_is_global, longformer
from forms import EAGER, FORWARD, PARTS, Built, Encoder, Row
from foveate.models.accelerate import speed_up
from timing import Memory

LENGTHS = (4096, 16_384, 65_536)
MINUTES = 4.0
SLOWEST = 20.0
PAGE = report.ROOT / "docs" / "numbers" / "speed-ups.md"
ON_PAGE = {
    "": "speed_up-cuda.json",
    "65,536 tokens, ": "speed_up-65536.json",
    "compiled, ": "speed_up-compiled.json",
    "H100, ": "speed_up-h100-16384.json",
}
"""The results on the page, by what the names of their tables begin with."""
T5 = {
    "vocab_size": VOCABULARY,
    "d_model": 768,
    "d_ff": 2048,
    "num_layers": 12,
    "num_heads": 12,
    "feed_forward_proj": "gated-gelu",
    "dropout_rate": 0.0,
}


def led(batch: int, length: int) -> Built:
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
    return LEDModel(config).encoder, {"global_attention_mask": first_is_global(batch, length)}


def longt5(batch: int, length: int, kind: str, sizes: dict[str, Any] = T5) -> Built:
    from transformers import LongT5Config, LongT5EncoderModel

    return LongT5EncoderModel(LongT5Config(**sizes, encoder_attention_type=kind)), {}


def t5(batch: int, length: int, attention: str, sizes: dict[str, Any] = T5) -> Built:
    from transformers import T5Config, T5EncoderModel

    config = T5Config(**sizes)
    config._attn_implementation = attention
    return T5EncoderModel(config), {}


def sped_up(batch: int, length: int, build: Callable[[int, int], Built]) -> Built:
    model, inputs = build(batch, length)
    return speed_up(model), inputs


def all_encoders() -> dict[str, Encoder]:
    """Every model, with each attention it has in transformers and with `speed_up`."""
    local, summaries = (partial(longt5, kind=kind) for kind in ("local", "transient-global"))
    models: dict[str, dict[str, Callable[[int, int], Built]]] = {
        "LED encoder": {"transformers": led},
        "Longformer": {"transformers": longformer},
        "LongT5 transient-global": {"transformers": summaries},
        "LongT5 local": {"transformers": local},
        "T5 encoder": {
            "transformers eager": partial(t5, attention="eager"),
            "transformers SDPA": partial(t5, attention="sdpa"),
            "transformers FlexAttention": partial(t5, attention="flex_attention"),
        },
    }
    found = {}
    for model, attentions in models.items():
        for how, build in attentions.items():
            found[f"{model}, {how}"] = Encoder(build, group=model, weights=model)
        found[f"{model}, speed_up (foveate)"] = Encoder(
            partial(sped_up, build=next(iter(attentions.values()))),
            ours=True,
            own_capture=model != "T5 encoder",
            group=model,
            weights=model,
        )
    return found


ENCODERS = all_encoders()


# On a CPU


def on_cpu(name: str, batch: int, length: int) -> dict[str, Callable[[], Any]]:
    """Build an encoder, and return the functions to be measured by name."""
    torch.manual_seed(0)
    built, inputs = ENCODERS[name].build(batch, length)
    model: nn.Module = built
    torch.manual_seed(1)
    inputs["input_ids"] = torch.randint(5, VOCABULARY, (batch, length))

    def forward() -> Tensor:
        model.eval()
        with torch.inference_mode():
            return model(**inputs).last_hidden_state

    def training_step() -> None:
        model.train()
        model.zero_grad(set_to_none=True)
        model(**inputs).last_hidden_state.float().square().mean().backward()

    return dict(zip(PARTS, (forward, training_step), strict=True))


def memory_on_cpu(name: str, batch: int, length: int, part: str) -> tuple[float, Any]:
    """Peak GiB above the weights, measured in this process, and output."""
    run = on_cpu(name, batch, length)[part]
    memory = Memory.start("cpu")
    output = run()
    return memory.peak() / 2**30, output


def alternate(
    names: list[str], batch: int, length: int, turns: int
) -> dict[tuple[str, str], list[float]]:
    """Milliseconds of each encoder and part on a CPU, with the encoders alternating.

    A processor's speed drifts, so measuring one after the other would favour one of them.
    """
    runs = {name: on_cpu(name, batch, length) for name in names}
    times: dict[tuple[str, str], list[float]] = {}
    for part in PARTS:
        for turn in range(turns + 1):
            for name in names:
                begun = time.perf_counter()
                runs[name][part]()
                if turn:  # the first turn warms up
                    passed = (time.perf_counter() - begun) * 1e3
                    times.setdefault((name, part), []).append(passed)
    return times


def in_new_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a new process."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def compare_on_cpu(group: str, batch: int, length: int, options: argparse.Namespace) -> list[Row]:
    """Measure all encoders of a group, one row for each part."""
    names = [
        name
        for name, encoder in ENCODERS.items()
        if encoder.group == group and "Flex" not in name  # has no backward pass on a CPU
    ]
    times = in_new_process(alternate, names, batch, length, options.turns)
    rows: list[Row] = []
    expected = None
    for name in names:
        for part in PARTS:
            memory, output = in_new_process(memory_on_cpu, name, batch, length, part)
            low, middle, high = quantiles(times[name, part], n=4)
            row = {
                "encoder": name,
                "ours": ENCODERS[name].ours,
                "group": group,
                "batch": batch,
                "tokens": length,
                "part": part,
                "form": EAGER,
                "ms": middle,
                "ms quartiles": [low, high],
                "runs": options.turns,
                "GiB": memory,
                "difference": None,
                "failed": None,
            }
            if part == FORWARD and expected is not None:
                row["difference"] = float((output - expected).norm() / expected.norm())
            elif part == FORWARD:
                expected = output
            rows.append(row)
    return rows


def run_on_cpu(options: argparse.Namespace, target: Path) -> None:
    """Measure the chosen groups, and save after each."""
    groups = {
        encoder.group
        for name, encoder in ENCODERS.items()
        if name.startswith(tuple(options.encoders))
    }
    wanted = [
        (group, batch, length)
        for length in options.lengths
        for group in sorted(groups)
        for batch in options.batches
    ]
    rows: list[Row] = []
    begun = time.monotonic()
    for number, (group, batch, length) in enumerate(wanted):
        if time.monotonic() - begun > options.minutes * 60:
            break
        rows += compare_on_cpu(group, batch, length, options)
        missing = [
            f"{later[0]}, {later[2]:,} tokens × {later[1]}" for later in wanted[number + 1 :]
        ]
        report.save(target, {"rows": rows}, "transformers", missing=missing)
    for table in forms.tables(rows).values():
        print(table, end="\n\n")


def main() -> None:
    parser = forms.parser(__doc__.splitlines()[0], LENGTHS, MINUTES)
    parser.add_argument("--batches", type=int, nargs="+", default=(1,), help="sequences")
    parser.add_argument("--turns", type=int, default=7, help="measurements of each form on a CPU")
    options = parser.parse_args()
    target = options.output or report.RESULTS / f"speed_up-{options.device}.json"
    if options.docs:
        for prefix, name in ON_PAGE.items():
            rows = report.load(report.RESULTS / name)["rows"]
            report.write_tables(PAGE, forms.tables(rows, prefix))
    elif options.device == "cpu":
        run_on_cpu(options, target)
    else:
        forms.run(ENCODERS, options, target, SLOWEST, {}, options.batches)


if __name__ == "__main__":
    main()
