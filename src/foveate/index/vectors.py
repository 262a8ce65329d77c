"""Vectors as a column of the table, and back."""

from collections.abc import Sequence
from itertools import chain
from operator import index

import pyarrow as pa
import pyarrow.compute as pc
import torch
import torch.nn.functional as F
from torch import Tensor

from foveate.index.engine import Engine
from foveate.index.schema import vectors_of
from foveate.inference import DocumentVectors


def add_vectors(rows: pa.Table, vectors: Sequence[DocumentVectors]) -> pa.Table:
    """Return the rows that `foveate.index.records.rows` made with their documents' vectors."""
    parts = [(one.sections.flip(0), one.document[None], one.sentences) for one in vectors]
    of_rows = torch.cat([*chain.from_iterable(parts)])
    saliences = [torch.zeros(0) if one.salience is None else one.salience for one in vectors]
    salience = torch.full((len(of_rows),), torch.nan)
    if any(map(len, saliences)):
        salience[pc.equal(rows["level"], "sentence").to_pylist()] = torch.cat(saliences)
    return rows.append_column(
        "salience",
        pa.array(salience.numpy(), from_pandas=True),  # NaN as NULL
    ).append_column("vector", _half(of_rows))


def read_vectors(engine: Engine, number: int) -> DocumentVectors:
    """Return the vectors of a document, scaled to unit length and rounded to float16.

    Raises:
        TypeError: Its number is not an integer.
        ValueError: There is no document with this number.
    """
    columns = ("key", "level", "salience", "vector")
    rows = engine.read(columns, {"document": [index(number)]}).sort_by("key")
    if not rows.num_rows:
        raise ValueError(f"the library has no document number {number}")
    sentences, sections, document = (
        rows.filter(pc.equal(rows["level"], level)) for level in ("sentence", "section", "document")
    )
    salience = sentences["salience"]
    return DocumentVectors(
        _single(document)[0],
        _single(sections),
        _single(sentences),
        None if salience.null_count else torch.from_numpy(salience.to_numpy().copy()),
    )


def _single(rows: pa.Table) -> Tensor:
    return torch.from_numpy(vectors_of(rows["vector"]))


def _half(vectors: Tensor) -> pa.FixedSizeListArray:
    """Return vectors, scaled to unit length, as a column of float16."""
    scaled = F.normalize(vectors, dim=-1).half().numpy()
    return pa.FixedSizeListArray.from_arrays(pa.array(scaled.reshape(-1)), scaled.shape[1])
