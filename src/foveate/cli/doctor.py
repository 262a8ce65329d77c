"""`foveate doctor`."""

import os
import platform
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path

import typer

import foveate
from foveate.cache import Cache

from . import common
from .models import prepare
from .settings import settings, user_file

_COLLECTIONS = ("all", "benchmark", "dev", "docs")
"""Extras that consist of others, or are not for users."""
_PACKAGES = ("torch", "transformers", "tokenizers", "huggingface-hub", "numpy")


def command(json: common.Json = False) -> None:
    """Show versions, device, model, settings and what is missing, for reports of bugs.

    \b
    foveate doctor
    foveate doctor --json

    The exit code is 1 if foveate cannot work.
    """
    prepare()
    import torch

    from foveate.inference import default_model_path

    broken = _missing("")
    try:
        model = f"foveate's own, in {default_model_path()}"
    except (ImportError, ValueError) as error:
        model = str(error)
        broken.append("model")
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    cache = Cache().folder
    extras = {
        name: _missing(name)
        for name in metadata("foveate").get_all("Provides-Extra") or ()
        if name not in _COLLECTIONS
    }
    rows = {
        "foveate": f"{foveate.__version__}, in {Path(foveate.__file__).parent}",
        "Python": f"{platform.python_version()}, {platform.platform()}",
        "packages": ", ".join(f"{name} {version(name)}" for name in _PACKAGES),
        "device": ", ".join(gpus) or f"{os.cpu_count()} CPUs, {torch.get_num_threads()} threads",
        "model": model,
        "cache": f"{cache}{'' if _is_writable(cache) else ', which cannot be written'}",
        "settings": ", ".join(
            f"{name} = {one.value} ({one.source})" for name, one in settings().items()
        )
        or f"none; {user_file()} would be read",
        "installed": ", ".join(name for name, missing in extras.items() if not missing),
        "not installed": ", ".join(
            f"{name} ({', '.join(missing)})" for name, missing in extras.items() if missing
        ),
        "broken": ", ".join(broken),
    }
    if json:
        common.print_json(rows)
    else:
        for name, value in rows.items():
            if value:
                common.console.print(f"{name:15}{value}", markup=False)
    if broken:
        raise typer.Exit(1)


def _missing(extra: str) -> list[str]:
    """Return what an extra, or without a name foveate itself, needs and does not find."""
    from packaging.requirements import Requirement  # takes a moment

    missing = []
    for line in requires("foveate") or ():
        one = Requirement(line)
        if one.name == "foveate" or (one.marker and not one.marker.evaluate({"extra": extra})):
            continue
        try:
            found = version(one.name)
        except PackageNotFoundError:
            missing.append(one.name)
        else:
            if not one.specifier.contains(found, prereleases=True):
                missing.append(f"{one.name}{one.specifier}, found {found}")
    return missing


def _is_writable(folder: Path) -> bool:
    while not folder.exists():
        folder = folder.parent
    return os.access(folder, os.W_OK)
