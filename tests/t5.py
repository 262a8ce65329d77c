"""A small T5: its sizes, and one with random weights, saved with its tokenizer."""

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

SIZES = {
    "vocab_size": 60,
    "d_model": 16,
    "d_kv": 8,
    "d_ff": 24,
    "num_layers": 2,
    "num_heads": 2,
    "decoder_start_token_id": 0,
}


def save_t5(folder, text):
    """Save a T5 whose vocabulary is the words of a text, and its tokenizer."""
    words = dict.fromkeys(["<pad>", "</s>", "<unk>", *text.split()])
    vocabulary = {word: i for i, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = T5Config(**SIZES | {"vocab_size": len(vocabulary), "num_layers": 3})
    T5ForConditionalGeneration(config).save_pretrained(folder)
