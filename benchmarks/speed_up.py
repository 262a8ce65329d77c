"""Models of transformers, without and with `speed_up`, in the forms that users run them in.

    python -m benchmarks speed_up
    python -m benchmarks speed_up --encoders LED Longformer --lengths 4096 16384
    python -m benchmarks speed_up-cpu --lengths 512 1024 4096

Encoders of base size with random weights, bfloat16 on a GPU and float32 on a CPU, no padding, the
first token global in Longformer and LED. T5 in transformers runs with each attention it has: eager,
SDPA and FlexAttention; the others have one. The forms are those of `forms.py`.

On a CPU all encoders are eager, and their runs alternate, see `forms_on_cpu.py`.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from transformers import LEDConfig, LEDModel

from benchmarks import forms
from benchmarks.encoders import VOCABULARY, first_is_global, longformer
from benchmarks.forms import FORMS, PARTS, Built, Encoder, Form, Part
from benchmarks.forms_on_cpu import run_on_cpu
from benchmarks.registry import measurement, table
from foveate.models.speed_ups import speed_up

LENGTHS = (4096, 16_384, 65_536)
MINUTES = 4.0
SLOWEST = 20.0
PAGE = "numbers/speed-ups.md"
T5 = {
    "vocab_size": VOCABULARY,
    "d_model": 768,
    "d_ff": 2048,
    "num_layers": 12,
    "num_heads": 12,
    "feed_forward_proj": "gated-gelu",
    "dropout_rate": 0.0,
}


def led_config(length: int, decoder_layers: int, **options: int) -> LEDConfig:
    """Return the sizes of LED for texts of a length."""
    return LEDConfig(
        vocab_size=VOCABULARY,
        d_model=768,
        encoder_layers=6,
        decoder_layers=decoder_layers,
        encoder_attention_heads=12,
        decoder_attention_heads=12,
        encoder_ffn_dim=3072,
        decoder_ffn_dim=3072,
        attention_window=1024,
        max_encoder_position_embeddings=length + 1024,
        dropout=0.0,
        **options,
    )


def led(batch: int, length: int) -> Built:
    return LEDModel(led_config(length, decoder_layers=1)).encoder, {
        "global_attention_mask": first_is_global(batch, length)
    }


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


@measurement("speed_up-cuda.json", *forms.PACKAGES)
def measure(
    encoders: Sequence[str] = ("",),
    lengths: Sequence[int] = LENGTHS,
    batches: Sequence[int] = (1,),
    forms_: Sequence[Form] = FORMS,
    parts: Sequence[Part] = PARTS,
    minutes: float = MINUTES,
) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Measure the models."""
    its = forms.chosen(ENCODERS, encoders)
    yield from forms.run(its, lengths, forms_, parts, minutes, SLOWEST, batches)


@measurement("speed_up-cpu.json", "transformers", part="cpu")
def measure_on_cpu(
    lengths: Sequence[int],
    encoders: Sequence[str] = ("",),
    parts: Sequence[Part] = PARTS,
    turns: int = 7,
) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Measure the models on a CPU."""
    yield from run_on_cpu(forms.chosen(ENCODERS, encoders), lengths, parts, turns)


@table(PAGE, "short", "speed_up-cuda.json")
@table(PAGE, "compiled", "speed_up-compiled.json")
@table(PAGE, "65,536 tokens", "speed_up-65536.json")
def table_of(results: dict[str, Any]) -> str:
    """Format the results for one sequence."""
    return forms.table([row for row in results["rows"] if row["batch"] == 1])
