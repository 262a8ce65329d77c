"""Retrieval within and across documents, and salience: the objective of TreeBert.

Only documents are needed. Queries are made from what is left out of a document before the model
reads it: its title and headings, and some of its sentences. Queries that come with an example, and
summaries, are used as well.
"""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoModel, Trainer

from foveate.data import Example
from foveate.preprocessing import DocumentProcessor, Features, TreeBertProcessor, pack_passages
from foveate.preprocessing.collate import fill_packs
from foveate.preprocessing.tree import NODE_TYPES
from foveate.training.gradient_cache import Vectors, cached_loss

from .base import Objective
from .self_supervision import read

_COLUMNS = ("input_ids", "position_ids", "anchor_ids", "anchor_parents", "anchor_kinds")


class RetrievalTrainer(Trainer):
    """A `Trainer` for `Retrieval`, whose loss compares more text than fits in memory at once.

    Args:
        objective: The objective.
        arguments: Arguments of `Trainer`.
        options: Arguments of `Trainer` by name.

    Raises:
        ValueError: There are several processes.
    """

    def __init__(self, objective: "Retrieval", *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if self.args.world_size > 1:  # processes would have different numbers of chunks
            raise ValueError("the retrieval objective trains on one device: start one process")
        self.objective: Retrieval = objective
        self.can_return_loss = True  # or evaluation would call the model with a whole batch
        assert self.model is not None
        self.teacher = deepcopy(self.model).eval().requires_grad_(False)

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """Compute the loss of a batch of `Retrieval.collate`."""
        queries, documents = inputs["queries"], inputs["documents"]
        targets = dict(inputs["targets"])
        if self.objective.distillation:
            with torch.no_grad():
                targets["teacher"] = torch.cat([_encode(self.teacher, x)[0] for x in queries])
        loss = cached_loss(
            partial(_encode, model),
            [*queries, *documents],
            lambda vectors: self.objective.loss(
                vectors[: len(queries)], vectors[len(queries) :], targets
            ),
        )
        return (loss, {}) if return_outputs else loss


def _encode(model: Any, chunk: dict[str, Any]) -> Vectors:
    """Encode packed passages: the vectors and salience of anchors, and the vectors of tokens."""
    output = model(**chunk)
    found = output.embeddings, output.salience
    return found if output.token_vectors is None else (*found, output.token_vectors)


@dataclass(frozen=True)
class Retrieval(Objective):
    """Train vectors by which queries find sentences, sections and documents, and salience.

    For a query q and a positive p among candidates, with cosines divided by the temperature,

        l(q, p) = -log(e^⟨q, p⟩ / (e^⟨q, p⟩ + Σ_n e^⟨q, n⟩))

    over all candidates n that are not positives of q. The loss of a query with several positives
    is half the mean of l over them and half that of all of them as one (the sum of e^⟨q, p⟩). If
    the model has vectors of tokens, sentences are found by these, too, see `late_interaction`.
    Documents that ask the same query, and copies of these, are no negatives: what they say may well
    answer it.

    Queries of an example: headings, which are left out of the document, for the sentences and the
    section below them; thinned sentences, for themselves or, if they are left out, for their
    neighbours; the example's own queries for their sentences; and the title, sentences left out and
    sentences of a summary for the document. If there is a summary, the document's abstract is left
    out every other time that it is read.

    Args:
        temperature: The divisor of cosines.
        in_document: Weight of the loss among the other sentences and sections of the document.
        across_documents: Weight of the loss among the sentences and sections of other documents.
        tokens: Weight of the loss among the other sentences of the document by vectors of tokens.
        token_temperature: The divisor of these scores.
        documents: Weight of the loss among documents, by their vectors and by their best sentences.
        distillation: Weight of `distillation_loss` between the vectors of queries and those that
            the model gave before the training, so that isolated sentences keep theirs.
        salience: Weight of the cross-entropy between the salience of a document's sentences and
            the sentences that make the best summary.
        max_queries: Largest number of queries of each kind that are made from a document.
        max_given_queries: Largest number of an example's own queries.
        chunk_tokens: Tokens that are encoded at once.
    """

    auto_class: ClassVar[Any] = AutoModel
    trainer_class: ClassVar[Any] = RetrievalTrainer

    temperature: float = 0.05
    in_document: float = 1.0
    across_documents: float = 1.0
    tokens: float = 1.0
    token_temperature: float = 0.02
    documents: float = 1.0
    distillation: float = 4.0
    salience: float = 0.3
    max_queries: int = 8
    max_given_queries: int = 24
    chunk_tokens: int = 65536

    def __post_init__(self) -> None:
        for name in ("temperature", "token_temperature"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)}")
        weights = ("in_document", "across_documents", "tokens", "documents")
        for name in (*weights, "distillation", "salience"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be at least 0, got {getattr(self, name)}")
        for name in ("max_queries", "max_given_queries", "chunk_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")

    def features(
        self, processor: DocumentProcessor, example: Example, generator: torch.Generator
    ) -> list[Features]:
        """Make passages of a document, its queries, and their targets.

        Returns:
            Columns of the document, and those of the queries with `query_` before their names;
            `is_candidate` and `is_salient` `(anchors,)`; `targets` `(3, n)`: a query, an anchor
            that it should find, and the kind of that anchor; `text_key` `(1,)` and `query_keys`
            `(queries,)`: numbers that are equal for equal documents and queries.

        Raises:
            ValueError: The processor is not TreeBert's, or the document has no text.
        """
        if not isinstance(processor, TreeBertProcessor):
            raise ValueError("the retrieval objective trains TreeBert: choose a model of this type")
        numbers = self.max_queries, self.max_given_queries
        reading = read(example, processor.levels, generator, *numbers)
        anchors = reading.anchors
        document, owners = processor.tree(anchors)
        first = _first_indices(owners)
        texts = [query.text for query in reading.queries]
        query_owners, pieces = processor.pieces(texts)
        first_piece = _first_indices(query_owners)
        queries = processor.forest([pieces[first_piece[i]] for i in range(len(texts))])
        targets = [
            (query_idx, first[anchor], NODE_TYPES[anchors[anchor].kind])
            for query_idx, query in enumerate(reading.queries)
            for anchor in query.finds
        ]
        is_candidate = [anchors[i].sentence_idx is not None for i in owners]
        return [
            {
                **document,
                **{f"query_{name}": column for name, column in queries.items()},
                "is_candidate": torch.tensor(is_candidate),
                "is_salient": torch.tensor([i in reading.salient for i in owners]),
                "targets": torch.tensor(targets, dtype=torch.long).view(-1, 3).T,
                "text_key": torch.tensor([_key(one.text for one in example.document.sentences())]),
                "query_keys": torch.tensor([_key([text]) for text in texts], dtype=torch.long),
            }
        ]

    def collate(self, processor: DocumentProcessor, features: Sequence[Features]) -> dict[str, Any]:
        """Pack documents and queries into chunks, and number their anchors consecutively.

        Returns:
            `documents` and `queries`, lists of packed inputs; and `targets`: `document` and
            `query_document`, the document of each anchor and query, `kind`, `is_candidate` and
            `is_salient` of each anchor, `query`, `anchor` and `target_kind` of each pair,
            `is_other` `(queries, documents)`, which documents are negatives of a query, and
            `token_anchor` and `token_query`, the anchor or query that each token belongs to.
        """
        documents, queries = (
            [{name: one[f"{prefix}{name}"] for name in _COLUMNS} for one in features]
            for prefix in ("", "query_")
        )
        num_anchors, num_queries = (
            torch.tensor([len(one["anchor_kinds"]) for one in inputs])
            for inputs in (documents, queries)
        )
        document = torch.arange(len(features))
        first_anchor, first_query = (x.cumsum(0) - x for x in (num_anchors, num_queries))
        offsets = torch.stack([first_query, first_anchor, torch.zeros_like(first_query)])
        pairs = torch.cat(
            [one["targets"] + offsets[:, i, None] for i, one in enumerate(features)], dim=1
        )
        return {
            "documents": self._chunks(documents),
            "queries": self._chunks(queries),
            "targets": {
                "document": document.repeat_interleave(num_anchors),
                "query_document": document.repeat_interleave(num_queries),
                "kind": torch.cat([one["anchor_kinds"] for one in features]),
                "is_candidate": torch.cat([one["is_candidate"] for one in features]),
                "is_salient": torch.cat([one["is_salient"] for one in features]),
                "query": pairs[0],
                "anchor": pairs[1],
                "target_kind": pairs[2],
                "is_other": _others(features),
                "token_anchor": _owners_of_tokens(documents),
                "token_query": _owners_of_tokens(queries),
            },
        }

    def _chunks(self, inputs: Sequence[Features]) -> list[Features]:
        lengths = [len(one["input_ids"]) for one in inputs]
        some = [i for i, length in enumerate(lengths) if length]
        packs = fill_packs(some, lengths, self.chunk_tokens)
        return [pack_passages([inputs[i] for i in pack]) for pack in packs]

    def loss(
        self, queries: Sequence[Vectors], documents: Sequence[Vectors], targets: Features
    ) -> Tensor:
        """Compute the weighted sum of all losses.

        Args:
            queries: The vectors `(queries, dimension)` of each chunk of queries, any salience, and
                the vectors `(tokens, token_size)` of tokens, if the model has them.
            documents: The vectors `(anchors, dimension)`, the salience `(anchors,)` and the vectors
                of tokens of each chunk of documents.
            targets: See `collate`; and, to distil, `teacher` `(queries, dimension)`.
        """
        vectors = torch.cat([chunk[0] for chunk in documents])
        salience = torch.cat([chunk[1] for chunk in documents])
        total = self.salience * salience_loss(salience, targets)
        if not queries:
            return total
        query_vectors = torch.cat([chunk[0] for chunk in queries])
        if "teacher" in targets:
            total = total + self.distillation * distillation_loss(query_vectors, targets["teacher"])
        candidates = {
            "sentence": targets["is_candidate"],
            "section": targets["kind"] == NODE_TYPES["section"],
            "document": targets["kind"] == NODE_TYPES["document"],
        }
        for kind, is_candidate in candidates.items():
            is_pair = targets["target_kind"] == NODE_TYPES[kind]
            if not is_pair.any():
                continue
            query, pair_query = targets["query"][is_pair].unique(return_inverse=True)
            rows = is_candidate.nonzero()[:, 0]
            column = is_candidate.cumsum(0) - 1  # of each candidate
            scores = query_vectors[query] @ vectors[rows].T / self.temperature
            pairs = pair_query, column[targets["anchor"][is_pair]]
            of_query, of_row = targets["query_document"][query], targets["document"][rows]
            is_own = of_query[:, None] == of_row
            is_other = targets["is_other"][query[:, None], of_row]
            if kind == "document":
                total = total + self.documents * contrastive_loss(scores, pairs, is_other)
                continue
            total = (
                total
                + self.in_document * contrastive_loss(scores, pairs, is_own)
                + self.across_documents * contrastive_loss(scores, pairs, is_other)
            )
        total = total + self.documents * self._best_sentence_loss(query_vectors, vectors, targets)
        if self.tokens and len(queries[0]) == 3:
            of_queries, of_documents = (
                torch.cat([chunk[2] for chunk in chunks]) for chunks in (queries, documents)
            )
            total = total + self.tokens * self._token_loss(of_queries, of_documents, targets)
        return total

    def _token_loss(self, queries: Tensor, documents: Tensor, targets: Features) -> Tensor:
        """Compute the loss of finding sentences among those of their document word by word.

        Args:
            queries: `(tokens, token_size)`, the vectors of the tokens of all queries.
            documents: The same of all documents.
            targets: See `collate`.
        """
        is_pair = targets["target_kind"] == NODE_TYPES["sentence"]
        query, anchor = targets["query"][is_pair], targets["anchor"][is_pair]
        finds = torch.zeros_like(targets["query_document"], dtype=torch.bool)
        finds[query] = True
        token_query, token_anchor = targets["token_query"], targets["token_anchor"]
        total = queries.new_zeros(())
        for document in targets["query_document"][query].unique().tolist():
            is_asked = finds & (targets["query_document"] == document)
            is_own = targets["is_candidate"] & (targets["document"] == document)
            row, column = is_asked.cumsum(0) - 1, is_own.cumsum(0) - 1
            asks, says = is_asked[token_query], is_own[token_anchor]
            scores = late_interaction(
                queries[asks], row[token_query[asks]], documents[says], column[token_anchor[says]]
            )
            pairs = is_asked[query]
            positives = row[query[pairs]], column[anchor[pairs]]
            others = torch.ones_like(scores, dtype=torch.bool)
            loss = contrastive_loss(scores / self.token_temperature, positives, others)
            total = total + loss * len(scores)
        return total / finds.sum().clamp(min=1)

    def _best_sentence_loss(self, queries: Tensor, vectors: Tensor, targets: Features) -> Tensor:
        """Compute the loss of finding documents by their sentence closest to the query."""
        is_pair = targets["target_kind"] == NODE_TYPES["document"]
        query = targets["query"][is_pair]
        rows = targets["is_candidate"].nonzero()[:, 0]
        if not len(query) or not len(rows):
            return vectors.new_zeros(())
        scores = queries[query] @ vectors[rows].T / self.temperature
        of_row, own = targets["document"][rows], targets["query_document"][query]
        counts = targets["is_other"][query].scatter(1, own[:, None], True)
        nearest = scores.new_full(counts.shape, -1 / self.temperature)
        nearest = nearest.scatter_reduce(1, of_row.expand_as(scores), scores, "amax")
        return F.cross_entropy(nearest.masked_fill(~counts, -torch.inf), own)


def _key(texts: Iterable[str]) -> int:
    """Return a number below 2^56 that is the same for the same texts, in every process."""
    return int.from_bytes(blake2b("\n".join(texts).encode(), digest_size=7).digest(), "big")


def _others(features: Sequence[Features]) -> Tensor:
    """Return which documents neither ask a query nor are copies of one that does.

    Returns:
        `(queries, documents)` bool.
    """
    key = torch.cat([one["text_key"] for one in features])
    queries, query = torch.cat([one["query_keys"] for one in features]).unique(return_inverse=True)
    owner = torch.arange(len(features)).repeat_interleave(
        torch.tensor([len(one["query_keys"]) for one in features])
    )
    asks = torch.zeros(len(queries), len(features), dtype=torch.bool)
    asks[query, owner] = True
    is_copy = key[:, None] == key
    return ~(asks.float() @ is_copy.float()).bool()[query]


def _owners_of_tokens(inputs: Sequence[Features]) -> Tensor:
    """Return the anchor that each token belongs to, all tokens but [CLS] and all anchors in order.

    Args:
        inputs: Documents, or queries.
    """
    anchor_ids = pack_passages(inputs)["anchor_ids"]
    return anchor_ids[anchor_ids >= 0]


def late_interaction(
    queries: Tensor, query_idx: Tensor, tokens: Tensor, sentence_idx: Tensor
) -> Tensor:
    """Score sentences by the tokens of queries: the mean of each one's best token in the sentence.

    Args:
        queries: `(query tokens, token_size)`, of unit length.
        query_idx: `(query tokens,)`, which query each belongs to; each has at least one.
        tokens: `(tokens, token_size)`, of unit length.
        sentence_idx: `(tokens,)`, which sentence each belongs to; each has at least one.

    Returns:
        `(queries, sentences)`, between -1 and 1.
    """
    num_queries, num_sentences = (int(index.max()) + 1 for index in (query_idx, sentence_idx))
    cosines = queries @ tokens.T
    best = cosines.new_full((len(queries), num_sentences), -1.0)
    best = best.scatter_reduce(1, sentence_idx.expand_as(cosines), cosines, "amax")
    sums = best.new_zeros(num_queries, num_sentences).index_add(0, query_idx, best)
    return sums / torch.bincount(query_idx, minlength=num_queries)[:, None]


def _first_indices(values: Sequence[int]) -> dict[int, int]:
    """Return the index at which each value occurs first."""
    return {value: i for i, value in reversed(list(enumerate(values)))}


def distillation_loss(vectors: Tensor, teacher: Tensor) -> Tensor:
    """Compute how far vectors, and their cosines with each other, are from those of a teacher.

    Args:
        vectors: `(texts, dimension)`, of unit length.
        teacher: `(texts, dimension)`, of unit length.

    Returns:
        The mean of 1 minus the cosine, and ten times the mean squared difference of cosines.
    """
    distances = 1 - (vectors * teacher).sum(-1)
    return distances.mean() + 10 * F.mse_loss(vectors @ vectors.T, teacher @ teacher.T)


def contrastive_loss(scores: Tensor, pairs: tuple[Tensor, Tensor], is_negative: Tensor) -> Tensor:
    """Compute the loss of `Retrieval` for queries with several positives.

    Args:
        scores: `(queries, candidates)`.
        pairs: The row and the column of each positive, `(pairs,)`; each row has at least one.
        is_negative: `(queries, candidates)` bool, true at candidates that count if they are not
            positives.

    Returns:
        The mean over queries, a scalar.
    """
    row, column = pairs
    is_negative = is_negative.index_put(pairs, torch.tensor(False, device=scores.device))
    negatives = scores.masked_fill(~is_negative, -torch.inf)
    # The constant keeps this finite for queries without negatives, whose loss is 0.
    negative = torch.cat([negatives, scores.new_full((len(scores), 1), -1e4)], 1).logsumexp(1)
    positive = scores[row, column]
    count = torch.bincount(row, minlength=len(scores))
    each = F.softplus(negative[row] - positive)
    mean = scores.new_zeros(len(scores)).index_add(0, row, each) / count
    is_positive = torch.zeros_like(is_negative).index_put(
        pairs, torch.tensor(True, device=scores.device)
    )
    together = scores.masked_fill(~is_positive, -torch.inf).logsumexp(1)
    return (mean + F.softplus(negative - together)).mean() / 2


def salience_loss(salience: Tensor, targets: Features) -> Tensor:
    """Compute the cross-entropy of each document's salient sentences among all of its sentences.

    Args:
        salience: `(anchors,)`.
        targets: See `Retrieval.collate`.

    Returns:
        The mean over documents that have salient sentences, a scalar; 0 if there are none.
    """
    is_candidate, is_salient = targets["is_candidate"], targets["is_salient"]
    document = targets["document"]
    num_documents = int(document.max()) + 1
    # One softmax for each document, made stable by its largest score.
    scores = salience.masked_fill(~is_candidate, -torch.inf)
    largest = scores.detach().new_full((num_documents,), -torch.inf)
    largest = largest.scatter_reduce(0, document, scores.detach(), "amax").clamp(min=-1e4)
    sums = salience.new_zeros(num_documents).index_add(
        0, document, (scores - largest[document]).exp()
    )
    log_probability = salience - largest[document] - sums.clamp(min=1e-20).log()[document]
    counts = torch.bincount(document[is_salient], minlength=num_documents)
    losses = salience.new_zeros(num_documents).index_add(
        0, document[is_salient], -log_probability[is_salient]
    )
    return (losses / counts.clamp(min=1)).sum() / (counts > 0).sum().clamp(min=1)
