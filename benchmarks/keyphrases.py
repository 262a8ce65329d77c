"""Key phrases of full papers and reports, against those that people assigned to them.

Nguyen2007 (209 papers; phrases of authors and readers together) and wiki20 (20 reports; titles of
Wikipedia articles, of 15 teams together) are read as plain text by `Document.from_file`. The
constants of `foveate.detectors.phrases` were fitted to half of the papers, drawn by a fixed seed,
and watched on half of the reports; "tuned" are these halves and "unseen" the others.

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

Methods with encoders take long and run on the unseen half only. Each of the two groups of methods
has a process of its own; times are of the processor, not of the clock.

    pip install keybert summa    # besides the extra "benchmark"
    python benchmarks/keyphrases.py --data ../shared/data/keyphrases --minilm MINILM
    python benchmarks/keyphrases.py --docs    # write the saved tables into the page
"""

import random
import re
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

import arguments
import report
from foveate import Document

SETS = ("Nguyen2007", "wiki20")
HALVES = ("tuned", "unseen", "all")
RANKS = (5, 10)
SEED = 0
RESAMPLES = 10_000
TOP_K = 20  # phrases asked for, of which some have the same stems
OURS, BASELINE = "foveate phrases", "YAKE"

PAGE = report.ROOT / "docs" / "numbers" / "keyphrases.md"
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
    tuned: bool


def items(data: Path, name: str, limit: int | None) -> list[Item]:
    with TemporaryDirectory() as folder, zipfile.ZipFile(data / f"{name}.zip") as archive:
        archive.extractall(folder)
        texts = sorted((Path(folder) / name / "docsutf8").glob("[!.]*.txt"), key=lambda p: p.stem)
        shuffled = [path.stem for path in texts]
        random.Random(SEED).shuffle(shuffled)
        tuned = set(shuffled[: len(shuffled) // 2])
        read = []
        for path in texts[:limit]:
            keys = Path(folder, name, "keys", f"{path.stem}.key")
            lines = keys.read_text(encoding="utf-8", errors="replace").splitlines()
            assigned = {stems(line) for line in lines} - {()}
            read.append(Item(Document.from_file(path), assigned, path.stem in tuned))
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


def groups(minilm: str | None) -> dict[str, dict[str, Callable[[], Method]]]:
    """Return functions that load the methods, in groups that run in processes of their own."""
    counting: dict[str, Callable[[], Method]] = {
        OURS: partial(detector, "phrases"),
        BASELINE: lambda: yake,
        "foveate tfidf (words)": partial(detector, "tfidf"),
        "TextRank (phrases)": lambda: textrank,
        "TextRank (summa)": lambda: summa,
    }
    if minilm is None:
        return {"counting": counting}
    with_minilm: dict[str, Callable[[], Method]] = {
        "KeyBERT (MiniLM)": lambda: keybert(minilm),
        "KeyBERT (MiniLM, MMR 0.5)": lambda: keybert(minilm, use_mmr=True, diversity=0.5),
    }
    return {"counting": counting, "KeyBERT": with_minilm}


def interval(values: np.ndarray) -> list[float]:
    """Return the mean of values and its 95 % interval by the bootstrap."""
    drawn = np.random.default_rng(SEED).integers(len(values), size=(RESAMPLES, len(values)))
    low, high = np.percentile(values[drawn].mean(1), (2.5, 97.5))
    return [round(float(value), 2) for value in (values.mean(), low, high)]


def halves(documents: list[Item], values: list[Scores | None]) -> dict[str, Any]:
    """Average each measure over the halves of a set, and over all of it, where all are scored."""
    result: dict[str, Any] = {}
    for half in HALVES:
        column = [
            value
            for item, value in zip(documents, values, strict=True)
            if half == "all" or item.tuned == (half == "tuned")
        ]
        if column and all(column):
            result[half] = {
                measure: interval(np.array([value[measure] for value in column if value]))
                for measure in column[0] or ()
            }
    return result


def run(group: str, minilm: str | None, data: Path, limit: int | None) -> dict[str, Any]:
    """Score the methods of a group on every document; those with encoders on the unseen half."""
    read = {name: items(data, name, limit) for name in SETS}
    results: dict[str, Any] = {}
    for method, load in groups(minilm)[group].items():
        find = load()
        values: dict[str, list[Scores | None]] = {}
        start = time.process_time()
        for name, documents in read.items():
            values[name] = [
                scores(find(item.document), item.assigned)
                if group == "counting" or not item.tuned
                else None
                for item in documents
            ]
        scored = sum(one is not None for column in values.values() for one in column)
        seconds = (time.process_time() - start) / scored
        results[method] = {"values": values, "processor seconds a document": seconds}
        print(method, round(seconds, 2), "seconds a document", flush=True)
    return results


def differences(ours: list[Scores | None], theirs: list[Scores | None]) -> list[Scores | None]:
    return [
        {measure: one[measure] - other[measure] for measure in one} if one and other else None
        for one, other in zip(ours, theirs, strict=True)
    ]


def tables(methods: dict[str, Any]) -> dict[str, str]:
    """Format the results of each set, and the times."""
    found = {}
    for name in SETS:
        rows = [
            [label, *("{:.1f} ({:.1f}–{:.1f})".format(*scores[one]) for one in MEASURES)]
            for method, label in LABELS.items()
            for scores in [methods[method][name]["unseen"]]
        ]
        found[f"{name}, unseen"] = report.table(["", *MEASURES], rows)
    seconds = [
        [label, f"{methods[method]['processor seconds a document']:.2f}"]
        for method, label in LABELS.items()
    ]
    found["seconds"] = report.table(["", "seconds"], seconds)
    return found


def main() -> None:
    parser = arguments.parser(
        __doc__,
        "minilm",
        "limit",
        "docs",
        data=report.DATA / "keyphrases",
        output=report.RESULTS / "keyphrases.json",
    )
    args = parser.parse_args()
    if args.docs:
        report.write_tables(PAGE, tables(report.load(args.output)["methods"]))
        return
    read = {name: items(args.data, name, args.limit) for name in SETS}
    measured: dict[str, Any] = {}
    packages = ("yake", "keybert", "summa", "networkx", "sentence-transformers", "scikit-learn")
    names = groups(args.minilm)
    with ProcessPoolExecutor(len(names), mp_context=get_context("spawn")) as pool:
        running = [pool.submit(run, group, args.minilm, args.data, args.limit) for group in names]
        for future in as_completed(running):
            measured |= future.result()
            results = {
                "documents": {name: len(documents) for name, documents in read.items()},
                "finished": len(measured) == sum(map(len, names.values())),
                "methods": {
                    method: {
                        name: halves(documents, one["values"][name])
                        for name, documents in read.items()
                    }
                    | {"processor seconds a document": one["processor seconds a document"]}
                    for method, one in measured.items()
                },
                "ours minus": {
                    method: {
                        name: halves(
                            documents,
                            differences(measured[OURS]["values"][name], one["values"][name]),
                        )
                        for name, documents in read.items()
                    }
                    for method, one in measured.items()
                    if OURS in measured and method != OURS
                },
            }
            report.save(args.output, results, "nltk", "wordfreq", *packages)
    for name in SETS:
        for half in HALVES:
            rows = [
                [method, *(value[0] for value in one[name][half].values())]
                for method, one in results["methods"].items()
                if half in one[name]
            ]
            header = ["", *results["methods"][OURS][name][half]]
            print(f"\n{name}, {half}\n{report.table(header, rows)}")


if __name__ == "__main__":
    main()
