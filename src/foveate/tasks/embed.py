"""Documents as a table of vectors: one for each document, section and sentence."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import safetensors
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from foveate.documents import Box, Document, Span, as_documents
from foveate.files import atomic_write, check_writable
from foveate.inference import DocumentVectors, Encoder, as_encoder
from foveate.preprocessing.collate import fill_packs
from foveate.progress import progress

Level = Literal["document", "section", "sentence"]

_GROUP_CHARACTERS = 2**17
"""Characters of documents that are encoded together, and are in the same shard.

The last bits of a vector depend on what is encoded with it, so shards must not divide that.
"""


@dataclass(frozen=True, slots=True)
class EmbeddedSpan:
    """The part of a document that a vector represents.

    Attributes:
        level: "document", "section" or "sentence".
        document_idx: Index of the document among those given.
        span: The place; its text is the sentence, or the title of the section or document.
    """

    level: Level
    document_idx: int
    span: Span


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Vectors, and the part of a document that each represents.

    Attributes:
        spans: In reading order: each document, its sections, and the sentences directly in each
            section.
        vectors: `(spans, dimension)` float32.
        shard: Which shard of the documents they are, counted from 1, and the number of shards;
            (1, 1) if they are all.
    """

    spans: list[EmbeddedSpan]
    vectors: Tensor
    shard: tuple[int, int] = (1, 1)

    def __len__(self) -> int:
        """Return the number of vectors."""
        return len(self.spans)

    @classmethod
    def join(cls, shares: Iterable[Self]) -> Self:
        """Join the shards of some documents, in any order, into what `embed` returns for all.

        Raises:
            ValueError: A shard is missing or given twice, or shards are not of the same number of
                shards, have a document in common, or have vectors of different lengths.
        """
        shards = list(shares)
        _check_complete([shard.shard for shard in shards])
        spans = [one for shard in shards for one in shard.spans]
        if not spans:
            raise ValueError("there is nothing to join: give all shards")
        owners = [{one.document_idx for one in shard.spans} for shard in shards]
        if sum(map(len, owners)) > len(set().union(*owners)):
            raise ValueError("some shards hold the same documents: give those of the same ones")
        if len(dimensions := {shard.vectors.shape[1] for shard in shards}) > 1:
            raise ValueError(
                f"shards have vectors of {' and '.join(map(str, sorted(dimensions)))} dimensions: "
                "encode all of them with the same model"
            )
        order = sorted(range(len(spans)), key=lambda i: spans[i].document_idx)
        vectors = torch.cat([shard.vectors for shard in shards])
        return cls([spans[i] for i in order], vectors[order])

    def save(self, path: str | PathLike[str]) -> None:
        """Write a `.safetensors` or `.parquet` file, completely or not at all.

        A `.safetensors` file holds `vectors` and, as the bytes of JSON Lines in UTF-8, `spans`. A
        `.parquet` file has a column for `level`, `document_idx` and each attribute of `Span`, and
        `vector`. The metadata of both have `shard`, such as "2/8".

        Raises:
            ValueError: The path has another suffix.
            ImportError: The file is Parquet, and the `parquet` extra is not installed.
            OSError: The file cannot be written.
        """
        write = {".safetensors": _write_safetensors, ".parquet": _write_parquet}[_suffix(path)]
        with atomic_write(path) as temporary:
            write(self, temporary)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Load embeddings that `save` wrote.

        Raises:
            ValueError: The path has another suffix, or `save` did not write the file.
            ImportError: The file is Parquet, and the `parquet` extra is not installed.
            OSError: The file cannot be read.
        """
        read = {".safetensors": _read_safetensors, ".parquet": _read_parquet}[_suffix(path)]
        return cls(*read(Path(path)))


def embed(
    documents: Document | Sequence[Document],
    *,
    model: Encoder | str | PathLike[str] | None = None,
    shard: tuple[int, int] = (1, 1),
) -> Embeddings:
    """Encode documents with their sections and sentences.

    Args:
        documents: One document or a sequence.
        model: An encoder, or the name or path of its checkpoint; by default foveate's own model.
        shard: Which shard of the documents to encode, counted from 1, and the number of shards.
            Shards are about equal in size, and `Embeddings.join` puts them together again: the
            result is bit for bit that of a single call, on processors of the same kind with as many
            threads.

    Raises:
        ValueError: There are no documents, or there is no such shard.

    Example:
        >>> from foveate import Document, embed
        >>> embeddings = embed(Document.from_sections("Fish", [("Cod", "Cod swim.")]))
        >>> [(embedded.level, embedded.span.text) for embedded in embeddings.spans]
        [('document', 'Fish'), ('section', 'Cod'), ('sentence', 'Cod swim.')]
        >>> embeddings.vectors.shape
        torch.Size([3, 384])
    """
    documents = as_documents(documents)
    if not documents:
        raise ValueError("there is no document to embed: give at least one")
    number, total = check_shard(*shard)
    encoder = as_encoder(model)
    sizes = [len(document.text) for document in documents]
    groups = list(fill_packs(range(len(documents)), sizes, _GROUP_CHARACTERS))[number - 1 :: total]
    spans: list[EmbeddedSpan] = []
    vectors = [torch.zeros(0, encoder.dimension)]
    with progress("Encoding", sum(sizes[idx] for group in groups for idx in group)) as advance:
        for group in groups:
            encoded = encoder.encode([documents[idx] for idx in group], show_progress=False)
            for idx, document_vectors in zip(group, encoded, strict=True):
                for level, span, vector in _levels(documents[idx], document_vectors):
                    spans.append(EmbeddedSpan(level, idx, span))
                    vectors.append(vector[None])
            advance(sum(sizes[idx] for idx in group))
    return Embeddings(spans, torch.cat(vectors), (number, total))


def check_shard(number: int, total: int) -> tuple[int, int]:
    """Check that there is a shard with this number.

    Raises:
        ValueError: There is none.
    """
    if not 1 <= number <= total:
        raise ValueError(
            f"there is no shard {number} of {total}: shards are numbered from 1/{max(total, 1)} "
            f"to {max(total, 1)}/{max(total, 1)}"
        )
    return number, total


def _check_complete(shards: Sequence[tuple[int, int]]) -> None:
    """Check that shards, each a number and the number of shards, are all there, and once."""
    totals = sorted({total for _, total in shards})
    if len(totals) > 1:
        raise ValueError(
            f"some shards are of {totals[0]} and others of {totals[1]}: give those of one division"
        )
    numbers = [number for number, _ in shards]
    if repeated := sorted({number for number in numbers if numbers.count(number) > 1}):
        raise ValueError(
            f"{_name_shards(repeated, totals[0])} given several times: give each shard once"
        )
    missing = sorted(set(range(1, max(totals, default=0) + 1)) - set(numbers))
    if missing:
        raise ValueError(f"{_name_shards(missing, totals[0])} missing: give all shards")


def _name_shards(numbers: Sequence[int], total: int) -> str:
    """Return the beginning of a sentence about some shards, with its verb.

    Example:
        >>> _name_shards([2], 8), _name_shards([2, 3, 5], 8)
        ('shard 2 of 8 is', 'shards 2, 3 and 5 of 8 are')
    """
    *others, last = map(str, numbers)
    if not others:
        return f"shard {last} of {total} is"
    return f"shards {', '.join(others)} and {last} of {total} are"


def document_span(document: Document) -> Span:
    """Locate a document: a span from its first sentence to its last, whose text is the title."""
    sentences = list(document.sentences())
    span = document.span(sentences[0].start, sentences[-1].end)
    return replace(span, text=document.title, boxes=())


def check_output(path: str | PathLike[str]) -> None:
    """Check before encoding that `Embeddings.save` can write to a path.

    Raises:
        ValueError: See `Embeddings.save`.
        ImportError: See `Embeddings.save`.
        OSError: See `Embeddings.save`.
    """
    if _suffix(path) == ".parquet":
        _pyarrow()
    check_writable(path)


def _levels(document: Document, vectors: DocumentVectors) -> Iterator[tuple[Level, Span, Tensor]]:
    """Visit the document, its sections and their sentences, with their vectors."""
    sentences = document.spans()
    yield "document", document_span(document), vectors.document
    rest = zip(sentences, vectors.sentences, strict=True)
    sections = zip(document.walk(), document.section_spans(), vectors.sections, strict=True)
    for (_, section), span, vector in sections:
        yield "section", span, vector
        for sentence, sentence_vector in islice(rest, section.num_own_sentences):
            yield "sentence", sentence, sentence_vector


def _suffix(path: str | PathLike[str]) -> str:
    suffix = Path(path).suffix.lower()
    if suffix not in (".safetensors", ".parquet"):
        raise ValueError(f"{path} must end in .safetensors or .parquet, which says what to write")
    return suffix


def _write_safetensors(embeddings: Embeddings, path: Path) -> None:
    records = map(_as_record, embeddings.spans)
    lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    # Spans are a tensor of bytes because a header, where metadata goes, may not exceed 100 MB.
    tensors = {
        "vectors": embeddings.vectors.contiguous(),
        "spans": torch.from_numpy(np.frombuffer(bytearray(lines, "utf-8"), np.uint8)),
    }
    metadata = {"format": "pt", **_as_metadata(embeddings.shard)}
    path.write_bytes(safetensors.torch.save(tensors, metadata))


def _read_safetensors(path: Path) -> tuple[list[EmbeddedSpan], Tensor, tuple[int, int]]:
    try:
        tensors = safetensors.torch.load(path.read_bytes())
        lines = bytes(tensors["spans"].numpy()).decode().split("\n")[:-1]
        spans = [_from_record(json.loads(line)) for line in lines]
        with safetensors.safe_open(path, "pt") as file:
            shard = _from_metadata(file.metadata()["shard"])
        return spans, tensors["vectors"], shard
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a file that Embeddings.save wrote ({error})") from error


def _write_parquet(embeddings: Embeddings, path: Path) -> None:
    pa = _pyarrow()
    columns = [
        ("level", pa.string()),
        ("document_idx", pa.int64()),
        ("document", pa.string()),
        ("path", pa.list_(pa.string())),
        ("page", pa.int64()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("text", pa.string()),
        ("speaker", pa.string()),
        ("place", pa.string()),
        ("boxes", pa.list_(pa.list_(pa.float64()))),
    ]
    table = pa.Table.from_pylist(list(map(_as_record, embeddings.spans)), pa.schema(columns))
    vectors = pa.FixedSizeListArray.from_arrays(
        pa.array(embeddings.vectors.flatten().numpy()), embeddings.vectors.shape[1]
    )
    table = table.append_column("vector", vectors)
    pa.parquet.write_table(table.replace_schema_metadata(_as_metadata(embeddings.shard)), path)


def _read_parquet(path: Path) -> tuple[list[EmbeddedSpan], Tensor, tuple[int, int]]:
    pa = _pyarrow()
    try:
        table = pa.parquet.read_table(path)
        spans = [_from_record(record) for record in table.drop_columns("vector").to_pylist()]
        vectors = table["vector"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        dimension = table.schema.field("vector").type.list_size
        shard = _from_metadata(table.schema.metadata[b"shard"].decode())
        return spans, torch.tensor(vectors).view(len(spans), dimension), shard
    except (pa.ArrowException, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a file that Embeddings.save wrote ({error})") from error


def _as_metadata(shard: tuple[int, int]) -> dict[str, str]:
    return {"shard": f"{shard[0]}/{shard[1]}"}


def _from_metadata(shard: str) -> tuple[int, int]:
    number, total = map(int, shard.split("/"))
    return check_shard(number, total)


def _as_record(embedded: EmbeddedSpan) -> dict[str, Any]:
    return {
        "level": embedded.level,
        "document_idx": embedded.document_idx,
        **asdict(embedded.span),
        "boxes": [list(box) for box in embedded.span.boxes],
    }


def _from_record(record: dict[str, Any]) -> EmbeddedSpan:
    level, document_idx = record.pop("level"), record.pop("document_idx")
    boxes = tuple(Box(int(page), *corners) for page, *corners in record["boxes"])
    span = Span(**{**record, "path": tuple(record["path"]), "boxes": boxes})
    return EmbeddedSpan(level, document_idx, span)


def _pyarrow() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("Parquet needs pyarrow: run `pip install 'foveate[parquet]'`") from error
    return pyarrow
