"""Context: documents as a prompt of limited length, close where it matters and coarse elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import torch

from foveate.documents import Document, Span, as_documents
from foveate.inference import DocumentVectors, Encoder, as_encoder
from foveate.tasks.arguments import check_query
from foveate.tasks.centrality import unit
from foveate.tasks.cut import Floats, Ints, Mask, best_cut
from foveate.tasks.prompt import (
    Line,
    Part,
    documents_left_out,
    left_out,
    lines,
    outline,
    passage_text,
    render,
)
from foveate.tasks.relevance import encode_query, relevance
from foveate.tasks.scorer import Query
from foveate.tasks.summarize import importance
from foveate.tasks.tokens import DEFAULT_TOKENS, Counter, estimate_tokens, token_counter

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Chosen on twelve meetings of QMSum's validation part and on five documents each of the development
# parts of papers, PEPs, proposals and articles, whose headings were the queries; TEMPERATURE on all
# of that validation part and on 35 documents of the training parts of papers, PEPs and proposals.
HEADING = 0.02  # how closely a sentence is seen if only the heading of its section is shown
NEIGHBOURHOOD = 250  # tokens
TEMPERATURE = 0.6  # of relevance, in standard deviations
GIST_TEMPERATURE = 0.04  # of how central sentences are
# Of 95 general questions of QMSum's training and validation parts, all but three are closer to one
# of these requests; of 567 specific ones, three are.
OVERVIEWS = (
    "Summarize the document.",
    "What is this text about?",
    "What are the main points?",
    "Give an overview of everything that is said here.",
    "What were the conclusions of the whole meeting?",
)
OVERVIEW_THRESHOLD = 0.6

OUTLINE_SHARE = 0.25  # of the budget, up to which the outline is always shown
PRECISION = 0.005  # share of the budget that may be left although more would fit


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

    Documents are trees of sections, passages (some 60 tokens: a few neighbouring sentences) and
    sentences. A cut through the tree says what is seen: of a section, a count of its sentences; or
    its heading; or also some of its passages. Among the cuts that fit, this is the one with the
    highest

        F = Σ_s w(s) d(s),    Σ_s w(s) = 1

    over all sentences s, where d(s) is 1 if s is shown, 0.02 if only the heading of its section is,
    else 0. The weight w(s) says how likely a reader looks for s. Answers are stretches, of which
    single sentences may share no word with the query, so it follows from all that is said nearby:

        w = softmax(n / (0.6 σ)),    n(s) = Σ_t k(s, t) r(t) / Σ_t k(s, t)

    over the sentences t of the same section, with r(t), by which `foveate.search` ranks them, and
    k(s, t) = |t| exp(-x/250) for x tokens from the middle of s to that of t, which has |t|; σ is
    the standard deviation of n over all sentences, so that the scale of r does not matter. Without
    a query, w is softmax(c / 0.04) with c of `foveate.tasks.summarize.importance`. A query that
    asks for an overview, such as "Summarize the meeting", counts as none: its `relative` cosine
    with one of `OVERVIEWS` is above 0.6.

    The optimum is exact, see `foveate.tasks.cut.best_cut`, for costs with a mark of what is left
    out after each heading and each passage. What is free because most of these are not needed is
    spent again, up to half a percent of the budget. Headings come first: those down to the deepest
    level at which they take at most a quarter of the budget are shown in any case, as is the title
    of a single document.

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
    if query is not None:
        encoded = encode_query(query, documents[0].language, encoder)
        if not asks_for_overview(encoded, encoder):
            scores = torch.cat(relevance(encoded, documents, vectors)).numpy()
            texts = [f" {sentence.text}" for one in documents for sentence in one.sentences()]
            sizes = np.array(estimate_tokens(texts), np.float64)
            inside = [slice(part.sentences.start, part.sentences.stop) for part in parts]
            near = np.concatenate([_mean_nearby(scores[own], sizes[own]) for own in inside])
            spread = max(near.std(), 1e-5)  # r is rounded to that: less is no difference
            return _softmax(near / (TEMPERATURE * spread))
    gists = [
        importance(document, its_vectors, encoder)
        for document, its_vectors in zip(documents, vectors, strict=True)
    ]
    return _softmax(torch.cat(gists).numpy() / GIST_TEMPERATURE)


def asks_for_overview(query: Query, encoder: Encoder) -> bool:
    """Return whether a query asks what a whole document says.

    Args:
        query: The query, encoded by the encoder.
        encoder: The encoder.

    Example:
        >>> from foveate import Encoder
        >>> from foveate.tasks.relevance import encode_query
        >>> encoder = Encoder.from_pretrained()
        >>> queries = [encode_query(x, "en", encoder) for x in ("Summarize it.", "Who eats cod?")]
        >>> [asks_for_overview(query, encoder) for query in queries]
        [True, False]
    """
    if encoder not in _overviews:
        _overviews[encoder] = unit(encoder.encode_queries(OVERVIEWS)).numpy()
    return bool((query.cosines(_overviews[encoder]) > OVERVIEW_THRESHOLD).any())


_overviews: WeakKeyDictionary[Encoder, npt.NDArray[np.float32]] = WeakKeyDictionary()


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
    tree = _tree(parts, weights, all_lines, count)
    is_required = _is_required(parts, tree, tokens, is_single=len(documents) == 1)
    budget = tokens - int(tree.costs[is_required].sum())
    if len(documents) > 1:
        budget -= count([documents_left_out(len(documents))])[0]
    node_costs = np.where(is_required, 0, tree.costs)
    best, most = None, -np.inf
    fitting, too_much = 0, None  # budgets
    while budget >= 0:
        is_open = best_cut(tree.gains, node_costs, tree.ends, budget) | is_required
        opened = set(tree.part[is_open & tree.is_heading].tolist())
        if not opened:
            break
        shown = sorted(i for node in np.flatnonzero(is_open) for i in tree.sentences[node])
        text = render(parts, all_lines, opened, set(shown))
        [used] = count([text])
        seen = float(tree.gains[is_open].sum())
        is_better = used <= tokens and seen > most
        if is_better:
            best, most = (text, used, seen, shown), seen
        if used > tokens:
            too_much = budget
        else:
            fitting = budget
        if best is None or (is_better and too_much is None and used < tokens):
            budget += tokens - used  # what marks did not take; or tokenizers are not additive
        elif too_much is not None and too_much - fitting > max(1, tokens * PRECISION):
            budget = (fitting + too_much) // 2
        else:
            break
    if best is None:
        raise ValueError(f"{tokens:,} tokens are too few even for the title: give a larger budget")
    return _prompt(*best, documents)


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


def _softmax(scores: Floats) -> Floats:
    powers: Floats = np.exp(scores - scores.max())
    weights: Floats = powers / powers.sum()
    return weights


def _mean_nearby(scores: Floats, sizes: Floats) -> Floats:
    """Compute n of `context` for the sentences of a section.

    Args:
        scores: r, `(sentences,)`.
        sizes: Their tokens.
    """
    steps = (sizes[1:] + sizes[:-1]) / 2  # from the middle of a sentence to that of the next
    decay = np.exp(-steps / NEIGHBOURHOOD)

    def sum_nearby(values: Floats) -> Floats:
        after = _decaying_sums(values[::-1], decay[::-1])[::-1]
        total: Floats = _decaying_sums(values, decay) + after - values
        return total

    means: Floats = sum_nearby(scores * sizes) / sum_nearby(sizes)
    return means


def _decaying_sums(values: Floats, decay: Floats) -> Floats:
    """Add to each value the sum before it times the decay in between."""
    sums = []
    total = 0.0
    for value, factor in zip(values.tolist(), [0.0, *decay.tolist()], strict=False):
        total = factor * total + value
        sums.append(total)
    return np.array(sums)


def _tree(
    parts: Sequence[Part], weights: Floats, all_lines: Sequence[Line], count: Counter
) -> _Tree:
    gains: list[float] = []
    texts: list[str] = []
    ends: list[int] = []
    part_idx: list[int] = []
    sentences: list[Sequence[int]] = []
    around: list[int] = []  # the nodes of the document and sections that are not complete
    for idx, part in enumerate(parts):
        for node in around[part.depth :]:
            ends[node] = len(ends)
        del around[part.depth :]
        around.append(len(ends))
        seen = HEADING if part.heading else 0.0
        inside = weights[part.sentences.start : part.sentences.stop]
        gains += [seen * inside.sum()]
        gains += [(1 - seen) * weights[list(passage)].sum() for passage in part.passages]
        texts += [part.heading, *(passage_text(one, all_lines) for one in part.passages)]
        sentences += [(), *part.passages]
        part_idx += [idx] * (1 + len(part.passages))
        ends += range(len(ends) + 1, len(gains) + 1)
    for node in around:
        ends[node] = len(ends)
    [mark] = count([left_out(len(all_lines))])
    return _Tree(
        np.array(gains),
        np.array(count(texts)) + np.array([mark if text else 0 for text in texts]),
        np.array(ends),
        np.array(part_idx),
        np.array([not shown for shown in sentences]),
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
    text: str, tokens: int, seen: float, shown: Sequence[int], documents: Sequence[Document]
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
