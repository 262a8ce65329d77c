"""The steps of `eager` by plain indexing: slower, but with second derivatives and torch.func."""

from functools import partial

from . import eager
from .eager import build, select, spread

__all__ = ["build", "merge", "select", "split", "spread"]

split = partial(eager.split, chained=False)
merge = partial(eager.merge, chained=False)
