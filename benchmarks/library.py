"""A library on disk: how fast it is built, how large it is, and how fast it is searched.

    python benchmarks/library.py --documents 2000 --sizes 10000 100000 1000000

Proposals, PEPs and papers of `../shared/data` are written as files, one each, and added to a
library; the time includes reading and encoding them. Then one of them is changed, and the library
is brought up to date. Libraries of the given numbers of sentences are made of that one by copies
whose vectors have noise of `--noise` (of length 1 before it is scaled), normalized again; their
texts are the same, so that as many share a word as do in real ones.

A first query is one right after the library was opened, which loads what a search needs; the files
are in the system's cache by then. Warm ones come later, each for the first time: words that no
query before had are still read from disk. The time to encode the queries is measured apart, and is
not part of them. Queries are sentences of the documents, cut to eight words. They are compared with
a product of the query and all vectors in float32, with FAISS's flat index where that is installed,
and with bm25s alone over the same sentences.

`recall_of_float16` is how many of the ten sentences closest in float32 are among the ten closest by
the library's vectors of float16. Above `EXACT_SENTENCES` only those sentences are compared with the
query whose scores, estimated from the signs of the vectors, are highest. `recall_of_estimates` is
how many of the ten best hits are still found when the share of these is 0.5, 1, 2 or 5 %, in the
library of real documents; its queries are beginnings of sentences, headings, and questions made of
these ("What is …?"). `recall` of a library of copies is how many of the ten best hits among all
sentences are found as the library is searched by default.
"""

import argparse
import json
import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

import arguments
import report
from foveate import Document, Index
from foveate.documents.language import FALLBACK
from foveate.documents.sentences import split_sentences
from foveate.index import search
from foveate.index.schema import pack_keys
from foveate.index.store import Store, Writer
from foveate.index.vectors import vectors_of
from foveate.inference import Encoder
from foveate.tasks.arguments import Unit
from structured_documents import read_records

SOURCES = ("peps/train.jsonl.gz", "proposals/train.jsonl.xz", "scisummnet/train.jsonl.gz")
SUFFIXES = {"rst": "rst", "markdown": "md"}
WORDS_PER_QUERY = 8
QUERIES_BEFORE = 20
"""Queries after which they count as warm."""
FLAT_QUERIES = 100
ESTIMATED_QUERIES = 30
"""Of each kind, for `recall_of_estimates`."""

SHARES = (0.005, 0.01, 0.02, 0.05)


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

    def __init__(self, encoder: Encoder, queries: Sequence[str], language: str) -> None:
        self.context = encoder.context
        self.seconds: list[float] = []
        self._vectors: dict[tuple[str, ...], Tensor] = {}
        for query in queries:
            seconds, self._vectors[query,] = timed(partial(encoder.encode_queries, [query]))
            self.seconds.append(seconds)
            parts = [query[start:end] for start, end in split_sentences(query, language)]
            self._vectors[query, *parts] = encoder.encode_queries([query, *parts])

    def encode_queries(self, queries: Sequence[str]) -> Tensor:
        return self._vectors[*queries,]


