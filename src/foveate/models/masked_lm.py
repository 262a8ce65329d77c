"""Masked language modelling, with the logits of all tokens or of the labelled ones only."""

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from torch import Tensor
from transformers.modeling_outputs import MaskedLMOutput

from foveate.ops.precision import widened
from foveate.preprocessing.collate import IGNORE_INDEX


def masked_lm_output(
    encode: Callable[[], Any],
    head: Callable[[Tensor], Tensor],
    labels: Tensor | None,
    *,
    sparse: bool,
) -> MaskedLMOutput:
    """Encode, predict tokens and, given labels, compute the mean cross-entropy.

    Args:
        encode: Returns the output of an encoder, with `last_hidden_state` `(batch, length, d)`.
        head: Maps hidden states `(..., d)` to logits `(..., vocab_size)`.
        labels: `(batch, length)` int64, the true token where the loss counts, else -100.
        sparse: Whether, with labels, the head sees the labelled tokens only.

    Returns:
        `logits` `(batch, length, vocab_size)`, or `(labelled tokens, vocab_size)` in their order;
        the `loss` with labels, computed in at least float32; and the encoder's `hidden_states`.
    """
    labelled = None
    if labels is not None and sparse:
        # Before the encoder, so that the host waits for their number and not for the encoder.
        labelled = (labels.flatten() != IGNORE_INDEX).nonzero().squeeze(1)
        labels = labels.flatten()[labelled]
    encoded = encode()
    hidden_states = encoded.last_hidden_state
    if labelled is not None:
        hidden_states = hidden_states.flatten(0, 1).index_select(0, labelled)
    logits, loss = head(hidden_states), None
    if labels is not None:
        loss = F.cross_entropy(widened(logits.flatten(0, -2)), labels.flatten().long())
    return MaskedLMOutput(loss=loss, logits=logits, hidden_states=encoded.hidden_states)
