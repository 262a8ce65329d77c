"""Losses over batches that do not fit in memory, with cached gradients of embeddings (GradCache).

Gao, Zhang, Han and Callan, "Scaling Deep Contrastive Learning Batch Size under Memory Limited
Setup", 2021. The batch is encoded chunk by chunk without a graph, the loss of all vectors gives the
gradient of each, and each chunk is encoded once more to carry its part of it to the weights. The
gradient is that of the whole batch at once, for the memory of one chunk and one more forward pass
of all chunks but the last, whose graph is kept.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor

Chunk = TypeVar("Chunk")
Vectors = tuple[Tensor, ...]


def cached_loss(
    encode: Callable[[Chunk], Vectors],
    chunks: Sequence[Chunk],
    loss_of: Callable[[list[Vectors]], Tensor],
) -> Tensor:
    """Compute a loss over all chunks; its backward pass goes through one chunk at a time.

    Args:
        encode: Encodes a chunk into tensors of any shapes.
        chunks: The chunks.
        loss_of: Computes the loss, a scalar, from the tensors of all chunks.

    Returns:
        The loss. Call `backward` on it, perhaps scaled, as on any other.
    """
    *cached, last = chunks
    states: list[_RandomState] = []
    outputs: list[Vectors] = []
    with torch.no_grad():
        for chunk in cached:
            states.append(_RandomState())
            outputs.append(encode(chunk))
    outputs.append(encode(last))
    if not torch.is_grad_enabled():
        return loss_of(outputs)
    leaves = [tuple(x.detach().requires_grad_() for x in vectors) for vectors in outputs]
    loss = loss_of(leaves)
    gradients = torch.autograd.grad(
        loss, [x for vectors in leaves for x in vectors], materialize_grads=True
    )

    def backward(scale: Tensor) -> None:
        of_last = len(gradients) - len(outputs[-1])
        torch.autograd.backward(outputs[-1], [x * scale for x in gradients[of_last:]])
        remaining = iter(gradients)
        for chunk, state in zip(cached, states, strict=True):
            with torch.enable_grad(), state.restored():
                vectors = encode(chunk)
            torch.autograd.backward(vectors, [next(remaining) * scale for _ in vectors])

    loss = loss.detach().requires_grad_()
    loss.register_hook(backward)
    return loss


class _RandomState:
    """The state of the generators before a forward pass, so that dropout can be repeated."""

    def __init__(self) -> None:
        self.cpu = torch.get_rng_state()
        self.devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Set the generators to this state for a while."""
        with torch.random.fork_rng(devices=range(len(self.devices))):
            torch.set_rng_state(self.cpu)
            torch.cuda.set_rng_state_all(self.devices)
            yield
