"""Fovea, T5 and other encoders of its size on one GPU: time and memory by length.

    python benchmarks/fovea.py                        # measure, print, save results/fovea.json
    python benchmarks/fovea.py --quick                # 4,096 and 16,384 tokens, nothing saved
    python benchmarks/fovea.py --lengths 65536 --encoders Fovea LongT5
    python benchmarks/fovea.py --generation           # T5's milliseconds per generated token

One sequence, LongT5-base shapes (12 layers, width 768, 12 heads of 64, gated feed-forward of 2,048;
PEGASUS-X has a plain one of 3,072), bfloat16, random weights. The forward pass starts at token ids
and mask, as users pass them. A training step is a forward and a backward pass, without dropout and
without an optimizer, which would cost all encoders the same. Times are medians of
triton.testing.do_bench, memory is the peak above the weights. Encoders that run out of memory, or
take over eight times Fovea's time, are left out at greater lengths.

The share of the rate is the time that the products with weights alone would take, at the rate that
this card reaches on a large matrix product, divided by the measured time.
"""

import argparse
from collections.abc import Callable, Iterator
from time import perf_counter

import torch

import report
from encoders import VOCABULARY, matrix_rate, measure, pegasus_x

LENGTHS = (4096, 16384, 65536, 262144)
QUICK = LENGTHS[:2]
RESULTS = report.RESULTS / "fovea.json"
PARTS = ("forward", "training step")
WEIGHTS = 12 * (4 * 768**2 + 3 * 768 * 2048)  # multiplied with every token
SIZES = {
    "vocab_size": VOCABULARY,
    "d_model": 768,
    "d_kv": 64,
    "d_ff": 2048,
    "num_layers": 12,
    "num_heads": 12,
    "feed_forward_proj": "gated-gelu",
    "dropout_rate": 0.0,
}

Built = tuple[torch.nn.Module, dict]


def fovea(length: int) -> Built:
    from foveate.models.fovea import FoveaConfig, FoveaEncoderModel

    return FoveaEncoderModel(FoveaConfig(**SIZES)), {}


def fovea_paper(length: int) -> Built:
    from foveate.models.fovea import FoveaConfig, FoveaEncoderModel

    return FoveaEncoderModel(FoveaConfig(**SIZES, coverage="paper")), {}


def fovea_captured(length: int) -> Built:
    from foveate.models.accelerate.cuda_graphs import capture

    model, inputs = fovea(length)
    return capture(model), inputs


def longt5(length: int) -> Built:
    from transformers import LongT5Config, LongT5EncoderModel

    config = LongT5Config(**SIZES, encoder_attention_type="transient-global")
    return LongT5EncoderModel(config), {}


def t5(attention: str) -> Callable[[int], Built]:
    def build(length: int) -> Built:
        from transformers import T5Config, T5EncoderModel

        config = T5Config(**SIZES)
        config._attn_implementation = attention
        return T5EncoderModel(config), {}

    return build


def sped_up(length: int) -> Built:
    from foveate.models.accelerate import speed_up

    model, inputs = t5("sdpa")(length)
    return speed_up(model), inputs


FOVEA, CAPTURED = "Fovea (foveate)", "Fovea (foveate), captured"
ENCODERS: dict[str, Callable[[int], Built]] = {
    FOVEA: fovea,
    CAPTURED: fovea_captured,
    "Fovea (foveate), coverage paper": fovea_paper,
    "speed_up(T5) (foveate)": sped_up,
    "T5, eager": t5("eager"),
    "T5, SDPA": t5("sdpa"),
    "LongT5, transient-global": longt5,
    "PEGASUS-X": pegasus_x,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="*", default=LENGTHS)
    parser.add_argument("--encoders", nargs="*", default=[""], help="prefixes of encoder names")
    parser.add_argument("--quick", action="store_true", help=f"lengths {QUICK}, nothing saved")
    parser.add_argument("--generation", action="store_true", help="measure T5's generation instead")
    options = parser.parse_args()
    if options.generation:
        print(report.table(["", "encoder tokens", "beams", "ms per token"], generation()))
        return
    names = [name for name in ENCODERS if name.startswith(tuple(options.encoders))]
    rate = matrix_rate()
    print(f"matrix rate {rate / 1e12:.0f} TFLOP/s")
    rows: list[dict] = []
    for at_length in encoders(names, QUICK if options.quick else options.lengths, rate):
        rows += at_length
        print(report.table(list(rows[0]), [list(row.values()) for row in at_length]), flush=True)
        if not options.quick:
            results = {"matrix TFLOP/s": rate / 1e12, "rows": rows}
            report.save(RESULTS, results, "triton", "transformers")


def encoders(names: list[str], lengths: tuple[int, ...], rate: float) -> Iterator[list[dict]]:
    """Yield a record of each encoder, one list per length."""
    left_out = {(CAPTURED, "training step")}  # the same as Fovea's
    for length in lengths:
        rows = []
        fastest: dict[str, float] = {}  # Fovea's time, which is measured first
        for name in names:
            row: dict = {"encoder": name, "tokens": length}
            for part in PARTS:
                row |= {f"{part} ms": "left out", f"{part} GiB": None}
                if (name, part) in left_out:
                    continue
                timed = measure(ENCODERS[name], length, part)
                if timed is None:
                    row[f"{part} ms"] = "out of memory"
                    left_out.add((name, part))
                    continue
                row[f"{part} ms"], row[f"{part} GiB"] = timed
                if timed[0] > 8 * fastest.setdefault(part, timed[0]):
                    left_out.add((name, part))
                if "foveate" in name:
                    passes = 1 if part == "forward" else 3
                    floor = 2 * WEIGHTS * length * passes / rate * 1e3
                    row[f"{part} share of rate"] = floor / timed[0]
            row = {key: row.get(key) for key in _COLUMNS}
            rows.append(row)
        yield rows


_COLUMNS = [
    "encoder",
    "tokens",
    *(f"{part} {unit}" for part in PARTS for unit in ("ms", "GiB", "share of rate")),
]


@torch.inference_mode()
def generation(written: int = 64) -> list[list]:
    """Measure milliseconds per generated token of T5, without and with `speed_up`, with a cache."""
    from transformers import T5Config, T5ForConditionalGeneration

    from foveate.models.accelerate import restore, speed_up

    model = T5ForConditionalGeneration(T5Config(**SIZES, decoder_start_token_id=0))
    model = model.to("cuda", torch.bfloat16).eval()
    rows = []
    for length in (1024, 4096):
        ids = torch.randint(5, VOCABULARY, (1, length), device="cuda")
        mask = torch.ones_like(ids)
        encoded = model.encoder(ids, attention_mask=mask)
        for beams in (1, 4):
            for change in (restore, speed_up):
                change(model)
                times = [_generate(model, encoded, mask, beams, written) for _ in range(4)][1:]
                name = "speed_up(T5)" if change is speed_up else "T5"
                rows.append([name, length, beams, min(times) / written * 1e3])
    return rows


@torch.inference_mode()
def _generate(model, encoded, mask, beams: int, written: int) -> float:
    torch.cuda.synchronize()
    begun = perf_counter()
    model.generate(
        encoder_outputs=type(encoded)(last_hidden_state=encoded.last_hidden_state),
        attention_mask=mask,
        num_beams=beams,
        do_sample=False,
        max_new_tokens=written,
        min_new_tokens=written,
    )
    torch.cuda.synchronize()
    return perf_counter() - begun


if __name__ == "__main__":
    main()
