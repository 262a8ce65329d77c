"""Context: documents as a prompt of limited length, close where it matters and coarse elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
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
from foveate.tasks.closely import encode_closely
from foveate.tasks.cut import Floats, Ints, Mask, best_cut
from foveate.tasks.prompt import (
    Line,
    Part,
    documents_left_out,
    left_out,
    lines,
    outline,
    passage_text,
    passages,
    render,
    stretches,
)
from foveate.tasks.relevance import encode_query, relevance
from foveate.tasks.scorer import EncodedQuery
from foveate.tasks.summarize import importance
from foveate.tasks.tokens import DEFAULT_TOKENS, Counter, estimate_tokens, token_counter

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Chosen on twelve meetings of QMSum's validation part and on five documents each of the development
# parts of papers, PEPs, proposals and articles, whose headings were the queries; TEMPERATURE on all
# of that validation part and on 35 documents of the training parts of papers, PEPs and proposals;
# OWN on 16 meetings of QMSum's training part and 32 documents of those, PASSAGE_SHARE on ten of
# these meetings and ten PEPs.
HEADING = 0.02  # how closely a sentence is seen if only the heading of its section is shown
NEIGHBOURHOOD = 250  # tokens
OWN = 0.1  # what a sentence's own relevance weighs besides that of its neighbourhood
TEMPERATURE = 0.6  # of relevance, in standard deviations
GIST_TEMPERATURE = 0.04  # of how central sentences are
# Of 197 general questions of QMSum's training and validation parts, all but four are closer to one
# of these requests; of 1,332 specific ones, four are.
OVERVIEWS = (
    "Summarize the document.",
    "What is this text about?",
    "What are the main points?",
    "Give an overview of everything that is said here.",
    "What were the conclusions of the whole meeting?",
)
OVERVIEW_THRESHOLD = 0.5

PASSAGE_TOKENS = 60
PASSAGE_SHARE = 0.2  # of the budget, which a passage takes at most
LIKELY = 0.1  # share of the highest weight, below which sentences do not replace its sentence
OUTLINE_SHARE = 0.25  # of the budget, up to which the outline is always shown
_SENTENCE_TOKENS = 25  # of a sentence, on average
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
        sentence_idx: For each of them, the index of the sentence in that document.
        tokens: How many tokens the text has, at most the budget.
        seen: The objective that was maximized, between 0 and 1, see `context`.
    """

    text: str
    spans: dict[int, Span]
    document_idx: dict[int, int]
    sentence_idx: dict[int, int]
    tokens: int
    seen: float


