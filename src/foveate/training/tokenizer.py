"""A byte-level BPE vocabulary, trained on the documents of a corpus (HDT, 4.2)."""

from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from foveate.documents import Document
from foveate.preprocessing.text import plain_text

SPECIAL_TOKENS = ("<pad>", "</s>", "<unk>", "<mask>", "<cls>", "<sec>", "<doc>", "<s>")
"""The first tokens of the vocabulary: three anchors, and `<s>`, with which written texts begin."""
MODE_TOKENS = {"R": "<NLU>", "S": "<S2S>", "X": "<NLG>"}
"""UL2's mode tokens, as published with HDT-ED."""
SENTINELS = tuple(f"<extra_id_{number}>" for number in range(501))
"""Tokens that stand for masked spans: one for each in 8,192 tokens, as published with HDT-ED."""


def train_tokenizer(documents: Iterable[Document], vocab_size: int) -> PreTrainedTokenizerFast:
    """Train a tokenizer.

    Args:
        documents: The documents to train on; a few thousand are enough.
        vocab_size: Size of the vocabulary, including `SPECIAL_TOKENS`, `MODE_TOKENS`, `SENTINELS`
            and the 256 bytes. At most a quarter of a small vocabulary are sentinels.

    Raises:
        ValueError: The vocabulary is too small for these.
    """
    sentinels = SENTINELS[: vocab_size // 4]
    special_tokens = [*SPECIAL_TOKENS, *MODE_TOKENS.values(), *sentinels]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    smallest = len(special_tokens) + len(alphabet)
    if vocab_size < smallest:
        raise ValueError(f"a vocabulary must have at least {smallest} tokens, got {vocab_size}")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=special_tokens,
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(map(plain_text, documents), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        mask_token="<mask>",
        cls_token="<cls>",
        additional_special_tokens=["<sec>", "<doc>", *MODE_TOKENS.values(), *sentinels],
    )
