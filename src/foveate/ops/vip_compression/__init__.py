"""VIP compression: full resolution where the VIP tokens attend, coarse elsewhere (VCC).

X = [P; C]: P are the VIP tokens of a sequence and C the others, kept as a tree T(C) of segment
means. A layer runs on P and a few segments of the tree, and its output is written back:

    layout = CompressionLayout.from_mask(vip_mask, lengths, budgets=[(16, 90)])
    vips, tokens = layout.separate(hidden_states)
    tree = SegmentTree.from_tokens(tokens, layout.token_counts)
    for layer in layers:
        compressed = compress(vips, tree, layout, score)
        vips, tree = update(compressed, layer(compressed.hidden_states, …))
    hidden_states = layout.combine(vips, tree.to_tokens())

Sequences are packed and all shapes are known on the host, so nothing after the layout synchronizes
with the device. Only the first and the last step pass over all tokens.
"""

from .compression import Compressed, LevelSplit, compress, update
from .layout import CompressionLayout, PackedLengths, check_budgets, count_vips
from .scores import CandidateSegments, vip_scores
from .segment_tree import SegmentTree

__all__ = [
    "CandidateSegments",
    "Compressed",
    "CompressionLayout",
    "LevelSplit",
    "PackedLengths",
    "SegmentTree",
    "check_budgets",
    "compress",
    "count_vips",
    "update",
    "vip_scores",
]
