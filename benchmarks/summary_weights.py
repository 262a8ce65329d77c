"""How much salience, closeness and position count in summaries: a search on training texts.

The encoder reads every text once. Then one weight after the other takes the value of its grid that
gives the best summaries of 150 words, until none changes. The best have the highest mean of
ROUGE-1, 2 and L, in which every set of texts counts the same.

    python -m benchmarks summary_weights --model PATH
"""

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import torch
import torch.nn.functional as F
from rouge_score.tokenizers import DefaultTokenizer
from torch import Tensor

from benchmarks import report
from benchmarks.registry import measurement
from benchmarks.retrieval_measures import SEED
from benchmarks.summarization import SETS, WORDS, Set
from foveate import Document, Encoder
from foveate.tasks.candidates import abstract, candidates, is_paper
from foveate.tasks.centrality import (
    SentencePositions,
    closeness,
    emphasis,
)
from foveate.tasks.summarize import REDUNDANCY_PENALTY, REPETITION_THRESHOLD, SALIENCE_WEIGHT

TRAINING_SETS = ("papers", "papers-with-abstract", "proposals", "meetings")


class Text(NamedTuple):
    """What decides about the summary of a text, for each sentence that can stand in it.

    Attributes:
        terms: `(5, sentences)`, what the first five `Weights` multiply.
        cosines: `(sentences, sentences)`.
        shared: `(sentences, sentences)`, the share of a row's trigrams that a column has, too.
        costs: `(sentences,)`, numbers of words.
        words: The words of each sentence as ROUGE counts them.
        human: Those of the human summary.
    """

    terms: Tensor
    cosines: Tensor
    shared: Tensor
    costs: Tensor
    words: list[list[str]]
    human: list[str]


class Weights(NamedTuple):
    """The weights of a sentence's score, and how like a chosen one it may be."""

    salience: float = SALIENCE_WEIGHT
    closeness: float = 1
    section: float = 0
    sentence: float = 0
    abstract: float = 0
    redundancy: float = REDUNDANCY_PENALTY
    cosine: float = 1
    trigrams: float = REPETITION_THRESHOLD


GRIDS = {
    "salience": (0, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5),
    "closeness": (0, 0.25, 0.5, 0.75, 1, 1.5, 2, 3),
    "section": (0, 0.05, 0.1, 0.15, 0.2, 0.3),
    "sentence": (0, 0.02, 0.05, 0.1, 0.15),
    "abstract": (0, 0.1, 0.2, 0.5),
    "redundancy": (0, 0.05, 0.1, 1 / 6, 0.25, 0.4, 0.6, 1),
    "cosine": (0.6, 0.7, 0.8, 0.9, 1),
    "trigrams": (0, 0.1, 0.2, 0.3, 0.5, 1),
}


def read(document: Document, human: str, encoder: Encoder) -> Text:
    tokenize = DefaultTokenizer(use_stemmer=True).tokenize
    vectors = encoder.encode(document)
    positions = SentencePositions.from_document(document)
    title = encoder.encode_texts(document.title) if document.title else None
    salience = vectors.salience
    own = abstract(document)
    terms = torch.stack(
        [
            torch.zeros(len(vectors.sentences)) if salience is None else standardize(salience),
            closeness(vectors, positions, title),
            *emphasis(positions, len(vectors.sections), ends_count=is_paper(document)),
            torch.zeros(len(vectors.sentences)).index_fill(0, torch.tensor(own).long(), 1),
        ]
    )
    rows = sorted({*candidates(document, skip_backchannels=True), *own})
    sentences = F.normalize(vectors.sentences[rows], dim=-1)
    texts = [sentence.text for sentence in document.sentences()]
    words = [tokenize(texts[i]) for i in rows]
    return Text(
        terms[:, rows],
        sentences @ sentences.T,
        shared_trigrams(words),
        torch.tensor([len(texts[i].split()) for i in rows]),
        words,
        tokenize(human),
    )


def shared_trigrams(sentences: list[list[str]]) -> Tensor:
    """Compute the share of a row's trigrams that a column has, too."""
    trigrams = [set(zip(words, words[1:], words[2:], strict=False)) for words in sentences]
    where = defaultdict(list)
    for i, of_sentence in enumerate(trigrams):
        for trigram in of_sentence:
            where[trigram].append(i)
    counts = torch.zeros(len(sentences), len(sentences))
    for rows in where.values():
        counts[torch.tensor(rows)[:, None], rows] += 1
    return counts / torch.tensor([max(len(of_sentence), 1) for of_sentence in trigrams])[:, None]


