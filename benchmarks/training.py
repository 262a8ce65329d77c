"""Training with Trainer: tokens per second and card, and losses that do not depend on the cards.

    python -m benchmarks training                           # one card
    torchrun --nproc-per-node 4 -m benchmarks training      # four, with DDP
    python -m benchmarks training --packs 4                 # the same steps, accumulated

Random documents of 8,192 tokens, packed to 65,536 per card and micro-step; base size, bfloat16 by
autocast, AdamW, no dropout. HDT and Longformer predict 15 % masked tokens, and HDT, as after
`foveate train`, computes the logits of these only. HDT-ED and LED (both 6 and 6 layers) write 512
tokens for each document. Worker processes make and mask the features. Trainer copies batches and
logs losses as `foveate train` has it do, so that the host waits for the device only where a model
does. What is timed is all steps after the warm-up together, data loading included.

The share of the matrix rate counts six operations per token and weight of the matrices it passes
through, relative to the rate of a large product on this card; products inside attention are not
counted. "Form" is eager, unless the model's encoder is captured. Each number of cards has a file of
results.
"""

import os
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
import transformers
from torch import nn
from transformers import Trainer, TrainerCallback, TrainerState, TrainingArguments

from benchmarks import report
from benchmarks.encoders import VOCABULARY, longformer_config
from benchmarks.registry import measurement
from benchmarks.speed_up import led_config
from benchmarks.timing import matmul_rate
from benchmarks.tree_documents import document
from foveate.models import speed_ups
from foveate.models.hdt import HDTConfig, HDTForConditionalGeneration, HDTForMaskedLM
from foveate.preprocessing import Features, pack_trees, pad_features
from foveate.training.objectives.masked_lm import mask_tokens
from foveate.training.packing import PackedDataset, collate_packs

MASK, PADDING, RATIO = 4, 0, 0.15


LAYERS, TARGET, WORKERS = 12, 512, 3
"""Layers of encoder and decoder together; tokens that are written; processes that make features."""
CARDS = int(os.environ.get("WORLD_SIZE", 1))


class Options(NamedTuple):
    """What is trained on, and how long.

    Attributes:
        length: Tokens of a document.
        tokens: Tokens of a pack.
        packs: Packs per step on all cards.
        steps: Number of steps.
        warm_up: Steps that are not timed.
        capture: Whether the model's encoder is captured.
        fsdp: Whether FSDP is used instead of DDP.
    """

    length: int
    tokens: int
    packs: int
    steps: int
    warm_up: int
    capture: bool
    fsdp: bool


@measurement(f"training-{CARDS}.json", "transformers", "accelerate", "triton")
def training(
    models: Sequence[Literal["hdt", "longformer", "hdt-ed", "led"]] = (
        *("hdt", "longformer", "hdt-ed", "led"),
    ),
    length: int = 8192,
    tokens: int = 65536,
    packs: int = CARDS,
    steps: int = 30,
    warm_up: int = 10,
    capture: bool = False,
    fsdp: bool = False,
) -> Iterator[tuple[list[dict[str, Any]], None]]:
    """Train each model.

    Options:
        models: to train
        length: tokens of a document
        tokens: tokens of a pack
        packs: packs per step on all cards, by default one per card
        steps: number of steps
        warm_up: steps that are not timed
        capture: capture the model's encoder
        fsdp: use FSDP instead of DDP
    """
    options = Options(length, tokens, packs, steps, warm_up, capture, fsdp)
    if packs % CARDS:
        raise SystemExit(f"--packs must be a multiple of the {CARDS} cards")
    rate = None
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
        rate = matmul_rate()
    results: list[dict[str, Any]] = []
    for name in models:
        results.append(measure(name, rate, options))
        if int(os.environ.get("RANK", 0)) == 0:
            show(results)
            yield results, None


# Models and their features


def hdt(options: Options) -> nn.Module:
    sizes = {"vocab_size": VOCABULARY, "num_layers": LAYERS}
    return HDTForMaskedLM(HDTConfig(**sizes, dropout_rate=0.0, sparse_prediction=True))


def hdt_ed(options: Options) -> nn.Module:
    half = LAYERS // 2
    layers = {"num_layers": half, "num_decoder_layers": half}
    return HDTForConditionalGeneration(HDTConfig(vocab_size=VOCABULARY, **layers, dropout_rate=0.0))


def longformer(options: Options) -> nn.Module:
    return transformers.LongformerForMaskedLM(longformer_config(options.length, PADDING))


