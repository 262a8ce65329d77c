"""Late interaction: texts are compared with a query token by token (ColBERT).

The vectors of the tokens of a text are kept as signs, one bit a dimension. Those of the query, of
which there are few, are whole.
"""

import numpy as np
import numpy.typing as npt

_TOKENS = 2**16
"""Tokens whose signs are unpacked at a time, to save memory."""


def similarities(
    query: npt.NDArray[np.float32], tokens: npt.NDArray[np.uint8]
) -> npt.NDArray[np.float32]:
    """Return the cosines of the tokens of a text with those of a query.

    Args:
        query: `(query tokens, size)`, of unit length.
        tokens: `(tokens, size / 8)`, signs as `numpy.packbits` packs them.

    Returns:
        `(tokens, query tokens)`.
    """
    bits = np.unpackbits(tokens, axis=1).view(np.int8).astype(np.float32)
    # Signs are 2 b - 1 for bits b, and vectors of signs have the length √size. A product of
    # matrices would start BLAS's threads, which keep cores from torch and from an engine.
    cosines: npt.NDArray[np.float32] = np.vecdot(bits[:, None], 2 * query) - query.sum(1)
    cosines /= np.sqrt(query.shape[1], dtype=np.float32)
    return cosines


def late_interaction(
    query: npt.NDArray[np.float32],
    tokens: npt.NDArray[np.uint8],
    num_tokens: npt.NDArray[np.int64],
) -> npt.NDArray[np.float32]:
    """Score texts by the tokens of a query: the mean of the cosine of each with its best token.

    Args:
        query: `(query tokens, size)`, of unit length.
        tokens: `(tokens, size / 8)` uint8, those of all texts, one text after another, see
            `foveate.inference.DocumentVectors`.
        num_tokens: `(texts,)`, how many tokens each text has; at least one.

    Returns:
        `(texts,)`, between -1 and 1.
    """
    ends = num_tokens.cumsum()
    scores = np.empty(len(num_tokens), np.float32)
    first = 0  # text of a chunk
    while first < len(num_tokens):
        start = int(ends[first] - num_tokens[first])
        last = max(first + 1, int(np.searchsorted(ends, start + _TOKENS, "right")))
        cosines = similarities(query, tokens[start : ends[last - 1]])
        starts = ends[first:last] - num_tokens[first:last] - start
        scores[first:last] = np.maximum.reduceat(cosines, starts, axis=0).mean(1)
        first = last
    return scores
