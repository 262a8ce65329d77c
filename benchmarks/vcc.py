"""VCC, T5 and LongT5 on one GPU: time and memory of a forward pass and of a training step.

    python benchmarks/vcc.py                          # measure, print, save results/vcc.json
    python benchmarks/vcc.py --lengths 16384 131072 --only "VCC (foveate)" T5

Encoders of base size (12 layers, width 768), one document, bfloat16, random weights. VCC has 48 VIP
tokens and blocks of 16, of which 90 are seen token by token; its first 4 layers see segments of
512. With three resolutions, 120 blocks of 256 are cut into blocks of 16, and 90 of these into
tokens. A training step is a forward and a backward pass without dropout. Times are medians of
triton.testing.do_bench, and memory is the peak above the weights. An encoder that runs out of
memory, or takes over 20 times VCC's time, is left out at greater lengths.

Then the decoder (12 layers): time of one step of generation, and memory of its cache of the
encoder's output, with ordinary and with compressed cross attention.
"""

import argparse
import sys
from collections.abc import Callable

import torch
import transformers

import report
from encoders import VOCABULARY, measure, timed
from foveate.models.accelerate import speed_up
from foveate.models.vcc import VccT5Config, VccT5EncoderModel, VccT5ForConditionalGeneration

LENGTHS = (4096, 16384, 65536, 131072, 262144, 1048576)
RESULTS = report.RESULTS / "vcc.json"
BASE = {
    "vocab_size": VOCABULARY,
    "d_model": 768,
    "d_kv": 64,
    "d_ff": 3072,
    "num_layers": 12,
    "num_heads": 12,
    "dropout_rate": 0.0,
}
VIPS = 48
VCC = "VCC (foveate)"
CHECKPOINTED = "VCC (foveate), checkpointed"


def vcc(length: int, **fields: object) -> tuple[torch.nn.Module, dict]:
    vip_mask = torch.arange(length, device="cuda")[None] < VIPS
    config = VccT5Config(**BASE, block_size=16, num_fine_blocks=90, **fields)
    return VccT5EncoderModel(config), {"vip_mask": vip_mask}


def vcc_checkpointed(length: int) -> tuple[torch.nn.Module, dict]:
    model, inputs = vcc(length)
    # Newer versions of transformers renamed it.
    getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
    return model, inputs


def vcc_three(length: int) -> tuple[torch.nn.Module, dict]:
    return vcc(length, budgets=[[256, 120], [16, 90]])


def t5(length: int) -> tuple[torch.nn.Module, dict]:
    config = transformers.T5Config(**BASE)
    config._attn_implementation = "eager"  # "sdpa" is slower with a position bias
    return transformers.T5EncoderModel(config), {}


def t5_sped_up(length: int) -> tuple[torch.nn.Module, dict]:
    return speed_up(transformers.T5EncoderModel(transformers.T5Config(**BASE))), {}


def long_t5(length: int) -> tuple[torch.nn.Module, dict]:
    config = transformers.LongT5Config(**BASE, encoder_attention_type="transient-global")
    return transformers.LongT5EncoderModel(config), {}


ENCODERS: dict[str, Callable[[int], tuple[torch.nn.Module, dict]]] = {
    VCC: vcc,
    CHECKPOINTED: vcc_checkpointed,
    "VCC (foveate), three resolutions": vcc_three,
    "T5": t5,
    "T5, speed_up (foveate)": t5_sped_up,
    "LongT5, transient-global": long_t5,
}


def decoding(length: int, compressed: bool) -> dict[str, object]:
    """Measure one step of generation after the first."""
    from triton.testing import do_bench

    row = {"cross attention": "compressed" if compressed else "all tokens", "tokens": length}
    sizes = BASE | {"num_layers": 1, "num_decoder_layers": 12}
    config = VccT5Config(**sizes, compress_cross_attention=compressed)
    try:
        model = VccT5ForConditionalGeneration(config).to("cuda", torch.bfloat16).eval()
        states = torch.randn(1, length, 768, device="cuda", dtype=torch.bfloat16)
        mask = torch.ones(1, length, dtype=torch.long, device="cuda")
        token = torch.zeros(1, 1, dtype=torch.long, device="cuda")

        def step(cache=None):
            return model.decoder(
                token,
                encoder_hidden_states=states,
                encoder_attention_mask=mask,
                past_key_values=cache,
                use_cache=True,
            ).past_key_values

        with torch.inference_mode():
            before = torch.cuda.memory_allocated()
            cache = step()
            row["cache GiB"] = (torch.cuda.memory_allocated() - before) / 2**30
            row["step ms"], _ = timed(lambda: step(cache), do_bench)
    except torch.OutOfMemoryError:
        row |= {"cache GiB": None, "step ms": None}
    return row


def save(rows: list[dict], steps: list[dict]) -> None:
    results = {"VIP tokens": VIPS, "rows": rows, "generation": steps}
    report.save(RESULTS, results, "triton", "transformers")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="*", default=LENGTHS)
    parser.add_argument("--only", nargs="*", choices=ENCODERS, default=list(ENCODERS))
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("this benchmark needs a GPU")

    rows = []
    left_out = {(CHECKPOINTED, "forward")}  # the same as VCC's
    for length in options.lengths:
        vcc_ms: dict[str, float] = {}
        for name in options.only:
            row = {"encoder": name, "tokens": length}
            for what in ("forward", "training step"):
                ran = (name, what) not in left_out
                measured = measure(ENCODERS[name], length, what) if ran else None
                row[f"{what} ms"], row[f"{what} GiB"] = measured or (None, None)
                if name == VCC and measured:
                    vcc_ms[what] = measured[0]
                elif not name.startswith(VCC):
                    limit = 20 * vcc_ms.get(what, float("inf"))
                    if measured is None or measured[0] > limit:
                        left_out.add((name, what))
            rows.append(row)
            print(report.table(list(row), [list(row.values())]), flush=True)
        save(rows, [])
    steps = [
        decoding(length, compressed) for length in options.lengths for compressed in (False, True)
    ]
    save(rows, steps)
    for table in (rows, steps):
        print(report.table(list(table[0]), [list(row.values()) for row in table]))


if __name__ == "__main__":
    main()
