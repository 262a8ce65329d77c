"""A library on disk: how fast it is built, how large it is, and how fast it is searched.

    python benchmarks/library.py --documents 2000 --sizes 10000 100000 1000000

Proposals, PEPs and papers of `../shared/data` are written as files, one each, and added to a
library; the time includes reading and encoding them. Then one of them is changed, and the library
is brought up to date. Libraries of the given numbers of sentences are made of that one by copies
whose vectors have noise of `--noise` (of length 1 before it is scaled), normalized again; their
texts are the same, so that as many share a word as do in real ones.

A first query is one right after the library was opened; the files are in the system's cache by
then. Warm ones come later, each for the first time. The time to encode the queries is measured
apart, and is not part of them. Queries are sentences of the documents, cut to eight words. They are
compared with FAISS's flat index and inverted lists, and with bm25s, over the same sentences.

`recall` is how many of the ten best hits are found that are found if Lance proposes a hundred
times as many candidates.
"""

import argparse
import json
import random
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

import arguments
import report
from foveate import Document, Index
from foveate.index import search
from foveate.index.records import renumber
from foveate.index.schema import vectors_of
from foveate.index.store import Store, Writer
from foveate.inference import Encoder
from foveate.tasks.arguments import Unit
from foveate.tasks.hits import Hit
from structured_documents import read_records

SOURCES = ("peps/train.jsonl.gz", "proposals/train.jsonl.xz", "scisummnet/train.jsonl.gz")
SUFFIXES = {"rst": "rst", "markdown": "md"}
WORDS_PER_QUERY = 8
QUERIES_BEFORE = 20
"""Queries after which they count as warm."""
COMPARED_QUERIES = 30
"""Queries whose hits are compared with those of many candidates."""

MANY_CANDIDATES = 20_000
SENTENCES_PER_COMMIT = 50_000


def records(data: Path) -> Iterator[tuple[str, str]]:
    """Take texts from each source in turn, with the suffix of their format."""
    sources = [read_records(data / name) for name in SOURCES]
    while sources:
        for source in list(sources):
            record = next(source, None)
            if record is None:
                sources.remove(source)
            elif "text" in record:
                yield record["text"], SUFFIXES[record["format"]]
            else:
                yield as_markdown(record), "md"


def as_markdown(paper: dict[str, Any]) -> str:
    parts = [f"# {paper['title']}", " ".join(paper["abstract"])]
    for section in paper["sections"]:
        parts += [f"## {section['heading']}", " ".join(section["sentences"])]
    return "\n\n".join(parts) + "\n"


def write_files(folder: Path, data: Path, num_documents: int) -> None:
    for number, (text, suffix) in zip(range(num_documents), records(data), strict=False):
        (folder / f"{number:05d}.{suffix}").write_text(text, encoding="utf-8")


class Encoded:
    """An encoder whose queries have been encoded before."""

    def __init__(self, encoder: Encoder, queries: Sequence[str]) -> None:
        self.context = encoder.context
        self.min_likely_score = encoder.min_likely_score
        self.seconds: list[float] = []
        self._encoder = encoder
        self._vectors: dict[str, npt.NDArray[np.float32]] = {}
        for query in queries:
            seconds, vectors = timed(partial(encoder.encode_queries, [query]))
            self.seconds.append(seconds)
            self._vectors[query] = vectors.numpy()[0]

    def encode_queries(self, queries: Sequence[str]) -> npt.NDArray[np.float32]:
        if new := [query for query in queries if query not in self._vectors]:  # parts of a query
            self._vectors |= zip(new, self._encoder.encode_queries(new).numpy(), strict=True)
        return np.stack([self._vectors[query] for query in queries])


def enlarge(base: Index, path: Path, num_sentences: int, noise: float) -> Index:
    """Make a library of copies of another one, whose vectors have noise."""
    state = base.state
    rows = Store(base.path).open().to_table(filter="document >= 0").sort_by("key")
    rng = np.random.default_rng(0)
    with Store(path).writing(state.model, lambda: state.unrelated) as writer:
        num_added = num_uncommitted = copy = 0
        while num_added < num_sentences:
            num_new = add_copy(writer, rows, copy, num_sentences - num_added, rng, noise)
            num_added, num_uncommitted = num_added + num_new, num_uncommitted + num_new
            copy += 1
            if num_uncommitted >= SENTENCES_PER_COMMIT:
                writer.commit()
                num_uncommitted = 0
        writer.commit()
        writer.optimize()
    return Index.create(path, exist_ok=True, model=base.encoder)


