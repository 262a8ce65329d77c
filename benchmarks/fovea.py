"""Fovea, T5 and other encoders of its size on one GPU, in the forms that users run them in.

    python benchmarks/fovea.py                     # measure, print, save results/fovea-forms.json
    python benchmarks/fovea.py --docs              # write the tables into docs/numbers/fovea.md
    python benchmarks/fovea.py --lengths 65536 --encoders Fovea LongT5 --output some.json
    python benchmarks/fovea.py --generation        # T5's milliseconds per generated token
    python benchmarks/fovea.py --device cpu --lengths 1024 4096 --parts forward

One sequence, LongT5-base shapes (12 layers, width 768, 12 heads of 64, gated feed-forward of 2,048;
PEGASUS-X has a plain one of 3,072), bfloat16, random weights, no padding; the forms are those of
`forms.py`. T5 in transformers runs with each attention it has: eager, SDPA and FlexAttention.
Others are left out at greater lengths after all of their forms took over 15 times the time of
ours. On a CPU, in float32, all are eager, and their runs alternate, see `forms_on_cpu.py`.
"""

from functools import partial
from time import perf_counter

import torch

import forms
import report
from encoders import VOCABULARY, pegasus_x
from forms import Built, Encoder
from forms_on_cpu import run_on_cpu
from speed_up import T5, longt5, sped_up, t5
from timing import matmul_rate

LENGTHS = (4096, 16384, 65536, 262144)
MINUTES = 4.0
SLOWEST = 15.0
RESULTS = report.RESULTS / "fovea-forms.json"
PAGE = report.ROOT / "docs" / "numbers" / "fovea.md"
WRITTEN = 64  # tokens that T5 generates
SIZES = T5 | {"d_kv": 64}


def fovea(batch: int, length: int, **fields: str) -> Built:
    from foveate.models.fovea import FoveaConfig, FoveaEncoderModel

    return FoveaEncoderModel(FoveaConfig(**SIZES, **fields)), {}


ENCODERS = {
    "Fovea (foveate)": Encoder(fovea, ours=True, own_capture=True),
    "Fovea (foveate), coverage paper": Encoder(
        partial(fovea, coverage="paper"), ours=True, own_capture=True
    ),
    "T5, speed_up (foveate)": Encoder(
        partial(sped_up, build=partial(t5, attention="eager")), ours=True, weights="T5"
    ),
    "T5, eager": Encoder(partial(t5, attention="eager"), weights="T5"),
    "T5, SDPA": Encoder(partial(t5, attention="sdpa"), weights="T5"),
    "T5, FlexAttention": Encoder(partial(t5, attention="flex_attention"), weights="T5"),
    "LongT5, transient-global": Encoder(partial(longt5, kind="transient-global")),
    "PEGASUS-X": Encoder(pegasus_x),
}


def main() -> None:
    parser = forms.parser(__doc__.splitlines()[0], LENGTHS, MINUTES)
    parser.add_argument("--generation", action="store_true", help="measure T5's generation instead")
    options = parser.parse_args()
    target = options.output or RESULTS
    if options.generation:
        print(report.table(["", "encoder tokens", "beams", "ms per token"], generation()))
    elif options.docs:
        report.write_tables(PAGE, {"forms": forms.table(report.load(target)["rows"])})
    elif options.device == "cpu":
        run_on_cpu(ENCODERS, options, options.output or report.RESULTS / "fovea-cpu.json")
    else:
        settings = {"matrix TFLOP/s": matmul_rate(options.device) / 1e12}
        forms.run(ENCODERS, options, target, SLOWEST, settings)


@torch.inference_mode()
def generation() -> list[list]:
    """Measure milliseconds per generated token of T5, without and with `speed_up`, with a cache."""
    from transformers import T5Config, T5ForConditionalGeneration

    from foveate.models.speed_ups import restore, speed_up

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
                times = [_generate(model, encoded, mask, beams) for _ in range(4)][1:]
                name = "speed_up(T5)" if change is speed_up else "T5"
                rows.append([name, length, beams, min(times) / WRITTEN * 1e3])
    return rows


@torch.inference_mode()
def _generate(model, encoded, mask, beams: int) -> float:
    torch.cuda.synchronize()
    begun = perf_counter()
    model.generate(
        encoder_outputs=type(encoded)(last_hidden_state=encoded.last_hidden_state),
        attention_mask=mask,
        num_beams=beams,
        do_sample=False,
        max_new_tokens=WRITTEN,
        min_new_tokens=WRITTEN,
    )
    torch.cuda.synchronize()
    return perf_counter() - begun


if __name__ == "__main__":
    main()
