"""A library on disk: how fast it is built, how large it is, and how fast it is searched.

    python -m benchmarks training_corpus --output corpus --manuals packages
    foveate index corpus/{manuals,papers,proposals,peps}.jsonl --library real.library
    python -m benchmarks library --documents 100 --base real.library --sizes 10000 1000000 10000000

Proposals, PEPs and papers of `../shared/data` are written as files, one each, and added to a
library; the time includes reading and encoding them. Then one of them is changed, and the library
is brought up to date. Libraries of the given numbers of sentences are made of that one, or of
`--base`. Where it has too few, copies follow, each of which differs: its vector is mixed with that
of one of the closest of 1,024 random texts, as SMOTE (Chawla et al., 2002) does, and three in ten
of its terms are drawn from those of other texts.

Each of them is searched by a process of its own on two cores, whose memory is measured. A first
query is one right after the library was opened; the files are in the system's cache by then. Warm
ones come later, each for the first time. The time to encode the queries is measured apart, and is
not part of them. Queries are sentences of the documents, cut to eight words. They are compared with
FAISS's flat index and inverted lists, Qdrant's client in its local mode and bm25s, over the same
sentences.

`recall` is how many of the ten best hits are found that are found if Lance proposes a hundred
times as many candidates, from all lists of its index.

At last one document is added and replaced, and as many are as need maintenance of the indexes.
"""

import json
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import report
from benchmarks.processes import in_new_process
from benchmarks.registry import measurement
from benchmarks.structured_documents import read_records
from benchmarks.timing import resident, timed
from foveate import Document, Index
from foveate.cli.memory import limit_arenas
from foveate.index import lance, search
from foveate.index.lance import Store
from foveate.index.rows import renumber
from foveate.index.schema import TERMS, vectors_of
from foveate.index.writer import ROWS_PER_FILE, ROWS_WITHOUT_INDEX, WrittenRows, write, writing
from foveate.tasks.arguments import Unit
from foveate.tasks.bm25 import hash_term
from foveate.tasks.hits import Hit

SOURCES = ("peps/train.jsonl.gz", "proposals/train.jsonl.xz", "scisummnet/train.jsonl.gz")
SUFFIXES = {"rst": "rst", "markdown": "md"}
WORDS_PER_QUERY = 8
SEARCH_CORES = 2
QUERIES_BEFORE = 20
"""Queries after which they count as warm."""
COMPARED_QUERIES = 30
"""Queries whose hits are compared with those of many candidates."""

MANY_CANDIDATES = 20_000

MOST_FOR_PEERS = 1_000_000
"""Sentences that other programs are given."""
MOST_IN_QDRANT = 100_000
"""Vectors that Qdrant's client holds in its local mode: a million take minutes to add."""

MIXED_WITH, NEAREST = 1024, 8
"""Texts that are drawn at random, and the closest ones, of which one is mixed with a copy."""

KEPT_TERMS = 0.7
"""Share of the terms of a text that a copy has; the others are those of any texts."""


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
    """The default model, whose queries have been encoded before."""

    def __init__(self, queries: Sequence[str]) -> None:
        from foveate.inference.query_encoder import QueryEncoder

        self._encoder = QueryEncoder()
        self.context = self._encoder.context
        self.min_likely_score = self._encoder.min_likely_score
        self.seconds: list[float] = []
        self._encoded: dict[str, tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]] = {}
        for query in queries:
            seconds, encoded = timed(partial(self._encoder.encode_query, query))
            self.seconds.append(seconds)
            self._encoded[query] = encoded

    def encode_query(self, query: str) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        return self._encoded[query]

    def encode_queries(self, queries: Sequence[str]) -> npt.NDArray[np.float32]:
        for query in queries:  # parts of a query
            if query not in self._encoded:
                self._encoded[query] = self._encoder.encode_query(query)
        return np.stack([self._encoded[query][0] for query in queries])


