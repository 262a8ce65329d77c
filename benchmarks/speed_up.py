"""Models of transformers, without and with `speed_up`, in the forms that users run them in.

    python benchmarks/speed_up.py                      # everything, saves results/
    python benchmarks/speed_up.py --encoders LED Longformer --lengths 4096 16384
    python benchmarks/speed_up.py --docs               # write the tables into the page of numbers
    python benchmarks/speed_up.py --device cpu --lengths 512 1024 4096

Encoders of base size with random weights, bfloat16 on a GPU and float32 on a CPU, no padding, the
first token global in Longformer and LED. T5 in transformers runs with each attention it has: eager,
SDPA and FlexAttention; the others have one. The forms are those of `forms.py`.

On a CPU all encoders are eager, and their runs alternate, see `forms_on_cpu.py`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import forms
import report
from encoders import VOCABULARY, first_is_global, longformer
from forms import Built, Encoder
from forms_on_cpu import run_on_cpu
from foveate.models.speed_ups import speed_up

LENGTHS = (4096, 16_384, 65_536)
MINUTES = 4.0
SLOWEST = 20.0
PAGE = report.ROOT / "docs" / "numbers" / "speed-ups.md"
ON_PAGE = {
    "short": "speed_up-cuda.json",
    "compiled": "speed_up-compiled.json",
    "65,536 tokens": "speed_up-65536.json",
}
"""The results on the page, of one sequence, by the names of their tables."""
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


def main() -> None:
    parser = forms.parser(__doc__.splitlines()[0], LENGTHS, MINUTES)
    parser.add_argument("--batches", type=int, nargs="+", default=(1,), help="sequences")
    options = parser.parse_args()
    target = options.output or report.RESULTS / f"speed_up-{options.device}.json"
    if options.docs:
        saved = {name: report.load(report.RESULTS / file) for name, file in ON_PAGE.items()}
        tables = {
            name: forms.table([row for row in results["rows"] if row["batch"] == 1])
            for name, results in saved.items()
        }
        report.write_tables(PAGE, tables)
    elif options.device == "cpu":
        run_on_cpu(ENCODERS, options, target, options.batches)
    else:
        forms.run(ENCODERS, options, target, SLOWEST, {}, options.batches)


if __name__ == "__main__":
    main()
