"""Extractive summaries of 150 words against those that people wrote, beside other systems.

Papers of ScisummNet, their abstracts left out or left in, are compared with the human summary made
from the abstract and from later papers; technical proposals and articles of PLOS with the abstract
that is cut out of them; meetings of QMSum with the answer to the first general query. Random, LEAD,
LexRank and TextRank rank all sentences; from the best down, each one that still fits the 150 words
is taken, and the chosen sentences are put in the order of the text.

    python -m benchmarks summarization
    python -m benchmarks summarization --sets proposals plos --limit 10
"""

import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rouge_score.rouge_scorer import RougeScorer

from benchmarks import report
from benchmarks.registry import measurement, table
from benchmarks.retrieval_measures import RESAMPLES, SEED
from benchmarks.retrieval_measures import summarize as summarize_scores
from benchmarks.retrieval_systems import minilm_path
from benchmarks.structured_documents import papers_with_abstract, read_set, without_abstracts
from foveate import Document, Encoder, summarize
from foveate.data import Example

WORDS = 150
MEASURES = ("rouge1", "rouge2", "rougeL")

Text = tuple[Document, str]  # with its human summary
Ranking = Callable[[list[str]], list[int]]
System = Callable[[Document], str]


def abstracts_cut(examples: Iterable[Example]) -> Iterator[Text]:
    """Yield documents that have a summary, their abstracts cut out, unless nothing is left."""
    for document, example in without_abstracts(examples):
        if example.references:
            yield document, example.references[0]


def as_they_are(examples: Iterable[Example]) -> Iterator[Text]:
    """Yield documents that have a summary."""
    for example in examples:
        if example.references:
            yield example.document, example.references[0]


SETS: dict[str, Callable[[Path, str], Iterator[Text]]] = {
    "papers": lambda data, split: abstracts_cut(read_set(data, "papers", split)),
    "papers-with-abstract": lambda data, split: papers_with_abstract(
        data / "scisummnet" / f"{split}.jsonl.gz"
    ),
    "proposals": lambda data, split: abstracts_cut(read_set(data, "proposals", split)),
    "plos": lambda data, split: abstracts_cut(read_set(data, "articles", split)),
    "meetings": lambda data, split: as_they_are(read_set(data, "meetings", split)),
}
Set = Literal["papers", "papers-with-abstract", "proposals", "plos", "meetings"]


def lead(sentences: list[str]) -> list[int]:
    return list(range(len(sentences)))


def shuffled(sentences: list[str]) -> list[int]:
    return random.Random(f"{SEED} {sentences[0]}").sample(range(len(sentences)), len(sentences))


def sumy(kind: str) -> Ranking:
    """Return a ranking by one of sumy's summarizers, "LexRank" or "TextRank"."""
    from sumy.models.dom import ObjectDocumentModel, Paragraph, Sentence
    from sumy.nlp.stemmers import Stemmer
    from sumy.summarizers.lex_rank import LexRankSummarizer
    from sumy.summarizers.text_rank import TextRankSummarizer
    from sumy.utils import get_stop_words

    class Words:
        """A tokenizer, where sumy's own would download data."""

        def to_words(self, text: str) -> list[str]:
            return re.findall(r"\w+", text)

    summarizers = {"LexRank": LexRankSummarizer, "TextRank": TextRankSummarizer}
    rated = summarizers[kind](Stemmer("english"))
    rated.stop_words = get_stop_words("english")
    rated._get_best_sentences = lambda sentences, count, ratings: ratings

    def rank(sentences: list[str]) -> list[int]:
        models = [Sentence(sentence, Words()) for sentence in sentences]
        ratings = rated(ObjectDocumentModel([Paragraph(models)]), len(models))
        return sorted(range(len(models)), key=lambda i: -ratings[models[i]])

    return rank


def cut(rank: Ranking, document: Document) -> str:
    """Fill the budget as `foveate.summarize` does."""
    sentences = [sentence.text for sentence in document.sentences()]
    ranking = rank(sentences)
    left, taken = WORDS, []
    for i in ranking:
        if (length := len(sentences[i].split())) <= left:
            taken.append(i)
            left -= length
    return " ".join(sentences[i] for i in sorted(taken or ranking[:1]))


def summarizer(encoder: Encoder) -> System:
    return lambda document: summarize(document, words=WORDS, model=encoder).text


