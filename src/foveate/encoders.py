"""The encoder of detectors, which come before the package that loads it.

`foveate` sets `load_encoder` when it is imported, so `foveate.preprocessing` need not import
`foveate.inference`.
"""

from collections.abc import Callable
from typing import Any

load_encoder: Callable[[str | None], Any]
"""Loads the encoder of a checkpoint on the CPU; without a name, foveate's own."""
