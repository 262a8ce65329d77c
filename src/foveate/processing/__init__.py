"""Documents into token ids and trees: all that a tokenizer's side of a model does."""

from .outline import Anchor, outline
from .processor import Processor

__all__ = ["Anchor", "Processor", "outline"]
