"""Vectors as a column of the tables, and back."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
import torch.nn.functional as F
from torch import Tensor

from foveate.inference import DocumentVectors


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
    for name, parts in columns.items():
        complete[name] = tables[name].append_column("vector", _half(parts))
    return complete


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