def enlarge(base: Path, path: Path, num_sentences: int, processes: int = 1) -> dict[str, float]:
    """Make a library of the documents of another one, and of copies, and return the seconds.

    What a process writes at a time is a file of the table.
    """
    start = time.perf_counter()
    state = Index.open(base).state
    columns = ["document", "num_sentences", "num_sections"]
    documents = rows_of(base, columns, "level = 'document'").sort_by("document")
    numbers, sentences, sections = (column.to_numpy() for column in documents)
    copies = num_sentences // int(sentences.sum()) + 1
    copy, idx = np.repeat(np.arange(copies), len(numbers)), np.tile(np.arange(len(numbers)), copies)
    is_kept = sentences[idx].cumsum() <= num_sentences
    file = (1 + sentences + sections)[idx].cumsum() // ROWS_PER_FILE
    parts = pa.table({"file": file, "copy": copy, "document": numbers[idx]}).filter(is_kept)
    ranges = parts.group_by(["file", "copy"]).aggregate([("document", "min"), ("document", "max")])
    tasks: dict[int, list[tuple[int, int, int]]] = {}
    for of_file, *one in zip(*(column.to_pylist() for column in ranges), strict=True):
        tasks.setdefault(of_file, []).append(tuple(one))
    seconds = {}
    with writing(Store(path), state.model, state.unrelated) as writer:
        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            for written in pool.map(partial(write_copies, base, path), tasks.values()):
                writer.add(written)
        writer.commit()
        seconds["written_s"] = time.perf_counter() - start
        print(f"{num_sentences:,} sentences written: {seconds['written_s']:.1f} s", flush=True)
        seconds["indexed_s"], _ = timed(writer.optimize)
        print(f"indexed: {seconds['indexed_s']:.1f} s", flush=True)
    return seconds


def write_copies(base: Path, path: Path, ranges: Sequence[tuple[int, int, int]]) -> WrittenRows:
    """Write copies of documents: in each copy, those from one number to another."""
    next_document, store = Index.open(base).state.next_document, Store(path)
    table, made = store.open(), []
    for copy, first, last in ranges:
        rows = rows_of(base, table.schema.names, f"document BETWEEN {first} AND {last}")
        if copy:
            rows = copy_of(rows, base, copy)
        made.append(renumber(rows, copy * next_document))
    return write(pa.concat_tables(made), table, store)


