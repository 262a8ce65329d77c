"""Signs of vectors: one bit per component, from which cosines are estimated quickly."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

_BITS = 64
_WORDS_PER_BYTE = 3
"""Words whose number of differing bits a byte can hold."""

_VECTORS_PER_CHUNK = 2**15
"""Vectors whose codes stay in the processor's cache."""


class Codes:
    """The signs of many vectors, from which their cosines with another vector are estimated.

    The angle between two vectors in random directions is about π h / d if h of their d signs
    differ. A bit takes a sixteenth of the space of a float16, and a sixteenth of the time.

    Args:
        vectors: `(vectors, dimension)`, of any length but 0.

    Example:
        >>> codes = Codes(np.array([[0.8, -0.6], [-0.6, 0.8]]))
        >>> codes.cosines(np.array([0.6, -0.8])).tolist()
        [1.0, -1.0]
    """

    def __init__(self, vectors: npt.NDArray[Any]) -> None:
        self._dimension = vectors.shape[1]
        num_words = -(-self._dimension // _BITS)
        self._codes = np.empty((num_words, len(vectors)), np.uint64)
        for start in range(0, len(vectors), _VECTORS_PER_CHUNK):
            chunk = slice(start, start + _VECTORS_PER_CHUNK)
            self._codes[:, chunk] = _pack(vectors[chunk]).T
        angles = np.pi * np.arange(self._dimension + 1) / self._dimension
        self._cosine_of = np.cos(angles).astype(np.float32)

    def cosines(self, vector: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Estimate the cosine of each vector with another one, `(dimension,)`: `(vectors,)`."""
        wanted = _pack(vector[None])[0]
        cosines = np.empty(self._codes.shape[1], np.float32)

        def estimate(start: int, end: int) -> None:
            self._estimate(wanted, start, cosines[start:end])

        in_threads(estimate, len(cosines), _VECTORS_PER_CHUNK)
        return cosines

    def _estimate(
        self, wanted: npt.NDArray[np.uint64], start: int, cosines: npt.NDArray[np.float32]
    ) -> None:
        """Estimate the cosines of the vectors from `start` on, as many as `cosines` has."""
        differing = np.empty(_VECTORS_PER_CHUNK, np.uint64)
        bits = np.empty(_VECTORS_PER_CHUNK, np.uint8)
        some = np.empty(_VECTORS_PER_CHUNK, np.uint8)
        total = np.empty(_VECTORS_PER_CHUNK, np.uint16)
        for done in range(0, len(cosines), _VECTORS_PER_CHUNK):
            of_chunk = cosines[done : done + _VECTORS_PER_CHUNK]
            size = len(of_chunk)
            codes = self._codes[:, start + done : start + done + size]
            total[:size] = 0
            for first in range(0, len(wanted), _WORDS_PER_BYTE):
                some[:size] = 0
                for i in range(first, min(first + _WORDS_PER_BYTE, len(wanted))):
                    np.bitwise_xor(codes[i], wanted[i], out=differing[:size])
                    np.bitwise_count(differing[:size], out=bits[:size])
                    some[:size] += bits[:size]
                total[:size] += some[:size]
            # Indices are within bounds, and numpy writes to the output directly only with "clip".
            self._cosine_of.take(total[:size], out=of_chunk, mode="clip")


def in_threads(work: Callable[[int, int], None], size: int, least: int) -> None:
    """Split a range among as many threads as torch uses.

    Args:
        work: Is given the first index and the index just past the last.
        size: The range goes from 0 to it.
        least: The smallest size of a part, below which starting a thread does not pay off.
    """
    num_parts = max(1, min(torch.get_num_threads(), size // least))
    ends = [size * part // num_parts for part in range(num_parts + 1)]
    with ThreadPoolExecutor(num_parts) as pool:
        list(pool.map(work, ends[:-1], ends[1:]))


def _pack(vectors: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Return the signs of vectors as words of 64 bits: `(vectors, words)`."""
    # Of integers, signs are found four times as fast as of halves.
    is_half = vectors.dtype == np.float16
    packed = np.packbits(vectors.view(np.int16) < 0 if is_half else np.signbit(vectors), axis=1)
    filled = np.zeros((len(vectors), -(-vectors.shape[1] // _BITS) * (_BITS // 8)), np.uint8)
    filled[:, : packed.shape[1]] = packed
    return filled.view(np.uint64)
