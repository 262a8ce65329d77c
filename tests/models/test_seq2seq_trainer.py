"""Encoder-decoders in `Seq2SeqTrainer`, which calls `generate` with whole batches."""

import pytest
import torch
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments

from foveate.models.fovea import FoveaConfig, FoveaForConditionalGeneration
from foveate.models.hdt import HDTConfig, HDTForConditionalGeneration
from foveate.models.vcc import VccT5Config, VccT5ForConditionalGeneration
from tests.t5 import SIZES

MODELS = {
    "hdt": (HDTForConditionalGeneration, HDTConfig(**SIZES, num_decoder_layers=1)),
    "fovea": (FoveaForConditionalGeneration, FoveaConfig(**SIZES)),
    "vcc": (VccT5ForConditionalGeneration, VccT5Config(**SIZES)),
}


@pytest.mark.parametrize("name", MODELS)
def test_predictions_are_generated(name, tmp_path):
    torch.manual_seed(0)
    build, config = MODELS[name]
    model = build(config).eval()
    inputs = {"input_ids": torch.randint(5, 60, (9,)), "attention_mask": torch.ones(9)}
    if name == "hdt":
        inputs["parent_ids"] = torch.tensor([-1, 0, 1, 2, 2, 1, 5, 5, 5])
    elif name == "vcc":
        inputs["vip_mask"] = torch.arange(9) < 3
    arguments = Seq2SeqTrainingArguments(
        str(tmp_path),
        predict_with_generate=True,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        dataloader_pin_memory=False,
    )
    example = {**inputs, "labels": torch.randint(5, 60, (4,))}
    trainer = Seq2SeqTrainer(model, arguments)
    found = trainer.predict([example, example], max_new_tokens=6)
    assert found.metrics["test_loss"] > 0
    batch = {column: x[None] for column, x in inputs.items()}
    expected = model.generate(**batch, max_new_tokens=6)[0]
    assert found.predictions[0, : len(expected)].tolist() == expected.tolist()
