"""The sentences of a document that make the best summary, judged by a human summary."""

import re
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

MAX_SENTENCES = 8
_WORD = re.compile(r"[^\W_]+")


def oracle(sentences: Sequence[str], reference: str) -> list[int]:
    """Choose sentences greedily to maximize their ROUGE with a summary.

    The measure is the sum of the F1 of ROUGE-1 and ROUGE-2; words are compared by their first six
    letters, in lower case. The choice ends when no sentence improves it.

    Args:
        sentences: The sentences of a document.
        reference: Its summary.

    Returns:
        The indices of at most eight sentences, in the order of choice.

    Example:
        >>> oracle(["It is.", "Cod eat herring.", "Eels are long."], "All cod eat herring.")
        [1]
    """
    grams = [_ngrams(reference, n) for n in (1, 2)]
    counts = [_count(sentences, list(wanted), n) for n, wanted in zip((1, 2), grams, strict=True)]
    lengths = [torch.tensor([len(_words(s)) + 1.0 - n for s in sentences]) for n in (1, 2)]
    lengths = [length.clamp(min=0) for length in lengths]
    limits = [torch.tensor(list(wanted.values()), dtype=torch.float) for wanted in grams]
    totals = [torch.zeros(len(limit)) for limit in limits]
    sizes = [0.0, 0.0]
    chosen: list[int] = []
    best = 0.0
    while len(chosen) < min(MAX_SENTENCES, len(sentences)):
        score = torch.zeros(len(sentences))
        for total, count, limit, size, length in zip(
            totals, counts, limits, sizes, lengths, strict=True
        ):
            overlap = torch.minimum(total + count, limit).sum(-1)
            score += 2 * overlap / (size + length + limit.sum()).clamp(min=1)
        score[chosen] = 0
        candidate = int(score.argmax())
        if float(score[candidate]) <= best + 1e-6:
            break
        best = float(score[candidate])
        chosen.append(candidate)
        totals = [total + count[candidate] for total, count in zip(totals, counts, strict=True)]
        sizes = [
            size + float(length[candidate]) for size, length in zip(sizes, lengths, strict=True)
        ]
    return chosen


def _count(sentences: Sequence[str], wanted: list[tuple[str, ...]], n: int) -> Tensor:
    """Count the wanted n-grams in each sentence: `(sentences, wanted)`."""
    column = {gram: i for i, gram in enumerate(wanted)}
    counts = torch.zeros(len(sentences), len(wanted))
    for row, sentence in enumerate(sentences):
        for gram, count in _ngrams(sentence, n).items():
            if gram in column:
                counts[row, column[gram]] = count
    return counts


def _ngrams(text: str, n: int) -> Counter[tuple[str, ...]]:
    words = _words(text)
    return Counter(zip(*(words[i:] for i in range(n)), strict=False))


def _words(text: str) -> list[str]:
    return [word[:6] for word in _WORD.findall(text.lower())]
