"""Forests and documents that hypothesis makes up."""

from hypothesis import strategies as st


@st.composite
def forests(draw, max_nodes: int = 40, shuffled: bool = True) -> list[int]:
    """Parents of a packed forest: chains, stars, ragged trees, lone roots, in any row order."""
    n = draw(st.integers(1, max_nodes))
    reach = draw(st.sampled_from([1, 3, n]))  # 1 makes chains, n makes bushes
    parents = [-1]
    parents += [draw(st.integers(max(-1, node - reach), node - 1)) for node in range(1, n)]
    if not (shuffled and draw(st.booleans())):
        return parents
    new_row = draw(st.permutations(range(n)))
    shuffled_parents = [0] * n
    for node, parent in enumerate(parents):
        shuffled_parents[new_row[node]] = -1 if parent < 0 else new_row[parent]
    return shuffled_parents
