from hypothesis import example, given
from hypothesis import strategies as st

from foveate.ops.fovea_attention import PyramidNode, select_nodes

SEQUENCES = (st.integers(1, 150), st.integers(1, 9))


def outwards(nodes, block):
    """Nodes of the left and of the right side, from the query block outwards."""
    center = nodes.index(PyramidNode(0, block))
    return nodes[:center][::-1], nodes[center + 1 :]


def test_a_query_block_near_the_left_end():
    assert select_nodes(16, 1, "paper")[1] == ((0, 0), (0, 1), (0, 2), (1, 3), (2, 5))
    assert select_nodes(16, 1, "full")[1] == (
        (0, 0),
        (0, 1),
        (0, 2),
        (1, 3),
        (2, 5),
        (2, 9),
        (1, 13),
        (0, 15),
    )
    assert select_nodes(16, 2, "paper")[8] == (
        *((1, 2), (1, 4), (0, 6), (0, 7), (0, 8), (0, 9), (0, 10), (1, 11), (1, 13)),
    )


@given(*SEQUENCES)
def test_paper_selects_what_equations_4_to_7_say(n, k):
    for i, nodes in enumerate(select_nodes(n, k, "paper")):
        named = {(0, i)}
        for q in range(n.bit_length() + 1):
            named |= {(q, i + k * (2**q - 1) + 1 + j * 2**q) for j in range(k)}
            named |= {(q, i - k * (2**q - 1) - 2**q - j * 2**q) for j in range(k)}
        assert sorted(nodes) == sorted((a, b) for a, b in named if 0 <= b <= n - 2**a)
        assert list(nodes) == sorted(nodes, key=lambda node: node.start)


@given(*SEQUENCES)
@example(512, 1)
def test_full_tiles_the_sequence_exactly_once(n, k):
    for nodes in select_nodes(n, k, "full"):
        blocks = [
            block for node in nodes for block in range(node.start, node.start + node.num_blocks)
        ]
        assert blocks == list(range(n))


@given(*SEQUENCES)
def test_full_is_paper_and_the_largest_nodes_that_fit_the_remainder(n, k):
    for i, (full, paper) in enumerate(
        zip(select_nodes(n, k, "full"), select_nodes(n, k, "paper"), strict=True)
    ):
        for whole, part, room in zip(
            outwards(full, i), outwards(paper, i), (i, n - 1 - i), strict=True
        ):
            assert whole[: len(part)] == part
            levels = [node.level for node in part]
            assert levels == sorted(levels)  # sizes never shrink with distance
            room -= sum(node.num_blocks for node in part)
            for node in whole[len(part) :]:  # until the remainder
                assert node.num_blocks <= room < 2 * node.num_blocks
                room -= node.num_blocks
            assert room == 0


@given(*SEQUENCES)
def test_a_query_sees_logarithmically_many_nodes(n, k):
    for coverage in ("full", "paper"):
        assert all(
            len(nodes) <= 1 + 2 * (k + 1) * n.bit_length() for nodes in select_nodes(n, k, coverage)
        )


@given(st.integers(1, 60), st.sampled_from(["full", "paper"]))
def test_many_neighbours_are_all_blocks(n, coverage):
    assert set(select_nodes(n, n, coverage)) == {tuple(PyramidNode(0, block) for block in range(n))}


def published_nodes(num_blocks, wing, stop_level):
    """Follow the published `gen_id`, whose `level` is stop_level - 1."""
    last, selected = stop_level - 1, []
    for block in range(num_blocks):
        nodes, level = [(0, block)], 0
        while num_blocks > 2**level:
            size = 2**level
            first = wing * (size - 1) + 1
            end = first + wing * size if level < last else num_blocks
            for shift in range(first, end, size):
                nodes += [(level, block - shift - size + 1), (level, block + shift)]
            if level >= last:
                break
            level += 1
        nodes = [node for node in nodes if 0 <= node[1] <= num_blocks - 2 ** node[0]]
        selected.append(tuple(sorted(nodes, key=lambda node: node[1])))
    return tuple(selected)


@given(*SEQUENCES, st.integers(1, 9))
@example(128, 1, 5)
def test_paper_stops_at_the_published_level(n, k, stop_level):
    assert select_nodes(n, k, "paper", stop_level) == published_nodes(n, k, stop_level)


@given(*SEQUENCES, st.integers(1, 9))
def test_full_tiles_the_sequence_when_levels_stop(n, k, stop_level):
    for nodes in select_nodes(n, k, "full", stop_level):
        assert [b for level, start in nodes for b in range(start, start + 2**level)] == [*range(n)]
        assert max(level for level, _ in nodes) < stop_level
