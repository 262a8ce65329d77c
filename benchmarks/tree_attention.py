"""Tree attention against the floor, dense SDPA and FlexAttention, over document length.

    python benchmarks/tree_attention.py                       # times, prints, saves results/
    python benchmarks/tree_attention.py --plot results.json   # draws docs/images/tree-attention.png

Four documents, 12 heads of 64 channels, bfloat16, nodes in level order. The floor is the time to
move the bytes that have to move: forward reads Q, K, V and writes O, as much as copying two such
tensors; backward reads Q, K, V, O, dO and writes dQ, dK, dV, twice as much. The kernels' output is
compared with plain PyTorch first. Each time is the median of replays of a CUDA graph with a cold L2
cache, so launches from Python do not count; "eager" is the same call made from Python. Without a
GPU, the eager backend runs on short documents.
"""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import arguments
import report
from foveate.models.packing import PackedForest
from foveate.ops.tree_attention import Tree, tree_attention
from timing import contender, graph_milliseconds, milliseconds
from tree_documents import document

DOCUMENTS, HEADS, HEAD_DIM = 4, 12, 64
LENGTHS = [1024, 4096, 16_384, 65_536, 262_144]
DENSE_FORWARD_UP_TO, DENSE_BACKWARD_UP_TO, FLEX_UP_TO = 262_144, 65_536, 65_536
RESULTS = report.RESULTS / "tree_attention.json"
PLOT = report.ROOT / "docs" / "images" / "tree-attention.png"


def batch(tokens: int) -> list[int]:
    """Draw the parents of the packed documents, depth first."""
    rng, parents = random.Random(tokens), []
    for _ in range(DOCUMENTS):
        start = len(parents)
        parents += [p if p < 0 else p + start for p in document(tokens, rng)]
    return parents


def device_milliseconds(run: Callable[[], Any], device: str) -> float | None:
    """Total device time of a call's kernels and copies."""
    if device != "cuda":
        return None
    times = 30
    run()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as trace:
        for _ in range(times):
            run()
        torch.cuda.synchronize()
    return sum(event.self_device_time_total for event in trace.key_averages()) / times / 1e3


def inputs(*shape: int, device: str, dtype: torch.dtype) -> tuple[Tensor, ...]:
    q, k, v, grad = (torch.randn(shape, device=device, dtype=dtype) for _ in range(4))
    return q.requires_grad_(), k.requires_grad_(), v.requires_grad_(), grad


def flex(parents: Tensor, device: str) -> dict[str, Any]:
    """Measure FlexAttention, with tokens in level order and a block mask built for this batch."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    n = len(parents)

    def edge(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        up, over = parents[i], parents[j]
        return (i == j) | (j == up) | (i == over) | ((up == over) & (up >= 0))

    def build() -> Any:
        return torch.compile(create_block_mask)(edge, None, None, n, n, device=device)

    torch.compiler.reset()
    mask = build()
    q, k, v, grad = inputs(1, HEADS, n, HEAD_DIM, device=device, dtype=torch.bfloat16)
    compiled = torch.compile(flex_attention, dynamic=False)
    result = contender(lambda q, k, v: compiled(q, k, v, block_mask=mask), (q, k, v), grad, device)
    return result | {"mask": milliseconds(build, device)}


def difference(tree: Tree, q: Tensor, k: Tensor, v: Tensor) -> float:
    """Relative norm of the difference from plain PyTorch in float32."""
    with torch.no_grad():
        out = tree_attention(q, k, v, tree).float()
        truth = tree_attention(q.float(), k.float(), v.float(), tree, backend="eager")
    error = float((out - truth).norm() / truth.norm())
    if not error < 5e-3:  # bfloat16 rounds by 2e-3
        raise RuntimeError(f"the kernels' output is off by {error:.1e}: nothing is timed")
    return error


def floor(n: int, dtype: torch.dtype, device: str) -> float:
    """Time to move the bytes of attention's forward pass, called or captured."""
    source = torch.randn(2, n, HEADS, HEAD_DIM, device=device).to(dtype)
    target = torch.empty_like(source)

    def copy() -> Tensor:
        return target.copy_(source)

    # Captured, a large copy goes to the copy engine, which is slower.
    return min(milliseconds(copy, device), graph_milliseconds(copy, device))


