"""Shared by benchmarks that keep what an encoder has read, for the next time they run."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor


def save(path: Path, value: Any) -> None:
    """Write tensors in lists and dicts, with whatever else JSON can hold; nothing is pickled.

    The file is an .npz of the tensors, by number, and of the JSON, in which objects such as
    `{"tensor": 3}` stand for them. Tuples come back as lists.
    """
    tensors: list[Tensor] = []

    def without_tensors(value: Any) -> Any:
        if isinstance(value, Tensor):
            tensors.append(value)
            return {"tensor": len(tensors) - 1}
        if isinstance(value, dict):
            return {key: without_tensors(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [without_tensors(one) for one in value]
        return value

    text = json.dumps(without_tensors(value)).encode()
    arrays = {str(number): tensor.numpy() for number, tensor in enumerate(tensors)}
    temporary = path.with_name(f"{path.name}.tmp")
    with temporary.open("wb") as file:
        np.savez(file, json=np.frombuffer(text, np.uint8), **arrays)
    temporary.replace(path)


def load(path: Path) -> Any:
    """Load what `save` wrote."""
    with np.load(path) as arrays:

        def with_tensors(found: dict[str, Any]) -> Any:
            if found.keys() == {"tensor"}:
                return torch.from_numpy(arrays[str(found["tensor"])])
            return found

        return json.loads(arrays["json"].tobytes(), object_hook=with_tensors)