def add_copy(
    writer: Writer,
    rows: pa.Table,
    copy: int,
    max_sentences: int,
    rng: np.random.Generator,
    noise: float,
) -> int:
    """Add a copy of the first documents that have so many sentences together; return how many."""
    documents = rows.filter(pc.equal(rows["level"], "document"))
    sizes = documents["num_sentences"].to_numpy()
    num_kept = max(int((np.cumsum(sizes) <= max_sentences).sum()), 1)
    numbers = documents["document"].to_numpy()[:num_kept]
    rows = rows.filter(pa.array(np.isin(rows["document"].to_numpy(), numbers)))
    rows = renumber(rows, writer.new_documents(int(numbers.max()) + 1))
    vectors = vectors_of(rows["vector"]).astype(np.float32)
    if copy:
        vectors += noise * rng.standard_normal(vectors.shape, np.float32) / len(vectors.T) ** 0.5
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    halves = pa.array(vectors.astype(np.float16).reshape(-1))
    changed = {
        "file": pc.binary_join_element_wise(f"/copy-{copy}", rows["file"], ""),
        "content_hash": pc.add(rows["content_hash"], copy),  # so that all are shown
        "vector": pa.FixedSizeListArray.from_arrays(halves, vectors.shape[1]),
    }
    for column, values in changed.items():
        idx = rows.column_names.index(column)
        rows = rows.set_column(idx, rows.schema.field(column), values)
    writer.add(rows)
    return int(sizes[:num_kept].sum())


def rows_of(index: Index, column: str) -> pa.ChunkedArray:
    """Return a column of the sentences of a library."""
    table = Store(index.path).open()
    return table.to_table([column], filter="level = 'sentence'")[column]


def make_queries(index: Index, number: int) -> list[str]:
    rng = random.Random(0)
    texts = rows_of(index, "text").to_pylist()
    long = [text for text in texts if len(text.split()) >= WORDS_PER_QUERY]
    chosen = rng.sample(long, min(number, len(long)))
    return [" ".join(text.split()[:WORDS_PER_QUERY]) for text in chosen]


