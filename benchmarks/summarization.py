"""Extractive summaries of scientific papers and of meetings against human ones.

Every paper of a ScisummNet split, its abstract left out, or every meeting of a QMSum split is
summarized in 150 words. All systems rank the same sentences; from the best down, each sentence that
still fits the 150 words is taken, and the chosen sentences are put in the order of the text.

    python benchmarks/summarization.py
    python benchmarks/summarization.py --meetings
"""

import argparse
import gzip
import json
import random
import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from rouge_score.rouge_scorer import RougeScorer
from sumy.models.dom import ObjectDocumentModel, Paragraph
from sumy.models.dom import Sentence as SumySentence
from sumy.nlp.stemmers import Stemmer
from sumy.summarizers.lex_rank import LexRankSummarizer
from sumy.summarizers.text_rank import TextRankSummarizer
from sumy.utils import get_stop_words

import report
from foveate import Document, Encoder
from foveate.data import read_benchmark
from foveate.tasks.summarize import summarize
from scisummnet import repeats

HERE = Path(__file__).parent
WORDS = 150
SEED = 0
RESAMPLES = 10_000
MEASURES = ("rouge1", "rouge2", "rougeL")

Ranking = Callable[[list[str]], list[int]]


def lead(sentences: list[str]) -> list[int]:
    return list(range(len(sentences)))


def shuffled(sentences: list[str]) -> list[int]:
    return random.Random(f"{SEED} {sentences[0]}").sample(range(len(sentences)), len(sentences))


class Words:
    """A tokenizer for sumy, whose own would download data."""

    def to_words(self, text: str) -> list[str]:
        """Split a text into words."""
        return re.findall(r"\w+", text)


class Rated:
    """Makes a summarizer of sumy return its ratings instead of sentences."""

    def _get_best_sentences(self, sentences: Any, count: int, ratings: Any) -> Any:
        return ratings


class LexRank(Rated, LexRankSummarizer):
    """LexRank's ratings."""


class TextRank(Rated, TextRankSummarizer):
    """TextRank's ratings."""


def sumy(summarizer: Any) -> Ranking:
    summarizer.stop_words = get_stop_words("english")

    def rank(sentences: list[str]) -> list[int]:
        models = [SumySentence(sentence, Words()) for sentence in sentences]
        ratings = summarizer(ObjectDocumentModel([Paragraph(models)]), len(models))
        return sorted(range(len(models)), key=lambda i: -ratings[models[i]])

    return rank


def cut(sentences: list[str], ranking: list[int]) -> str:
    """Fill the budget as `foveate.summarize` does."""
    left, taken = WORDS, []
    for i in ranking:
        if (length := len(sentences[i].split())) <= left:
            taken.append(i)
            left -= length
    return " ".join(sentences[i] for i in sorted(taken or ranking[:1]))


def papers(path: Path, keep_repeated: bool) -> Iterator[tuple[Document, str]]:
    """Yield each paper's body and its human summary."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            paper = json.loads(line)
            sections = [
                (section["heading"], section["sentences"])
                for section in paper["sections"]
                if keep_repeated or not repeats(section["sentences"], paper["abstract"])
            ]
            yield Document.from_sections(paper["title"], sections), " ".join(paper["summary"])


def meetings(path: Path) -> Iterator[tuple[Document, str]]:
    """Yield each meeting and its summary, which answers the first general query about it."""
    seen = set()
    for example in read_benchmark("qmsum", path):
        if "general" in example.labels and example.document.text not in seen:
            seen.add(example.document.text)
            yield example.document, example.references[0]


def interval(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of the mean over papers, `(papers, measures)`, that hold 95 % of the resamples."""
    draws = np.random.default_rng(SEED).integers(len(scores), size=(RESAMPLES, len(scores)))
    low, high = np.quantile(scores[draws].mean(1), [0.025, 0.975], axis=0)
    return low, high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=HERE.parents[1] / "shared" / "data")
    parser.add_argument(
        "--meetings", action="store_true", help="summarize meetings instead of papers"
    )
    parser.add_argument("--split", default="dev", choices=["dev", "train"])
    parser.add_argument("--limit", type=int, help="number of texts, by default all")
    parser.add_argument(
        "--keep-repeated", action="store_true", help="leave in sections that repeat the abstract"
    )
    parser.add_argument("--output", type=Path, help="where to save the results")
    options = parser.parse_args()

    if options.meetings:
        kind, file = "meetings", "summarization-meetings.json"
        part = {"dev": "val"}.get(options.split, options.split)
        texts = meetings(options.data / "qmsum" / f"{part}.jsonl.gz")
    else:
        kind, file = "papers", "summarization.json"
        path = options.data / "scisummnet" / f"{options.split}.jsonl.gz"
        texts = papers(path, options.keep_repeated)
    corpus = list(islice(texts, options.limit))
    rankings: dict[str, Ranking] = {
        "random": shuffled,
        "LEAD": lead,
        "LexRank": sumy(LexRank(Stemmer("english"))),
        "TextRank": sumy(TextRank(Stemmer("english"))),
    }
    encoder = Encoder.from_pretrained()

    def foveate(document: Document) -> str:
        return summarize(document, words=WORDS, model=encoder).text

    def best(rank: Ranking, document: Document) -> str:
        texts = [sentence.text for sentence in document.sentences()]
        return cut(texts, rank(texts))

    systems: dict[str, Callable[[Document], str]] = {
        name: partial(best, rank) for name, rank in rankings.items()
    }
    systems["foveate"] = foveate

    scorer = RougeScorer(MEASURES, use_stemmer=True)
    results: dict[str, Any] = {}
    print(f"{len(corpus)} {kind}, {WORDS} words; mean F and its 95 % interval")
    print(f"{'':10}" + "".join(f"{name:>22}" for name in ("ROUGE-1", "ROUGE-2", "ROUGE-L")))
    for name, system in systems.items():
        begun = time.perf_counter()
        summaries = [system(document) for document, _ in corpus]
        seconds = time.perf_counter() - begun
        rows = [
            scorer.score(human, summary)
            for (_, human), summary in zip(corpus, summaries, strict=True)
        ]
        scores = 100 * np.array([[row[measure].fmeasure for measure in MEASURES] for row in rows])
        columns = list(zip(MEASURES, scores.mean(0), *interval(scores), strict=True))
        results[name] = {
            measure: {"mean": round(mean, 2), "interval": [round(low, 2), round(high, 2)]}
            for measure, mean, low, high in columns
        } | {
            "words": round(float(np.mean([len(summary.split()) for summary in summaries])), 1),
            "seconds": round(seconds, 1),
        }
        cells = (f"{mean:.2f} ({low:.1f}–{high:.1f})" for _, mean, low, high in columns)
        print(f"{name:10}" + "".join(f"{cell:>22}" for cell in cells), flush=True)

    setting = {
        "data": f"{'QMSum' if options.meetings else 'ScisummNet'} {options.split}",
        kind: len(corpus),
        "words": WORDS,
        "seed": SEED,
        "resamples": RESAMPLES,
    }
    if not options.meetings:
        setting["repeated_abstracts"] = "kept" if options.keep_repeated else "left out"
    packages = ("transformers", "rouge-score", "sumy", "nltk")
    output = options.output or report.RESULTS / file
    report.save(output, {"setting": setting, "systems": results}, *packages)


if __name__ == "__main__":
    main()
