"""How a checkpoint turns rows into one vector, as sentence-transformers writes it down."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers.utils import cached_file


@dataclass(frozen=True)
class Pooling:
    """What follows the Transformer in a sentence-transformers checkpoint.

    Attributes:
        first_row: take the first row (CLS) instead of the mean of all rows.
        normalize: scale vectors to length 1.
        max_tokens: tokens per sentence it was trained on, None if it does not say.
    """

    first_row: bool = False
    normalize: bool = False
    max_tokens: int | None = None

    @classmethod
    def of(cls, name_or_path: str) -> "Pooling":
        """Read it from a checkpoint; the mean of all rows where it says nothing.

        Raises:
            ValueError: the checkpoint asks for layers other than pooling and normalization.
        """
        modules = _json(name_or_path, "modules.json")
        if modules is None:
            return cls()
        sizes = _json(name_or_path, "sentence_bert_config.json") or {}
        first_row = normalize = False
        for module in modules:
            match module["type"].rpartition(".")[2]:
                case "Transformer":
                    pass
                case "Normalize":
                    normalize = True
                case "Pooling":
                    first_row = _takes_first_row(name_or_path, module["path"])
                case other:
                    raise ValueError(
                        f"{name_or_path} ends in a {other} layer, which Encoder cannot apply: "
                        "use a checkpoint that ends in Pooling and Normalize"
                    )
        return cls(first_row, normalize, sizes.get("max_seq_length"))


def _takes_first_row(name_or_path: str, folder: str) -> bool:
    options = _json(name_or_path, f"{folder}/config.json") or {}
    prefix = "pooling_mode_"
    modes = {
        key.removeprefix(prefix) for key, on in options.items() if key.startswith(prefix) and on
    }
    if isinstance(mode := options.get("pooling_mode"), str):
        modes = {mode}
    if modes <= {"mean_tokens", "mean"}:
        return False
    if modes <= {"cls_token", "cls"}:
        return True
    raise ValueError(
        f"{name_or_path} pools by {sorted(modes)}: Encoder knows the mean and the first row"
    )


def _json(name_or_path: str, file: str) -> Any:
    """A JSON file of a checkpoint, None if it has no such file."""
    found = cached_file(
        name_or_path,
        file,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_gated_repo=False,
        _raise_exceptions_for_connection_errors=False,
    )
    return None if found is None else json.loads(Path(found).read_text(encoding="utf-8"))
