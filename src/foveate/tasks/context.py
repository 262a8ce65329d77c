"""Context: documents as a prompt of limited length, close where it matters and coarse elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from foveate.documents import Document, Span, as_documents
from foveate.inference import DocumentVectors, Encoder, as_encoder
from foveate.tasks.arguments import check_query
from foveate.tasks.cut import Floats, Ints, Mask, best_cut
from foveate.tasks.prompt import (
    Line,
    Part,
    documents_left_out,
    left_out,
    lines,
    outline,
    render,
)
from foveate.tasks.relevance import relevance
from foveate.tasks.summarize import gist_candidates, importance
from foveate.tasks.tokens import DEFAULT_TOKENS, Counter, token_counter

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# How closely a sentence is seen if this is what is shown, and the weights in w. Chosen on twelve
# meetings of QMSum's validation part. There, with 1,000, 2,000 and 4,000 tokens, the prompt holds
# 30, 54 and 76 % of the sentences that people marked as the answer; the best chunks of 190 words by
# BM25 hold 29, 48 and 70 %. The optimum is flat: passages of 250 to 350 tokens differ by 0.5 on
# average.
HEADING = 0.02  # the heading of its section
BEST = 0.1  # the best sentence of its passage
SALIENCE_SHARE = 0.1
TEMPERATURE = 0.04

OUTLINE_SHARE = 0.25  # of the budget, up to which the outline is always shown


@dataclass(frozen=True, slots=True)
class Prompt:
    """Documents at most as long as a budget.

    Attributes:
        text: The prompt, in Markdown. Each sentence follows its number in brackets; `[… 7]` stands
            for seven sentences that are left out there.
        spans: The place of each sentence in it by its number, in order. Sentences are numbered
            from 1 through all documents, whether they are shown or not.
        document_idx: For each of these numbers, the index of its document.
        tokens: How many tokens the text has, at most the budget.
        seen: The objective that was maximized, between 0 and 1, see `context`.
    """

    text: str
    spans: dict[int, Span]
    document_idx: dict[int, int]
    tokens: int
    seen: float


def context(
    query: str | None,
    documents: Document | Sequence[Document],
    *,
    tokens: int = DEFAULT_TOKENS,
    tokenizer: "PreTrainedTokenizerBase | str | PathLike[str] | None" = None,
    model: Encoder | str | PathLike[str] | None = None,
) -> Prompt:
    """Show documents to a language model, within a budget of tokens.

    Documents are trees of sections, passages (neighbouring sentences of a section, some 300 tokens)
    and sentences. A cut through the tree says how closely each part is seen. Of a section, only a
    count is shown; or its heading; or also, of each of its passages, nothing, the best sentence, or
    all. Among the cuts that fit, this is the one with the highest

        F = Σ_s w(s) d(s),    Σ_s w(s) = 1

    over all sentences s, where d(s) is how closely s is seen: 1 if it is shown, 0.1 if only the
    best sentence of its passage is, 0.02 if only the heading of its section is, else 0. The weight
    w(s) says how likely a reader looks for s, by relevance plus salience:

        w = 0.9 softmax((r + r_p) / 0.08) + 0.1 softmax(c / 0.04)

    with the sentence's relevance r, by which `foveate.search` ranks it, the highest relevance r_p
    in its passage, and c of `foveate.tasks.summarize.importance`. Without a query, w is
    softmax(c / 0.04) over the sentences that may appear in a summary, and 0 for others.

    The optimum is exact, see `foveate.tasks.cut.best_cut`. Tokens are counted piece by piece, with
    a mark of what is left out after each heading and each passage, so the prompt may turn out a few
    per cent shorter than the budget. Headings come first: those down to the deepest level at which
    they take at most a quarter of the budget are shown in any case, as is the title of a single
    document.

    Args:
        query: What is looked for; None for a digest.
        documents: One document or a sequence.
        tokens: The budget.
        tokenizer: What counts tokens: a tokenizer of transformers, the name or path of a checkpoint
            that has one, or a `tokenizer.json`. By default they are estimated: one for every four
            bytes, somewhat more than language models need for prose in English.
        model: An encoder, or the name or path of its checkpoint; by default foveate's own model.

    Returns:
        The prompt. The same arguments yield the same prompt.

    Raises:
        OSError: There is no such tokenizer or model.
        ValueError: The query is empty, there are no documents, or the budget is too small even for
            the titles.

    Example:
        >>> from foveate import Document, context
        >>> sea = Document.from_sections("Sea", [
        ...     ("Fish", "Cod swim in cold seas. They eat herring."),
        ...     ("Salt", "Salt is white. It is dug from old seas, and traded by weight."),
        ... ])
        >>> prompt = context("What do cod eat?", sea, tokens=30)
        >>> print(prompt.text)
        # Sea
        <BLANKLINE>
        ## Fish
        [1] Cod swim in cold seas. [2] They eat herring.
        <BLANKLINE>
        ## Salt [… 2]
        >>> prompt.spans[2].text, prompt.tokens
        ('They eat herring.', 20)
    """
    if query is not None:
        check_query(query)
    documents = as_documents(documents)
    if not documents:
        raise ValueError("there is no document to show: give at least one")
    count = token_counter(tokenizer)
    encoder = as_encoder(model)
    parts = outline(documents)
    weights = weigh(query, documents, encoder.encode(documents), parts, encoder)
    return fit(documents, parts, weights, tokens, count)


def weigh(
    query: str | None,
    documents: Sequence[Document],
    vectors: Sequence[DocumentVectors],
    parts: Sequence[Part],
    encoder: Encoder,
) -> Floats:
    """Compute w of `context`: `(sentences,)`, counted over all documents.

    Args:
        query: What is looked for; None for a digest.
        documents: The documents.
        vectors: Their vectors.
        parts: Their `outline`.
        encoder: The encoder that made them.
    """
    gists = []
    for document, its_vectors in zip(documents, vectors, strict=True):
        scores = importance(document, its_vectors, encoder)
        if query is None:
            is_candidate = torch.zeros(len(scores), dtype=torch.bool)
            is_candidate[gist_candidates(document, its_vectors)] = True
            scores = scores.masked_fill(~is_candidate, -torch.inf)
        gists.append(scores)
    salience = _softmax(torch.cat(gists))
    if query is None:
        return salience
    scores = torch.cat(relevance(query, documents, vectors, encoder))
    sizes = torch.tensor([len(passage) for part in parts for passage in part.passages])
    highest = torch.segment_reduce(scores, "max", lengths=sizes).repeat_interleave(sizes)
    return (1 - SALIENCE_SHARE) * _softmax((scores + highest) / 2) + SALIENCE_SHARE * salience


def fit(
    documents: Sequence[Document],
    parts: Sequence[Part],
    weights: Floats,
    tokens: int,
    count: Counter,
) -> Prompt:
    """Show documents whose sentences have weights; see `context`.

    Args:
        documents: The documents.
        parts: Their `outline`.
        weights: w, `(sentences,)`, at least 0.
        tokens: The budget.
        count: Counts tokens, see `foveate.tasks.tokens.token_counter`.

    Raises:
        ValueError: The budget is too small even for the title.
    """
    all_lines = lines(documents)
    tree = _tree(parts, weights, _count(parts, all_lines, count))
    is_required = _is_required(parts, tree, tokens, is_single=len(documents) == 1)
    budget = tokens - int(tree.costs[is_required].sum())
    if len(documents) > 1:
        budget -= count([documents_left_out(len(documents))])[0]
    node_costs = np.where(is_required, 0, tree.costs)
    while budget >= 0:
        is_open = best_cut(tree.gains, node_costs, tree.ends, budget) | is_required
        opened = set(tree.part[is_open & tree.is_heading].tolist())
        shown = sorted(i for node in np.flatnonzero(is_open) for i in tree.sentences[node])
        if not opened:
            break
        text = render(parts, all_lines, opened, set(shown))
        [used] = count([text])
        if used <= tokens:
            return _prompt(text, used, float(tree.gains[is_open].sum()), documents, shown)
        budget -= used - tokens  # tokenizers need not be additive
    raise ValueError(f"{tokens:,} tokens are too few even for the title: give a larger budget")


class _Costs(NamedTuple):
    """Tokens of the headings, of the sentences, of these with their speakers, and of `[… 7]`."""

    headings: Ints
    sentences: Ints
    spoken: Ints
    mark: int


class _Tree(NamedTuple):
    """The nodes, in preorder, as `best_cut` takes them.

    Attributes:
        gains: By how much F grows if the node is opened.
        costs: Its tokens.
        ends: The index just past the last node below it.
        part: Index of its document or section.
        is_heading: Whether it stands for that, or for sentences in it.
        sentences: The sentences that it shows.
    """

    gains: Floats
    costs: Ints
    ends: Ints
    part: Ints
    is_heading: Mask
    sentences: list[Sequence[int]]


def _count(parts: Sequence[Part], all_lines: Sequence[Line], count: Counter) -> _Costs:
    sentences = np.array(count([f"\n{line.number} {line.text}" for line in all_lines]))
    speakers = list({line.speaker for line in all_lines})
    of_speakers = dict(zip(speakers, count(speakers), strict=True))
    return _Costs(
        np.array(count([part.heading for part in parts])),
        sentences,
        sentences + np.array([of_speakers[line.speaker] for line in all_lines]),
        count([left_out(len(all_lines))])[0],
    )


def _softmax(scores: Tensor) -> Floats:
    weights: Floats = (scores.double() / TEMPERATURE).softmax(0).numpy()
    return weights


def _tree(parts: Sequence[Part], weights: Floats, costs: _Costs) -> _Tree:
    gains: list[float] = []
    node_costs: list[int] = []
    ends: list[int] = []
    part: list[int] = []
    headings: list[int] = []
    sentences: list[Sequence[int]] = []

    def add(idx: int, gain: float, cost: int, shown: Sequence[int], size: int) -> None:
        gains.append(gain)
        node_costs.append(cost)
        ends.append(len(ends) + size)
        part.append(idx)
        sentences.append(shown)

    around: list[int] = []  # the nodes of the document and sections that are not complete
    for idx, one in enumerate(parts):
        for node in around[one.depth :]:
            ends[node] = len(ends)
        del around[one.depth :]
        around.append(len(ends))
        line = HEADING if one.heading else 0.0
        own = weights[one.sentences.start : one.sentences.stop]
        cost = int(costs.headings[idx]) + costs.mark if one.heading else 0
        add(idx, line * float(own.sum()), cost, (), 1)
        headings.append(around[-1])
        for passage in one.passages:
            inside = weights[list(passage)]
            best = passage[int(inside.argmax())]
            others = [i for i in passage if i != best]
            rest = float(inside.sum() - weights[best])
            gain = (1 - line) * float(weights[best]) + (BEST - line) * rest
            add(idx, gain, int(costs.spoken[best]) + costs.mark, (best,), 1 + bool(others))
            if others:
                add(idx, (1 - BEST) * rest, int(costs.spoken[others].sum()), others, 1)
    for node in around:
        ends[node] = len(ends)
    is_heading = np.zeros(len(ends), bool)
    is_heading[headings] = True
    return _Tree(
        np.array(gains),
        np.array(node_costs),
        np.array(ends),
        np.array(part),
        is_heading,
        sentences,
    )


def _is_required(parts: Sequence[Part], tree: _Tree, tokens: int, *, is_single: bool) -> Mask:
    """Return which nodes are opened in any case: those of the outline, as deep as it fits."""
    depths = np.array([part.depth for part in parts])[tree.part]
    depth = 0 if is_single else -1
    of_depth = np.bincount(depths[tree.is_heading], tree.costs[tree.is_heading])
    fitting = np.flatnonzero(of_depth.cumsum() <= tokens * OUTLINE_SHARE)
    return tree.is_heading & (depths <= max(depth, int(fitting.max(initial=-1))))


def _prompt(
    text: str, tokens: int, seen: float, documents: Sequence[Document], shown: Sequence[int]
) -> Prompt:
    """Locate the sentences that are shown."""
    spans: dict[int, Span] = {}
    document_idx: dict[int, int] = {}
    start = 0
    for idx, document in enumerate(documents):
        end = start + sum(section.num_sentences for section in document.sections)
        own = [i for i in shown if start <= i < end]
        spans |= zip((i + 1 for i in own), document.spans({i - start for i in own}), strict=True)
        document_idx |= dict.fromkeys((i + 1 for i in own), idx)
        start = end
    return Prompt(text, spans, document_idx, tokens, seen)
