"""VCC, T5 and LongT5 on one GPU: time and memory by length, in the forms that users run them in.

    python benchmarks/vcc.py                          # measure, print, save results/vcc-forms.json
    python benchmarks/vcc.py --docs                   # write the tables into docs/numbers/vcc.md
    python benchmarks/vcc.py --lengths 16384 131072 --encoders "VCC (foveate)" T5 --output some.json

Encoders of base size (12 layers, width 768), one document, bfloat16, random weights, no padding;
the forms are those of `forms.py`. VCC has 48 VIP tokens and blocks of 16, of which 90 are seen
token by token, unless named otherwise (VCC, 4: 55 blocks of 32, 30 of 64); its first 4 layers see
segments of 512. With three resolutions, 120 blocks of 256 are cut into blocks of 16, and 90 of
these into tokens. "Large" has 24 layers of width 1,024, the first 6 of which see segments. T5 in
transformers runs with each attention it has: eager, SDPA and FlexAttention. Others are left out at
greater lengths after all of their forms took over 20 times the time of ours.

Then the decoder (12 layers): time of one step of generation, and memory of its cache of the
encoder's output, with ordinary and with compressed cross attention.
"""

import sys
from functools import partial
from statistics import median
from typing import Any

import torch

import forms
import report
from encoders import VOCABULARY
from forms import CAPTURED, EAGER, STEP, Built, Encoder
from foveate.models.vcc import VccT5Config, VccT5EncoderModel, VccT5ForConditionalGeneration
from speed_up import longt5, sped_up, t5

LENGTHS = (4096, 16384, 65536, 262144)
MINUTES = 4.0
SLOWEST = 20.0
RESULTS = report.RESULTS / "vcc-forms.json"
PAGE = report.ROOT / "docs" / "numbers" / "vcc.md"
BASE = {
    "vocab_size": VOCABULARY,
    "d_model": 768,
    "d_kv": 64,
    "d_ff": 3072,
    "num_layers": 12,
    "num_heads": 12,
    "dropout_rate": 0.0,
}
LARGE = {"d_model": 1024, "d_ff": 4096, "num_layers": 24, "num_heads": 16}
T5_EAGER = partial(t5, attention="eager", sizes=BASE)
VIPS = 48
GENERATION = "generation"


def vcc(batch: int, length: int, **fields: Any) -> Built:
    vip_mask = (torch.arange(length) < VIPS).expand(batch, -1)
    config = VccT5Config(**BASE | {"block_size": 16, "num_fine_blocks": 90} | fields)
    return VccT5EncoderModel(config), {"vip_mask": vip_mask}


def vcc_checkpointed(batch: int, length: int) -> Built:
    model, inputs = vcc(batch, length)
    # Newer versions of transformers renamed it.
    getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
    return model, inputs


ENCODERS = {
    "VCC (foveate)": Encoder(vcc, ours=True, own_capture=True),
    "VCC (foveate), three resolutions": Encoder(
        partial(vcc, budgets=[[256, 120], [16, 90]]), ours=True, own_capture=True
    ),
    "VCC (foveate), 55 blocks of 32": Encoder(
        partial(vcc, block_size=32, num_fine_blocks=55), ours=True, own_capture=True
    ),
    "VCC (foveate), 30 blocks of 64": Encoder(
        partial(vcc, block_size=64, num_fine_blocks=30), ours=True, own_capture=True
    ),
    "VCC (foveate), large": Encoder(partial(vcc, **LARGE), ours=True, own_capture=True),
    "T5 large, speed_up (foveate)": Encoder(
        partial(sped_up, build=partial(t5, attention="eager", sizes=BASE | LARGE)), ours=True
    ),
    "VCC (foveate), checkpointed": Encoder(
        vcc_checkpointed, ours=True, parts=(STEP,), forms=(EAGER, CAPTURED)
    ),
    "T5, speed_up (foveate)": Encoder(partial(sped_up, build=T5_EAGER), ours=True, weights="T5"),
    "T5, eager": Encoder(T5_EAGER, weights="T5"),
    "T5, SDPA": Encoder(partial(t5, attention="sdpa", sizes=BASE), weights="T5"),
    "T5, FlexAttention": Encoder(partial(t5, attention="flex_attention", sizes=BASE), weights="T5"),
    "LongT5, transient-global": Encoder(partial(longt5, kind="transient-global", sizes=BASE)),
}


def decoding(length: int, compressed: bool) -> dict[str, object]:
    """Measure one step of generation after the first."""
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
            row["step ms"] = median(forms.timed(lambda: step(cache), "cuda"))
    except torch.OutOfMemoryError:
        row |= {"cache GiB": None, "step ms": None}
    return row


def main() -> None:
    parser = forms.parser(__doc__.splitlines()[0], LENGTHS, MINUTES)
    options = parser.parse_args()
    target = options.output or RESULTS
    if options.docs:
        results = report.load(target)
        tables = {
            "forms": forms.table(results["rows"]),
            GENERATION: generation_table(results[GENERATION]),
        }
        report.write_tables(PAGE, tables)
        return
    if not torch.cuda.is_available():
        sys.exit("this benchmark needs a GPU")
    steps = [(length, compressed) for length in options.lengths for compressed in (False, True)]
    names = [f"{GENERATION}, {length:,} tokens, compressed {how}" for length, how in steps]
    settings = {"VIP tokens": VIPS, GENERATION: []}
    results, missing = forms.run(ENCODERS, options, target, SLOWEST, settings, also_missing=names)
    for number, step in enumerate(steps):
        results[GENERATION].append(decoding(*step))
        report.save(
            target, results, "triton", "transformers", missing=[*missing, *names[number + 1 :]]
        )
    print(generation_table(results[GENERATION]))


def generation_table(steps: list[dict[str, Any]]) -> str:
    header = ["tokens", "cross attention", "cache GiB", "step ms"]
    return report.table(header, [[step.get(key) for key in header] for step in steps])


if __name__ == "__main__":
    main()