def led(options: Options) -> nn.Module:
    config = led_config(options.length, decoder_layers=LAYERS // 2, pad_token_id=PADDING)
    return transformers.LEDForConditionalGeneration(config)


MODELS = {"hdt": hdt, "longformer": longformer, "hdt-ed": hdt_ed, "led": led}
WRITERS = ("hdt-ed", "led")


def make_features(
    name: str, options: Options, number: int, generator: torch.Generator
) -> list[Features]:
    """Make the features of a document of random tokens."""
    length = options.length
    features = {"input_ids": torch.randint(5, VOCABULARY, (length,), generator=generator)}
    if name.startswith("hdt"):
        parents = document(length, random.Random(number))[:length]
        features["parent_ids"] = torch.tensor(parents)
        features["special_tokens_mask"] = torch.zeros(length, dtype=torch.long)
        features["special_tokens_mask"][features["parent_ids"].clamp(min=0)] = 1
    else:
        features["special_tokens_mask"] = (torch.arange(length) == 0).long()
    if name in WRITERS:
        labels = torch.randint(5, VOCABULARY, (TARGET,), generator=generator)
        return [{**features, "labels": labels}]
    return [
        mask_tokens(
            features, ratio=RATIO, mask_token_id=MASK, vocab_size=VOCABULARY, generator=generator
        )
    ]


def collate(name: str, features: list[Features]) -> Features:
    if name == "hdt":
        return pack_trees(features, ("input_ids", "labels"))
    if name == "hdt-ed":
        return {
            **pack_trees(features),
            "labels": torch.stack([example["labels"] for example in features]),
        }
    batch = pad_features(features, PADDING)
    first = batch.pop("special_tokens_mask")
    return {**batch, "global_attention_mask": first}


def operations(name: str, documents: int, options: Options) -> int:
    """Count the operations of the matrices in a pack, forward and backward."""
    read_by, written_by = documents * options.length, documents * TARGET
    square, feed_forward, head = 768**2, 2 * 768 * 3072, VOCABULARY * 768
    if name not in WRITERS:
        predicted = RATIO * read_by if name == "hdt" else read_by
        layers = LAYERS * (4 * square + feed_forward)
        return round(6 * (read_by * layers + predicted * (square + head)))
    half = LAYERS // 2
    encoder = half * (4 * square + feed_forward + 2 * square)  # the decoder's keys and values too
    decoder = half * (6 * square + feed_forward) + head
    return 6 * (read_by * encoder + written_by * decoder)


# Training


class Clock(TrainerCallback):
    """Measures the seconds that all steps after the warm-up take together."""

    def __init__(self, warm_up: int) -> None:
        self.warm_up = warm_up

    def on_step_begin(self, args: Any, state: TrainerState, *_: Any, **kwargs: Any) -> None:
        """Note when the first of the steps begins."""
        if state.global_step == self.warm_up:
            self.begun = self._now()

    def on_train_end(self, *args: Any, **kwargs: Any) -> None:
        """Note the end of the last step."""
        self.seconds = self._now() - self.begun

    def _now(self) -> float:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return time.perf_counter()


def measure(name: str, rate: float | None, options: Options) -> dict[str, Any]:
    per_pack = max(1, options.tokens // options.length)
    accumulated = options.packs // CARDS
    number = options.steps * options.packs
    packs = PackedDataset(
        range(number * per_pack),
        [1] * (number * per_pack),
        per_pack,
        partial(make_features, name, options),
        num_packs=number,
    )
    torch.manual_seed(0)
    model = MODELS[name](options)
    if options.capture:
        speed_ups.capture(model)
    clock = Clock(options.warm_up)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            max_steps=options.steps,
            learning_rate=1e-4,
            per_device_train_batch_size=1,
            gradient_accumulation_steps=accumulated,
            train_sampling_strategy="sequential",
            remove_unused_columns=False,
            bf16=torch.cuda.is_available(),
            ddp_find_unused_parameters=False,
            fsdp=options.fsdp,
            dataloader_num_workers=WORKERS,
            dataloader_pin_memory=torch.cuda.is_available(),
            use_cpu=not torch.cuda.is_available(),
            accelerator_config={"non_blocking": True},
            logging_steps=max(1, options.steps // 3),
            logging_nan_inf_filter=False,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = Trainer(
            model,
            arguments,
            data_collator=partial(collate_packs, partial(collate, name)),
            train_dataset=packs,
            callbacks=[clock],
        )
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        trainer.train()
    step = clock.seconds / (options.steps - options.warm_up)
    tokens = per_pack * options.length * accumulated
    result = {
        "model": name,
        "cards": CARDS,
        "packs": options.packs,
        "how": "FSDP" if options.fsdp else "DDP",
        "form": "captured" if options.capture else "eager",
        "ms a step": 1e3 * step,
        "tokens/s a card": round(tokens / step),
        "losses": [round(log["loss"], 5) for log in trainer.state.log_history if "loss" in log],
    }
    if rate is not None:
        done = accumulated * operations(name, per_pack, options)
        result["share of rate"] = round(done / rate / step, 3)
        result["GiB"] = round(torch.cuda.max_memory_allocated() / 2**30, 1)
    return result


def show(results: list[dict[str, Any]]) -> None:
    shown = [name for name in results[-1] if name != "losses"]
    print(report.table(shown, [[row.get(name) for name in shown] for row in results]), flush=True)
    losses = results[-1]["losses"]
    print(f"{results[-1]['model']}: loss {losses[0]} … {losses[-1]}", flush=True)
