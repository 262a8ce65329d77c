"""HDT and other encoders on one GPU: time and memory by length, in the forms users run them in.

    python -m benchmarks encoders
    python -m benchmarks encoders --lengths 4096 --encoders ModernBERT --output some.json

One document, base size (12 layers, width 768; ModernBERT has 22 layers, HAT four cross-segment
layers besides), bfloat16, random weights; the forms are those of `forms.py`. HDT starts at token
ids and parents in the padded form that users pass, so that packing and building the tree are part
of its time, and its graph serves all trees of similar size; "packed" starts at nodes in level order
with their tree, as a data loader can prepare them, and its graph is of one tree; "checkpointed"
recomputes each block's activations in the backward pass.

ModernBERT runs with each attention that the installed versions have: SDPA, for which transformers
turns windows into a dense mask; FlexAttention, whose block masks are built beforehand; and
FlashAttention by torch's own kernels,
`varlen_attn` within windows and for full attention the fastest backend of SDPA. With SDPA it is
not compiled: its time is that of the dense masks.

Others are left out at greater lengths after all of their forms took over ten times HDT's time. The
floor is arithmetic: two operations per token and matrix weight, three times that for a training
step, at the rate that this card reaches on a large matrix product.
"""

import random
from collections.abc import Iterator, Sequence
from functools import partial
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import LongformerConfig, LongformerModel

from benchmarks import forms
from benchmarks.forms import CAPTURED, EAGER, FORMS, PARTS, STEP, Built, Encoder, Form, Part, Row
from benchmarks.registry import measurement, picture, table
from benchmarks.timing import matmul_rate
from benchmarks.tree_documents import document
from benchmarks.window_attention import flash_windows

LENGTHS = (4096, 16384, 65536, 262144)
MINUTES = 7.5  # and one measurement, in a command of ten minutes
SLOWEST = 10.0
PAGE = "numbers/hdt.md"
VOCABULARY = 32768
WEIGHTS = 85e6  # of HDT's matrices


def parents_of(length: int) -> Tensor:
    """Draw a document and truncate it to `length` nodes, anchors included."""
    return torch.tensor(document(length, random.Random(0))[:length])


def hdt(batch: int, length: int) -> Built:
    from foveate.models.hdt import HDTConfig, HDTModel

    parents = parents_of(length).expand(batch, -1)
    return HDTModel(HDTConfig(vocab_size=VOCABULARY, dropout_rate=0.0)), {"parent_ids": parents}


def hdt_packed(batch: int, length: int) -> Built:
    from foveate.models.hdt import HDTConfig, HDTModel
    from foveate.ops.tree_attention import Tree

    tree = Tree.from_parents(parents_of(length)).in_level_order
    return HDTModel(HDTConfig(vocab_size=VOCABULARY, dropout_rate=0.0)), {"tree": tree}


def hdt_checkpointed(batch: int, length: int) -> Built:
    model, inputs = hdt_packed(batch, length)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    return model, inputs


