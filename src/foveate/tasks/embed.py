"""Documents as a table of vectors: one for each document, section and sentence."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from foveate.documents import Box, Document, Span, as_documents
from foveate.files import atomic_write, check_writable
from foveate.inference import DocumentVectors, Encoder, as_encoder

Level = Literal["document", "section", "sentence"]


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
    """

    spans: list[EmbeddedSpan]
    vectors: Tensor

    def __len__(self) -> int:
        """Return the number of vectors."""
        return len(self.spans)

    def save(self, path: str | PathLike[str]) -> None:
        """Write a `.safetensors` or `.parquet` file, completely or not at all.

        A `.safetensors` file holds `vectors` and, as the bytes of JSON Lines in UTF-8, `spans`. A
        `.parquet` file has a column for `level`, `document_idx` and each attribute of `Span`, and
        `vector`.

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
) -> Embeddings:
    """Encode documents with their sections and sentences.

    Args:
        documents: One document or a sequence.
        model: An encoder, or the name or path of its checkpoint; by default foveate's own model.

    Raises:
        ValueError: There are no documents.

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
    encoder = as_encoder(model)
    spans: list[EmbeddedSpan] = []
    vectors: list[Tensor] = []
    for idx, (document, its_vectors) in enumerate(
        zip(documents, encoder.encode(documents), strict=True)
    ):
        for level, span, vector in _levels(document, its_vectors):
            spans.append(EmbeddedSpan(level, idx, span))
            vectors.append(vector)
    return Embeddings(spans, torch.stack(vectors))


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
    path.write_bytes(safetensors.torch.save(tensors, {"format": "pt"}))


def _read_safetensors(path: Path) -> tuple[list[EmbeddedSpan], Tensor]:
    try:
        tensors = safetensors.torch.load(path.read_bytes())
        lines = bytes(tensors["spans"].numpy()).decode().split("\n")[:-1]
        spans = [_from_record(json.loads(line)) for line in lines]
        return spans, tensors["vectors"]
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
    pa.parquet.write_table(table, path)


def _read_parquet(path: Path) -> tuple[list[EmbeddedSpan], Tensor]:
    pa = _pyarrow()
    try:
        table = pa.parquet.read_table(path)
        spans = [_from_record(record) for record in table.drop_columns("vector").to_pylist()]
        vectors = table["vector"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        dimension = table.schema.field("vector").type.list_size
        return spans, torch.tensor(vectors).view(len(spans), dimension)
    except (pa.ArrowException, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a file that Embeddings.save wrote ({error})") from error


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