def context(
    query: str | None,
    documents: Document | Sequence[Document],
    *,
    tokens: int = DEFAULT_TOKENS,
    tokenizer: "PreTrainedTokenizerBase | str | PathLike[str] | None" = None,
    model: Encoder | str | PathLike[str] | None = None,
    thorough: bool = False,
) -> Prompt:
    """Show documents to a language model, within a budget of tokens.

    Documents are trees of sections, passages and sentences. A passage is a few neighbouring
    sentences: some 60 tokens, or a fifth of the budget, or one sentence. A cut through the tree
    says what is seen: of a section, a count of its sentences; or its heading; or also some of its
    passages. Neighbouring sections that are together as short as a passage are one. Among the cuts
    that fit, this is the one with the highest

        F = Σ_s w(s) d(s),    Σ_s w(s) = 1

    over all sentences s, where d(s) is 1 if s is shown, 0.02 if only the heading of its section is,
    else 0. The weight w(s) says how likely a reader looks for s. Answers are stretches, of which
    single sentences may share no word with the query, so it follows mostly from what is said
    nearby:

        w = softmax((n / σ(n) + 0.1 r / σ(r)) / 0.6),    n(s) = Σ_t k(s, t) r(t) / Σ_t k(s, t)

    over the sentences t of the same section, with r(t), by which `foveate.search` ranks them, and
    k(s, t) = |t| exp(-x/250) for x tokens from the middle of s to that of t, which has |t|; σ is
    the standard deviation over all sentences, so that the scale of r does not matter. Sections
    whose titles repeat, such as turns under the names of their speakers, divide nothing: t may be
    in any of them, up to the next heading that tells something. Without a query, w is
    softmax(c / 0.04) with c of `foveate.tasks.summarize.importance`. A query that asks for an
    overview, such as "Summarize the meeting", counts as none: its `relative` cosine with one of
    `OVERVIEWS` is above 0.5.

    The optimum is exact, see `foveate.tasks.cut.best_cut`, for costs with a mark of what is left
    out after each heading and each passage. What is free because most of these are not needed is
    spent again, up to half a percent of the budget. Headings come first: those down to the deepest
    level at which they take at most a quarter of the budget are shown in any case, except where
    titles repeat, as is the title of a single document. Where there is no room for the sentence of
    the highest weight, none of less than a tenth of that is shown in its place.

    Args:
        query: What is looked for; None for a digest.
        documents: One document or a sequence.
        tokens: The budget.
        tokenizer: What counts tokens: a tokenizer of transformers, the name or path of a checkpoint
            that has one, or a `tokenizer.json`. By default they are estimated: one for every four
            bytes, somewhat more than language models need for prose in English.
        model: An encoder, or the name or path of its checkpoint; by default foveate's own model.
        thorough: With a query, see `foveate.search`.

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
        >>> prompt = context("What do cod eat?", sea, tokens=24)
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
    vectors = _encode(None if thorough else query, documents, encoder, tokens)
    weights = weigh(query, documents, vectors, parts, encoder)
    return fit(documents, parts, weights, tokens, count)


def _encode(
    query: str | None, documents: Sequence[Document], encoder: Encoder, tokens: int
) -> list[DocumentVectors]:
    """Encode documents, or what a query points at if it does not ask for an overview."""
    if query is not None:
        encoded = encode_query(query, documents[0].language, encoder)
        if not asks_for_overview(encoded, encoder):
            return encode_closely(encoded, documents, encoder, -(-tokens // _SENTENCE_TOKENS))
    return encoder.encode(documents)


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
            starts = [part.sentences.start for part in parts if not part.repeats]
            inside = [slice(*bounds) for bounds in pairwise([*starts, len(sizes)])]
            near = np.concatenate([_mean_nearby(scores[own], sizes[own]) for own in inside])
            return _softmax((_scaled(near) + OWN * _scaled(scores)) / TEMPERATURE)
    gists = [
        importance(document, its_vectors, encoder)
        for document, its_vectors in zip(documents, vectors, strict=True)
    ]
    return _softmax(torch.cat(gists).numpy() / GIST_TEMPERATURE)


def asks_for_overview(query: EncodedQuery, encoder: Encoder) -> bool:
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
        weights: w, `(sentences,)`; 0 for those that must not be shown.
        tokens: The budget.
        count: Counts tokens, see `foveate.tasks.tokens.token_counter`.

    Raises:
        ValueError: The budget is too small even for the title.
    """
    all_lines = lines(documents)
    prompt = _fit(documents, parts, all_lines, weights, tokens, count)
    inside = [i for part in parts for i in part.sentences]
    likeliest = max(inside, key=weights.__getitem__, default=-1)
    if likeliest < 0 or likeliest + 1 in prompt.spans:
        return prompt
    likely = weights * (weights >= LIKELY * weights[likeliest])
    return _fit(documents, parts, all_lines, likely, tokens, count)