def copy_of(rows: pa.Table, base: Path, copy: int) -> pa.Table:
    """Return rows with other vectors and terms."""
    rng = np.random.default_rng([copy, rows["document"][0].as_py()])
    table = Store(base).open()
    drawn = rng.integers(table.count_rows(), size=MIXED_WITH)
    others = vectors_of(table.take(np.sort(drawn), ["vector"])["vector"].drop_null())
    vectors = vectors_of(rows["vector"])
    for part in np.array_split(vectors, len(vectors) // 4096 + 1):
        nearest = np.argpartition(-part @ others.T, NEAREST)[:, :NEAREST]
        chosen = nearest[np.arange(len(part)), rng.integers(NEAREST, size=len(part))]
        part += rng.random((len(part), 1), np.float32) / 2 * (others[chosen] - part)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    halves = pa.array(vectors.astype(np.float16).reshape(-1))
    changed: dict[str, Any] = {
        "file": pc.binary_join_element_wise(f"/copy-{copy}", rows["file"], ""),
        "content_hash": pc.add(rows["content_hash"], copy),  # so that all are shown
        "vector": pa.FixedSizeListArray.from_arrays(halves, vectors.shape[1]),
        **reworded(rows, rng),
    }
    for column, values in changed.items():
        idx = rows.column_names.index(column)
        rows = rows.set_column(idx, rows.schema.field(column), values)
    return rows


def reworded(rows: pa.Table, rng: np.random.Generator) -> dict[str, Any]:
    """Return the columns of terms with others in place of some of them."""
    lists = pc.split_pattern(pc.coalesce(*map(rows.column, TERMS.values())), " ").combine_chunks()
    words = lists.flatten().dictionary_encode()
    idx = words.indices.to_numpy().copy()
    others = np.flatnonzero(rng.random(len(idx)) >= KEPT_TERMS)
    idx[others] = rng.choice(idx, len(others))
    terms = words.dictionary.take(pa.array(idx))
    texts = pc.binary_join(pa.ListArray.from_arrays(lists.offsets, terms), " ")
    of_level = {
        column: pc.if_else(pc.equal(rows["level"], level), texts, None)
        for level, column in TERMS.items()
    }
    hashes = np.array([*map(hash_term, words.dictionary.to_pylist())], np.uint32)[idx]
    return {**of_level, "hashes": pa.ListArray.from_arrays(lists.offsets, pa.array(hashes))}


def rows_of(path: Path, columns: Sequence[str], condition: str) -> pa.Table:
    """Return columns of the rows of a library that satisfy a condition."""
    return Store(path).open().to_table(list(columns), filter=condition)


def of_sentences(path: Path, column: str) -> pa.ChunkedArray:
    """Return a column of the sentences of a library."""
    return rows_of(path, [column], "level = 'sentence'")[column]


def make_queries(path: Path, number: int) -> list[str]:
    rng = random.Random(0)
    texts = of_sentences(path, "text").to_pylist()
    long = [text for text in texts if len(text.split()) >= WORDS_PER_QUERY]
    chosen = rng.sample(long, min(number, len(long)))
    return [" ".join(text.split()[:WORDS_PER_QUERY]) for text in chosen]


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return the median and the 99th percentile in milliseconds."""
    return {
        "p50_ms": float(np.percentile(seconds, 50)) * 1e3,
        "p99_ms": float(np.percentile(seconds, 99)) * 1e3,
    }


def measure_queries(path: Path, queries: list[str]) -> dict[str, Any]:
    """Measure first and warm queries, and the memory of a process on few cores."""
    run = searcher(path, encoded := Encoded(queries))
    state = Index.open(path).state
    result: dict[str, Any] = {
        "sentences": state.num_sentences,
        "documents": state.num_documents,
        "encoding": percentiles(encoded.seconds),
    }
    for by in get_args(Unit):
        first, _ = timed(partial(run, by, queries[0]))
        result.setdefault("first_s", first)
        for query in queries[1:QUERIES_BEFORE]:
            run(by, query)
        result[by] = percentiles([timed(partial(run, by, q))[0] for q in queries[QUERIES_BEFORE:]])
        print(by, result[by], flush=True)
    result["memory_MB"] = resident("VmHWM") / 1e6  # `getrusage` would add its parent's
    print(f"memory: {result['memory_MB']:.0f} MB", flush=True)
    return result


def measure_recall(path: Path, queries: list[str]) -> dict[str, float]:
    """Compare hits with those of many candidates, of which this process then always takes many."""
    run = searcher(path, Encoded(queries))
    found_by = {by: [places(run(by, query)) for query in queries] for by in get_args(Unit)}
    search.LEAST_CANDIDATES, lance._SEARCHED, lance.REFINE = MANY_CANDIDATES, 10**12, 1
    search._LEAST_UNITS = MANY_CANDIDATES // 20
    recall = {}
    for by, found in found_by.items():
        best = [places(run(by, query)) for query in queries]
        shares = [len(a & b) / len(b) for a, b in zip(found, best, strict=True)]
        recall[by] = float(np.mean(shares))
        print(f"{by}: recall {recall[by]:.4f}", flush=True)
    return recall


def searcher(path: Path, encoder: Any) -> Callable[[Unit, str], list[Hit]]:
    """Return what finds the ten best hits in a library, on few cores, as the command does."""
    limit_arenas()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:SEARCH_CORES])
    index = Index.open(path)
    return lambda by, query: index._read(
        lambda engine: search.find(query, engine, encoder, by, 10, None)
    )


def places(hits: Sequence[Hit]) -> set[tuple[int, int, int]]:
    """Return what was found: for passages, by their best sentences."""
    spans = [hit.best if hit.unit == "passage" else hit.span for hit in hits]
    return {(hit.document_idx, x.start, x.end) for hit, x in zip(hits, spans, strict=True)}


def measure_peers(path: Path, queries: list[str]) -> dict[str, Any]:
    """Search the vectors of all sentences with FAISS and Qdrant, their texts with bm25s."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:SEARCH_CORES])
    return measure_vectors(path, queries) | {"bm25s": measure_bm25s(path, queries)}


def measure_vectors(path: Path, queries: list[str]) -> dict[str, Any]:
    import faiss

    encoded = Encoded(queries[:COMPARED_QUERIES])
    matrix = vectors_of(of_sentences(path, "vector"))
    num_lists = round(len(matrix) ** 0.5)
    lists = faiss.index_factory(matrix.shape[1], f"IVF{num_lists},Flat", faiss.METRIC_INNER_PRODUCT)
    seconds, _ = timed(lambda: (lists.train(matrix), lists.add(matrix)))
    lists.nprobe = 50
    flat = faiss.IndexFlatIP(matrix.shape[1])
    flat.add(matrix)
    result: dict[str, Any] = {"faiss_ivf_built_s": seconds}
    vectors = [encoded.encode_queries([query]) for query in queries[:COMPARED_QUERIES]]
    for name, one in (("faiss_flat", flat), ("faiss_ivf", lists)):
        result[name] = percentiles([timed(partial(one.search, v, 10))[0] for v in vectors])
    if len(matrix) <= MOST_IN_QDRANT:
        result["qdrant_local"] = measure_qdrant(matrix, vectors)
    return result


def measure_qdrant(
    matrix: npt.NDArray[np.float32], vectors: Sequence[npt.NDArray[np.float32]]
) -> dict[str, float]:
    """Search vectors with Qdrant's client in its local mode, which compares all of them."""
    from qdrant_client import QdrantClient, models

    client = QdrantClient(":memory:")
    config = models.VectorParams(size=matrix.shape[1], distance=models.Distance.DOT)
    client.create_collection("sentences", vectors_config=config)
    client.upload_collection("sentences", matrix)
    queries = [partial(client.query_points, "sentences", v[0].tolist(), limit=10) for v in vectors]
    return percentiles([timed(query)[0] for query in queries])


def measure_bm25s(path: Path, queries: list[str]) -> dict[str, float]:
    import bm25s

    retriever = bm25s.BM25()
    texts = of_sentences(path, "text").to_pylist()
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
        "device": str(index.encoder.model.device),
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
    base: Path, path: Path, size: int, processes: int, queries: list[str]
) -> dict[str, Any]:
    """Search a library of copies, add documents to it, and replace one."""
    result: dict[str, Any] = enlarge(base, path, size, processes)
    result |= in_new_process(measure_queries, path, queries)
    result["recall"] = in_new_process(measure_recall, path, queries[:COMPARED_QUERIES])
    if size <= MOST_FOR_PEERS:
        result |= in_new_process(measure_peers, path, queries)
    large = Index.open(path)
    result["bytes_per_sentence"] = large.size() / result["sentences"]
    _ = large.encoder  # is loaded beforehand
    document = Document.from_text("A page of one sentence is added.", source="added")
    result["one_document_added_s"], _ = timed(partial(large.add, document))
    document = Document.from_text("Another page takes its place.", source="added")
    result["one_document_replaced_s"], _ = timed(partial(large.add, document))
    result["maintained_s"] = measure_maintenance(base, path)
    shutil.rmtree(path)
    return result


