"""Loading checkpoints: what is missing or damaged is said, and never made up for at random."""

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from transformers import AutoConfig
from transformers.utils import logging

from foveate.preprocessing.factory import check_name_or_path


def load_config(name_or_path: str | PathLike[str]) -> Any:
    """Load a checkpoint's configuration, one of foveate's own included.

    Raises:
        OSError: there is no such folder, or no such name on the hub.
        TypeError: neither a name nor a path.
        ValueError: it is no checkpoint.
    """
    check_name_or_path(name_or_path)
    path = Path(name_or_path)
    if path.is_dir() and not (path / "config.json").exists():
        raise OSError(f"{path} is no checkpoint: it has no config.json")
    try:
        return AutoConfig.from_pretrained(name_or_path)
    except ValueError:  # a type that transformers does not know: ours take time to import
        import foveate.models.fovea
        import foveate.models.hdt
        import foveate.models.vcc  # noqa: F401  (these make their models known to Auto classes)

        return AutoConfig.from_pretrained(name_or_path)


def load_model(auto: Any, name_or_path: str | PathLike[str], **options: Any) -> Any:
    """Load a model by an Auto class, or a class of its own, with all of its weights.

    Raises:
        OSError: there is no such checkpoint, or it has no safetensors weights.
        ValueError: weights that are damaged, do not fit the configuration, or are missing; only a
            pooler's may be.
    """
    try:
        with _without_progress_bars():
            model, info = auto.from_pretrained(
                name_or_path, use_safetensors=True, output_loading_info=True, **options
            )
    except SafetensorError as error:
        raise ValueError(
            f"the weights of {name_or_path} are damaged ({error}): copy or download them anew"
        ) from error
    except RuntimeError as error:
        if "mismatch" not in str(error):
            raise
        raise ValueError(
            f"the weights of {name_or_path} have other sizes than its config.json says: "
            "copy or download both anew"
        ) from error
    missing = sorted(name for name in info["missing_keys"] if "pooler" not in name)
    if missing:
        raise ValueError(
            f"{name_or_path} lacks {len(missing)} parameters of a {type(model).__name__}, "
            f"{missing[0]} among them, which would be random: name a checkpoint that has them"
        )
    return model


@contextmanager
def _without_progress_bars() -> Iterator[None]:
    """Turn off transformers' progress bars, which a library call should not print."""
    if not logging.is_progress_bar_enabled():
        yield
        return
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.enable_progress_bar()