def standardize(scores: Tensor) -> Tensor:
    return (scores - scores.mean()) / scores.std(correction=0).clamp(min=1e-3)


def choose(text: Text, weights: Weights) -> list[int]:
    """Choose sentences as `foveate.tasks.summarize.choose` does."""
    scores = torch.tensor(weights[:5], dtype=torch.float) @ text.terms
    nearest = torch.zeros_like(scores)
    shared = torch.zeros_like(scores)
    is_free = torch.ones_like(scores, dtype=torch.bool)
    remaining, chosen = WORDS, []
    while (fits := is_free & (text.costs <= remaining)).any():
        is_new = fits & (nearest <= weights.cosine) & (shared <= weights.trigrams)
        gain = scores - weights.redundancy * nearest
        best = int(gain.masked_fill(~(is_new if is_new.any() else fits), -torch.inf).argmax())
        chosen.append(best)
        is_free[best] = False
        remaining -= int(text.costs[best])
        nearest = torch.maximum(nearest, text.cosines[best])
        shared = torch.maximum(shared, text.shared[:, best])
    return chosen or [int(scores.argmax())]


def rouge(words: list[str], human: list[str]) -> tuple[float, float, float]:
    """Compute ROUGE-1, 2 and L as rouge-score does, but faster."""
    return (
        f_measure((Counter(words) & Counter(human)).total(), len(words), len(human)),
        f_measure(
            (Counter(pairwise(words)) & Counter(pairwise(human))).total(),
            len(words) - 1,
            len(human) - 1,
        ),
        f_measure(longest_common_subsequence(words, human), len(words), len(human)),
    )


def f_measure(common: int, num_words: int, num_human: int) -> float:
    return 200 * common / max(num_words + num_human, 1)


def longest_common_subsequence(a: Sequence[str], b: Sequence[str]) -> int:
    """Return its length, all cells of a row of the table at once (Hyyrö 2004)."""
    where: dict[str, int] = {}
    for i, word in enumerate(b):
        where[word] = where.get(word, 0) | 1 << i
    every = row = (1 << len(b)) - 1
    for word in a:
        matched = row & where.get(word, 0)
        row = ((row + matched) | (row - matched)) & every
    return len(b) - row.bit_count()


def quality(texts: list[Text], weights: Weights) -> list[float]:
    """Return the mean ROUGE-1, 2 and L of the summaries."""
    rows = []
    for text in texts:
        chosen = sorted(choose(text, weights))
        rows.append(rouge([word for i in chosen for word in text.words[i]], text.human))
    return [fmean(column) for column in zip(*rows, strict=True)]


def search(sets: dict[str, list[Text]], weights: Weights) -> Weights:
    """Set one weight after the other, until none changes."""

    def value(weights: Weights) -> float:
        return fmean(fmean(quality(texts, weights)) for texts in sets.values())

    best = value(weights)
    while True:
        before = weights
        for name, grid in GRIDS.items():
            for tried in (weights._replace(**{name: x}) for x in grid):
                if (its_value := value(tried)) > best:
                    best, weights = its_value, tried
            print(f"{name:12}{best:.3f}", weights, flush=True)
        if weights == before:
            return weights


@measurement(None)
def summary_weights(
    data: Path = report.DATA,
    model: str | None = None,
    sets: Sequence[Set] = TRAINING_SETS,
    limit: int = 100,
) -> None:
    """Search for the weights.

    Options:
        sets: of texts
    """
    encoder = Encoder.from_pretrained(model)
    texts = {}
    for name in sets:
        pairs = list(SETS[name](data, "train"))
        sample = random.Random(SEED).sample(pairs, min(limit, len(pairs)))
        texts[name] = [read(*pair, encoder) for pair in sample]
        print(f"{name}: {len(sample)} texts", flush=True)
    found = search(texts, Weights())
    for name, of_set in texts.items():
        print(f"{name:24}" + " / ".join(f"{mean:.2f}" for mean in quality(of_set, found)))
