"""Documents as a table of vectors: one row for each document, section and sentence."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from foveate.documents import Document, Section, Sentence, as_documents
from foveate.files import check_writable, written_whole
from foveate.inference.encoder import DocumentVectors, Encoder
from foveate.tasks.places import own_sentences


class Row(NamedTuple):
    """What a vector stands for.

    Attributes:
        level: "document", "section" or "sentence".
        document: index of the document among those given.
        source: the document's file, None if it came from none.
        path: titles from the outermost section to the row's own; empty for a document.
        text: the sentence, or the title of the section or document.
        start: offset in `Document.text` of the first character of it.
        end: offset behind the last.
    """

    level: Literal["document", "section", "sentence"]
    document: int
    source: str | None
    path: tuple[str, ...]
    text: str
    start: int
    end: int


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Vectors, and what each stands for.

    Attributes:
        rows: in reading order: each document, its sections, and each section's own sentences.
        vectors: `(rows, dimension)` float32.
    """

    rows: list[Row]
    vectors: Tensor

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def save(self, path: str | PathLike[str]) -> None:
        """Write a `.safetensors` or a `.parquet` file, whole or not at all.

        A `.safetensors` file holds `vectors` and, as the bytes of JSON Lines in UTF-8, `rows`.
        A `.parquet` file has a column for each attribute of `Row`, and `vector`.

        Raises:
            ValueError: another suffix.
            ImportError: Parquet without the `parquet` extra.
            OSError: the file cannot be written.
        """
        write = {".safetensors": _write_safetensors, ".parquet": _write_parquet}[_suffix(path)]
        with written_whole(path) as temporary:
            write(self, temporary)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read what `save` wrote.

        Raises:
            ValueError: another suffix, or a file that `save` did not write.
            ImportError: Parquet without the `parquet` extra.
            OSError: the file cannot be read.
        """
        read = {".safetensors": _read_safetensors, ".parquet": _read_parquet}[_suffix(path)]
        return cls(*read(Path(path)))


def embed(
    documents: Document | Sequence[Document], *, encoder: Encoder | None = None
) -> Embeddings:
    """Encode documents at all their levels.

    Args:
        documents: one, or a sequence.
        encoder: by default `Encoder.from_pretrained()`.

    Raises:
        ValueError: no documents.

    Example:
        >>> from foveate import Document
        >>> from foveate.tasks.embed import embed
        >>> table = embed(Document.from_sections("Fish", [("Cod", "Cod swim.")]))
        >>> [(row.level, row.text) for row in table.rows]
        [('document', 'Fish'), ('section', 'Cod'), ('sentence', 'Cod swim.')]
        >>> table.vectors.shape
        torch.Size([3, 384])
    """
    documents = as_documents(documents)
    if not documents:
        raise ValueError("there is no document to embed: give at least one")
    encoder = encoder or Encoder.from_pretrained()
    rows: list[Row] = []
    vectors: list[Tensor] = []
    for index, (document, own) in enumerate(zip(documents, encoder.encode(documents), strict=True)):
        for row, vector in _table(index, document, own):
            rows.append(row)
            vectors.append(vector)
    return Embeddings(rows, torch.stack(vectors))


def check_output(path: str | PathLike[str]) -> None:
    """Find out before encoding whether `Embeddings.save` will take a path.

    Raises:
        As `Embeddings.save` does.
    """
    if _suffix(path) == ".parquet":
        _pyarrow()
    check_writable(path)


def _table(
    index: int, document: Document, vectors: DocumentVectors
) -> Iterator[tuple[Row, Tensor]]:
    first, last = _span(document.sentences())
    source = document.source
    yield Row("document", index, source, (), document.title, first, last), vectors.document
    of_sentence = iter(vectors.sentences)
    for (path, section), vector in zip(document.walk(), vectors.sections, strict=True):
        span = _span(_sentences(section))
        yield Row("section", index, source, path, section.title, *span), vector
        for sentence in own_sentences(section):
            text, start, end = sentence.text, sentence.start, sentence.end
            yield Row("sentence", index, source, path, text, start, end), next(of_sentence)


def _span(sentences: Iterable[Sentence]) -> tuple[int, int]:
    """From the first character of the first sentence to behind the last of the last."""
    spans = [(sentence.start, sentence.end) for sentence in sentences]
    return spans[0][0], spans[-1][1]


def _sentences(section: Section) -> Iterator[Sentence]:
    """Visit the sentences of a section and of its subsections."""
    yield from own_sentences(section)
    for subsection in section.sections:
        yield from _sentences(subsection)


def _suffix(path: str | PathLike[str]) -> str:
    suffix = Path(path).suffix.lower()
    if suffix not in (".safetensors", ".parquet"):
        raise ValueError(f"{path} must end in .safetensors or .parquet, which says what to write")
    return suffix


def _write_safetensors(table: Embeddings, path: Path) -> None:
    rows = "".join(json.dumps(row._asdict(), ensure_ascii=False) + "\n" for row in table.rows)
    # Rows are a tensor of bytes because a header, where metadata goes, may not exceed 100 MB.
    tensors = {
        "vectors": table.vectors.contiguous(),
        "rows": torch.frombuffer(bytearray(rows, "utf-8"), dtype=torch.uint8),
    }
    path.write_bytes(safetensors.torch.save(tensors, {"format": "pt"}))


def _read_safetensors(path: Path) -> tuple[list[Row], Tensor]:
    try:
        tensors = safetensors.torch.load(path.read_bytes())
        rows = bytes(tensors["rows"].numpy()).decode().split("\n")[:-1]
        return [_row(**json.loads(row)) for row in rows], tensors["vectors"]
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a file that Embeddings.save wrote ({error})") from error


def _write_parquet(table: Embeddings, path: Path) -> None:
    pa = _pyarrow()
    fields = [
        ("level", pa.string()),
        ("document", pa.int64()),
        ("source", pa.string()),
        ("path", pa.list_(pa.string())),
        ("text", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
    ]
    rows = pa.Table.from_pylist([row._asdict() for row in table.rows], pa.schema(fields))
    vectors = pa.FixedSizeListArray.from_arrays(
        pa.array(table.vectors.flatten().numpy()), table.vectors.shape[1]
    )
    pa.parquet.write_table(rows.append_column("vector", vectors), path)


def _read_parquet(path: Path) -> tuple[list[Row], Tensor]:
    pa = _pyarrow()
    try:
        table = pa.parquet.read_table(path)
        rows = [_row(**row) for row in table.drop_columns("vector").to_pylist()]
        vectors = table["vector"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        return rows, torch.tensor(vectors).view(len(rows), -1)
    except (pa.ArrowException, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a file that Embeddings.save wrote ({error})") from error


def _row(path: list[str], **others: Any) -> Row:
    return Row(path=tuple(path), **others)


def _pyarrow() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("Parquet needs pyarrow: run `pip install 'foveate[parquet]'`") from error
    return pyarrow
