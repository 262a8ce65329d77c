"""Fovea, T5 and other encoders of its size on one GPU, in the forms that users run them in.

    python -m benchmarks fovea
    python -m benchmarks fovea --lengths 65536 --encoders Fovea LongT5 --output some.json
    python -m benchmarks fovea-cpu --lengths 1024 4096 --parts forward

One sequence, LongT5-base shapes (12 layers, width 768, 12 heads of 64, gated feed-forward of 2,048;
PEGASUS-X has a plain one of 3,072), bfloat16, random weights, no padding; the forms are those of
`forms.py`. T5 in transformers runs with each attention it has: eager, SDPA and FlexAttention.
Others are left out at greater lengths after all of their forms took over 15 times the time of
ours. On a CPU, in float32, all are eager, and their runs alternate, see `forms_on_cpu.py`.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from benchmarks import forms
from benchmarks.encoders import pegasus_x
from benchmarks.forms import FORMS, PARTS, Built, Encoder, Form, Part
from benchmarks.forms_on_cpu import run_on_cpu
from benchmarks.registry import measurement, table
from benchmarks.speed_up import T5, longt5, sped_up, t5
from benchmarks.timing import matmul_rate

LENGTHS = (4096, 16384, 65536, 262144)
MINUTES = 4.0
SLOWEST = 15.0
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


@measurement("fovea-forms.json", *forms.PACKAGES)
def measure(
    encoders: Sequence[str] = ("",),
    lengths: Sequence[int] = LENGTHS,
    forms_: Sequence[Form] = FORMS,
    parts: Sequence[Part] = PARTS,
    minutes: float = MINUTES,
) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Measure the encoders."""
    settings = {"matrix TFLOP/s": matmul_rate(forms.DEVICE) / 1e12}
    its = forms.chosen(ENCODERS, encoders)
    yield from forms.run(its, lengths, forms_, parts, minutes, SLOWEST, **settings)


@measurement("fovea-cpu.json", "transformers", part="cpu")
def measure_on_cpu(
    lengths: Sequence[int],
    encoders: Sequence[str] = ("",),
    parts: Sequence[Part] = PARTS,
    turns: int = 7,
) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Measure the encoders on a CPU."""
    yield from run_on_cpu(forms.chosen(ENCODERS, encoders), lengths, parts, turns)


@table("numbers/fovea.md", "forms", "fovea-forms.json")
def table_of(results: dict[str, Any]) -> str:
    """Format the results."""
    return forms.table(results["rows"])