def timed(run: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return the median and the 99th percentile in milliseconds."""
    return {
        "p50_ms": float(np.percentile(seconds, 50)) * 1e3,
        "p99_ms": float(np.percentile(seconds, 99)) * 1e3,
    }


def measure_queries(index: Index, queries: list[str], peers: bool) -> dict[str, Any]:
    """Measure first and warm queries, and those of other programs."""
    state = index.state
    result: dict[str, Any] = {"sentences": state.num_sentences, "documents": state.num_documents}
    encoded: Any = Encoded(index.encoder, queries)
    result["encoding"] = percentiles(encoded.seconds)
    for by in get_args(Unit):
        fresh = Index.open(index.path, model=index.encoder)

        def run(query: str, by: Unit = by, fresh: Index = fresh) -> Any:
            return fresh._read(lambda engine: search.find(query, engine, encoded, by, 10, None))

        first, _ = timed(partial(run, queries[0]))
        if by == "passage":
            result["first_s"] = first
        for query in queries[1:QUERIES_BEFORE]:
            run(query)
        result[by] = percentiles([timed(partial(run, q))[0] for q in queries[QUERIES_BEFORE:]])
        some = queries[:COMPARED_QUERIES]
        found = [places(run(query)) for query in some]
        least, search.LEAST_CANDIDATES = search.LEAST_CANDIDATES, MANY_CANDIDATES
        best = [places(run(query)) for query in some]
        search.LEAST_CANDIDATES = least
        shares = [len(a & b) / len(b) for a, b in zip(found, best, strict=True)]
        result[by]["recall"] = float(np.mean(shares))
    result["memory_MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    if peers:
        result |= measure_faiss(index, encoded, queries)
        result["bm25s"] = measure_bm25s(index, queries)
    return result


def places(hits: Sequence[Hit]) -> set[tuple[int, int, int]]:
    """Return what was found: for passages, by their best sentences."""
    spans = [hit.best if hit.unit == "passage" else hit.span for hit in hits]
    return {(hit.document_idx, x.start, x.end) for hit, x in zip(hits, spans, strict=True)}


def measure_faiss(index: Index, encoded: Encoded, queries: list[str]) -> dict[str, Any]:
    """Search the vectors of all sentences with FAISS."""
    import faiss

    matrix = vectors_of(rows_of(index, "vector")).astype(np.float32)
    flat = faiss.IndexFlatIP(matrix.shape[1])
    flat.add(matrix)
    num_lists = round(len(matrix) ** 0.5)
    lists = faiss.index_factory(matrix.shape[1], f"IVF{num_lists},Flat", faiss.METRIC_INNER_PRODUCT)
    seconds, _ = timed(lambda: (lists.train(matrix), lists.add(matrix)))
    lists.nprobe = 50
    result: dict[str, Any] = {"faiss_ivf_built_s": seconds}
    for name, one in (("faiss_flat", flat), ("faiss_ivf", lists)):
        vectors = [encoded.encode_queries([query]) for query in queries[:COMPARED_QUERIES]]
        result[name] = percentiles([timed(partial(one.search, v, 10))[0] for v in vectors])
    return result


def measure_bm25s(index: Index, queries: list[str]) -> dict[str, float]:
    import bm25s

    retriever = bm25s.BM25()
    texts = rows_of(index, "text").to_pylist()
    retriever.index(bm25s.tokenize(texts, stopwords=None, show_progress=False), show_progress=False)

    def retrieve(query: str) -> None:
        tokens = bm25s.tokenize([query], stopwords=None, show_progress=False)
        retriever.retrieve(tokens, k=10, show_progress=False)

    return percentiles([timed(partial(retrieve, query))[0] for query in queries])


def measure_build(index: Index, files: Path) -> dict[str, Any]:
    """Add files to an empty library, again without a change, and again after one."""
    _ = index.encoder  # is loaded beforehand
    # Some proposals were withdrawn, and are empty.
    add = partial(index.add, files, on_error=lambda name, error: None)
    seconds, changes = timed(add)
    build = {
        "documents": changes.num_documents,
        "sentences": changes.num_sentences,
        "seconds": seconds,
        "documents_per_s": changes.num_documents / seconds,
        "sentences_per_s": changes.num_sentences / seconds,
        "bytes_per_sentence": index.size() / changes.num_sentences,
        "bytes_of_files": sum(path.stat().st_size for path in files.iterdir()),
    }
    nothing_changed, _ = timed(add)
    path = sorted(files.iterdir())[0]
    path.write_text(path.read_text(encoding="utf-8") + "\n\nOne more sentence.\n", encoding="utf-8")
    one_file_changed, _ = timed(add)
    return {
        "build": build,
        "nothing_changed_s": nothing_changed,
        "one_file_changed_s": one_file_changed,
    }


def measure_size(
    base: Index, path: Path, num_sentences: int, noise: float, queries: list[str], peers: bool
) -> dict[str, Any]:
    """Search a library of copies, add a document to it, and remove it."""
    seconds, large = timed(partial(enlarge, base, path, num_sentences, noise))
    result = {"written_s": seconds, **measure_queries(large, queries, peers)}
    result["bytes_per_sentence"] = large.size() / result["sentences"]
    document = Document.from_text("A page of one sentence is added.", source="added")
    result["one_document_added_s"], _ = timed(partial(large.add, document))
    document = Document.from_text("Another page takes its place.", source="added")
    result["one_document_replaced_s"], _ = timed(partial(large.add, document))
    shutil.rmtree(large.path)
    return result


def show(results: dict[str, Any]) -> None:
    header = [
        "sentences",
        "first, s",
        "warm p50, ms",
        "p99",
        "sections p50",
        "documents p50",
        "recall",
    ]
    rows = [
        [
            f"{size['sentences']:,}",
            size["first_s"],
            size["passage"]["p50_ms"],
            size["passage"]["p99_ms"],
            size["section"]["p50_ms"],
            size["document"]["p50_ms"],
            size["passage"]["recall"],
        ]
        for size in results["sizes"]
    ]
    print(report.table(header, rows))
    print(json.dumps({key: results[key] for key in results if key != "sizes"}, indent=1))


def parse_options() -> argparse.Namespace:
    parser = arguments.parser(__doc__, "data", "device", output=report.RESULTS / "library.json")
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--noise", type=float, default=0.3)
    parser.add_argument(
        "--peers", type=int, default=1_000_000, help="most sentences that other programs are given"
    )
    parser.add_argument("--folder", type=Path, help="where to work; by default a temporary folder")
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    folder = options.folder or Path(tempfile.mkdtemp())
    files = folder / "files"
    files.mkdir(parents=True)
    write_files(files, options.data, options.documents)
    given = {"device": options.device} if options.device else {}
    index = Index.create(folder / "library", exist_ok=True, **given)
    results: dict[str, Any] = {
        "device": str(index.encoder.model.device),
        "noise": options.noise,
        "queries": options.queries,
        **measure_build(index, files),
    }
    queries = make_queries(index, options.queries)
    results["sizes"] = []
    missing = [f"{size:,} sentences" for size in options.sizes]
    save = partial(report.save, options.output, results, "pylance", "pyarrow", "bm25s", "faiss-cpu")
    save(missing=missing)
    for number, size in enumerate(options.sizes, 1):
        path = folder / f"library-{size}"
        peers = size <= options.peers
        results["sizes"].append(measure_size(index, path, size, options.noise, queries, peers))
        save(missing=missing[number:])
    show(results)


if __name__ == "__main__":
    main()
