"""How a checkpoint's hidden states become vectors."""

from dataclasses import dataclass
from typing import Self

from foveate.checkpoint_files import load_checkpoint_json


@dataclass(frozen=True)
class Pooling:
    """How a sentence-transformers checkpoint turns hidden states into one vector.

    Attributes:
        takes_first_token: Take the first token's hidden state (CLS) instead of the mean of all.
        normalize: Scale vectors to length 1.
        max_tokens: Longest sentence in tokens, None if the checkpoint does not say.
    """

    takes_first_token: bool = False
    normalize: bool = False
    max_tokens: int | None = None

    @classmethod
    def from_pretrained(cls, name_or_path: str) -> Self:
        """Read the pooling of a checkpoint, by default the mean of all tokens.

        Raises:
            ValueError: The checkpoint has layers other than pooling and normalization, or an
                unsupported pooling mode.
        """
        modules = load_checkpoint_json(name_or_path, "modules.json")
        if modules is None:
            return cls()
        sizes = load_checkpoint_json(name_or_path, "sentence_bert_config.json") or {}
        takes_first_token = normalize = False
        for module in modules:
            match module["type"].rpartition(".")[2]:
                case "Transformer":
                    pass
                case "Normalize":
                    normalize = True
                case "Pooling":
                    takes_first_token = _takes_first_token(name_or_path, module["path"])
                case other:
                    raise ValueError(
                        f"{name_or_path} ends in a {other} layer, which Encoder cannot apply: "
                        "use a checkpoint that ends in Pooling and Normalize"
                    )
        return cls(takes_first_token, normalize, sizes.get("max_seq_length"))


def _takes_first_token(name_or_path: str, folder: str) -> bool:
    options = load_checkpoint_json(name_or_path, f"{folder}/config.json") or {}
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
        f"{name_or_path} pools by {sorted(modes)}: Encoder knows the mean and the first token"
    )
