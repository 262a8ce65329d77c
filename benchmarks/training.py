"""Training with Trainer: tokens per second and card, and losses that do not depend on the cards.

    python benchmarks/training.py                                  # one card
    torchrun --nproc-per-node 4 benchmarks/training.py             # four, with DDP
    torchrun --nproc-per-node 4 benchmarks/training.py --packs 4   # four packs a step
    python benchmarks/training.py --packs 4                        # the same, accumulated

Random documents of 8,192 tokens, packed to 65,536 per card and micro-step; base size, bfloat16 by
autocast, AdamW, no dropout. HDT and Longformer predict 15 % masked tokens, and HDT, as after
`foveate train`, computes the logits of these only. HDT-ED and LED (both 6 and 6 layers) write 512
tokens for each document. Worker processes make and mask the features. Trainer copies batches and
logs losses as `foveate train` has it do, so that the host waits for the device only where a model
does. What is timed is all steps after the warm-up together, data loading included.

The share of the matrix rate counts six operations per token and weight of the matrices it passes
through, relative to the rate of a large product on this card; products inside attention are not
counted. "Form" is eager, unless the model is compiled or its encoder captured. Each command saves a
file of its own.
"""

import argparse
import os
import random
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn
from transformers import Trainer, TrainerCallback, TrainerState, TrainingArguments

import report
from foveate.models.hdt import HDTConfig, HDTForConditionalGeneration, HDTForMaskedLM
from foveate.models.speed_ups import capture
from foveate.preprocessing import Features, pack_trees, pad_features
from foveate.training.objectives.masked_lm import mask_tokens
from foveate.training.packing import PackedDataset, collate_packs
from timing import matmul_rate
from tree_documents import document

VOCABULARY, MASK, PADDING, RATIO = 32768, 4, 0, 0.15


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="*", choices=MODELS, default=list(MODELS))
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warm-up", type=int, default=10, help="steps that are not timed")
    parser.add_argument(
        "--packs", type=int, help="packs per step on all cards; default: one per card"
    )
    parser.add_argument("--length", type=int, default=8192, help="tokens per document")
    parser.add_argument("--target", type=int, default=512, help="target tokens per document")
    parser.add_argument("--tokens", type=int, default=65536, help="tokens per pack")
    parser.add_argument(
        "--layers", type=int, default=12, help="layers of encoder and decoder together"
    )
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    parser.add_argument("--capture", action="store_true", help="capture the model's encoder")
    parser.add_argument("--fsdp", action="store_true", help="use FSDP instead of DDP")
    parser.add_argument("--results", type=Path, help="default: named after the number of cards")
    options = parser.parse_args()
    cards = int(os.environ.get("WORLD_SIZE", 1))
    options.results = options.results or report.RESULTS / f"training-{cards}.json"
    options.packs = options.packs or cards
    if options.packs % cards:
        parser.error(f"--packs must be a multiple of the {cards} cards")
    rate = None
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
        rate = matmul_rate()
    results: list[dict[str, Any]] = []
    for name in options.models:
        results.append(measure(name, cards, rate, options))
        if int(os.environ.get("RANK", 0)) == 0:
            save(results, options.results)


# Models and their features


def hdt(options: argparse.Namespace) -> nn.Module:
    return HDTForMaskedLM(
        HDTConfig(
            vocab_size=VOCABULARY,
            num_layers=options.layers,
            dropout_rate=0.0,
            sparse_prediction=True,
        )
    )


def hdt_ed(options: argparse.Namespace) -> nn.Module:
    half = options.layers // 2
    layers = {"num_layers": half, "num_decoder_layers": half}
    return HDTForConditionalGeneration(HDTConfig(vocab_size=VOCABULARY, **layers, dropout_rate=0.0))


def longformer(options: argparse.Namespace) -> nn.Module:
    config = transformers.LongformerConfig(
        vocab_size=VOCABULARY,
        max_position_embeddings=options.length + 2,
        num_hidden_layers=options.layers,
        attention_window=512,
        pad_token_id=PADDING,
        sep_token_id=2,
        attention_probs_dropout_prob=0.0,
        hidden_dropout_prob=0.0,
    )
    return transformers.LongformerForMaskedLM(config)


def led(options: argparse.Namespace) -> nn.Module:
    config = transformers.LEDConfig(
        vocab_size=VOCABULARY,
        d_model=768,
        encoder_layers=options.layers // 2,
        decoder_layers=options.layers // 2,
        encoder_attention_heads=12,
        decoder_attention_heads=12,
        encoder_ffn_dim=3072,
        decoder_ffn_dim=3072,
        max_encoder_position_embeddings=options.length,
        attention_window=1024,
        dropout=0.0,
        pad_token_id=PADDING,
    )
    return transformers.LEDForConditionalGeneration(config)


MODELS = {"hdt": hdt, "longformer": longformer, "hdt-ed": hdt_ed, "led": led}
WRITERS = ("hdt-ed", "led")


def make_features(
    name: str, options: argparse.Namespace, number: int, generator: torch.Generator
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
        labels = torch.randint(5, VOCABULARY, (options.target,), generator=generator)
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


def operations(name: str, documents: int, options: argparse.Namespace) -> int:
    """Count the operations of the matrices in a pack, forward and backward."""
    read_by, written_by = documents * options.length, documents * options.target
    square, feed_forward, head = 768**2, 2 * 768 * 3072, VOCABULARY * 768
    if name not in WRITERS:
        predicted = RATIO * read_by if name == "hdt" else read_by
        layers = options.layers * (4 * square + feed_forward)
        return round(6 * (read_by * layers + predicted * (square + head)))
    half = options.layers // 2
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


def measure(
    name: str, cards: int, rate: float | None, options: argparse.Namespace
) -> dict[str, Any]:
    per_pack = max(1, options.tokens // options.length)
    accumulated = options.packs // cards
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
        capture(model)
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
            torch_compile=options.compile,
            ddp_find_unused_parameters=False,
            fsdp=options.fsdp,
            dataloader_num_workers=options.workers,
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
        "cards": cards,
        "packs": options.packs,
        "how": "FSDP" if options.fsdp else "DDP",
        "form": ", ".join(
            name
            for name, chosen in (("compiled", options.compile), ("captured", options.capture))
            if chosen
        )
        or "eager",
        "ms a step": 1e3 * step,
        "tokens/s a card": round(tokens / step),
        "losses": [round(log["loss"], 5) for log in trainer.state.log_history if "loss" in log],
    }
    if rate is not None:
        done = accumulated * operations(name, per_pack, options)
        result["share of rate"] = round(done / rate / step, 3)
        result["GiB"] = round(torch.cuda.max_memory_allocated() / 2**30, 1)
    return result


def save(results: list[dict[str, Any]], file: Path) -> None:
    report.save(file, results, "transformers", "accelerate", "triton")
    shown = [name for name in results[-1] if name != "losses"]
    print(report.table(shown, [[row.get(name) for name in shown] for row in results]), flush=True)
    losses = results[-1]["losses"]
    print(f"{results[-1]['model']}: loss {losses[0]} … {losses[-1]}", flush=True)


if __name__ == "__main__":
    main()
