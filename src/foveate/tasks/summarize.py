"""Summaries: of a document's most central sentences, or in the words of a checkpoint."""

from dataclasses import dataclass
from os import PathLike

import torch
import torch.nn.functional as F
from torch import Tensor

from foveate.documents import Document, Sentence, as_document
from foveate.inference.encoder import Encoder
from foveate.inference.summarizer import Generator
from foveate.tasks.places import Place, places
from foveate.tasks.relevance import centrality, relevance

_DEFAULT_SENTENCES = 5

# What a sentence loses for each unit of cosine with one that is chosen already; it decides among
# sentences of about the same score. (ROUGE on ScisummNet hardly depends on it between 0 and 0.3.)
REDUNDANCY = 1 / 6
# From this cosine on sentences say the same, and lose 1, which is more than scores differ by: they
# are taken only if there is nothing else, as with encoders to which all sentences are that close.
REPETITION = 0.9
# What has fewer characters is rather a label or a lead-in than a sentence, and would only fill up
# the budget. In scripts that write a word with one sign or two, few sentences are that short.
SHORTEST = 20
# In speech, what has fewer different words rather says that somebody listens ("yeah, OK"), and is
# as close to the middle of a meeting as to that of any other. (Found on QMSum's training part.)
FEWEST_WORDS_SAID = 10


@dataclass(frozen=True, slots=True)
class SummarySentence:
    """A sentence of a summary.

    Attributes:
        sentence: the sentence.
        place: where it stands in the document.
        score: of `foveate.tasks.relevance.centrality` or, with a query, `relevance`.
    """

    sentence: Sentence
    place: Place
    score: float


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary.

    Attributes:
        text: the summary.
        sentences: the document's sentences that it consists of, in the document's order; none if
            a model wrote it.
    """

    text: str
    sentences: tuple[SummarySentence, ...]


def summarize(
    document: Document,
    *,
    sentences: int | None = None,
    words: int | None = None,
    query: str | None = None,
    encoder: Encoder | None = None,
    model: str | PathLike[str] | Generator | None = None,
) -> Summary:
    """Summarize a document.

    Sentences are chosen one by one, each time the one with the highest

        c(s) - x/6 - [x > 0.9],    x = max over the chosen s' of ⟨s, s'⟩, at least 0,

    among those that fit what is left of the budget, where c is
    `foveate.tasks.relevance.centrality` or, with a query, `relevance` to it. Fragments of fewer
    than 20 characters are passed over, unless there is nothing else; without a query, so is what
    a speaker says in fewer than ten different words.

    Args:
        document: the document.
        sentences: budget in sentences, by default 5.
        words: budget in words instead, exceeded only if each sentence alone exceeds it: then the
            best is the summary.
        query: what the summary is to be about.
        encoder: by default `Encoder.from_pretrained()`; not used with `model`.
        model: a sequence-to-sequence checkpoint, by name or path or loaded, that writes the
            summary instead; see `Generator.summarize`.

    Returns:
        The text and, unless a model wrote it, its sentences with places and scores.

    Raises:
        ValueError: both budgets, a budget below 1, sentences for a model, or an empty query.

    Example:
        >>> from foveate import Document
        >>> from foveate.tasks.summarize import summarize
        >>> sea = Document.from_sections("Fish of the sea", [
        ...     ("Cod", "The cod is a fish of cold seas. It was cheap in 1950."),
        ...     ("Eel", "The eel is a long fish. Nobody knows why."),
        ... ])
        >>> summary = summarize(sea, sentences=2)
        >>> summary.text
        'The cod is a fish of cold seas. The eel is a long fish.'
        >>> [chosen.place.path for chosen in summary.sentences]
        [('Cod',), ('Eel',)]
    """
    if sentences is not None and words is not None:
        raise ValueError("give a number of sentences or of words, not both")
    for name, budget in (("sentences", sentences), ("words", words)):
        if budget is not None and budget < 1:
            raise ValueError(f"{name} must be at least 1, got {budget}")
    if query is not None and not query.strip():
        raise ValueError("the query is empty: say what the summary is to be about, or leave it out")
    document = as_document(document)
    if model is not None:
        if sentences is not None:
            raise ValueError("a model writes sentences of its own: give a number of words instead")
        writer = model if isinstance(model, Generator) else Generator.from_pretrained(model)
        return Summary(writer.summarize(document, words=words, query=query), ())

    budget = words or sentences or _DEFAULT_SENTENCES
    return _extract(
        document, budget, words is not None, query, encoder or Encoder.from_pretrained()
    )


def _extract(
    document: Document, budget: int, in_words: bool, query: str | None, encoder: Encoder
) -> Summary:
    everything = list(document.sentences())
    where = places(document)
    vectors = encoder.encode(document)
    if query is not None:
        scores = relevance(vectors, where, encoder.encode_texts([query])[0])
    else:
        title = encoder.encode_texts([document.title])[0] if document.title else None
        scores = centrality(vectors, where, title)
    long_enough = [
        i
        for i, (sentence, place) in enumerate(zip(everything, where, strict=True))
        if len(sentence.text) >= SHORTEST
        and (query is not None or place.speaker is None or _says_something(sentence.text))
    ]
    candidates = torch.tensor(long_enough or range(len(everything)))
    costs = [len(sentence.text.split()) if in_words else 1 for sentence in everything]
    rows = choose(
        scores[candidates], vectors.sentences[candidates], torch.tensor(costs)[candidates], budget
    )
    chosen = tuple(
        SummarySentence(everything[i], where[i], float(scores[i]))
        for i in sorted(candidates[rows].tolist())
    )
    return Summary(" ".join(one.sentence.text for one in chosen), chosen)


def _says_something(said: str) -> bool:
    words = {word for word in said.lower().split() if any(map(str.isalpha, word))}
    return len(words) >= FEWEST_WORDS_SAID


def choose(scores: Tensor, vectors: Tensor, costs: Tensor, budget: int) -> list[int]:
    """Choose rows of high score that differ and together cost no more than the budget.

    Args:
        scores: `(rows,)`.
        vectors: `(rows, dimension)`.
        costs: `(rows,)`.
        budget: what the rows may cost; if each alone costs more, the best is chosen.

    Returns:
        The rows, in the order of choice.
    """
    vectors = F.normalize(vectors, dim=-1)
    nearest = torch.zeros_like(scores)  # cosine with the closest of the chosen rows
    free = torch.ones_like(scores, dtype=torch.bool)
    chosen: list[int] = []
    left = budget
    while (fits := free & (costs <= left)).any():
        gain = scores - REDUNDANCY * nearest - (nearest > REPETITION).float()
        best = int(gain.masked_fill(~fits, -torch.inf).argmax())
        chosen.append(best)
        free[best] = False
        left -= int(costs[best])
        nearest = torch.maximum(nearest, vectors @ vectors[best])
    return chosen or [int(scores.argmax())]
