"""Compile the kernels that the ops launch for a card that is not here, and print what they take.

    python -m tests.ops.cards sm_86 float32 32 64 80 128            # heads of these sizes
    python -m tests.ops.cards sm_80 float16 64 --ops window tree

The ops run on a CPU, on tensors of the shapes that decide which kernels they launch; every kernel
is compiled by Triton and ptxas instead of launched. A line of JSON is printed for each: bytes of
shared memory, registers and bytes of spilled registers of a thread. Not with TRITON_INTERPRET=1.
"""

import argparse
import contextlib
import io
import itertools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from foveate.ops._triton import card as cards

CARDS = {
    "sm_75": cards.Card((7, 5), 65_536),  # T4, RTX 20
    "sm_80": cards.Card((8, 0), 166_912),  # A100
    "sm_86": cards.Card((8, 6), 101_376),  # RTX 30, A10, A40
    "sm_89": cards.Card((8, 9), 101_376),  # RTX 40, L4, L40
    "sm_90": cards.H200,
    "sm_100": cards.Card((10, 0), 232_448),  # B200
}
HEADS, TOKENS = 2, 256


class Driver:
    """Stands for the driver of a card."""

    def __init__(self, arch: int):
        self.target = GPUTarget("cuda", arch, 32)

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _: int) -> int:
        return 0


