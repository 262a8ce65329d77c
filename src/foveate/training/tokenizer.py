"""A byte-level BPE vocabulary, learned from the documents to train on (HDT, 4.2)."""

from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from foveate.documents import Document
from foveate.preprocessing.text import plain_text

SPECIAL = ("<pad>", "</s>", "<unk>", "<mask>", "<cls>", "<sec>", "<doc>")
"""First of the vocabulary; the last three are the anchors."""
MODES = {"R": "[R]", "S": "[S]", "X": "[X]"}
"""UL2's mode tokens."""
SENTINELS = tuple(f"<extra_id_{number}>" for number in range(100))
"""What stands for hidden spans."""


def learn_tokenizer(documents: Iterable[Document], size: int) -> PreTrainedTokenizerFast:
    """Learn a vocabulary.

    Args:
        documents: to learn from, a few thousand are enough.
        size: number of ids, with those of `SPECIAL`, `MODES`, `SENTINELS` and 256 bytes.

    Raises:
        ValueError: a size that does not hold these.
    """
    special = [*SPECIAL, *MODES.values(), *SENTINELS]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    if size < len(special) + len(alphabet):
        raise ValueError(
            f"a vocabulary of {size} is too small: {len(special) + len(alphabet)} is the least"
        )
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(map(plain_text, documents), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        mask_token="<mask>",
        cls_token="<cls>",
        additional_special_tokens=["<sec>", "<doc>", *MODES.values(), *SENTINELS],
    )