def measure(tokens: int, device: str) -> dict[str, Any]:
    parents = torch.tensor(batch(tokens), device=device)
    tree = Tree.from_parents(parents).in_level_order
    n, dtype = len(tree), torch.bfloat16 if device == "cuda" else torch.float32
    q, k, v, grad = inputs(n, HEADS, HEAD_DIM, device=device, dtype=dtype)

    family = tree.num_children.double()
    pairs = float((family * (family + 2)).sum()) + int((tree.parent < 0).sum())
    padded = torch.tensor(document(tokens, random.Random(0))[:tokens], device=device)[None]
    mask = torch.ones_like(padded)

    def pack() -> PackedForest:
        return PackedForest.from_parent_ids(padded, mask)

    result: dict[str, Any] = {
        "tokens": tokens,
        "nodes": n,
        "difference": difference(tree, q, k, v),
        "floor": floor(n, dtype, device),
        "floor_bytes": 4 * q.nbytes,
        "flop": 4 * pairs * HEADS * HEAD_DIM,
        "tree_from_parents_depth_first": milliseconds(lambda: Tree.from_parents(parents), device),
        "tree_from_parents_in_level_order": milliseconds(
            lambda: Tree.from_parents(tree.parent), device
        ),
        "tree_of_padded_document": milliseconds(pack, device),
        "tree_of_padded_document_on_device": device_milliseconds(pack, device),
        "foveate": contender(
            lambda q, k, v: tree_attention(q, k, v, tree), (q, k, v), grad, device
        ),
    }
    del q, k, v, grad
    if device == "cuda":
        from foveate.ops.tree_attention.triton.partition import partition

        levels = (tree.parent, tree.first_child, tree.num_children)
        result["tiles"] = milliseconds(lambda: partition(*levels), device)
    if tokens <= DENSE_FORWARD_UP_TO:
        shape = (DOCUMENTS, HEADS, n // DOCUMENTS, HEAD_DIM)
        *leaves, grad = inputs(*shape, device=device, dtype=dtype)
        backward = tokens <= DENSE_BACKWARD_UP_TO
        attend = F.scaled_dot_product_attention
        result["dense"] = contender(attend, leaves, grad, device, backward)
    if device == "cuda" and tokens <= FLEX_UP_TO:
        result["flex"] = flex(tree.parent, device)
    return result


def show(result: dict[str, Any]) -> None:
    floor, n = result["floor"], result["nodes"]
    print(
        f"\n{result['tokens']:,} tokens a document, {n:,} nodes, {result['floor_bytes'] / 1e6:.0f} "
        f"MB and {result['flop'] / 1e9:.1f} GFLOP forward: floor {floor:.4f} / {3 * floor:.4f} ms"
    )
    for name in ("foveate", "dense", "flex"):
        if name not in result:
            continue
        r = result[name]
        line = f"  {name:8s} {r['forward']:9.4f} ({r['forward'] / floor:6.2f} x)"
        line += f"  eager {r['forward_eager']:9.4f}"
        if "both" in r:
            line += f"   both {r['both']:9.4f} ({r['both'] / floor / 3:6.2f} x)"
            line += f"  eager {r['both_eager']:9.4f}"
        if r["forward_bytes"] is not None:
            beyond = r["forward_bytes"] - result["floor_bytes"] / 4
            line += f"   {beyond / (4 * n * HEADS):6.2f} float32 per node and head"
        print(line + (f"   mask {r['mask']:.2f}" if "mask" in r else ""), flush=True)
    print(
        f"  tree from parents depth first {result['tree_from_parents_depth_first']:.3f}, in level "
        f"order {result['tree_from_parents_in_level_order']:.3f}, its tiles "
        f"{result.get('tiles', 0):.3f}, of a padded document "
        f"{result['tree_of_padded_document']:.3f} ms, on the device "
        f"{result['tree_of_padded_document_on_device'] or 0:.3f}"
    )


def plot(results: Path) -> None:
    from matplotlib.figure import Figure

    data = json.loads(results.read_text())
    runs = data["results"]
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
    figure.suptitle(f"Attention of 12 heads × 64, bfloat16, {data['machine']['gpu']}", fontsize=10)
    PLOT.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PLOT, dpi=110)


def main() -> None:
    parser = arguments.parser(__doc__, "lengths", output=RESULTS)
    parser.add_argument("--plot", type=Path, metavar="RESULTS", help="draw these results instead")
    options = parser.parse_args()
    if options.plot:
        plot(options.plot)
        return
    device = "cuda" if torch.cuda.is_available() else "cpu"
    lengths = options.lengths or (LENGTHS if device == "cuda" else [256, 1024])
    runs = []
    for tokens in lengths:
        runs.append(measure(tokens, device))
        show(runs[-1])
    if device == "cuda":
        report.save(options.output, runs, "triton")


if __name__ == "__main__":
    main()
