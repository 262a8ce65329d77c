import statistics

import pytest
import torch

from foveate.ops.tree_attention import Tree
from listops_data import CLOSE, OPERATORS, PADDING, START, generate


@pytest.fixture(scope="module")
def expressions():
    return generate(500, seed=3)


def evaluate(tokens, parents, node=0):
    operands = [evaluate(tokens, parents, i) for i, p in enumerate(parents) if p == node]
    if tokens[node] < 10:
        assert operands == []
        return tokens[node]
    assert 2 <= len(operands) <= 5
    match list(OPERATORS)[tokens[node] - 10]:
        case "MIN":
            return min(operands)
        case "MAX":
            return max(operands)
        case "MED":
            return int(statistics.median(operands))
        case "SM":
            return sum(operands) % 10


def test_trees_have_their_answers_and_limits(expressions):
    for i in range(len(expressions)):
        tokens, parents = (x.tolist() for x in expressions.forest(torch.tensor([i])))
        assert evaluate(tokens, parents) == expressions.answers[i]
    tree = Tree.from_parents(expressions.forest(torch.arange(500))[1])
    assert tree.level_sizes[0] == 500
    assert len(tree.level_sizes) <= 21
    assert expressions.lengths.max() <= 512
    shallow = generate(200, max_depth=2, max_length=12)
    assert len(Tree.from_parents(shallow.forest(torch.arange(200))[1]).level_sizes) <= 3
    assert shallow.lengths.max() <= 12


def test_both_forms_say_the_same(expressions):
    chosen = torch.tensor([7, 400, 3])
    rows = expressions.sequences(chosen)
    assert (rows[:, 0] == START).all()
    for row, i in zip(rows.tolist(), chosen, strict=True):
        written = [token for token in row[1:] if token != PADDING]
        tokens, parents = expressions.forest(i[None])
        assert [token for token in written if token != CLOSE] == tokens.tolist()
        operators = [[]]
        number = -1
        for token in written:
            if token == CLOSE:
                operators.pop()
                continue
            number += 1
            assert parents[number] == (operators[-1] if operators[-1] != [] else -1)
            if token >= 10:
                operators.append(number)


def test_packed_forest_keeps_every_tree(expressions):
    chosen = torch.tensor([5, 499, 0])
    tokens, parents = expressions.forest(chosen)
    shift = 0
    for i in chosen:
        own_tokens, own_parents = expressions.forest(i[None])
        place = slice(shift, shift + len(own_tokens))
        assert torch.equal(tokens[place], own_tokens)
        expected = torch.where(own_parents < 0, -1, own_parents + shift)
        assert torch.equal(parents[place], expected)
        shift += len(own_tokens)
    assert shift == len(tokens)


def test_expressions_are_different_and_the_seed_decides(expressions):
    again = generate(500, seed=3)
    assert torch.equal(again.written, expressions.written)
    assert not torch.equal(generate(500, seed=4).answers, expressions.answers)
    written = {tuple(row) for row in expressions.sequences(torch.arange(500)).tolist()}
    assert len(written) == 500


def test_limits_are_checked():
    with pytest.raises(ValueError, match="max_operands must be at least 2, got 1"):
        generate(1, max_operands=1)
    with pytest.raises(ValueError, match="hardly 500 different expressions"):
        generate(500, max_operands=2, max_length=5)
