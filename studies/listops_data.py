"""ListOps: nested operations on lists of digits, as trees (HDT, 4.1 and A.2.1).

An expression such as `[MAX 2 [SM 4 9 ] 7 ]` has one answer, a digit. MIN, MAX and MED are minimum,
maximum and median (rounded down), SM is the sum modulo 10. As a tree, an operator is the parent of
its operands; as a sequence, it is closed by a bracket.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor

OPERATORS: dict[str, Callable[[list[int]], int]] = {
    "MIN": min,
    "MAX": max,
    "MED": lambda values: int(median(values)),
    "SM": lambda values: sum(values) % 10,
}
CLOSE = 10 + len(OPERATORS)
START = CLOSE + 1
"""Token before the sequence form, at which the answer is predicted."""
PADDING = START + 1
VOCABULARY = PADDING + 1

_OPERATOR_SHARE = 0.25  # of all places that may hold an operator, as in the published generator

Written = tuple[int, ...]


@dataclass(frozen=True)
class Expressions:
    """Packed expressions; all tensors are int64.

    Attributes:
        tokens: `(nodes,)`, each a digit or 10 + the index of an operator, depth first.
        parents: `(nodes,)`, position of each node's operator in its expression, -1 at a root.
        starts: `(expressions + 1,)`, where each expression begins, and the end of the last.
        written: `(tokens,)`, the sequence forms.
        written_starts: `(expressions + 1,)`, as `starts`.
        answers: `(expressions,)`.
    """

    tokens: Tensor
    parents: Tensor
    starts: Tensor
    written: Tensor
    written_starts: Tensor
    answers: Tensor

    def __len__(self) -> int:
        """Return the number of expressions."""
        return len(self.answers)

    @property
    def lengths(self) -> Tensor:
        """Tokens of each sequence form, without the start: `(expressions,)`."""
        return self.written_starts.diff()

    def to(self, device: torch.device | str) -> "Expressions":
        """Return the expressions with their tensors on `device`."""
        return Expressions(**{name: value.to(device) for name, value in vars(self).items()})

    def forest(self, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens and parents `(nodes,)` of the chosen expressions, packed into one forest."""
        nodes, _, shift = _select(self.starts, chosen)
        parents = self.parents[nodes]
        return self.tokens[nodes], torch.where(parents < 0, -1, parents + shift)

    def sequences(self, chosen: Tensor) -> Tensor:
        """Sequence forms of the chosen expressions, each after START: `(chosen, 1 + longest)`."""
        places, owner, shift = _select(self.written_starts, chosen)
        column = torch.arange(len(places), device=shift.device) - shift
        sequences = chosen.new_full((len(chosen), 2 + int(column.max())), PADDING)
        sequences[:, 0] = START
        sequences[owner, 1 + column] = self.written[places]
        return sequences


def generate(
    number: int,
    *,
    seed: int = 0,
    max_depth: int = 20,
    max_operands: int = 5,
    max_length: int = 512,
) -> Expressions:
    """Draw different expressions, each an operation on at least two operands.

    Args:
        number: Number of expressions.
        seed: The same seed gives the same expressions.
        max_depth: Maximum number of nested operators; digits are one level deeper.
        max_operands: Maximum operands of an operator, which has at least 2.
        max_length: Maximum tokens of the sequence form; longer expressions are dropped.

    Raises:
        ValueError: A limit is too low, or too few expressions are within the limits.

    Example:
        >>> from listops_data import generate
        >>> drawn = generate(1000, max_length=30)
        >>> len(drawn), int(drawn.lengths.max()) <= 30
        (1000, True)
    """
    for name, value, least in (
        ("number", number, 1),
        ("max_depth", max_depth, 2),
        ("max_operands", max_operands, 2),
        ("max_length", max_length, 5),
    ):
        if value < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")
    rng = random.Random(seed)
    different: dict[Written, int] = {}
    draws = 0
    while len(different) < number:
        if draws == 1000 + 100 * number:
            raise ValueError(
                f"there are hardly {number:,} different expressions within these limits: "
                f"{draws:,} draws gave {len(different):,}; ask for fewer or widen the limits"
            )
        written, answer = _draw(rng, max_depth, max_operands)
        draws += 1
        if len(written) <= max_length:
            different.setdefault(written, answer)
    trees = [_tree(written) for written in different]
    return Expressions(
        tokens=torch.tensor([token for tokens, _ in trees for token in tokens]),
        parents=torch.tensor([parent for _, parents in trees for parent in parents]),
        starts=_starts(len(tokens) for tokens, _ in trees),
        written=torch.tensor([token for written in different for token in written]),
        written_starts=_starts(map(len, different)),
        answers=torch.tensor(list(different.values())),
    )


def _draw(rng: random.Random, max_depth: int, max_operands: int) -> tuple[Written, int]:
    """An expression in its sequence form, and its answer."""
    operations = list(OPERATORS.values())
    written: list[int] = []

    def operation(depth: int) -> int:
        which = rng.randrange(len(operations))
        written.append(10 + which)
        operands = [operand(depth + 1) for _ in range(rng.randint(2, max_operands))]
        written.append(CLOSE)
        return operations[which](operands)

    def operand(depth: int) -> int:
        if depth < max_depth and rng.random() < _OPERATOR_SHARE:
            return operation(depth)
        digit = rng.randrange(10)
        written.append(digit)
        return digit

    answer = operation(1)
    return tuple(written), answer


def _tree(written: Written) -> tuple[list[int], list[int]]:
    """Tokens and parents of the nodes of a sequence form."""
    tokens: list[int] = []
    parents: list[int] = []
    above = [-1]
    for token in written:
        if token == CLOSE:
            above.pop()
            continue
        parents.append(above[-1])
        if token >= 10:
            above.append(len(tokens))
        tokens.append(token)
    return tokens, parents


def _starts(sizes: Iterable[int]) -> Tensor:
    return torch.tensor([0, *sizes]).cumsum(0)


def _select(starts: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the position of each element of the chosen, which of them it is in, and its start."""
    sizes = starts[chosen + 1] - starts[chosen]
    begins = sizes.cumsum(0) - sizes
    owner = torch.arange(len(chosen), device=chosen.device).repeat_interleave(sizes)
    within = torch.arange(len(owner), device=chosen.device) - begins[owner]
    return starts[chosen][owner] + within, owner, begins[owner]
