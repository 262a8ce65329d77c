"""A small vocabulary, processors that use it, and small recipes and checkpoints."""

import json

import pytest
import torch
import transformers

from foveate.models.hdt import HDTConfig, HDTForConditionalGeneration, HDTModel
from foveate.models.tree_bert import TreeBertConfig, TreeBertModel
from foveate.models.vcc import VccRobertaForMaskedLM, VccT5ForConditionalGeneration
from foveate.preprocessing import HDTProcessor, TextProcessor
from foveate.training import Recipe, build_trainer, train
from foveate.training.tokenizer import train_tokenizer
from tests.models.test_hdt_published import published_config
from tests.t5 import save_t5

TINY = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2}
QUICK = {
    "use_cpu": True,
    "disable_tqdm": True,
    "dataloader_num_workers": 0,
    "dataloader_pin_memory": False,
    "logging_steps": 1,
    "bf16": False,
    "fp16": False,
}


@pytest.fixture(scope="session")
def small_tokenizer(samples):
    return train_tokenizer((sample.document for sample in samples), 420)


@pytest.fixture(scope="session")
def t5_tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("t5")
    text = "summarize: question: context: Where does it swim? at sea; on land whale swims. A ship"
    save_t5(folder, text)
    return transformers.AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="session")
def tree_processor(small_tokenizer):
    return HDTProcessor(small_tokenizer)


@pytest.fixture(scope="session")
def text_processor(small_tokenizer):
    return TextProcessor(small_tokenizer)


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    monkeypatch.setattr(transformers.PrinterCallback, "on_log", lambda *args, **kwargs: None)


def masked_lm(corpus_file, changes=None, **training):
    """A recipe for a small HDT, with other sections and other options of training."""
    return Recipe.from_dict(
        {
            "model": {"type": "hdt", **TINY},
            "tokenizer": 420,
            "objective": {"name": "masked_lm"},
            "data": {"train": str(corpus_file), "dev": str(corpus_file)},
            "batch": {"tokens": 150},
            "training": {**QUICK, "learning_rate": 0.01, **training},
            **(changes or {}),
        }
    )


def losses(trainer):
    """The losses that a run has logged."""
    return [log["loss"] for log in trainer.state.log_history if "loss" in log]


def checkpoint(kind, folder, tokenizer):
    """Save a small model with random weights, and a tokenizer; HDT as its authors do."""
    torch.manual_seed(0)
    sizes = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    bert = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
    bert |= {"num_attention_heads": 2, "max_position_embeddings": 300}
    t5 = {**TINY, "num_decoder_layers": 1, "decoder_start_token_id": 0}
    led = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "attention_window": 8}
    led |= {f"{part}_{what}": 2 for part in ("encoder", "decoder") for what in ("attention_heads",)}
    led |= {"encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_encoder_position_embeddings": 512}
    model = {
        "bert": lambda: transformers.BertModel(transformers.BertConfig(**sizes, **bert)),
        "tree-bert": lambda: TreeBertModel(TreeBertConfig(**sizes, **bert)),
        "hdt": lambda: HDTModel(HDTConfig(**sizes, **TINY)),
        "hdt-ed": lambda: HDTForConditionalGeneration(
            HDTConfig(**sizes, **TINY, num_decoder_layers=1)
        ),
        "roberta": lambda: transformers.RobertaForMaskedLM(
            transformers.RobertaConfig(**sizes, **bert)
        ),
        "vcc-roberta": lambda: VccRobertaForMaskedLM(
            VccRobertaForMaskedLM.config_class(**sizes, **bert)
        ),
        "vcc-t5": lambda: VccT5ForConditionalGeneration(
            VccT5ForConditionalGeneration.config_class(**sizes, **t5)
        ),
        "t5": lambda: transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes, **t5)),
        "longt5": lambda: transformers.LongT5ForConditionalGeneration(
            transformers.LongT5Config(**sizes, **t5, local_radius=3, global_block_size=2)
        ),
        "led": lambda: transformers.LEDForConditionalGeneration(
            transformers.LEDConfig(**sizes, **led)
        ),
    }[kind]()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if kind in ("hdt", "hdt-ed"):
        config = published_config(
            sizes | TINY | ({"num_decoder_layers": 1} if kind == "hdt-ed" else {})
        )
        (folder / "config.json").write_text(json.dumps(config))


class Killed(transformers.TrainerCallback):
    """Ends the run in the middle of a step, before its gradients are all there."""

    def __init__(self, step):
        self.step = step

    def on_substep_end(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            raise KeyboardInterrupt


def whole_and_resumed(recipe, folder, step):
    """Train twice, the second time killed in the middle of a step and resumed."""
    whole = train(recipe, folder / "whole")
    broken = build_trainer(recipe, folder / "broken")
    broken.add_callback(Killed(step))
    with pytest.raises(KeyboardInterrupt):
        broken.train()
    return whole, train(recipe, folder / "broken")
