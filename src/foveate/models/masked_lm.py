"""Masked language modelling: logits of all tokens, or of the labelled ones alone."""

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
        sparse: Whether, given labels, only the labelled tokens are predicted.

    Returns:
        `logits` `(batch, length, vocab_size)` or, if sparse, `(labelled tokens, vocab_size)` in
        their order; with labels the `loss`, computed in at least float32; the encoder's
        `hidden_states`.
    """
    if labels is None or not sparse:
        encoded, loss = encode(), None
        logits = head(encoded.last_hidden_state)
        if labels is not None:
            loss = F.cross_entropy(widened(logits).flatten(0, 1), labels.flatten().long())
        return MaskedLMOutput(loss=loss, logits=logits, hidden_states=encoded.hidden_states)
    # Before the encoder, so that the host waits for their number and not for the encoder.
    labelled = (labels.flatten() != IGNORE_INDEX).nonzero().squeeze(1)
    encoded = encode()
    logits = head(encoded.last_hidden_state.flatten(0, 1).index_select(0, labelled))
    loss = F.cross_entropy(widened(logits), labels.flatten()[labelled].long())
    return MaskedLMOutput(loss=loss, logits=logits, hidden_states=encoded.hidden_states)