def measure_maintenance(base: Path, path: Path) -> float:
    """Add rows until the indexes are brought up to date, and return how long that takes."""
    state = Index.open(path).state
    with writing(Store(path), state.model, state.unrelated) as writer:
        rows = rows_of(base, writer.table.schema.names, "document BETWEEN 0 AND 99")
        for _ in range(ROWS_WITHOUT_INDEX // rows.num_rows + 1):
            added = renumber(rows, writer.new_documents(100))
            writer.add(write(added, writer.table, writer.store))
            writer.commit()
        seconds, _ = timed(partial(writer.tidy, is_end=True))
    print(f"indexes brought up to date: {seconds:.1f} s", flush=True)
    return seconds


def show(results: dict[str, Any]) -> None:
    header = [
        "sentences",
        "first, s",
        "warm p50, ms",
        "p99",
        "sections p50",
        "documents p50",
        "recall",
        "MB",
    ]
    rows = [
        [
            f"{size['sentences']:,}",
            size["first_s"],
            size["passage"]["p50_ms"],
            size["passage"]["p99_ms"],
            size["section"]["p50_ms"],
            size["document"]["p50_ms"],
            size["recall"]["passage"],
            size["memory_MB"],
        ]
        for size in results["sizes"]
    ]
    print(report.table(header, rows))
    print(json.dumps({key: results[key] for key in results if key != "sizes"}, indent=1))


@measurement("library.json", "pylance", "pyarrow", "bm25s", "faiss-cpu", "qdrant-client")
def library(
    data: Path = report.DATA,
    device: str | None = None,
    documents: int = 2000,
    base: Path | None = None,
    sizes: Sequence[int] = (10_000, 100_000, 1_000_000),
    queries: int = 1000,
    processes: int = 1,
) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Build a library, and search libraries of copies.

    Options:
        base: a library to search and copy instead
        sizes: sentences
        queries: number of queries
        processes: processes that write copies
    """
    results: dict[str, Any] = {"queries": queries}
    missing = [f"{size:,} sentences" for size in sizes]
    with tempfile.TemporaryDirectory() as folder:
        built, files = Path(folder, "library"), Path(folder, "files")
        files.mkdir()
        write_files(files, data, documents)
        results |= measure_build(
            Index.create(built, **({"device": device} if device else {})), files
        )
        base = base or built
        asked = make_queries(base, queries)
        results["sizes"] = []
        yield results, missing
        for number, size in enumerate(sizes, 1):
            path = Path(folder, f"library-{size}")
            results["sizes"].append(measure_size(base, path, size, processes, asked))
            yield results, missing[number:]
    show(results)
