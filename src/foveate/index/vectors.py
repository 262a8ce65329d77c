"""Vectors as a column of the tables, and back."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
import torch.nn.functional as F
from torch import Tensor

from foveate.index.lance import read
from foveate.index.schema import pack_keys
from foveate.inference import DocumentVectors

if TYPE_CHECKING:
    from foveate.index.snapshot import Snapshot


def add_vectors(
    tables: Mapping[str, pa.Table], vectors: Sequence[DocumentVectors]
) -> dict[str, pa.Table]:
    """Return the rows that `foveate.index.records.rows` made with their documents' vectors."""
    columns = {
        "documents": [vector.document[None] for vector in vectors],
        "sections": [vector.sections for vector in vectors],
        "sentences": [vector.sentences for vector in vectors],
    }
    complete = dict(tables)
    saliences = [
        torch.full((len(one.sentences),), torch.nan) if one.salience is None else one.salience
        for one in vectors
    ]
    salience = pa.array(torch.cat(saliences).numpy(), from_pandas=True)  # NaN as NULL
    complete["sentences"] = tables["sentences"].append_column("salience", salience)
    for name, parts in columns.items():
        complete[name] = complete[name].append_column("vector", _half(parts))
    return complete


def document_vectors(snapshot: "Snapshot", number: int) -> DocumentVectors:
    """Return the vectors of a document, scaled to unit length and rounded to float16."""
    first, after = pack_keys([number, number + 1], 0).tolist()
    condition = f"key >= {first} AND key < {after}"
    tables = snapshot.tables
    with snapshot.store.explained():
        document = read(tables["documents"], ("vector",), f"document = {number}")
        sections = read(tables["sections"], ("position", "vector"), condition)
        columns = ("position", "salience", "vector")
        sentences = read(tables["sentences"], columns, condition).sort_by("position")
    salience = sentences["salience"]
    return DocumentVectors(
        _single(document)[0],
        _single(sections.sort_by("position")),
        _single(sentences),
        None if salience.null_count else torch.from_numpy(salience.to_numpy().copy()),
    )


def _single(rows: pa.Table) -> Tensor:
    return torch.from_numpy(vectors_of(rows["vector"]).astype(np.float32))


def _half(vectors: Iterable[Tensor]) -> pa.FixedSizeListArray:
    """Return vectors, scaled to unit length, as a column of float16."""
    joined = F.normalize(torch.cat(list(vectors)), dim=-1).half().numpy()
    return pa.FixedSizeListArray.from_arrays(pa.array(joined.reshape(-1)), joined.shape[1])


def vectors_of(column: pa.ChunkedArray | pa.Array) -> npt.NDArray[np.float16]:
    """Return a column of vectors as an array `(rows, dimension)`."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    dimension = column.type.list_size
    arrays = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in chunks]
    joined = np.concatenate(arrays) if arrays else np.zeros(0, np.float16)
    return joined.reshape(-1, dimension)
