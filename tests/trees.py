"""Forests and documents drawn by hypothesis."""

from hypothesis import strategies as st


@st.composite
def forests(draw, max_nodes: int = 40, shuffled: bool = True) -> list[int]:
    """Parents of a packed forest: chains, stars, ragged trees, lone roots, in any node order."""
    n = draw(st.integers(1, max_nodes))
    reach = draw(st.sampled_from([1, 3, n]))  # 1 makes chains, n makes bushes
    parents = [-1]
    parents += [draw(st.integers(max(-1, node - reach), node - 1)) for node in range(1, n)]
    if not (shuffled and draw(st.booleans())):
        return parents
    new_index = draw(st.permutations(range(n)))
    shuffled_parents = [0] * n
    for node, parent in enumerate(parents):
        shuffled_parents[new_index[node]] = -1 if parent < 0 else new_index[parent]
    return shuffled_parents


@st.composite
def documents(draw, max_nodes: int = 40) -> list[int]:
    """Parents of a forest in depth-first order, as documents have."""
    path, parents = [], []
    for node in range(draw(st.integers(1, max_nodes))):
        path = path[: draw(st.integers(0, len(path)))]
        parents.append(path[-1] if path else -1)
        path.append(node)
    return parents


@st.composite
def batches(draw, max_nodes: int = 40) -> tuple[list[list[int]], list[list[int]]]:
    """Parents and attention mask of documents padded left, right or not at all."""
    sequences = draw(st.lists(documents(max_nodes), min_size=1, max_size=4))
    length = max(map(len, sequences))
    parents, mask = [], []
    for sequence in sequences:
        padding = length - len(sequence)
        left = draw(st.sampled_from([0, padding]))
        shifted = [parent if parent < 0 else parent + left for parent in sequence]
        parents.append([7] * left + shifted + [7] * (padding - left))
        mask.append([0] * left + [1] * len(sequence) + [0] * (padding - left))
    return parents, mask
