"""Loading of checkpoints: missing or damaged files raise an error, and no weight stays random."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from transformers import AutoConfig
from transformers.utils import logging

from foveate.checkpoints import check_name_or_path


def load_config(name_or_path: str | PathLike[str]) -> Any:
    """Load the configuration of a checkpoint, of transformers or of foveate.

    Raises:
        OSError: There is no such folder or model, or the folder is not a checkpoint.
        TypeError: The argument is neither a name nor a path.
        ValueError: The model type is unknown.
    """
    check_name_or_path(name_or_path)
    path = Path(name_or_path)
    if path.is_dir() and not (path / "config.json").exists():
        raise OSError(f"{path} is not a checkpoint: it has no config.json")
    try:
        return AutoConfig.from_pretrained(name_or_path)
    except ValueError:  # perhaps one of ours, which are imported only when needed
        import foveate.models.fovea
        import foveate.models.hdt
        import foveate.models.tree_bert
        import foveate.models.vcc  # noqa: F401  (these register their models)

        return AutoConfig.from_pretrained(name_or_path)


def load_model(auto: Any, name_or_path: str | PathLike[str], **options: Any) -> Any:
    """Load a model with all of its weights.

    Args:
        auto: An Auto class or a model class.
        name_or_path: A folder, or a name on the hub.
        options: Other arguments of `from_pretrained`.

    Raises:
        OSError: There is no such checkpoint, or it has no safetensors weights.
        ValueError: Weights are damaged, do not fit the configuration, or are missing. Only those of
            a pooler may be missing.
    """
    with explain_errors(name_or_path):
        model, info = auto.from_pretrained(
            name_or_path, use_safetensors=True, output_loading_info=True, **options
        )
    missing = sorted(name for name in info["missing_keys"] if "pooler" not in name)
    if missing:
        raise ValueError(
            f"{name_or_path} lacks {len(missing)} parameters of a {type(model).__name__}, such as "
            f"{missing[0]}, which would be random: use a checkpoint that has them"
        )
    return model


def check_model_type(model_type: str | None, supported: Collection[str]) -> None:
    """Reject checkpoints of models with other parameters.

    Raises:
        ValueError: `model_type` is not None and not supported.
    """
    if model_type is not None and model_type not in supported:
        raise ValueError(
            f"a checkpoint of {model_type} does not have the parameters of this model: name one of "
            f"{' or '.join(sorted(supported))}"
        )


@contextmanager
def explain_errors(name_or_path: str | PathLike[str]) -> Iterator[None]:
    """Say what is wrong with the weights of a checkpoint that is loaded, and show no progress.

    Raises:
        ValueError: Weights are damaged, or do not fit the configuration.
    """
    try:
        with _without_progress_bars():
            yield
    except SafetensorError as error:
        raise ValueError(
            f"the weights of {name_or_path} are damaged ({error}): copy or download them again"
        ) from error
    except RuntimeError as error:
        if "mismatch" not in str(error):
            raise
        raise ValueError(
            f"the weights of {name_or_path} do not have the sizes in its config.json: "
            "copy or download both again"
        ) from error


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
