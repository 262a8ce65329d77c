"""Fine-tune a sequence-to-sequence model, keep its best epoch, and generate with it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import PreTrainedModel, PrinterCallback, Trainer, TrainingArguments

from foveate.documents import Document
from foveate.preprocessing import Features, LEDProcessor
from foveate.preprocessing.led import has_global_tokens


@dataclass(frozen=True, slots=True)
class Tuning:
    """How a model is fine-tuned and generates.

    Attributes:
        epochs: Number of epochs; the validation loss is measured after each (EGAD, 3: five).
        learning_rate: Initial learning rate, which falls linearly to 0.
        batch_size: Examples per step.
        generation_batch_size: Summaries generated at once.
        max_target_length: Maximum tokens of a summary, in training and in generation.
        beams: Number of beams.
        bf16: Whether to compute in bfloat16.
    """

    epochs: int = 5
    learning_rate: float = 5e-5
    batch_size: int = 4
    generation_batch_size: int = 32
    max_target_length: int = 512
    beams: int = 4
    bf16: bool = False


def encode(
    processor: LEDProcessor,
    documents: Sequence[Document],
    targets: Sequence[str] | None = None,
    max_target_length: int | None = None,
) -> list[Features]:
    """Tokenize documents into model inputs and, with targets, labels."""
    if targets is None:
        return [processor.model_inputs(processor.features(document)) for document in documents]
    encoded = []
    for document, target in zip(documents, targets, strict=True):
        features = processor.features(document, target=target, max_target_length=max_target_length)
        encoded.append({**processor.model_inputs(features), "labels": features["labels"]})
    return encoded


def fit(
    model: PreTrainedModel,
    pad: Callable[[Sequence[Any]], Any],
    train: list[Features],
    validation: list[Features],
    tuning: Tuning,
    seed: int,
) -> list[float]:
    """Fine-tune a model in place, and reset it to the epoch with the lowest validation loss.

    Args:
        model: The model, on the device to train on.
        pad: Pads features into a batch.
        train: Features with labels.
        validation: Likewise.
        tuning: How to fine-tune.
        seed: Seed of the order of examples and of dropout.

    Returns:
        The validation loss after each epoch.
    """
    on_cpu = model.device.type == "cpu"
    with TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            num_train_epochs=tuning.epochs,
            learning_rate=tuning.learning_rate,
            per_device_train_batch_size=tuning.batch_size,
            per_device_eval_batch_size=tuning.batch_size,
            eval_strategy="epoch",
            save_strategy="epoch",
            save_total_limit=1,
            save_only_model=True,
            load_best_model_at_end=True,
            metric_for_best_model="eval_loss",
            greater_is_better=False,
            prediction_loss_only=True,
            seed=seed,
            bf16=tuning.bf16,
            use_cpu=on_cpu,
            dataloader_pin_memory=not on_cpu,
            disable_tqdm=True,
            logging_strategy="no",
            report_to=[],
        )
        trainer = Trainer(
            model, arguments, data_collator=pad, train_dataset=train, eval_dataset=validation
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        return [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]


@torch.inference_mode()
def write(
    model: PreTrainedModel, processor: LEDProcessor, features: list[Features], tuning: Tuning
) -> list[str]:
    """Generate a text for each example, by beam search."""
    model.eval()
    generator: Any = model  # transformers declares `generate` only on a mixin
    texts: list[str] = []
    for start in range(0, len(features), tuning.generation_batch_size):
        batch = processor.pad(features[start : start + tuning.generation_batch_size])
        if not has_global_tokens(model):
            del batch["global_attention_mask"]
        with torch.autocast(model.device.type, torch.bfloat16, enabled=tuning.bf16):
            ids = generator.generate(
                **batch.to(model.device),
                num_beams=tuning.beams,
                max_new_tokens=tuning.max_target_length,
            )
        texts += processor.tokenizer.batch_decode(ids, skip_special_tokens=True)
    return [text.strip() for text in texts]
