"""A small LED with random weights, and its tokenizer."""

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LEDConfig, LEDForConditionalGeneration, PreTrainedTokenizerFast

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]


def bpe(texts: list[str], size: int = 300) -> PreTrainedTokenizerFast:
    """Train a byte-level tokenizer, like LED's."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        cls_token="<s>",
        pad_token="<pad>",
        eos_token="</s>",
        sep_token="</s>",
        unk_token="<unk>",
        model_max_length=512,
    )


def led(vocab_size: int) -> LEDForConditionalGeneration:
    torch.manual_seed(0)
    config = LEDConfig(
        vocab_size=vocab_size,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        attention_window=16,
        max_encoder_position_embeddings=512,
        max_decoder_position_embeddings=64,
        decoder_start_token_id=2,
        bos_token_id=0,
        pad_token_id=1,
        eos_token_id=2,
    )
    return LEDForConditionalGeneration(config).eval()
