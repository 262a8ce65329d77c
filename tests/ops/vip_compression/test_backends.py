import pytest
import torch

from foveate.ops.vip_compression import CompressionLayout, SegmentTree, compress, vip_scores


def test_unknown_backends_are_rejected():
    layout = CompressionLayout.from_mask(None, [9], [(4, 1)])
    vips, tokens = layout.separate(torch.randn(9, 4))
    tree = SegmentTree.from_tokens(tokens, layout.token_counts)

    def score(candidates):
        q, k = vips.view(1, 1, 4), candidates.means.view(-1, 1, 4)
        return vip_scores(q, k, layout, candidates, backend="nonsense")

    for backend in ("nonsense", None):
        with pytest.raises(ValueError, match="unknown backend 'nonsense'"):
            compress(vips, tree, layout, score, backend=backend)
