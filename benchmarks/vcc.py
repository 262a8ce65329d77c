"""VCC and its peers on one GPU: time and memory by length, in the forms that users run them in.

    python -m benchmarks vcc
    python -m benchmarks vcc --lengths 16384 131072 --encoders "VCC (foveate)" T5 --output some.json

Encoders of base size (12 layers, width 768), one document, bfloat16, random weights, no padding;
the forms are those of `forms.py`. VCC has 48 VIP tokens and blocks of 16, of which 90 are seen
token by token, unless named otherwise (VCC, 4: 55 blocks of 32, 30 of 64); its first 4 layers see
segments of 512. With three resolutions, 120 blocks of 256 are cut into blocks of 16, and 90 of
these into tokens. "Large" has 24 layers of width 1,024, the first 6 of which see segments. T5 in
transformers runs with each attention it has: eager, SDPA and FlexAttention. Others are left out at
greater lengths after all of their forms took over 20 times the time of ours.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch

from benchmarks import forms
from benchmarks.encoders import VOCABULARY
from benchmarks.forms import CAPTURED, EAGER, FORMS, PARTS, STEP, Built, Encoder, Form, Part
from benchmarks.registry import measurement, table
from benchmarks.speed_up import longt5, sped_up, t5
from foveate.models.vcc import VccT5Config, VccT5EncoderModel

LENGTHS = (4096, 16384, 65536, 262144)
MINUTES = 4.0
SLOWEST = 20.0
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


def vcc(batch: int, length: int, **fields: Any) -> Built:
    vip_mask = (torch.arange(length) < VIPS).expand(batch, -1)
    config = VccT5Config(**BASE | {"block_size": 16, "num_fine_blocks": 90} | fields)
    return VccT5EncoderModel(config), {"vip_mask": vip_mask}


def bigbird(batch: int, length: int) -> Built:
    from transformers import BigBirdConfig, BigBirdModel

    config = BigBirdConfig(
        vocab_size=VOCABULARY,
        max_position_embeddings=length,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BigBirdModel(config, add_pooling_layer=False), {}


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
    "BigBird": Encoder(bigbird, forms=(EAGER,)),  # draws its random blocks on the host
}


@measurement("vcc-forms.json", *forms.PACKAGES)
def measure(
    encoders: Sequence[str] = ("",),
    lengths: Sequence[int] = LENGTHS,
    forms_: Sequence[Form] = FORMS,
    parts: Sequence[Part] = PARTS,
    minutes: float = MINUTES,
) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Measure the encoders."""
    settings = {"VIP tokens": VIPS}
    its = forms.chosen(ENCODERS, encoders)
    yield from forms.run(its, lengths, forms_, parts, minutes, SLOWEST, **settings)


@table("numbers/vcc.md", "forms", "vcc-forms.json")
def table_of(results: dict[str, Any]) -> str:
    """Format the results."""
    return forms.table(results["rows"])
