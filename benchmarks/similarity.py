"""Human judgements of similarity: words by themselves, and short news articles.

Spearman's rank correlation of cosines with what people say, for the default model and MiniLM:

- SimLex-999 (Hill et al., 2015), pairs of words that are alike, and WordSim-353 (Finkelstein et
  al., 2002), pairs that have to do with each other: each word encoded as a text;
- 50 short news articles (Lee et al., 2005), all pairs: each article's document vector, and each
  article as one text.

The files `simlex999.txt`, `wordsim353.tsv`, `lee.cor` and `similarities0-1.txt` are in gensim's
test data.

    python benchmarks/similarity.py --data FOLDER

Intervals hold 95 % of the correlations over resampled words or articles.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.stats import spearmanr

import arguments
import report
from foveate import Document, Encoder
from retrieval_systems import minilm_path

RESAMPLES = 1000
SEED = 0


class Pairs(NamedTuple):
    """Pairs of texts and how similar people find them.

    Attributes:
        texts: The texts.
        first: `(pairs,)`, index of each pair's first text.
        second: `(pairs,)`, index of its second.
        judged: `(pairs,)`.
    """

    texts: list[str]
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    judged: NDArray[np.float64]


def main() -> None:
    parser = arguments.parser(__doc__, "minilm")
    parser.add_argument("--data", type=Path, required=True, help="folder of the four files")
    options = parser.parse_args()
    ours = Encoder.from_pretrained()
    minilm = Encoder.from_pretrained(options.minilm or minilm_path(), context="sentence")
    articles = lee(options.data)
    results = {
        "SimLex-999, words": compare(words(options.data / "simlex999.txt"), as_texts(ours, minilm)),
        "WordSim-353, words": compare(
            words(options.data / "wordsim353.tsv"), as_texts(ours, minilm)
        ),
        "articles as documents": compare(articles, as_documents(ours, minilm)),
        "articles as one text": compare(articles, as_texts(ours, minilm)),
    }
    rows = [
        [name, *(f"{mean:.3f} ({low:.3f} to {high:.3f})" for mean, low, high in its.values())]
        for name, its in results.items()
    ]
    print(report.table(["", "foveate", "MiniLM"], rows))
    report.save(report.RESULTS / "similarity.json", results, "scipy", "transformers")


def words(path: Path) -> Pairs:
    """Read pairs of words and the mean judgement of each, after lines of comments."""
    lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    rows = [fields for fields in lines if not fields[0].startswith("#") and len(fields) > 2]
    texts = [*dict.fromkeys(word for first, second, *_ in rows for word in (first, second))]
    index = {text: i for i, text in enumerate(texts)}
    return Pairs(
        texts,
        np.array([index[first] for first, *_ in rows]),
        np.array([index[second] for _, second, *_ in rows]),
        np.array([float(judged) for _, _, judged, *_ in rows]),
    )


def lee(folder: Path) -> Pairs:
    """Read the articles, one a line, and the matrix of judgements, whose upper half is filled."""
    texts = (folder / "lee.cor").read_text(encoding="latin-1").splitlines()
    judged = np.loadtxt(folder / "similarities0-1.txt")
    first, second = np.triu_indices(len(texts), 1)
    return Pairs(texts, first, second, judged[first, second])


Vectors = Callable[[list[str]], NDArray[np.float32]]


def as_texts(*encoders: Encoder) -> list[Vectors]:
    """Encode each text by itself."""
    return [
        lambda texts, encoder=encoder: F.normalize(encoder.encode_texts(texts), dim=-1).numpy()
        for encoder in encoders
    ]


def as_documents(*encoders: Encoder) -> list[Vectors]:
    """Encode each text as a document."""

    def encode(texts: list[str], encoder: Encoder) -> NDArray[np.float32]:
        documents = [Document.from_text(text, language="en") for text in texts]
        vectors = [its.document for its in encoder.encode(documents)]
        return np.stack([F.normalize(vector, dim=-1).numpy() for vector in vectors])

    return [lambda texts, encoder=encoder: encode(texts, encoder) for encoder in encoders]


def compare(pairs: Pairs, systems: Sequence[Vectors]) -> dict[str, tuple[float, float, float]]:
    """Correlate cosines with judgements: the value and its interval, for each system."""
    found = {}
    draw = np.random.default_rng(SEED)
    number = len(pairs.texts)
    counts = [
        np.bincount(draw.integers(number, size=number), minlength=number) for _ in range(RESAMPLES)
    ]
    for name, encode in zip(("foveate", "MiniLM"), systems, strict=True):
        vectors = encode(pairs.texts)
        cosines = (vectors[pairs.first] * vectors[pairs.second]).sum(-1)
        draws = []
        for count in counts:
            times = count[pairs.first] * count[pairs.second]
            chosen = np.repeat(np.arange(len(times)), times)
            draws.append(spearmanr(cosines[chosen], pairs.judged[chosen]).statistic)
        low, high = np.quantile(draws, [0.025, 0.975])
        value = float(spearmanr(cosines, pairs.judged).statistic)
        found[name] = (round(value, 4), round(float(low), 4), round(float(high), 4))
    return found


if __name__ == "__main__":
    main()
