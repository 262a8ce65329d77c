"""Shared by benchmarks that train: saving and resuming interrupted runs."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn

_ADAM = ("step", "exp_avg", "exp_avg_sq")


def save(folder: Path, model: nn.Module, optimizer: torch.optim.AdamW, log: dict) -> None:
    """Save the trainable parameters, Adam's state and the log."""
    tensors = {}
    for name, parameter in _trained(model).items():
        tensors[f"model.{name}"] = parameter.detach().contiguous()
        for key, value in optimizer.state[parameter].items():
            tensors[f"{key}.{name}"] = value.contiguous()
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "state.safetensors")
    (folder / "log.json").write_text(json.dumps(log))


def resume(folder: Path, model: nn.Module, optimizer: torch.optim.AdamW) -> dict[str, Any]:
    """Load a saved run, if there is one, into model and optimizer, and return its log."""
    if not (folder / "log.json").exists():
        return {"step": 0, "seconds": 0.0, "curve": []}
    tensors = load_file(folder / "state.safetensors")
    with torch.no_grad():
        for name, parameter in _trained(model).items():
            parameter.copy_(tensors[f"model.{name}"])
    state = optimizer.state_dict()
    state["state"] = {
        number: {key: tensors[f"{key}.{name}"] for key in _ADAM}
        for number, name in enumerate(_trained(model))
    }
    optimizer.load_state_dict(state)
    return json.loads((folder / "log.json").read_text())


def logs(folder: Path, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Load the logs of all saved runs, by name."""
    files = {name: run_folder(folder, name) / "log.json" for name in names}
    return {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}


def run_folder(folder: Path, name: str) -> Path:
    """Return the folder of a run."""
    return folder / name.replace(",", "").replace(" ", "_")


def _trained(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: p for name, p in model.named_parameters() if p.requires_grad}
