"""Small random checkpoints of sentence-transformers."""

import json
from string import punctuation

import torch
from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Transformer
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
    first = transformer(folder, tokenizer, kind, max_seq_length)
    model = SentenceTransformer(modules=[first, *modules], device="cpu", **options)
    model.save(str(folder / "model"), create_model_card=False)
    return folder / "model"


def transformer(folder, tokenizer, kind, max_seq_length=128):
    """Save a random Transformer, and make it the first module of a model."""
    torch.manual_seed(0)
    return Transformer(
        str(save_plain(folder / "transformer", tokenizer, ARCHITECTURES[kind]().eval())),
        max_seq_length=max_seq_length,
    )


def save_reranker(folder, tokenizer):
    """Save a random cross-encoder with one label."""
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(**SIZES, num_labels=1))
    return save_plain(folder, tokenizer, model)


def save_multi_vector(folder, tokenizer, *, by_pylate=False):
    """Save a random ModernBERT with a vector for each token, perhaps as PyLate does."""
    dense = Dense(
        32, 16, bias=False, activation_function=torch.nn.Identity(),
        module_input_name="token_embeddings", module_output_name="token_embeddings",
    )  # fmt: skip
    normalize = Normalize(module_input_name="token_embeddings")
    modules = [transformer(folder, tokenizer, "modernbert, windows"), dense]
    model = MultiVectorEncoder(
        modules=[*modules, MultiVectorMask(skiplist_words=[*punctuation]), normalize],
        prompts={"query": "[Q] ", "document": "[D] "},
        device="cpu",
    )
    model.save(str(folder / "model"), create_model_card=False)
    if by_pylate:
        as_saved_by_pylate(folder / "model")
    return folder / "model"


def as_saved_by_pylate(folder):
    """Describe a multi-vector model as that of GTE-ModernColBERT is, which PyLate 1.1 saved."""
    modules = json.loads((folder / "modules.json").read_text())[:2]
    modules[0]["type"] = "sentence_transformers.models.Transformer"
    modules[1]["type"] = "pylate.models.Dense.Dense"
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "config_sentence_transformers.json").write_text(
        json.dumps(
            {
                "similarity_fn_name": "MaxSim",
                "query_prefix": "[Q] ",
                "document_prefix": "[D] ",
                "query_length": 32,
                "document_length": 300,
                "do_query_expansion": False,
                "skiplist_words": [*punctuation],
            }
        )
    )
    (folder / "1_Dense" / "config.json").write_text(
        json.dumps(
            {
                "in_features": 32,
                "out_features": 16,
                "bias": False,
                "activation_function": "torch.nn.modules.linear.Identity",
            }
        )
    )


def save_plain(folder, tokenizer, model):
    """Save a model of transformers with a tokenizer."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    file = folder / "tokenizer_config.json"
    tokens = json.loads(file.read_text())
    tokens.pop("processor_class", None)  # of the model that the tokenizer is from
    file.write_text(json.dumps(tokens))
    return folder
