"""A library of documents on disk: built once, kept up to date, and searched immediately."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cache
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from foveate.documents import Document, as_documents
from foveate.documents.members import ErrorHandler
from foveate.files import atomic_write
from foveate.index.build import Changes, Job, LibraryBuilder, by_name, in_this_process
from foveate.index.conditions import Conditions, as_condition
from foveate.index.engine import OF_DOCUMENTS, Engine
from foveate.index.lance import LanceEngine, Store
from foveate.index.rows import read_document
from foveate.index.schema import DOCUMENT_COLUMNS, in_microseconds
from foveate.index.search import explained, find
from foveate.index.sources import find_sources, is_under, is_url
from foveate.index.state import LibraryDocument, LibraryError, ModelRecord, State, check_model
from foveate.index.units import group_files
from foveate.index.writer import Writer, writing
from foveate.tasks.arguments import Unit, check_budget, check_query, check_top_k, check_unit
from foveate.tasks.explain import check_tokens
from foveate.tasks.hits import Hit
from foveate.tasks.rerank import RERANKED, load_reranker
from foveate.tasks.rerank import rerank as rerank_hits
from foveate.tasks.tokens import DEFAULT_TOKENS, token_counter

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from foveate.index.build import FileHandler, Workers
    from foveate.index.qdrant import QdrantCopy
    from foveate.inference import DocumentVectors, Encoder
    from foveate.inference.encoder import EncoderOptions
    from foveate.inference.query_encoder import QueryEncoder
    from foveate.inference.reranker import Reranker
    from foveate.tasks.context import Prompt
    from foveate.tasks.summarize import Summary

# What loads torch is imported where it is needed: a search with the default model does without.

_Result = TypeVar("_Result")


class Index:
    """A library of documents on disk; see `Index.create` and `Index.open`.

    A search always sees the library's newest state. Several processes may search it, even while one
    of them adds documents, which the others see once they are complete. Threads may share an
    index, and then share its model and what it has read.

    Args:
        store: Where it is stored.
        model: The encoder, or the name or path of its checkpoint; None for the one that made the
            library or, if it does not exist yet, the default model.
        options: Options of `Encoder.from_pretrained` for a model to load.

    Example:
        >>> from foveate import Document, Index
        >>> index = Index.create(getfixture("tmp_path") / "library")
        >>> sea = Document.from_sections("Sea", [("Fish", "Cod swim. They eat herring.")])
        >>> index.add(sea).added
        1
        >>> [hit] = index.search("What do fish eat?", top_k=1)
        >>> hit.span.document, hit.span.path, hit.best.text
        ('Sea', ('Fish',), 'They eat herring.')
    """

    def __init__(
        self,
        store: "Store | QdrantCopy",
        model: "Encoder | str | PathLike[str] | None" = None,
        **options: "Unpack[EncoderOptions]",
    ) -> None:
        self._store = store
        self._model = model
        self._options = options
        self._lock = RLock()  # held while the model or a state of the library is loaded
        self._encoder: Encoder | None = None
        self._for_queries: QueryEncoder | None = None
        self._loaded: tuple[object, Engine] | None = None  # with its stamp

    @classmethod
    def open(
        cls,
        path: str | PathLike[str],
        *,
        model: "Encoder | str | PathLike[str] | None" = None,
        storage_options: Mapping[str, Any] | None = None,
        **options: "Unpack[EncoderOptions]",
    ) -> Self:
        """Open a library.

        Args:
            path: Its folder, its URL in an object store, such as "s3://bucket/papers.library",
                or "qdrant://HOST:PORT/COLLECTION", see `export`.
            model: An encoder, or the name or path of its checkpoint; by default the one that made
                the library.
            storage_options: What gives access to the object store, such as `region`; by default
                what the environment says. See https://lance.org/guide/object_store/. Of Qdrant,
                options of `QdrantClient`.
            options: Options of `Encoder.from_pretrained`, such as `device="cpu"`, for a model that
                is not loaded yet.

        Raises:
            FileNotFoundError: There is no library in the folder.
            ValueError: The library is damaged, or of another version.
        """
        store = _store(path, storage_options)
        store.open()
        return cls(store, model, **options)

    @classmethod
    def create(
        cls,
        path: str | PathLike[str],
        *,
        exist_ok: bool = False,
        model: "Encoder | str | PathLike[str] | None" = None,
        storage_options: Mapping[str, Any] | None = None,
        **options: "Unpack[EncoderOptions]",
    ) -> Self:
        """Begin a library, whose folder is made when something is first added.

        Args:
            path: See `open`.
            exist_ok: Open the library if there is one already.
            model: An encoder, or the name or path of its checkpoint; by default foveate's own.
            storage_options: See `open`.
            options: See `open`.

        Raises:
            FileExistsError: There is a library in the folder.
            ValueError: See `open`.
        """
        store = _store(path, storage_options)
        if store.exists():
            if not exist_ok:
                raise FileExistsError(
                    f"there is a library in {path} already: open it with Index.open"
                )
            store.open()
        return cls(store, model, **options)

    @property
    def path(self) -> str | Path:
        """The library's folder, or its URL in an object store."""
        return self._store.place

    @property
    def _table(self) -> Store:
        """Where the library is stored, if it can be changed there."""
        if not isinstance(self._store, Store):
            raise ValueError(
                f"{self.path} can only be searched: change the library that it was exported from, "
                "and export that again"
            )
        return self._store

    @property
    def state(self) -> State:
        """What the library currently consists of.

        Raises:
            FileNotFoundError: There is no library.
        """
        return self._read(lambda engine: engine.state)

    def size(self) -> int:
        """Return the total size of the library's files in bytes."""
        return self._table.size()

    def __len__(self) -> int:
        """Return the number of documents."""
        return self.state.num_documents if self._store.exists() else 0

    def add(
        self,
        what: str | PathLike[str] | Document | Iterable[str | PathLike[str] | Document],
        *,
        prune: bool = False,
        on_error: ErrorHandler | None = None,
        on_file: "FileHandler | None" = None,
        cluster: "Workers | None" = None,
        **options: Any,
    ) -> Changes:
        """Add files and documents, and replace those that have changed.

        Folders are walked, and everything in archives, mailboxes and files of records is added.
        A file whose content has not changed is left as it is. Additions become visible every few
        seconds, each file as a whole, and stay if the process is interrupted.

        Args:
            what: Files, folders, patterns such as `papers/**/*.pdf`, and documents; one or
                several. A document replaces the one of the same name.
            prune: Remove files that are gone from the folders that are given. Those of a folder
                that is missing itself are kept: it may be on a disk that is not mounted.
            on_error: Called with the name of each file that cannot be read, and the error; by
                default, the first error is raised.
            on_file: Called at the beginning and as files are done, changed or not, with their
                number, that of all files, and that of the documents that were added.
            cluster: What reads and encodes the files, such as a
                `foveate.index.ray.RayCluster`; by default, this process.
            options: Options of `foveate.read_documents`, such as `language="de"` or `ocr=True`.

        Raises:
            FileNotFoundError: A path does not exist.
            DocumentError: A file cannot be read.
            OSError: The library cannot be written to, or another process is writing to it.
            ValueError: Another model made the library.
        """
        several = [what] if isinstance(what, str | PathLike | Document) else list(what)
        documents = [one for one in several if isinstance(one, Document)]
        paths = [one for one in several if not isinstance(one, Document)]
        changes = Changes()

        def fail(name: str, error: Exception) -> None:
            if on_error is None:
                raise error
            changes.failures.append((name, error))
            on_error(name, error)

        named = by_name(as_documents(documents), find_sources(paths, fail))
        if not (named or prune):  # before a library is made of nothing
            return changes
        with writing(self._table, *self._model_of_writer()) as writer:
            dtype = self._encoder.linear_dtype if self._encoder else self._options.get("dtype")
            job = Job(writer, cache(self._matching_encoder), dtype, options)
            builder = LibraryBuilder(writer, changes, fail, on_file)
            try:
                units = group_files(builder.changed(named))
                for unit, added in (cluster or in_this_process)(job, units):
                    builder.take(unit, added)
                if prune:
                    builder.prune(paths)
            except Exception:
                raise
            except BaseException:  # Ctrl-C: what has been written is kept
                with suppress(OSError):
                    writer.commit()
                raise
            builder.commit(is_end=True)
        return changes

    def remove(self, names: str | PathLike[str] | Iterable[str | PathLike[str]]) -> int:
        """Remove documents.

        Args:
            names: Files, folders, or names of documents, as `documents` lists them.

        Returns:
            The number of documents that were removed.

        Raises:
            ValueError: The library has nothing with such a name.
        """
        several = [names] if isinstance(names, str | PathLike) else names
        numbers: set[int] = set()
        documents = list(self.documents())
        for one_name in several:
            name = os.fspath(one_name)
            path = os.path.abspath(name)  # noqa: PTH100 (resolve would follow links)
            matching = {
                one.number
                for one in documents
                if {name, path} & {one.source, one.file} or is_under(one.file, path)
            }
            if not matching:
                raise ValueError(
                    f"the library {self.path} has nothing named {name}: "
                    f"`foveate library list {self.path}` shows what it has"
                )
            numbers |= matching
        with self._writing() as writer:
            writer.delete(sorted(numbers))
            writer.commit()
            writer.tidy(is_end=True)
        return len(numbers)

    def search(
        self,
        query: str,
        *,
        by: Unit = "passage",
        top_k: int = 5,
        rerank: "Reranker | str | PathLike[str] | None" = None,
        explain: bool = False,
        **conditions: Unpack[Conditions],
    ) -> list[Hit]:
        """Find what best matches a query, by meaning and by words.

        The hits are those of `foveate.search` over the same documents. The rarity of words is
        measured over the whole library, whatever the conditions.

        Args:
            query: What to look for, in plain words: a question, a few words, or several sentences.
            by: What to find: passages, sections or documents.
            top_k: Number of hits.
            rerank: See `foveate.search`.
            explain: See `foveate.search`.
            conditions: What the sentences must satisfy, see `foveate.index.conditions.Conditions`.
                Sections and documents are found if one of their sentences does.

        Returns:
            The hits, best first. Their `document_idx` is the number of the document, as `document`
            takes it.

        Raises:
            FileNotFoundError: There is no library.
            ValueError: The query is empty, `top_k` is below 1, `by` is something else, a condition
                cannot be evaluated, or the library was made by another model or is damaged; or see
                `foveate.search`.
        """
        check_query(query)
        check_top_k(top_k)
        check_unit(by)
        if rerank is not None:
            rerank = load_reranker(rerank, by)
        if explain:
            check_tokens(self.encoder)
        encoder = self._query_encoder(query)
        number = top_k if rerank is None else max(top_k, RERANKED)

        hits, encoded = self._read(
            lambda engine: find(
                query, engine, encoder, by, number, as_condition(engine, **conditions)
            )
        )
        if rerank is not None:
            hits = rerank_hits(query, hits, rerank, top_k)
        if explain:
            hits = self._read(lambda engine: explained(hits, encoded, engine, self.encoder))
        return hits

    def summarize(
        self,
        query: str | None = None,
        *,
        sentences: int | None = None,
        words: int | None = None,
        **conditions: Unpack[Conditions],
    ) -> "Summary":
        """Summarize what the library says about something, or a document of it.

        With a query, the sentences are chosen from the ten documents that match it best: those with
        the highest scores in `search` that differ from each other, as `foveate.summarize` chooses
        them. Without one, the conditions must leave one document, which is summarized as by
        `foveate.summarize`. Nothing but the query and the title is encoded.

        Args:
            query: What the summary should be about.
            sentences: Budget in sentences; 5 by default.
            words: Budget in words instead.
            conditions: See `search`.

        Returns:
            The summary. Its sentences are `LibrarySentence`s; those of the same document are kept
            together.

        Raises:
            ValueError: Both budgets are given, or one is below 1; there is no query, and not one
                document; or see `search`.
        """
        from foveate.index.answers import summarize

        if query is not None:
            check_query(query)
        check_budget(sentences, words)
        encoder = self._matching_encoder()

        return self._read(
            lambda engine: summarize(
                query, engine, encoder, sentences, words, as_condition(engine, **conditions)
            )
        )

    def context(
        self,
        query: str | None = None,
        *,
        tokens: int = DEFAULT_TOKENS,
        tokenizer: "PreTrainedTokenizerBase | str | PathLike[str] | None" = None,
        **conditions: Unpack[Conditions],
    ) -> "Prompt":
        """Show what the library says to a language model, within a budget of tokens.

        With a query, the ten documents that match it best are shown as by `foveate.context`, the
        best one first. Without one, the conditions must leave one document. Of sections and
        sentences that the conditions exclude, at most the heading or a count is shown. Nothing but
        the query and the titles is encoded.

        Args:
            query: What is looked for; None for a digest of a document.
            tokens: The budget.
            tokenizer: What counts tokens; estimated by default, see `foveate.context`.
            conditions: See `search`.

        Returns:
            The prompt. Its sentences are numbered through the documents that matched, and their
            `document_idx` is the number of the document, as `document` takes it.

        Raises:
            ValueError: The budget is too small even for a title; there is no query, and not one
                document; no document matches; or see `search`.
        """
        from foveate.index.answers import context

        if query is not None:
            check_query(query)
        count = token_counter(tokenizer)
        encoder = self._matching_encoder()

        return self._read(
            lambda engine: context(
                query, engine, encoder, tokens, count, as_condition(engine, **conditions)
            )
        )

    def documents(self) -> Iterator[LibraryDocument]:
        """Iterate over what is in the library, in the order of the files' names."""
        columns = ("document", "member", *DOCUMENT_COLUMNS)
        rows = self._read(lambda engine: engine.read(columns, OF_DOCUMENTS))
        rows = rows.sort_by([("file", "ascending"), ("member", "ascending")])
        for batch in in_microseconds(rows).to_batches():
            for row in batch.to_pylist():
                del row["member"]
                row["authors"] = tuple(row["authors"])
                yield LibraryDocument(number=row.pop("document"), **row)

    def document(self, number: int) -> Document:
        """Return a document as it was when it was added.

        Args:
            number: Its number: the `document_idx` of a hit, or the `number` of one of `documents`.

        Raises:
            TypeError: It is not an integer.
            ValueError: There is no document with this number.
        """
        return self._read(lambda engine: read_document(engine, number))

    def vectors(self, number: int) -> "DocumentVectors":
        """Return the vectors of a document, scaled to unit length and rounded to float16.

        Args:
            number: Its number, see `document`.

        Raises:
            TypeError: It is not an integer.
            ValueError: There is no document with this number.
        """
        from foveate.index.vectors import read_vectors

        return self._read(lambda engine: read_vectors(engine, number))

    def export(
        self, target: str | PathLike[str], *, storage_options: Mapping[str, Any] | None = None
    ) -> int:
        """Copy all rows to a Parquet file or a collection of Qdrant.

        Each document, section and sentence has a row with the columns of
        `foveate.index.schema.schema`: a `key` that is never given to another one, its terms, and
        its vector. In a file, the rows without a `level` hold in how many sentences, sections and
        documents each word is (`words`, `frequencies`), and how many of each there are (`totals`).
        A collection can be opened and searched like this library. If it is exported again, only
        what has changed is sent.

        Args:
            target: The file, or "qdrant://HOST:PORT/COLLECTION".
            storage_options: See `open`.

        Returns:
            The number of rows that were written.

        Raises:
            FileNotFoundError: There is no library.
            ImportError: The client of the search engine is not installed.
            OSError: The file cannot be written, or the search engine cannot be reached.
        """
        engine = LanceEngine(self._table)
        other = _store(target, storage_options)
        if not isinstance(other, Store):
            return other.write(engine)
        import pyarrow.parquet as pq

        with engine.store.explained(), atomic_write(target) as temporary:
            reader = engine.table.scanner().to_reader()
            with pq.ParquetWriter(temporary, reader.schema) as file:
                for batch in reader:
                    file.write_batch(batch)
        return int(engine.table.count_rows())

    def compact(self) -> None:
        """Merge small writes, and reclaim the space of what was removed."""
        with self._writing() as writer:
            writer.optimize()

    def _writing(self) -> AbstractContextManager[Writer]:
        return writing(self._table, self.state.model, self.state.unrelated)

    @property
    def encoder(self) -> "Encoder":
        """The encoder, which is loaded when it is first needed.

        Raises:
            OSError: It cannot be loaded.
            ValueError: See above.
        """
        with self._lock:
            if self._encoder is None:
                self._encoder = self._load_encoder()
            return self._encoder

    def _model_of_writer(self) -> tuple[ModelRecord, Sequence[float]]:
        """Return the model's record and `State.unrelated`, from the library if it has them."""
        if self._model is None and self._store.exists():
            return self.state.model, self.state.unrelated
        from foveate.index.identity import identify

        return identify(self.encoder), self.encoder.unrelated.mean(0).tolist()

    def _load_encoder(self) -> "Encoder":
        from foveate.inference import Encoder, as_encoder

        recorded = self.state.model if self._store.exists() else None
        if self._model is None and recorded is not None and recorded.name is not None:
            options = {**recorded.loading, **self._options}
            try:
                return Encoder.from_pretrained(recorded.name, **options)
            except (OSError, ValueError) as error:
                raise type(error)(
                    f"the library {self.path} was made by {recorded.name}, which cannot be loaded "
                    f"({error}): name where that model is now"
                ) from error
        options = {**(recorded.options if recorded else {}), **self._options}
        return as_encoder(self._model, **options)

    def _matching_encoder(self) -> "Encoder":
        """Return the encoder, checking that it made the library."""
        from foveate.index.identity import identify

        check_model(self.path, self.state.model, identify(self.encoder))
        return self.encoder

    def _query_encoder(self, query: str) -> "Encoder | QueryEncoder":
        """Return what encodes a query: without torch, if the default model made the library."""
        recorded = self.state.model
        is_default = self._model is None and not self._options and recorded.is_default
        if self._encoder is None and is_default:
            from foveate.inference.query_encoder import QueryEncoder

            with self._lock:
                if self._for_queries is None:
                    self._for_queries = QueryEncoder()
            if self._for_queries.sha256 == recorded.sha256 and self._for_queries.fits(query):
                return self._for_queries
        return self._matching_encoder()

    def _read(self, use: Callable[[Engine], _Result]) -> _Result:
        """Use the newest state, and a newer one if that was replaced and removed meanwhile."""
        while True:
            stamp = self._store.stamp()
            try:
                return use(self._load_engine(stamp))
            except (ValueError, OSError) as error:
                if isinstance(error, LibraryError | OSError):  # not of a condition, harmless
                    self._loaded = None
                if self._store.stamp() == stamp:
                    raise

    def _load_engine(self, stamp: object) -> Engine:
        """Return the newest state, which is loaded if the one in memory has another stamp."""
        with self._lock:
            loaded = self._loaded  # which other threads drop if they fail to read it
            if loaded is None or loaded[0] != stamp:
                self._loaded = loaded = stamp, self._store.engine()
            return loaded[1]


def _store(path: str | PathLike[str], options: Mapping[str, Any] | None) -> "Store | QdrantCopy":
    if not is_url(path):
        return Store(Path(path), options)
    url = re.sub(":/+", "://", os.fspath(path), count=1)  # a Path drops one
    if not url.startswith("qdrant:"):
        return Store(url, options)
    try:
        from foveate.index.qdrant import QdrantCopy
    except ImportError as error:
        raise ImportError(f"{url} needs a client: run `pip install 'foveate[qdrant]'`") from error
    return QdrantCopy(url, options)
