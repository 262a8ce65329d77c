"""What benchmarks that train share: a run that is stopped goes on where it was."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn

_ADAM = ("step", "exp_avg", "exp_avg_sq")


def keep(folder: Path, model: nn.Module, optimizer: torch.optim.AdamW, log: dict) -> None:
    """Save the trained parameters, what Adam knows of them, and the log."""
    tensors = {}
    for name, parameter in _trained(model).items():
        tensors[f"model.{name}"] = parameter.detach().contiguous()
        for what, value in optimizer.state[parameter].items():
            tensors[f"{what}.{name}"] = value.contiguous()
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "state.safetensors")
    (folder / "log.json").write_text(json.dumps(log))


def resume(folder: Path, model: nn.Module, optimizer: torch.optim.AdamW) -> dict[str, Any]:
    """Load what `keep` saved, if it did, into model and optimizer, and give the log."""
    if not (folder / "log.json").exists():
        return {"step": 0, "seconds": 0.0, "curve": []}
    tensors = load_file(folder / "state.safetensors")
    with torch.no_grad():
        for name, parameter in _trained(model).items():
            parameter.copy_(tensors[f"model.{name}"])
    kept = optimizer.state_dict()
    kept["state"] = {
        number: {what: tensors[f"{what}.{name}"] for what in _ADAM}
        for number, name in enumerate(_trained(model))
    }
    optimizer.load_state_dict(kept)
    return json.loads((folder / "log.json").read_text())


def logs(folder: Path, names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """The logs of those runs that were kept, by name."""
    files = {name: place(folder, name) / "log.json" for name in names}
    return {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}


def place(folder: Path, name: str) -> Path:
    """Folder of a run."""
    return folder / name.replace(",", "").replace(" ", "_")


def _trained(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: p for name, p in model.named_parameters() if p.requires_grad}