def hat(batch: int, length: int) -> Built:
    from benchmarks.hat import HATConfig, HATModel

    config = HATConfig(vocab_size=VOCABULARY, max_segments=length // 128, dropout=0.0)
    return HATModel(config), {}


def pegasus_x(batch: int, length: int) -> Built:
    from transformers import PegasusXConfig
    from transformers.models.pegasus_x.modeling_pegasus_x import PegasusXEncoder

    config = PegasusXConfig(
        vocab_size=VOCABULARY,
        d_model=768,
        encoder_layers=12,
        encoder_attention_heads=12,
        encoder_ffn_dim=3072,
        max_position_embeddings=length,
        dropout=0.0,
    )
    return PegasusXEncoder(config), {}


def longformer_config(length: int, pad_token_id: int = 1) -> LongformerConfig:
    """Return the sizes of Longformer for texts of a length."""
    return LongformerConfig(
        vocab_size=VOCABULARY,
        max_position_embeddings=length + 514,
        attention_window=512,
        pad_token_id=pad_token_id,
        sep_token_id=2,
        attention_probs_dropout_prob=0.0,
        hidden_dropout_prob=0.0,
    )


def longformer(batch: int, length: int) -> Built:
    model = LongformerModel(longformer_config(length), add_pooling_layer=False)
    return model, {"global_attention_mask": first_is_global(batch, length)}


def first_is_global(batch: int, length: int) -> Tensor:
    """A mask in which the first token of every sequence is global."""
    mask = torch.zeros(batch, length, dtype=torch.long)
    mask[:, 0] = 1
    return mask


def modernbert(length: int, attention: str) -> nn.Module:
    from transformers import ModernBertConfig, ModernBertModel

    config = ModernBertConfig(
        vocab_size=VOCABULARY,
        max_position_embeddings=length,
        pad_token_id=0,
        bos_token_id=1,
        cls_token_id=1,
        eos_token_id=2,
        sep_token_id=2,
    )
    config._attn_implementation = attention
    return ModernBertModel(config)


def modernbert_sdpa(batch: int, length: int) -> Built:
    return modernbert(length, "sdpa"), {}


def modernbert_flex(batch: int, length: int) -> Built:
    from transformers.masking_utils import (
        create_bidirectional_mask,
        create_bidirectional_sliding_window_mask,
    )

    model = modernbert(length, "flex_attention")
    like: dict[str, Any] = {
        "config": model.config,
        "inputs_embeds": torch.empty(batch, length, 1),
        "attention_mask": None,
    }
    masks = {
        "full_attention": create_bidirectional_mask(**like),
        "sliding_attention": create_bidirectional_sliding_window_mask(**like),
    }
    return model, {"attention_mask": masks}


def modernbert_flash(batch: int, length: int, backend: str = "FLASH_ATTENTION") -> Built:
    """ModernBERT with FlashAttention, or full attention by another backend of SDPA."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    dense = SDPBackend.__members__[backend]

    def attend(
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: None,
        scaling: float,
        sliding_window: int | None,
        **kwargs: Any,
    ) -> tuple[Tensor, None]:
        if sliding_window is None:
            with sdpa_kernel(dense):
                attended = F.scaled_dot_product_attention(query, key, value, scale=scaling)
            return attended.transpose(1, 2), None
        packed = (x.transpose(1, 2).flatten(0, 1) for x in (query, key, value))
        windows = flash_windows(batch, length, sliding_window - 1, query.device, scaling)
        return windows(*packed).unflatten(0, (batch, length)), None

    AttentionInterface.register("torch_kernels", attend)
    AttentionMaskInterface.register("torch_kernels", lambda **arguments: None)
    return modernbert(length, "torch_kernels"), {}


def sdpa_times(device: str) -> dict[str, float]:
    """Milliseconds of SDPA without a mask on 16,384 tokens, forward and backward, by backend."""
    if device != "cuda":
        return {"MATH": 0.0}
    q, k, v = (
        torch.randn(1, 16_384, 12, 64, device=device, dtype=torch.bfloat16).transpose(1, 2)
        for _ in range(3)
    )
    leaves = [x.requires_grad_() for x in (q, k, v)]

    def run() -> None:
        F.scaled_dot_product_attention(*leaves).sum().backward()

    times = {}
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION):
        try:
            with sdpa_kernel(backend):
                run()
                times[backend.name] = median(forms.timed(run, device, 0.05))
        except RuntimeError as error:
            print(f"{backend.name} does not run: {str(error).splitlines()[0]}")
    return times


HDT = "HDT (foveate)"
CHECKPOINTED = f"{HDT}, packed, checkpointed"
FLASH = "ModernBERT, FlashAttention"
ENCODERS = {
    # Its layers are those of the next.
    HDT: Encoder(hdt, ours=True, own_capture=True, forms=(EAGER, CAPTURED)),
    f"{HDT}, packed": Encoder(hdt_packed, ours=True),
    CHECKPOINTED: Encoder(hdt_checkpointed, ours=True, parts=(STEP,), forms=(EAGER, CAPTURED)),
    "HAT": Encoder(hat),
    "PEGASUS-X": Encoder(pegasus_x),
    FLASH: Encoder(modernbert_flash, weights="ModernBERT"),
    "ModernBERT, FlexAttention": Encoder(modernbert_flex, weights="ModernBERT"),
    "ModernBERT, SDPA": Encoder(modernbert_sdpa, forms=(EAGER, CAPTURED), weights="ModernBERT"),
    "Longformer": Encoder(longformer),
}


@measurement("encoders.json", *forms.PACKAGES)
def measure(
    encoders: Sequence[str] = ("",),
    lengths: Sequence[int] = LENGTHS,
    forms_: Sequence[Form] = FORMS,
    parts: Sequence[Part] = PARTS,
    minutes: float = MINUTES,
) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Measure the encoders."""
    times = sdpa_times(forms.DEVICE)
    dense = min(times, key=times.__getitem__)
    flash = ENCODERS[FLASH]._replace(build=partial(modernbert_flash, backend=dense))
    settings = {
        "matrix TFLOP/s": matmul_rate(forms.DEVICE) / 1e12,
        "SDPA without a mask, 16,384 tokens, forward and backward, ms": times,
    }
    its = forms.chosen(ENCODERS | {FLASH: flash}, encoders)
    yield from forms.run(its, lengths, forms_, parts, minutes, SLOWEST, **settings)


@table(PAGE, "short", "encoders.json")
def short_table(results: dict[str, Any]) -> str:
    """Format the shortest documents."""
    rows = [row for row in results["rows"] if row["tokens"] == LENGTHS[0]]
    return forms.table(with_graphs(rows))


@table(PAGE, "long", "encoders-compiled.json")
def long_table(results: dict[str, Any]) -> str:
    """Format a second run, which had time for the compiled forms of long documents."""
    return forms.table(with_graphs(results["rows"]))


def with_graphs(rows: list[Row]) -> list[Row]:
    """Add to each row whether it ran as a graph: `capture` makes none of large trees.

    The memory shows it. That of a graph by `capture` is allocated before the peak is measured;
    without a graph, the peak is that of the eager form.
    """

    def measured(row: Row) -> tuple[Any, ...]:
        return row["encoder"], row["tokens"], row["batch"], row["part"]

    eager = {measured(row): row["GiB"] for row in rows if row["form"] == EAGER and row["ms"]}

    def has_graph(row: Row) -> bool:
        if row["form"] != CAPTURED or not ENCODERS[row["encoder"]].own_capture or not row["ms"]:
            return True
        return row["GiB"] < 0.9 * eager.get(measured(row), float("inf"))

    return [row | {"graph": has_graph(row)} for row in rows]


@picture("encoders.png", "encoders.json")
def plot(saved: dict[str, Any]) -> Any:
    """Draw the best time of each encoder by length."""
    from matplotlib.figure import Figure

    rows, rate = saved["results"]["rows"], saved["results"]["matrix TFLOP/s"] * 1e12
    figure = Figure(figsize=(12, 4), layout="constrained")
    for axes, part in zip(figure.subplots(1, 2), PARTS, strict=True):
        for number, name in enumerate(ENCODERS):
            best: dict[int, float] = {}
            for row in rows:
                if row["encoder"] == name and row["part"] == part and row["ms"]:
                    tokens = row["tokens"]
                    best[tokens] = min(row["ms"], best.get(tokens, row["ms"]))
            if best:
                points = zip(*sorted(best.items()), strict=True)
                axes.plot(*points, f"oC{number}-", label=name)
        lengths = sorted({row["tokens"] for row in rows})
        passes = 3 if part == STEP else 1
        floor = [2 * WEIGHTS * n * passes / rate * 1e3 for n in lengths]
        axes.plot(lengths, floor, color="black", linestyle=":", label="arithmetic floor of HDT")
        axes.set(xscale="log", yscale="log", xlabel="tokens", ylabel="ms, best form", title=part)
        axes.set_xticks(lengths, [f"{n // 1024}k" for n in lengths], minor=False)
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", fontsize="small")
    figure.suptitle(f"{saved['machine']['gpu']}, bfloat16, one document")
    return figure
