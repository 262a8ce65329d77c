"""Tree attention against the floor, dense SDPA and FlexAttention, over document length.

    python -m benchmarks tree_attention

Four documents, 12 heads of 64 channels, bfloat16, nodes in level order. The floor is the time to
move the bytes that have to move: forward reads Q, K, V and writes O, as much as copying two such
tensors; backward reads Q, K, V, O, dO and writes dQ, dK, dV, twice as much. The kernels' output is
compared with plain PyTorch first. Each time is the median of replays of a CUDA graph with a cold L2
cache, so launches from Python do not count; "eager" is the same call made from Python.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks import report
from benchmarks.registry import measurement, picture
from benchmarks.timing import contender, each, graph_milliseconds, milliseconds, require_gpu
from benchmarks.tree_documents import document
from foveate.ops.tree_attention import Tree, tree_attention

DOCUMENTS, HEADS, HEAD_DIM = 4, 12, 64
LENGTHS = [1024, 4096, 16_384, 65_536, 262_144]
DENSE_FORWARD_UP_TO, DENSE_BACKWARD_UP_TO, FLEX_UP_TO = 262_144, 65_536, 65_536


def batch(tokens: int) -> list[int]:
    """Draw the parents of the packed documents, depth first."""
    rng, parents = random.Random(tokens), []
    for _ in range(DOCUMENTS):
        start = len(parents)
        parents += [p if p < 0 else p + start for p in document(tokens, rng)]
    return parents


def inputs(*shape: int) -> tuple[Tensor, ...]:
    q, k, v, grad = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(4))
    return q.requires_grad_(), k.requires_grad_(), v.requires_grad_(), grad


def flex(parents: Tensor) -> dict[str, Any]:
    """Measure FlexAttention, with tokens in level order and a block mask built for this batch."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    n = len(parents)

    def edge(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        up, over = parents[i], parents[j]
        return (i == j) | (j == up) | (i == over) | ((up == over) & (up >= 0))

    def build() -> Any:
        return torch.compile(create_block_mask)(edge, None, None, n, n, device="cuda")

    torch.compiler.reset()
    mask = build()
    q, k, v, grad = inputs(1, HEADS, n, HEAD_DIM)
    compiled = torch.compile(flex_attention, dynamic=False)
    result = contender(lambda q, k, v: compiled(q, k, v, block_mask=mask), (q, k, v), grad)
    return result | {"mask": milliseconds(build)}


def difference(tree: Tree, q: Tensor, k: Tensor, v: Tensor) -> float:
    """Relative norm of the difference from plain PyTorch in float32."""
    with torch.no_grad():
        out = tree_attention(q, k, v, tree).float()
        truth = tree_attention(q.float(), k.float(), v.float(), tree, backend="eager")
    error = float((out - truth).norm() / truth.norm())
    if not error < 5e-3:  # bfloat16 rounds by 2e-3
        raise RuntimeError(f"the kernels' output is off by {error:.1e}: nothing is timed")
    return error


def floor(n: int) -> float:
    """Time to move the bytes of attention's forward pass, called or captured."""
    source = torch.randn(2, n, HEADS, HEAD_DIM, device="cuda").bfloat16()
    target = torch.empty_like(source)

    def copy() -> Tensor:
        return target.copy_(source)

    # Captured, a large copy goes to the copy engine, which is slower.
    return min(milliseconds(copy), graph_milliseconds(copy))


def measure(tokens: int) -> dict[str, Any]:
    parents = torch.tensor(batch(tokens), device="cuda")
    tree = Tree.from_parents(parents).in_level_order
    n = len(tree)
    q, k, v, grad = inputs(n, HEADS, HEAD_DIM)
    result: dict[str, Any] = {
        "tokens": tokens,
        "nodes": n,
        "difference": difference(tree, q, k, v),
        "floor": floor(n),
        "tree_from_parents_depth_first": milliseconds(lambda: Tree.from_parents(parents)),
        "tree_from_parents_in_level_order": milliseconds(lambda: Tree.from_parents(tree.parent)),
        "foveate": contender(lambda q, k, v: tree_attention(q, k, v, tree), (q, k, v), grad),
    }
    del q, k, v, grad
    if tokens <= DENSE_FORWARD_UP_TO:
        *leaves, grad = inputs(DOCUMENTS, HEADS, n // DOCUMENTS, HEAD_DIM)
        attend = F.scaled_dot_product_attention
        result["dense"] = contender(attend, leaves, grad, tokens <= DENSE_BACKWARD_UP_TO)
    if tokens <= FLEX_UP_TO:
        result["flex"] = flex(tree.parent)
    return result


def show(result: dict[str, Any]) -> None:
    header = [
        "tokens",
        "attention",
        "forward ms",
        "× floor",
        "eager",
        "both ms",
        "× floor",
        "eager",
    ]
    rows = []
    for name in ("foveate", "dense", "flex"):
        if r := result.get(name):
            line = [result["tokens"], name]
            for part, copies in (("forward", 1), ("both", 3)):
                times = r[part] / result["floor"] / copies if part in r else None
                line += [r.get(part), times, r.get(f"{part}_eager")]
            rows.append(line)
    print(report.table(header, rows), flush=True)


@picture("tree-attention.png", "tree_attention.json")
def plot(saved: dict[str, Any]) -> Any:
    """Draw the times by length."""
    from matplotlib.figure import Figure

    runs = saved["results"]
    figure = Figure(figsize=(10, 4.2), layout="tight")
    axes = figure.subplots(1, 2, sharey=True)
    names = {
        "foveate": "foveate",
        "flex": "FlexAttention, its mask not counted",
        "dense": "dense SDPA",
    }
    for ax, part, title, copies in zip(
        axes, ("forward", "both"), ("forward", "forward + backward"), (1, 3), strict=True
    ):
        for name, label in names.items():
            points = [r for r in runs if part in r.get(name, {})]
            lengths = [r["tokens"] for r in points]
            ax.plot(lengths, [r[name][part] for r in points], "o-", label=label)
        floors = [copies * r["floor"] for r in runs]
        ax.plot([r["tokens"] for r in runs], floors, "k--", label="floor: copying the bytes")
        ax.set(title=title, xscale="log", yscale="log", xlabel="tokens in each of 4 documents")
        ax.set_xticks([r["tokens"] for r in runs], [f"{r['tokens'] // 1024}k" for r in runs])
        ax.minorticks_off()
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("milliseconds")
    axes[0].legend()
    figure.suptitle(f"Attention of 12 heads × 64, bfloat16, {saved['machine']['gpu']}", fontsize=10)
    return figure


@measurement("tree_attention.json", "triton")
def tree(lengths: Sequence[int] = LENGTHS) -> Iterator[tuple[list[dict[str, Any]], list[str]]]:
    """Measure every length."""
    require_gpu()
    yield from each(lengths, measure, show)