def enlarge(base: Index, path: Path, num_sentences: int, noise: float) -> Index:
    """Make a library of copies of another one, whose vectors have noise."""
    state = base.state
    tables = {name: table.to_arrow() for name, table in Store(base.path).open_tables(state).items()}
    rng = np.random.default_rng(0)
    size = state.num_sentences
    with Store(path).writing(state.model) as writer:
        for copy in range(-(-num_sentences // size)):
            if copy * size >= num_sentences:
                break
            limit = num_sentences - copy * size
            add_copy(writer, tables, copy, state.next_document, limit, rng, noise)
            writer.next_document = (copy + 1) * state.next_document
            writer.commit()
        writer.optimize(merges_terms=True)
    return Index.create(path, exist_ok=True, model=base.encoder)


def add_copy(
    writer: Writer,
    tables: dict[str, pa.Table],
    copy: int,
    num_documents: int,
    max_sentences: int,
    rng: np.random.Generator,
    noise: float,
) -> None:
    """Add a copy of the first documents that have so many sentences together."""
    documents = tables["documents"].sort_by("document")
    ends = np.cumsum(documents["num_sentences"].to_numpy())
    kept = documents["document"].to_numpy()[: max(int((ends <= max_sentences).sum()), 1)]
    offset = copy * num_documents
    rows = {}
    for name in ("documents", "sections", "sentences"):
        table = tables[name].filter(pa.array(np.isin(tables[name]["document"].to_numpy(), kept)))
        numbers = table["document"].to_numpy() + offset
        changed: dict[str, Any] = {"document": numbers}
        if name == "documents":
            for column in ("file", "source"):
                changed[column] = [f"/copy-{copy}{value}" for value in table[column].to_pylist()]
        else:
            changed["key"] = pack_keys(numbers, table["position"].to_numpy())
        vectors = vectors_of(table["vector"]).astype(np.float32)
        if copy:
            vectors += (
                noise * rng.standard_normal(vectors.shape, np.float32) / len(vectors.T) ** 0.5
            )
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        changed["vector"] = pa.FixedSizeListArray.from_arrays(
            pa.array(vectors.astype(np.float16).reshape(-1)), vectors.shape[1]
        )
        for column, values in changed.items():
            place = table.schema.get_field_index(column)
            field = table.schema.field(column)
            values = values if isinstance(values, pa.Array) else pa.array(values, field.type)
            table = table.set_column(place, field, values)
        rows[name] = table
    lists = tables["terms"]["documents"].combine_chunks()
    moved = pa.ListArray.from_arrays(lists.offsets, pa.array(lists.values.to_numpy() + offset))
    rows["terms"] = tables["terms"].set_column(2, tables["terms"].schema.field("documents"), moved)
    writer.add(rows)


def texts_of(index: Index, table: str) -> list[str]:
    """Return the sentences of a library, or the titles of its sections."""
    rows = Store(index.path).open_tables(index.state)[table].search().select(["text"])
    texts: list[str] = rows.to_arrow()["text"].to_pylist()
    return texts


def make_queries(index: Index, number: int) -> list[str]:
    rng = random.Random(0)
    long = [text for text in texts_of(index, "sentences") if len(text.split()) >= WORDS_PER_QUERY]
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


def measure_queries(index: Index, queries: list[str]) -> dict[str, Any]:
    """Measure first and warm queries, and those of vectors alone and words alone."""
    state = index.state
    result: dict[str, Any] = {"sentences": state.num_sentences, "documents": state.num_documents}
    snapshot = index._read(lambda snapshot: snapshot)
    result["sections"] = len(snapshot.section_sizes)
    encoded = Encoded(index.encoder, queries, snapshot.language or FALLBACK)
    result["encoding"] = percentiles(encoded.seconds)
    del snapshot
    for by in get_args(Unit):
        fresh = Index.open(index.path, model=index.encoder)  # with no words in memory

        def run(query: str, by: Unit = by, fresh: Index = fresh) -> None:
            fresh._read(lambda snapshot: search.find(query, snapshot, encoded, by, 10, None))

        first, _ = timed(partial(run, queries[0]))
        if by == "passage":
            result["first_s"] = first
        for query in queries[1:QUERIES_BEFORE]:
            run(query)
        seconds = [timed(partial(run, query))[0] for query in queries[QUERIES_BEFORE:]]
        result[by] = percentiles(seconds)
        result[by]["recall"] = measure_recall_of_search(fresh, queries[:50], by)
    result |= measure_flat(fresh, encoded, queries[:FLAT_QUERIES])
    result["bm25s"] = measure_bm25s(index, queries)
    return result


def measure_recall_of_search(index: Index, queries: list[str], by: Unit) -> float:
    """Compare the ten best hits with those among all sentences."""
    found = [spans(index, query, by) for query in queries]
    limit = search.EXACT_SENTENCES
    search.EXACT_SENTENCES = 10**9
    exact = [spans(index, query, by) for query in queries]
    search.EXACT_SENTENCES = limit
    return float(np.mean([len(a & b) / len(b) for a, b in zip(found, exact, strict=True)]))


def measure_flat(index: Index, encoded: Encoded, queries: list[str]) -> dict[str, Any]:
    """Compare some queries with all vectors in float32, here and in FAISS."""
    snapshot = index._read(lambda snapshot: snapshot)
    matrix = torch.from_numpy(snapshot.sentences).float()
    vectors = [encoded.encode_queries([query])[0] for query in queries]
    result: dict[str, Any] = {"flat_queries": len(queries)}
    result["flat_float32"] = percentiles(
        [timed(lambda v=vector: (matrix @ v).topk(10))[0] for vector in vectors]
    )
    try:
        import faiss
    except ImportError:
        return result
    flat = faiss.IndexFlatIP(matrix.shape[1])
    flat.add(matrix.numpy())
    result["faiss_flat"] = percentiles(
        [timed(lambda v=vector: flat.search(v.numpy()[None], 10))[0] for vector in vectors]
    )
    return result


def measure_bm25s(index: Index, queries: list[str]) -> dict[str, float]:
    import bm25s

    retriever = bm25s.BM25()
    sentences = bm25s.tokenize(texts_of(index, "sentences"), stopwords=None, show_progress=False)
    retriever.index(sentences, show_progress=False)

    def retrieve(query: str) -> None:
        tokens = bm25s.tokenize([query], stopwords=None, show_progress=False)
        retriever.retrieve(tokens, k=10, show_progress=False)

    return percentiles([timed(lambda q=query: retrieve(q))[0] for query in queries])


def measure_recall(index: Index, queries: list[str]) -> float:
    """Compare the ten sentences closest in float32, encoded anew, with those of the library."""
    encoder = index.encoder
    entries = list(index.documents())[:20]
    exact = [encoder.encode(index.document(entry.number)).sentences for entry in entries]
    store = Store(index.path).open_tables(index.state)["sentences"]
    numbers = ", ".join(str(entry.number) for entry in entries)
    rows = store.search().where(f"document IN ({numbers})").to_arrow()
    order = {entry.number: place for place, entry in enumerate(entries)}
    keys = [
        (order[number], position)
        for number, position in zip(
            rows["document"].to_pylist(), rows["position"].to_pylist(), strict=True
        )
    ]
    stored = vectors_of(rows["vector"])[sorted(range(len(keys)), key=keys.__getitem__)]
    left = torch.nn.functional.normalize(torch.cat(exact), dim=-1)
    right = torch.from_numpy(stored.astype(np.float32))
    shares = []
    for query in queries:
        vector = encoder.encode_queries(query)
        best, found = ((side @ vector).topk(10).indices.tolist() for side in (left, right))
        shares.append(len({*best} & {*found}) / 10)
    return float(np.mean(shares))


def measure_estimates(index: Index, queries: dict[str, list[str]]) -> dict[str, Any]:
    """Compare the hits among the sentences of the highest estimates with those among all."""
    limits = search.EXACT_SENTENCES, search.COMPARED_SENTENCES, search.COMPARED_SHARE
    shares: dict[str, Any] = {}
    for kind, some in queries.items():
        for by in get_args(Unit):
            search.EXACT_SENTENCES = 10**9
            best = [spans(index, query, by) for query in some]
            search.EXACT_SENTENCES = search.COMPARED_SENTENCES = 0
            for share in SHARES:
                search.COMPARED_SHARE = share
                kept = [
                    len(spans(index, query, by) & found) / len(found)
                    for query, found in zip(some, best, strict=True)
                ]
                shares.setdefault(kind, {}).setdefault(by, {})[str(share)] = float(np.mean(kept))
            search.EXACT_SENTENCES, search.COMPARED_SENTENCES, search.COMPARED_SHARE = limits
    return shares


def spans(index: Index, query: str, by: Unit) -> set[tuple[int, int, int]]:
    hits = index.search(query, by=by, top_k=10)
    places = [hit.best if by == "passage" else hit.span for hit in hits]
    return {(hit.document_idx, x.start, x.end) for hit, x in zip(hits, places, strict=True)}


def make_headings(index: Index, number: int) -> list[str]:
    titles = sorted({*texts_of(index, "sections")})
    long = [title for title in titles if len(title.split()) > 1]
    return random.Random(0).sample(long, min(number, len(long)))


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


def measure_recalls(index: Index, queries: list[str]) -> dict[str, Any]:
    """Measure what is lost to float16, and to estimates."""
    headings = make_headings(index, ESTIMATED_QUERIES)
    estimated = {
        "beginnings": queries[:ESTIMATED_QUERIES],
        "headings": headings,
        "questions": [f"What is {heading}?" for heading in headings],
    }
    return {
        "recall_of_float16": measure_recall(index, queries[:100]),
        "recall_of_estimates": measure_estimates(index, estimated),
    }


def measure_size(
    base: Index, path: Path, num_sentences: int, noise: float, queries: list[str]
) -> dict[str, Any]:
    """Search a library of copies, add a document to it, and remove it."""
    large = enlarge(base, path, num_sentences, noise)
    result = measure_queries(large, queries)
    result["bytes_per_sentence"] = large.size() / result["sentences"]
    document = Document.from_text("A page of one sentence is added.", source="added")
    result["one_document_added_s"], _ = timed(partial(large.add, document))
    shutil.rmtree(large.path)
    return result


def show(results: dict[str, Any]) -> None:
    header = ["sentences", "first, s", "warm p50, ms", "p99", "flat float32 p50", "bm25s p50"]
    rows = [
        [
            f"{size['sentences']:,}",
            size["first_s"],
            size["passage"]["p50_ms"],
            size["passage"]["p99_ms"],
            size["flat_float32"]["p50_ms"],
            size["bm25s"]["p50_ms"],
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
    results |= measure_recalls(index, queries)
    results["sizes"] = []
    missing = [f"{size:,} sentences" for size in options.sizes]
    save = partial(report.save, options.output, results, "lancedb", "pyarrow", "bm25s", "faiss-cpu")
    save(missing=missing)
    for number, size in enumerate(options.sizes, 1):
        path = folder / f"library-{size}"
        results["sizes"].append(measure_size(index, path, size, options.noise, queries))
        save(missing=missing[number:])
    show(results)


if __name__ == "__main__":
    main()
