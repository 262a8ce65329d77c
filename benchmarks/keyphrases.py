"""Key phrases of full papers and reports, against those that people assigned to them.

Nguyen2007 (209 papers; phrases of authors and readers together) and wiki20 (20 reports; titles of
Wikipedia articles, of 15 teams together) are read as plain text by `Document.from_file`. The
constants of `foveate.detectors.phrases` were fitted to half of the papers, drawn by a fixed seed,
and watched on half of the reports; what is measured are the other halves, "unseen".

Phrases are compared as sequences of words in lower case, split at everything that is neither letter
nor digit, without possessive 's, and stemmed by Porter's algorithm; of phrases with the same
stems, only the first counts. For the best k phrases of a document:

- exact: P = hits / k and R = hits / phrases assigned, where a hit is assigned; F1 is their harmonic
  mean.
- partial: a phrase is a hit if its stems contain those of an assigned phrase as a contiguous part,
  or the other way around. P is the share of the k that are hits; R is the share of the assigned
  phrases that one of the k is a partial match of.

Phrases that were assigned but do not occur in the text count against every method. Reported are
means over documents, in percent, with 95 % intervals by the bootstrap over documents.

Each of the two groups of methods has a process of its own; times are of the processor, not of the
clock.

    pip install keybert summa    # besides the extra "benchmark"
    python -m benchmarks keyphrases
"""

import random
import re
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from benchmarks import report
from benchmarks.registry import measurement, table
from benchmarks.retrieval_measures import SEED
from benchmarks.retrieval_measures import interval as interval_of
from benchmarks.retrieval_systems import minilm_path
from foveate import Document

SETS = ("Nguyen2007", "wiki20")
RANKS = (5, 10)
TOP_K = 20  # phrases asked for, of which some have the same stems
OURS, BASELINE = "foveate phrases", "YAKE"

PAGE = "numbers/keyphrases.md"
MEASURES = ("exact F1@5", "exact F1@10", "partial F1@5", "partial F1@10")
LABELS = {
    "foveate tfidf (words)": "`tfidf` (words)",
    "KeyBERT (MiniLM)": "KeyBERT",
    "KeyBERT (MiniLM, MMR 0.5)": "KeyBERT, MMR",
    "TextRank (summa)": "TextRank (summa)",
    "TextRank (phrases)": "TextRank (phrases)",
    BASELINE: "YAKE",
    OURS: "**`phrases`**",
}
"""What the page calls each method."""

Stems = tuple[str, ...]
Scores = dict[str, float]
Method = Callable[[Document], list[str]]


class Item(NamedTuple):
    document: Document
    assigned: set[Stems]