def compile_instead(call: str, seen: list[Any]) -> Callable[..., None]:
    """Return a stand-in for `JITFunction.run` that prints what a new kernel takes."""

    def run(kernel: JITFunction, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> None:
        with contextlib.redirect_stdout(io.StringIO()) as log:
            compiled = original(kernel, *arguments, grid=grid, warmup=True, **options)
        if any(compiled is other for other in seen):
            return
        seen.append(compiled)
        spilled = sum(map(int, re.findall(r"(\d+) bytes spill", log.getvalue())))
        (registers,) = map(int, re.findall(r"Used (\d+) registers", log.getvalue()))
        name = f"{kernel.__module__.removeprefix('foveate.ops.')}.{kernel.__name__}"
        row = {"call": call, "kernel": name, "shared_memory": compiled.metadata.shared}
        print(json.dumps(row | {"registers": registers, "spilled": spilled}), flush=True)

    return run


original = JITFunction.run


def calls(dtype: torch.dtype, head_dim: int) -> Iterator[tuple[str, str, Callable[[], None]]]:
    """Yield an op, what is special, and a call forward and backward, of every kind."""
    from foveate.ops.fovea_attention import triton as fovea
    from foveate.ops.relative_attention import triton as relative
    from foveate.ops.rms_norm import triton as rms_norm
    from foveate.ops.rotary import triton as rotary
    from foveate.ops.tree_attention import kernel_memory
    from foveate.ops.tree_attention import triton as tree
    from foveate.ops.tree_attention.tree import SIZE
    from foveate.ops.tree_positions import triton as tree_positions
    from foveate.ops.vip_compression import triton as vip
    from foveate.ops.window_attention import triton as window

    def rows(number: int = TOKENS) -> Tensor:
        return torch.empty(number, HEADS, head_dim, dtype=dtype)

    q, k, v = rows(), rows(), rows()
    table, positions = torch.zeros(32, HEADS), torch.zeros(TOKENS, dtype=torch.long)
    shared_memory = cards.card_of(q.device).shared_memory

    def attend_tree(edges: tuple[bool, bool, bool]) -> None:
        members = torch.zeros(8, 2, SIZE, dtype=torch.int32)
        options = members, torch.zeros(4, 8, dtype=torch.int32), [1, 1, 1, 1], *edges, 0.1
        if kernel_memory(q, trains=False) <= shared_memory:
            outputs = tree.forward_op(q, k, v, *options)
            if kernel_memory(q, trains=True) <= shared_memory:
                tree.backward_op(q, q, k, v, *outputs, *options)

    def attend_window(has_bias: bool, num_global: int, has_masked: bool) -> None:
        bias, masked = table if has_bias else None, torch.zeros(TOKENS, dtype=torch.bool)
        global_k = rows(num_global)
        tensors = (
            q,
            k,
            v,
            global_k,
            global_k,
            bias,
            None,
            None,
            None,
            masked if has_masked else None,
        )
        arguments = *tensors, [TOKENS], [num_global], 64, 64, 128, 0.1
        window.backward_op(q, *window.forward_op(*arguments), *arguments)

    def attend_relative(has_bias: bool, causal: bool, has_key_bias: bool, placed: bool) -> None:
        bias, key_bias = table if has_bias else None, torch.zeros(TOKENS) if has_key_bias else None
        places = positions if placed else None
        options = [TOKENS], causal, 128, 0.1
        arguments = q, k, v, bias, key_bias, places, places, [TOKENS], *options
        outputs = relative.forward_op(*arguments)
        relative.backward_op(q, *outputs, *arguments, has_bias, has_key_bias)
        if causal:  # decoding
            relative.forward_op(rows(1), k, v, bias, key_bias, None, None, [1], *options)

    def attend_fovea(has_bias: bool, size_bias: bool) -> None:
        x, bias = rows(1024), table if has_bias else None
        options = [1024], 64, 1, "full", None, 128, 0.1, size_bias
        o, lse, windows = fovea.forward_op(x, x, x, bias, *options)
        fovea.backward_op(x, x, windows, bias, o, lse, *options)

    def score(has_bias: bool) -> None:
        sizes = torch.tensor([TOKENS])
        weights, bias = torch.zeros(TOKENS), torch.zeros(HEADS, 257) if has_bias else None
        spans = torch.zeros_like(sizes), sizes, torch.zeros_like(sizes), sizes
        inputs = vip.ScoreInputs(positions, positions, weights, weights, bias, *spans)
        vip.vip_scores(q.requires_grad_(), k, inputs, TOKENS, TOKENS, 0.1).sum().backward()

    def compute_rows() -> None:
        x = q.flatten(1).requires_grad_()
        sums = rms_norm.residual_rms_norm(x, torch.ones(x.shape[1]), 1e-6, x.detach(), dtype)
        (sums[0].sum() + sums[1].sum()).backward()
        angles = torch.empty(TOKENS, head_dim // 2)
        rotary.rotate(q, k, angles, angles)
        tree_positions.tree_positions_op(positions, positions, positions, x.detach(), 4)
        tree_positions.reading_order_op(*[positions] * 4)
        tokens = x.detach().requires_grad_()
        counts = torch.full((TOKENS // 16,), 16), torch.ones(TOKENS, dtype=torch.long)
        means, deltas = vip.build(tokens, counts)
        (vip.spread(means, deltas[0], dtype).sum() + means.sum()).backward()

    both = (False, True)
    yield "rows", "norms, rotations, positions and means", compute_rows
    for edges in ((True, True, True), (True, False, False)):
        yield "tree", f"edges {edges}", lambda edges=edges: attend_tree(edges)
    for has_bias, num_global, masked in itertools.product(both, (0, 64), both):
        about = f"bias {has_bias}, {num_global} global, masked {masked}"
        terms = has_bias, num_global, masked
        yield "window", about, lambda terms=terms: attend_window(*terms)
    for terms in itertools.product(both, repeat=4):
        about = "bias {}, causal {}, key bias {}, positions {}".format(*terms)
        yield "relative", about, lambda terms=terms: attend_relative(*terms)
    for terms in itertools.product(both, repeat=2):
        yield (
            "fovea",
            "bias {}, size bias {}".format(*terms),
            lambda terms=terms: attend_fovea(*terms),
        )
    for has_bias in both:
        yield "vip", f"bias {has_bias}", lambda has_bias=has_bias: score(has_bias)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("card", choices=CARDS)
    parser.add_argument("dtype", choices=["float16", "bfloat16", "float32"])
    parser.add_argument("head_dims", type=int, nargs="+")
    parser.add_argument("--ops", nargs="+", help="of all that run on the card")
    parser.add_argument("--all-terms", action="store_true", help="instead of the last of each op")
    arguments = parser.parse_args()
    card = CARDS[arguments.card]
    cards.card_of = lambda _: card  # before the ops import it
    driver.set_active(Driver(card.capability[0] * 10 + card.capability[1]))
    knobs.compilation.always_compile = True  # what is compiled anew has a log
    knobs.nvidia.dump_ptxas_log = True
    seen: list[Any] = []
    for head_dim in arguments.head_dims:
        by_op: dict[str, list[tuple[str, Callable[[], None]]]] = {}
        for op, about, call in calls(getattr(torch, arguments.dtype), head_dim):
            by_op.setdefault(op, []).append((f"{op}, {head_dim} channels, {about}", call))
        multiply = card.capability >= cards.capability_for(torch.float32, multiplies=True)
        for op in arguments.ops or (by_op if multiply else ["rows"]):
            for about, call in by_op[op] if arguments.all_terms else by_op[op][-1:]:
                JITFunction.run = compile_instead(about, seen)
                call()


if __name__ == "__main__":
    main()
