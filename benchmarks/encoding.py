"""Time and memory of encoding whole documents, against MiniLM on isolated sentences.

    python -m benchmarks encoding                  # on the CPU
    python -m benchmarks encoding --device cuda    # on a GPU

The texts are a Python Enhancement Proposal, the papers of ScisummNet dev, War and Peace, and for
the first system books of given lengths: as much of War and Peace, from the beginning again after
its end. The systems are

- foveate: the default model, which reads each document as a tree;
- sentence-transformers: all-MiniLM-L6-v2 on every sentence and every title by itself; on a GPU in
  batches of 256, which are faster there than its default of 32; left out if not installed.

Both get documents that are read and split into sentences, and return float32 vectors on the
CPU; the time includes tokenization, and "preparing" is the share of the first that passes before
the model begins. Tokens are those of sentences and titles, without anchors and separators. After a
short document as warm-up, a text is encoded again and again until `--seconds` have passed, nine
times at most; the table has the median, and the spread is the largest time less the smallest, as
a share of the median.

On a CPU every measurement is a process of its own, and the memory is the peak of its resident set
beyond what it held when encoding began, vectors included. On a GPU it is the peak of what PyTorch
allocated there beyond the weights. Errors are the relative norm of the difference from float32 on
the CPU, over all vectors of the proposal.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from itertools import cycle, product
from pathlib import Path
from statistics import median
from typing import Any, Literal

import torch
from torch import Tensor

from benchmarks import report
from benchmarks.processes import in_new_process
from benchmarks.registry import measurement, table
from benchmarks.retrieval_systems import minilm_path
from benchmarks.structured_documents import papers
from benchmarks.timing import Memory, spread, timed
from foveate import Document, Encoder
from foveate.inference import default_model_path
from foveate.preprocessing import load_tokenizer
from foveate.preprocessing.tree import Anchor, outline
from foveate.preprocessing.tree_builder import load_tree_tokenizer

PAGE = "numbers/encoding.md"
PROPOSAL = report.ROOT / "examples" / "pep-0703.rst"
LENGTHS = {"cpu": (4096, 16384, 65536, 262144), "cuda": (4096, 16384, 65536, 262144, 1048576)}
SYSTEMS = ["foveate", "sentence-transformers"]
DTYPES = ["float32", "bfloat16"]
REPEATS = 9
BATCH_SIZES = {"cpu": 32, "cuda": 256}
"""Of sentence-transformers."""
WARM_UP = "Cod swim. They eat krill.\n\nEels are long."


@measurement("encoding-{device}.json", "transformers", "sentence-transformers")
def encoding(
    data: Path = report.DATA,
    minilm: str | None = None,
    device: Literal["cpu", "cuda"] = "cpu",
    texts: Sequence[str] = (),
    seconds: float = 40,
) -> dict[str, Any]:
    """Encode each text by each system.

    Options:
        texts: such as PEP, papers, book and 4096; by default all
        seconds: limit of repeating a text
    """
    texts = texts or ["PEP", "papers", *map(str, LENGTHS[device]), "book"]
    errors = relative_errors(device)
    print(errors, flush=True)
    minilm = minilm or minilm_path()
    rows = []
    for text in texts:
        for system, dtype in product(available(), DTYPES):
            if text.isdigit() and system != "foveate":
                continue  # to read sentences by themselves takes as long in any document
            job = text, system, dtype, data, minilm, device, seconds
            rows.append(measure(*job) if device == "cuda" else in_new_process(measure, *job))
            print(json.dumps(rows[-1]), flush=True)
    return {"setting": {"seconds": seconds}, "errors": errors, "rows": rows}


def available() -> list[str]:
    """Leave out a system that is not installed, and say so."""
    if find_spec("sentence_transformers"):
        return SYSTEMS
    print("sentence-transformers is not installed", file=sys.stderr)
    return SYSTEMS[:1]


# Texts


@cache
def read_documents(text: str, data: Path) -> list[Document]:
    """Read a text, which is "PEP", "papers", "book" or a number of tokens."""
    if text == "PEP":
        return [Document.from_file(PROPOSAL, language="en")]
    if text == "papers":
        return [paper.document for paper in papers(data / "scisummnet" / "dev.jsonl.gz")]
    if text == "book":
        return [Document.from_file(data / "books" / "war_and_peace.txt.gz", language="en")]
    return [with_tokens(*read_documents("book", data), int(text))]


def with_tokens(book: Document, number: int) -> Document:
    """Take whole sentences up to a number of tokens, from the beginning again after the end."""
    chapters = [
        (
            section.title,
            [sentence.text for part in section.paragraphs for sentence in part.sentences],
        )
        for _, section in book.walk()
    ]
    counts = [count_tokens([title, *sentences]) for title, sentences in chapters]
    taken: list[tuple[str, list[str]]] = []
    for (title, sentences), (title_tokens, *sizes) in cycle(zip(chapters, counts, strict=True)):
        number -= title_tokens
        kept = []
        for sentence, size in zip(sentences, sizes, strict=True):
            number -= size
            if number < 0:
                break
            kept.append(sentence)
        if kept:
            taken.append((title, kept))
        if number <= 0:
            break
    return Document.from_sections(book.title, taken, language="en")


def count_tokens(texts: list[str]) -> list[int]:
    """Count the tokens of each text."""
    ids = tokenizer()(texts, add_special_tokens=False, verbose=False)["input_ids"]
    return [len(one) for one in ids]


@cache
def tokenizer() -> Any:
    """Load the default model's tokenizer, whose vocabulary is MiniLM's."""
    return load_tokenizer(str(default_model_path()))


# Measurements


def measure(
    text: str, system: str, dtype: str, data: Path, minilm: str, device: str, seconds: float
) -> dict[str, Any]:
    """Measure one system on one text."""
    documents = read_documents(text, data)
    encode = load(system, dtype, None if system == "foveate" else minilm, device)
    texts = [anchor.text for anchor in anchors_with_text(documents)]
    tokens = sum(count_tokens(texts))
    encode([Document.from_text(WARM_UP, language="en")])
    if device == "cuda":  # the GPU's clock rises and its kernels are compiled
        encode(documents)
    memory = Memory.start(device)
    times: list[float] = []
    while len(times) < REPEATS and sum(times) < seconds:
        times.append(timed(lambda: encode(documents))[0])
    peak = memory.peak()
    return {
        "text": text,
        "documents": len(documents),
        "sentences": len(texts),
        "tokens": tokens,
        "system": system,
        "dtype": dtype,
        "seconds": times,
        "preparing": preparing(documents) if system == "foveate" else None,
        "peak MiB": peak / 2**20,
    }


@cache
def load(system: str, dtype: str, path: str | None, device: str) -> Callable[[list[Document]], Any]:
    """Load a system, and return the function that encodes documents."""
    if system != "sentence-transformers":
        runner = Encoder.from_pretrained(path, device=device, dtype=dtype).runner
        return lambda documents: Encoder(runner).encode(documents)  # which has kept nothing
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(path, device=device, model_kwargs={"dtype": getattr(torch, dtype)})
    batch_size = BATCH_SIZES[device]
    return lambda documents: model.encode(
        [one.text for one in anchors_with_text(documents)], batch_size=batch_size
    )


def anchors_with_text(documents: list[Document]) -> list[Anchor]:
    """List the sentences and titles of documents."""
    return [anchor for document in documents for anchor in outline(document) if anchor.text]


def preparing(documents: list[Document]) -> float:
    """Measure how many seconds it takes to tokenize documents and to list the nodes of trees."""
    processor = load_tree_tokenizer(Path(default_model_path()))
    assert processor is not None
    begun = time.perf_counter()
    for document in documents:
        processor.tree(outline(document))
    return time.perf_counter() - begun


def relative_errors(device: str) -> dict[str, float]:
    """Compare the proposal's vectors with those in float32 on the CPU, by dtype."""
    document = Document.from_file(PROPOSAL, language="en")

    def encode(device: str, dtype: str) -> Tensor:
        vectors = Encoder.from_pretrained(device=device, dtype=dtype).encode(document)
        return torch.cat([vectors.document[None], vectors.sections, vectors.sentences])

    expected = encode("cpu", "float32")
    return {
        dtype: float((encode(device, dtype) - expected).norm() / expected.norm())
        for dtype in ("float32", "bfloat16")
        if (device, dtype) != ("cpu", "float32")
    }


# Tables


@table(PAGE, "documents, cpu", "encoding-cpu.json")
@table(PAGE, "documents, cuda", "encoding-cuda.json")
def speed_table(results: dict[str, Any]) -> str:
    """Format the rates on the proposal, the papers and the book."""
    names = {"PEP": "PEP 703", "papers": "papers", "book": "War and Peace"}
    header = ["", "tokens", "system", "tokens/s", "spread %", "peak MiB"]
    cells = []
    for row in results["rows"]:
        if row["text"] in names:
            number = f"{row['documents']} " if row["text"] == "papers" else ""
            seconds = median(row["seconds"])
            cells.append(
                [
                    number + names[row["text"]],
                    row["tokens"],
                    f"{row['system']}, {row['dtype']}",
                    round(row["tokens"] / seconds),
                    spread(row["seconds"]),
                    round(row["peak MiB"]),
                ]
            )
    return report.table(header, cells)