def _fit(
    documents: Sequence[Document],
    parts: Sequence[Part],
    all_lines: Sequence[Line],
    weights: Floats,
    tokens: int,
    count: Counter,
) -> Prompt:
    tree = _tree(parts, weights, all_lines, tokens, count)
    is_required = tree.is_required
    budget = tokens - int(tree.costs[is_required].sum())
    if len(documents) > 1:
        budget -= count([documents_left_out(len(documents))])[0]
    node_costs = np.where(is_required, 0, tree.costs)
    best, most = None, -np.inf
    fitting, too_much = 0, None  # budgets
    while budget >= 0:
        is_open = best_cut(tree.gains, node_costs, tree.ends, budget) | is_required
        nodes = [tree.nodes[i] for i in np.flatnonzero(is_open)]
        if not nodes:
            break
        opened = {i for its, _ in nodes for i in its}
        shown = [i for _, its in nodes for i in its]
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
        is_required: Whether it is opened in any case.
        nodes: The documents and sections that it opens, and the sentences that it shows.
    """

    gains: Floats
    costs: Ints
    ends: Ints
    is_required: Mask
    nodes: list[tuple[Sequence[int], Sequence[int]]]


def _scaled(scores: Floats) -> Floats:
    """Divide scores by their standard deviation."""
    scaled: Floats = scores / max(scores.std(), 1e-5)  # r is rounded to that: less is no difference
    return scaled


def _softmax(scores: Floats) -> Floats:
    powers: Floats = np.exp(scores - scores.max())
    weights: Floats = powers / powers.sum()
    return weights


def _mean_nearby(scores: Floats, sizes: Floats) -> Floats:
    """Compute n of `context` for sentences that are neighbours.

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
    parts: Sequence[Part], weights: Floats, all_lines: Sequence[Line], tokens: int, count: Counter
) -> _Tree:
    [mark] = count([left_out(len(all_lines))])
    heading_costs = np.array(
        [cost and cost + mark for cost in count([one.heading for one in parts])]
    )
    is_required = _is_required(parts, heading_costs, tokens)
    sizes = estimate_tokens([line.text for line in all_lines])
    own = np.array([sum(sizes[i] for i in part.sentences) for part in parts])
    depths = np.array([part.depth for part in parts])
    stays_alone = is_required | (depths == 0) | np.append(depths[1:] > depths[:-1], False)
    limit = min(PASSAGE_TOKENS, tokens * PASSAGE_SHARE)
    nodes: list[tuple[Sequence[int], Sequence[int]]] = []  # parts and sentences
    gains: list[float] = []
    texts: list[str] = []
    ends: list[int] = []
    around: list[int] = []  # the nodes of the document and sections that are not complete
    for run in stretches(parts, np.where(stays_alone, np.inf, heading_costs + own), limit):
        first = parts[run[0]]
        for node in around[first.depth :]:
            ends[node] = len(ends)
        del around[first.depth :]
        inside = [[i for i in parts[idx].sentences if weights[i]] for idx in run]
        if len(run) == 1:
            around.append(len(ends))
            seen = HEADING if first.heading else 0.0
            gains.append(seen * weights[inside[0]].sum())
            texts.append(first.heading)
            nodes.append((run, ()))
            for passage in passages(inside[0], sizes, limit):
                gains.append((1 - seen) * weights[passage].sum())
                texts.append(passage_text(passage, all_lines))
                nodes.append(((), passage))
        else:
            gains.append(sum(weights[own].sum() for own in inside))
            written = [passage_text(own, all_lines) for own in inside]
            texts.append(
                "".join(parts[i].heading + text for i, text in zip(run, written, strict=True))
            )
            nodes.append((run, [i for own in inside for i in own]))
        ends += range(len(ends) + 1, len(nodes) + 1)
    for node in around:
        ends[node] = len(ends)
    return _Tree(
        np.array(gains),
        np.array([cost and cost + mark for cost in count(texts)]),
        np.array(ends),
        np.array([any(is_required[i] for i in opened) for opened, _ in nodes]),
        nodes,
    )


def _is_required(parts: Sequence[Part], costs: Ints, tokens: int) -> Mask:
    """Return which parts are opened in any case: those of the outline, as deep as it fits."""
    depths = np.array([part.depth for part in parts])
    tells = ~np.array([part.repeats for part in parts])
    of_depth = np.bincount(depths[tells], costs[tells])
    fitting = np.flatnonzero(of_depth.cumsum() <= tokens * OUTLINE_SHARE)
    title = 0 if (depths == 0).sum() == 1 else -1  # that of a single document is always shown
    required: Mask = tells & (depths <= fitting.max(initial=title))
    return required


def _prompt(
    text: str, tokens: int, seen: float, shown: Sequence[int], documents: Sequence[Document]
) -> Prompt:
    """Locate the sentences that are shown."""
    spans: dict[int, Span] = {}
    document_idx: dict[int, int] = {}
    sentence_idx: dict[int, int] = {}
    start = 0
    for idx, document in enumerate(documents):
        end = start + sum(section.num_sentences for section in document.sections)
        own = [i for i in shown if start <= i < end]
        spans |= zip((i + 1 for i in own), document.spans({i - start for i in own}), strict=True)
        document_idx |= dict.fromkeys((i + 1 for i in own), idx)
        sentence_idx |= {i + 1: i - start for i in own}
        start = end
    return Prompt(text, spans, document_idx, sentence_idx, tokens, seen)
