"""VIP compression: a sequence seen closely where its VIP tokens look, coarsely elsewhere (VCC).

X = [P; C]: P the VIP tokens of a sequence, C the others, as the tree T(C) of its segments. A layer
runs on P and a few rows of the tree, and what it makes of them is written back:

    layout = Layout.of(vip, lengths, budgets=[(16, 90)])
    vips, tokens = layout.split(rows)
    tree = build(tokens, layout.counts)
    for each layer:
        compressed = compress(vips, tree, layout, score)
        vips, tree = update(compressed, layer(compressed.rows, …))
    rows = layout.join(vips, materialize(tree))

Packed rows, host-known shapes: nothing between `Layout.of` and the end waits for the device. Only
the first line of this loop and the last pass over all tokens.
"""

from .compression import Compressed, Split, compress, update
from .layout import Layout, check_budgets
from .scores import Candidates, vip_scores
from .tree import Tree, build, materialize, read

__all__ = [
    "Candidates",
    "Compressed",
    "Layout",
    "Split",
    "Tree",
    "build",
    "check_budgets",
    "compress",
    "materialize",
    "read",
    "update",
    "vip_scores",
]
