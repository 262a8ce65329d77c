"""Shared by benchmarks that train: parallel runs, and saving and resuming interrupted ones."""

import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

_ADAM = ("step", "exp_avg", "exp_avg_sq")


def save(folder: Path, model: nn.Module, optimizer: torch.optim.AdamW, log: dict) -> None:
    """Save the trainable parameters, Adam's state and the log, each file replaced at once."""
    tensors = {}
    for name, parameter in _trained(model).items():
        tensors[f"model.{name}"] = parameter.detach().contiguous()
        for key, value in optimizer.state[parameter].items():
            tensors[f"{key}.{name}"] = value.contiguous()
    folder.mkdir(parents=True, exist_ok=True)
    state_file, log_file = folder / "state.safetensors", folder / "log.json"
    save_file(tensors, state_file.with_suffix(".tmp"))
    log_file.with_suffix(".tmp").write_text(json.dumps(log))
    for file in (state_file, log_file):
        file.with_suffix(".tmp").replace(file)


def resume(folder: Path, model: nn.Module, optimizer: torch.optim.AdamW) -> dict[str, Any]:
    """Load a saved run, if there is one, into model and optimizer, and return its log."""
    if not (folder / "log.json").exists():
        return {"step": 0, "seconds": 0.0, "curve": []}
    tensors = load_weights(folder, model)
    state = optimizer.state_dict()
    state["state"] = {
        number: {key: tensors[f"{key}.{name}"] for key in _ADAM}
        for number, name in enumerate(_trained(model))
    }
    optimizer.load_state_dict(state)
    return json.loads((folder / "log.json").read_text())


def load_weights(folder: Path, model: nn.Module) -> dict[str, Tensor]:
    """Load the parameters of a saved run into a model, and return all that was saved.

    A model may hold several of them as one, if its state dict says how.

    Raises:
        KeyError: A trained parameter was not saved.
    """
    tensors = load_file(folder / "state.safetensors")
    prefix = "model."
    own = {name.removeprefix(prefix): x for name, x in tensors.items() if name.startswith(prefix)}
    missing = model.load_state_dict(own, strict=False).missing_keys
    if lost := _trained(model).keys() & missing:
        raise KeyError(f"{folder} lacks {', '.join(sorted(lost))}")
    return tensors


def logs(folder: Path, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Load the logs of all saved runs, by name."""
    files = {name: run_folder(folder, name) / "log.json" for name in names}
    return {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}


def run_folder(folder: Path, name: str) -> Path:
    """Return the folder of a run."""
    return folder / name.replace(",", "").replace(" ", "_")


def _trained(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def run_in_parallel(
    work: Callable[..., None], calls: Iterable[tuple[Any, ...]], processes: int | None = None
) -> None:
    """Run the calls in parallel processes, spread over the GPUs; small models can share one.

    Args:
        work: What is called.
        calls: The arguments of each call.
        processes: How many processes share the calls; by default each call has its own.
    """
    calls = list(calls)
    number = min(processes or len(calls), len(calls))
    context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    started = [
        context.Process(target=_run_on_one_gpu, args=(i, work, calls[i::number]))
        for i in range(number)
    ]
    for process in started:
        process.start()
    for process in started:
        process.join()
    if any(process.exitcode for process in started):
        sys.exit("a run failed")


def _run_on_one_gpu(
    number: int, work: Callable[..., None], calls: Iterable[tuple[Any, ...]]
) -> None:
    """Run some calls with a single GPU visible."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = visible.split(",") if visible else [str(n) for n in range(torch.cuda.device_count())]
    if gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[number % len(gpus)]
    # Data loading workers need no CUDA, and spawned ones would import everything again.
    multiprocessing.set_start_method("fork", force=True)
    for call in calls:
        work(*call)
