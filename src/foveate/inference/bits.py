"""Sums over the bits of tensors, by which a change is noticed in the time it takes to read them."""

import torch
from torch import Tensor

_COLUMNS = 1021
"""A prime, so that the rows of a matrix hardly ever line up: sums change if two swap places."""

_WORD = 8


def sum_bits(tensor: Tensor) -> Tensor:
    """Sum the bits of a tensor by columns, on its device.

    The tensor is laid out in rows of 1,021 words of 64 bits. The sums of the columns wrap around.
    What does not fill a row is kept as it is, so small tensors are compared bit by bit. A change is
    missed only if it spares this rest and cancels out in every column: no training step does that.

    Returns:
        `(bytes,)` uint8: the sums, if there is a whole row, and the rest.
    """
    flat = tensor.detach().reshape(-1)
    per_word = _WORD // flat.itemsize
    if flat.storage_offset() % per_word:  # words must be aligned
        flat = flat.clone()
    num_in_rows = len(flat) // (_COLUMNS * per_word) * _COLUMNS * per_word
    rows, rest = flat[:num_in_rows], flat[num_in_rows:].view(torch.uint8)
    if not len(rows):
        return rest
    words = rows.view(torch.int64).view(-1, _COLUMNS)
    # torch would use several threads, which wait for each other if other programs need the cores.
    sums = torch.from_numpy(words.numpy().sum(0)) if words.is_cpu else words.sum(0)
    return torch.cat([sums.view(torch.uint8), rest])