def load_systems(model: str | None, minilm: str) -> dict[str, System]:
    """Load all systems."""
    return {
        "random": partial(cut, shuffled),
        "LEAD": partial(cut, lead),
        "LexRank": partial(cut, sumy("LexRank")),
        "TextRank": partial(cut, sumy("TextRank")),
        "MiniLM": summarizer(Encoder.from_pretrained(minilm)),
        "ours": summarizer(Encoder.from_pretrained(model)),
    }


def compare(humans: list[str], systems: dict[str, list[str]]) -> dict[str, Any]:
    """Print and return ROUGE F of every system's summaries against the human ones.

    The difference between ours and the best of the others is that of the same resamples.
    """
    scorer = RougeScorer(MEASURES, use_stemmer=True)
    scores: dict[str, np.ndarray] = {}  # (texts, measures)
    results: dict[str, Any] = {"texts": len(humans), "systems": {}}
    for name, summaries in systems.items():
        rows = [
            scorer.score(human, summary) for human, summary in zip(humans, summaries, strict=True)
        ]
        scores[name] = np.array([[row[measure].fmeasure for measure in MEASURES] for row in rows])
        words = round(float(np.mean([len(summary.split()) for summary in summaries])), 1)
        its = summarize_scores(MEASURES, scores[name], range(len(rows)))
        results["systems"][name] = its | {"words": words}
        show(name, its)
    others = [name for name in scores if name != "ours"]
    best = [others[i] for i in np.stack([scores[name].mean(0) for name in others]).argmax(0)]
    peer = np.stack([scores[name][:, i] for i, name in enumerate(best)], axis=1)
    less = summarize_scores(MEASURES, scores["ours"] - peer, range(len(humans)))
    results["ours_less_best"] = less | {"best": dict(zip(MEASURES, best, strict=True))}
    show("difference", less)
    return results


def show(name: str, columns: dict[str, Any]) -> None:
    cells = (
        f"{columns[measure]['mean']:.2f} ({low:.1f}–{high:.1f})"
        for measure in MEASURES
        for low, high in [columns[measure]["interval"]]
    )
    print(f"{name:12}" + "".join(f"{cell:>22}" for cell in cells), flush=True)


@measurement("summarization.json", "transformers", "rouge-score", "sumy", "nltk")
def summarization(
    data: Path = report.DATA,
    model: str | None = None,
    minilm: str | None = None,
    sets: Sequence[Set] = tuple(SETS),
    limit: int | None = None,
) -> dict[str, Any]:
    """Summarize each set by each system.

    Options:
        sets: of texts
    """
    systems = load_systems(model, minilm or minilm_path())
    results = {}
    for name in sets:
        texts = list(islice(SETS[name](data, "dev"), limit))
        documents, humans = [document for document, _ in texts], [human for _, human in texts]
        print(f"\n{name}: {len(texts)} texts; mean F and its 95 % interval")
        print(f"{'':12}" + "".join(f"{name:>22}" for name in ("ROUGE-1", "ROUGE-2", "ROUGE-L")))
        found = {which: [*map(system, documents)] for which, system in systems.items()}
        results[name] = compare(humans, found)
    setting = {"split": "dev", "words": WORDS, "seed": SEED, "resamples": RESAMPLES}
    return {"setting": setting, "sets": results}


def table_of(name: str, results: dict[str, Any]) -> str:
    """Format a set, with the best means in bold."""
    its = results["sets"][name]
    means = {
        measure: [one[measure]["mean"] for one in its["systems"].values()] for measure in MEASURES
    }
    rows = [
        [
            "foveate" if system == "ours" else system,
            *(
                "{} ({:.1f}–{:.1f})".format(
                    report.marked(of_system[one]["mean"], means[one]), *of_system[one]["interval"]
                )
                for one in MEASURES
            ),
        ]
        for system, of_system in its["systems"].items()
    ]
    less = (
        "{:+.1f} ({:+.1f} to {:+.1f})".format(one["mean"], *one["interval"])
        for one in map(its["ours_less_best"].__getitem__, MEASURES)
    )
    rows.append(["foveate less the best of the others", *(one.replace("-", "−") for one in less)])
    return report.table(["", "ROUGE-1", "ROUGE-2", "ROUGE-L"], rows)


for name in SETS:
    table("numbers/summaries.md", name, "summarization.json")(partial(table_of, name))
