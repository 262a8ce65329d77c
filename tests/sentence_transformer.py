"""Small random checkpoints of sentence-transformers."""

import json

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    Gemma3TextConfig,
    Gemma3TextModel,
    ModernBertConfig,
    ModernBertModel,
    MPNetConfig,
    MPNetModel,
    NomicBertConfig,
    NomicBertModel,
    Qwen3Config,
    Qwen3Model,
    RobertaConfig,
    RobertaModel,
    T5Config,
    T5EncoderModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

SIZES = {
    "vocab_size": 30522,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "initializer_range": 0.2,
}
ENDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
T5_SIZES = {"vocab_size": 30522, "d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 2}
ARCHITECTURES = {
    "bert": lambda: BertModel(BertConfig(**SIZES)),
    "roberta": lambda: RobertaModel(RobertaConfig(**SIZES, pad_token_id=1)),
    "xlm-roberta": lambda: XLMRobertaModel(XLMRobertaConfig(**SIZES, pad_token_id=1)),
    "mpnet": lambda: MPNetModel(MPNetConfig(**SIZES)),
    "modernbert, windows": lambda: ModernBertModel(
        ModernBertConfig(
            **SIZES, **ENDS, local_attention=8, cls_token_id=1, sep_token_id=2,
            global_attn_every_n_layers=3,
        )
    ),
    "qwen3, causal": lambda: Qwen3Model(
        Qwen3Config(**SIZES, **ENDS, num_key_value_heads=2, head_dim=16)
    ),
    "gemma3": lambda: Gemma3TextModel(
        Gemma3TextConfig(
            **SIZES, **ENDS, num_key_value_heads=1, head_dim=16, use_bidirectional_attention=True
        )
    ),
    "nomic": lambda: NomicBertModel(NomicBertConfig(**SIZES)),
    "t5": lambda: T5EncoderModel(T5Config(**T5_SIZES, num_heads=2)),
}  # fmt: skip


def save(folder, tokenizer, *modules, kind="bert", max_seq_length=128, **options):
    """Save a random checkpoint: a Transformer, and modules that follow it."""
    torch.manual_seed(0)
    ARCHITECTURES[kind]().eval().save_pretrained(folder / "transformer")
    tokenizer.save_pretrained(folder / "transformer")
    file = folder / "transformer" / "tokenizer_config.json"
    tokens = json.loads(file.read_text())
    tokens.pop("processor_class", None)  # of the model that the tokenizer is from
    file.write_text(json.dumps(tokens))
    first = Transformer(str(folder / "transformer"), max_seq_length=max_seq_length)
    model = SentenceTransformer(modules=[first, *modules], device="cpu", **options)
    model.save(str(folder / "model"), create_model_card=False)
    return folder / "model"


def save_reranker(folder, tokenizer):
    """Save a random cross-encoder with one label."""
    torch.manual_seed(0)
    BertForSequenceClassification(BertConfig(**SIZES, num_labels=1)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    file = folder / "tokenizer_config.json"
    tokens = json.loads(file.read_text())
    tokens.pop("processor_class", None)
    file.write_text(json.dumps(tokens))
    return folder
