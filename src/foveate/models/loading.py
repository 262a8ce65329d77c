"""Loading checkpoints: what is missing or damaged is said, and never made up for at random."""

from os import PathLike, sep
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerBase


def load_config(name_or_path: str | PathLike[str]) -> Any:
    """Load a checkpoint's configuration, one of foveate's own included.

    Raises:
        OSError: there is no such folder, or no such name on the hub.
        TypeError: neither a name nor a path.
        ValueError: it is no checkpoint.
    """
    _check_folder(name_or_path)
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


def load_tokenizer(name_or_path: str | PathLike[str]) -> PreTrainedTokenizerBase:
    """Load a checkpoint's tokenizer.

    Raises:
        OSError: there is no such checkpoint.
        ValueError: it has no tokenizer, or a damaged one.
    """
    _check_folder(name_or_path)
    try:
        tokenizer = AutoTokenizer.from_pretrained(name_or_path)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"the tokenizer of {name_or_path} is damaged ({type(error).__name__}: {error}): "
            "copy or download it anew"
        ) from error
    # Without its files transformers makes an empty one; tokenizers of bytes have none.
    files = {*tokenizer.vocab_files_names.values(), "tokenizer.json"}
    folder = Path(name_or_path)
    if (
        folder.is_dir()
        and tokenizer.vocab_files_names
        and not any((folder / file).exists() for file in files)
    ):
        raise ValueError(
            f"{name_or_path} has no tokenizer: save the one that the model was trained with there"
        )
    return tokenizer


def _check_folder(name_or_path: str | PathLike[str]) -> None:
    """Refuse what can only be a path that there is not, before it is taken for a hub's name."""
    if not isinstance(name_or_path, str | PathLike):
        kind = type(name_or_path).__name__
        raise TypeError(f"expected the name or path of a checkpoint, got {kind}")
    path = Path(name_or_path)
    if not path.exists() and (path.is_absolute() or str(name_or_path).count(sep) > 1):
        raise OSError(f"there is no folder {name_or_path}")
