"""Vectors as a column of the table, and back."""

from collections.abc import Iterator, Sequence
from itertools import chain
from operator import index

import pyarrow as pa
import pyarrow.compute as pc
import torch
import torch.nn.functional as F
from torch import Tensor

from foveate.index.engine import Engine
from foveate.index.schema import TOKEN_BYTES, tokens_of, vectors_of
from foveate.inference import DocumentVectors


def add_vectors(rows: pa.Table, vectors: Sequence[DocumentVectors]) -> pa.Table:
    """Return the rows that `foveate.index.rows.make_rows` made with their documents' vectors."""
    parts = [(one.sections.flip(0), one.document[None], one.sentences) for one in vectors]
    of_rows = torch.cat([*chain.from_iterable(parts)])
    saliences = [torch.zeros(0) if one.salience is None else one.salience for one in vectors]
    salience = torch.full((len(of_rows),), torch.nan)
    if any(map(len, saliences)):
        salience[pc.equal(rows["level"], "sentence").to_pylist()] = torch.cat(saliences)
    columns = {
        "salience": pa.array(salience.numpy(), from_pandas=True),  # NaN as NULL
        "tokens": pa.array(_tokens(vectors), pa.binary()),
        "vector": _half(of_rows),
    }
    for name, column in columns.items():
        rows = rows.append_column(name, column)
    return rows


def read_vectors(engine: Engine, number: int) -> DocumentVectors:
    """Return the vectors of a document, scaled to unit length and rounded to float16.

    Raises:
        TypeError: Its number is not an integer.
        ValueError: There is no document with this number.
    """
    columns = ("key", "level", "salience", "tokens", "vector")
    rows = engine.read(columns, {"document": [index(number)]}).sort_by("key")
    if not rows.num_rows:
        raise ValueError(f"the library has no document number {number}")
    sentences, sections, document = (
        rows.filter(pc.equal(rows["level"], level)) for level in ("sentence", "section", "document")
    )
    salience = sentences["salience"]
    tokens, num_tokens = None, None
    if not sentences["tokens"].null_count and sentences.num_rows:
        tokens, num_tokens = map(torch.from_numpy, tokens_of(sentences["tokens"]))
    return DocumentVectors(
        _single(document)[0],
        _single(sections),
        _single(sentences),
        None if salience.null_count else torch.from_numpy(salience.to_numpy().copy()),
        tokens,
        num_tokens,
    )


def _tokens(vectors: Sequence[DocumentVectors]) -> Iterator[bytes | None]:
    """Yield the signs of the tokens of each row; only sentences have some."""
    for one in vectors:
        yield from [None] * (len(one.sections) + 1)
        if one.tokens is None or one.num_tokens is None or one.tokens.shape[1] != TOKEN_BYTES:
            yield from [None] * len(one.sentences)
        else:
            parts = one.tokens.split(one.num_tokens.tolist())
            yield from (part.numpy().tobytes() for part in parts)


def _single(rows: pa.Table) -> Tensor:
    return torch.from_numpy(vectors_of(rows["vector"]))


def _half(vectors: Tensor) -> pa.FixedSizeListArray:
    """Return vectors, scaled to unit length, as a column of float16."""
    scaled = F.normalize(vectors, dim=-1).half().numpy()
    return pa.FixedSizeListArray.from_arrays(pa.array(scaled.reshape(-1)), scaled.shape[1])
