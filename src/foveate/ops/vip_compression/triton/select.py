# Triton's dialect: kernels' arguments have no types, compile-time constants are capitals.
# ruff: noqa: N803
# mypy: disable-error-code=no-untyped-def
"""Sorting the chosen candidates, and the positions and biases of the tokens and of their parts."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from foveate.ops._triton.launch import launch
from foveate.ops._triton.math import cdiv

_TOKENS, _CHOSEN, _OTHERS = 128, 16, 64
"""Tokens copied and candidates ranked by a program, and candidates compared with at a time."""


def select(
    best: Tensor,
    candidate_segments: Tensor | None,
    positions: Tensor,
    key_bias: Tensor,
    part_positions: Tensor,
    part_bias: Tensor,
    num_candidates: int,
    ratio: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sort the chosen candidates and append their parts; see the eager backend's `select`."""
    num_tokens, num_chosen = len(positions), len(best)
    chosen, segments = torch.empty_like(best), torch.empty_like(best)
    new_positions = positions.new_empty(num_tokens + num_chosen * ratio)
    new_bias = torch.empty(len(new_positions), dtype=torch.float32, device=best.device)
    if len(new_bias):
        inputs = best, candidate_segments, positions, key_bias, part_positions, part_bias
        outputs = chosen, segments, new_positions, new_bias
        numbers = num_tokens, num_tokens - num_candidates, num_chosen, ratio
        programs = cdiv(num_tokens, _TOKENS) + cdiv(num_chosen, _CHOSEN)
        constants = _TOKENS, _CHOSEN, _OTHERS
        launch(_select, programs, (*inputs, *outputs), (), numbers, constants)
    return chosen, segments, new_positions, new_bias


@triton.jit(do_not_specialize=("num_tokens", "first_candidate", "num_chosen", "ratio"))
def _select(
    best,
    candidate_segments,
    positions,
    key_bias,
    part_positions,
    part_bias,
    chosen,
    segments,
    new_positions,
    new_bias,
    num_tokens,
    first_candidate,
    num_chosen,
    ratio,
    TOKENS: tl.constexpr,
    CHOSEN: tl.constexpr,
    OTHERS: tl.constexpr,
):
    program = tl.program_id(0)
    token_programs = tl.cdiv(num_tokens, TOKENS)
    if program < token_programs:
        token = program * TOKENS + tl.arange(0, TOKENS)
        _copy_tokens(
            best,
            positions,
            key_bias,
            new_positions,
            new_bias,
            token,
            num_tokens,
            first_candidate,
            num_chosen,
            OTHERS,
        )
    else:
        index = (program - token_programs) * CHOSEN + tl.arange(0, CHOSEN)
        exists = index < num_chosen
        candidate = tl.load(best + index, mask=exists, other=0)
        segment = candidate
        if candidate_segments is not None:
            segment = tl.load(candidate_segments + candidate, mask=exists, other=0)
        rank = _rank(best, candidate, num_chosen, OTHERS)
        tl.store(chosen + rank, candidate, mask=exists)
        tl.store(segments + rank, segment, mask=exists)
        for j in range(ratio):
            part, target = segment * ratio + j, num_tokens + rank * ratio + j
            position = tl.load(part_positions + part, mask=exists)
            tl.store(new_positions + target, position, mask=exists)
            bias = tl.load(part_bias + part, mask=exists).to(tl.float32)
            tl.store(new_bias + target, bias, mask=exists)


@triton.jit
def _copy_tokens(
    best,
    positions,
    key_bias,
    new_positions,
    new_bias,
    token,
    num_tokens,
    first_candidate,
    num_chosen,
    OTHERS: tl.constexpr,
):
    """Copy positions and biases of tokens, with -inf as the bias of a segment that is split."""
    split = tl.zeros(token.shape, tl.int32)
    for start in range(0, num_chosen, OTHERS):
        other = start + tl.arange(0, OTHERS)
        exists = other < num_chosen
        chosen_token = tl.load(best + other, mask=exists, other=0) + first_candidate
        same = (token[:, None] == chosen_token[None, :]) & exists[None, :]
        split += tl.sum(same.to(tl.int32), 1)
    inside = token < num_tokens
    bias = tl.load(key_bias + token, mask=inside).to(tl.float32)
    tl.store(new_bias + token, tl.where(split > 0, float("-inf"), bias), mask=inside)
    tl.store(new_positions + token, tl.load(positions + token, mask=inside), mask=inside)


@triton.jit
def _rank(best, candidate, num_chosen, OTHERS: tl.constexpr):
    """Count the chosen candidates that come before each of the given ones."""
    rank = tl.zeros(candidate.shape, tl.int32)
    for start in range(0, num_chosen, OTHERS):
        other = start + tl.arange(0, OTHERS)
        exists = other < num_chosen
        chosen = tl.load(best + other, mask=exists, other=0)
        before = (chosen[None, :] < candidate[:, None]) & exists[None, :]
        rank += tl.sum(before.to(tl.int32), 1)
    return rank