def items(data: Path, name: str) -> list[Item]:
    """Read the unseen half of a set."""
    with TemporaryDirectory() as folder, zipfile.ZipFile(data / f"{name}.zip") as archive:
        archive.extractall(folder)
        texts = sorted((Path(folder) / name / "docsutf8").glob("[!.]*.txt"), key=lambda p: p.stem)
        shuffled = [path.stem for path in texts]
        random.Random(SEED).shuffle(shuffled)
        unseen = set(shuffled[len(shuffled) // 2 :])
        read = []
        for path in (path for path in texts if path.stem in unseen):
            keys = Path(folder, name, "keys", f"{path.stem}.key")
            lines = keys.read_text(encoding="utf-8", errors="replace").splitlines()
            assigned = {stems(line) for line in lines} - {()}
            read.append(Item(Document.from_file(path), assigned))
    return read


@cache
def stem(word: str) -> str:
    return _porter().stem(word)


@cache
def _porter() -> Any:
    from nltk.stem.porter import PorterStemmer

    return PorterStemmer()


def stems(phrase: str) -> Stems:
    text = phrase.lower().replace("’", "'").replace("'s", "")
    return tuple(stem(word) for word in re.findall(r"[^\W_]+", text))


def contains(long: Stems, short: Stems) -> bool:
    return any(long[i : i + len(short)] == short for i in range(len(long) - len(short) + 1))


def f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def scores(found: Iterable[str], assigned: set[Stems]) -> Scores:
    """Score the phrases found in a document, best first, in percent."""
    distinct = list(dict.fromkeys(filter(None, map(stems, found))))
    result = {}
    for k in RANKS:
        best = distinct[:k]
        hits = len(assigned.intersection(best))
        result[f"exact F1@{k}"] = 100 * f1(hits / k, hits / len(assigned))
        pairs = [
            [contains(phrase, other) or contains(other, phrase) for other in assigned]
            for phrase in best
        ]
        precision = sum(map(any, pairs)) / k
        recall = sum(map(any, zip(*pairs, strict=True))) / len(assigned)
        result[f"partial F1@{k}"] = 100 * f1(precision, recall)
    return result


def detector(name: str, **options: Any) -> Method:
    """Return a detector of foveate's."""
    from foveate.detectors import detector_by_name

    detect = detector_by_name(name, **options)
    return lambda document: [keyword.text for keyword in detect(document, TOP_K)]


def yake(document: Document) -> list[str]:
    from yake import KeywordExtractor

    extractor = KeywordExtractor(lan="en", n=3, top=TOP_K)  # its defaults
    return [phrase for phrase, _ in extractor.extract_keywords(document.text)]


def summa(document: Document) -> list[str]:
    from summa.keywords import keywords

    return keywords(document.text, split=True)[: 2 * TOP_K]


def textrank(document: Document) -> list[str]:
    """Rank runs of words that are no stop words by the mean of their words' PageRank.

    This is TextRank (Mihalcea and Tarau, 2004) with a list of stop words in place of a tagger of
    parts of speech. On documents of the tuned half, windows of 10 words were better than of 2, the
    mean better than the sum, and runs of at most three words that occur twice better than all.
    """
    import networkx
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    runs: list[tuple[str, ...]] = []
    for sentence in document.sentences():
        for part in re.split(r"[^\w\s'’-]", sentence.text.lower()):
            run: list[str] = []
            for word in [*part.split(), ""]:
                if len(word) > 1 and word[0].isalpha() and word not in ENGLISH_STOP_WORDS:
                    run.append(word)
                elif run:
                    runs.append(tuple(run))
                    run = []
    stream = [word for run in runs for word in run]
    window = 10
    graph = networkx.Graph()
    graph.add_nodes_from(stream)
    for i, word in enumerate(stream):
        graph.add_edges_from((word, other) for other in stream[i + 1 : i + window])
    rank = networkx.pagerank(graph)
    scored = {
        " ".join(run): sum(map(rank.__getitem__, run)) / len(run)
        for run, count in Counter(runs).items()
        if count > 1 and len(run) <= 3
    }
    return sorted(scored, key=lambda phrase: -scored[phrase])[: 2 * TOP_K]


def keybert(model: str, **options: Any) -> Method:
    """Return KeyBERT with words and pairs of words that occur twice as its candidates.

    Without this restriction, thousands of phrases of each text would have to be encoded. Vectors
    are kept, because documents share many phrases.
    """
    from keybert import KeyBERT
    from keybert.backend import BaseEmbedder
    from sentence_transformers import SentenceTransformer
    from sklearn.feature_extraction.text import CountVectorizer

    class Remembering(BaseEmbedder):
        def __init__(self) -> None:
            super().__init__()
            self.model = _sentence_transformer(model)

        def embed(self, documents: Any, verbose: bool = False) -> np.ndarray:
            new = [text for text in documents if text not in VECTORS]
            VECTORS.update(zip(new, self.model.encode(new) if new else (), strict=True))
            return np.stack([VECTORS[text] for text in documents])

    @cache
    def _sentence_transformer(model: str) -> SentenceTransformer:
        return SentenceTransformer(model, device="cpu")

    extractor = KeyBERT(Remembering())

    def extract(document: Document) -> list[str]:
        counter = CountVectorizer(ngram_range=(1, 2), stop_words="english")
        counts = np.asarray(counter.fit_transform([document.text]).sum(0))[0]
        names = counter.get_feature_names_out()
        repeated = [str(name) for name, count in zip(names, counts, strict=True) if count > 1]
        found = extractor.extract_keywords(
            document.text,
            candidates=repeated,
            keyphrase_ngram_range=(1, 2),
            top_n=TOP_K,
            **options,
        )
        return [phrase for phrase, _ in found]

    return extract


VECTORS: dict[str, np.ndarray] = {}


def groups(minilm: str) -> dict[str, dict[str, Callable[[], Method]]]:
    """Return functions that load the methods, in groups that run in processes of their own."""
    return {
        "counting": {
            OURS: partial(detector, "phrases"),
            BASELINE: lambda: yake,
            "foveate tfidf (words)": partial(detector, "tfidf"),
            "TextRank (phrases)": lambda: textrank,
            "TextRank (summa)": lambda: summa,
        },
        "KeyBERT": {
            "KeyBERT (MiniLM)": lambda: keybert(minilm),
            "KeyBERT (MiniLM, MMR 0.5)": lambda: keybert(minilm, use_mmr=True, diversity=0.5),
        },
    }


def intervals(values: list[Scores]) -> dict[str, list[float]]:
    """Return the mean of each measure and its 95 % interval by the bootstrap over documents."""
    array = np.array([[*one.values()] for one in values])
    columns = zip(array.mean(0), *interval_of(array, range(len(array))), strict=True)
    return {
        measure: [round(float(value), 2) for value in column]
        for measure, column in zip(values[0], columns, strict=True)
    }


def run(group: str, minilm: str, data: Path) -> dict[str, Any]:
    """Score the methods of a group on every document."""
    read = {name: items(data, name) for name in SETS}
    results: dict[str, Any] = {}
    for method, load in groups(minilm)[group].items():
        find = load()
        start = time.process_time()
        values = {
            name: [scores(find(item.document), item.assigned) for item in documents]
            for name, documents in read.items()
        }
        seconds = (time.process_time() - start) / sum(map(len, values.values()))
        results[method] = {"values": values, "processor seconds a document": seconds}
        print(method, round(seconds, 2), "seconds a document", flush=True)
    return results


def less(ours: list[Scores], theirs: list[Scores]) -> list[Scores]:
    return [
        {measure: one[measure] - other[measure] for measure in one}
        for one, other in zip(ours, theirs, strict=True)
    ]


@measurement(
    "keyphrases.json",
    *("nltk", "wordfreq", "yake", "keybert", "summa", "networkx"),
    *("sentence-transformers", "scikit-learn"),
)
def keyphrases(
    data: Path = report.DATA / "keyphrases", minilm: str | None = None
) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Score all methods.

    Options:
        data: folder of the sets, as ZIP files
    """
    minilm = minilm or minilm_path()
    names = groups(minilm)
    measured: dict[str, Any] = {}
    with ProcessPoolExecutor(len(names), mp_context=get_context("spawn")) as pool:
        running = [pool.submit(run, group, minilm, data) for group in names]
        for future in as_completed(running):
            measured |= future.result()
            results = {
                "documents": {
                    name: len(its) for name, its in next(iter(measured.values()))["values"].items()
                },
                "methods": {
                    method: {
                        name: {"unseen": intervals(its)} for name, its in one["values"].items()
                    }
                    | {"processor seconds a document": one["processor seconds a document"]}
                    for method, one in measured.items()
                },
                "ours minus": {
                    method: {
                        name: {"unseen": intervals(less(measured[OURS]["values"][name], its))}
                        for name, its in one["values"].items()
                    }
                    for method, one in measured.items()
                    if OURS in measured and method != OURS
                },
            }
            yield results, [one for its in names.values() for one in its if one not in measured]


def scores_table(name: str, results: dict[str, Any]) -> str:
    """Format the scores of all methods on a set."""
    rows = [
        [label, *("{:.1f} ({:.1f}–{:.1f})".format(*scores[one]) for one in MEASURES)]
        for method, label in LABELS.items()
        for scores in [results["methods"][method][name]["unseen"]]
    ]
    return report.table(["", *MEASURES], rows)


for name in SETS:
    table(PAGE, f"{name}, unseen", "keyphrases.json")(partial(scores_table, name))


@table(PAGE, "seconds", "keyphrases.json")
def seconds_table(results: dict[str, Any]) -> str:
    """Format the times."""
    rows = [
        [label, f"{results['methods'][method]['processor seconds a document']:.2f}"]
        for method, label in LABELS.items()
    ]
    return report.table(["", "seconds"], rows)
