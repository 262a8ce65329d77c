"""Configuration of Fovea: T5's, and which keys a query sees."""

from typing import Any

from huggingface_hub.dataclasses import strict
from transformers import T5Config

from foveate.models.utils import check_model_type
from foveate.ops.fovea_attention import COVERAGES

_COMPATIBLE_MODEL_TYPES = ("longt5", "t5")
"""Model types whose parameters include Fovea's."""


@strict
class FoveaConfig(T5Config):
    """Configuration of a Fovea model: the fields of `transformers.T5Config`, and four more.

    Configurations of T5, of LongT5 and of the published Fovea load too. LongT5's `local_radius`
    becomes block_size - 1; the published `block_len` and `wing_size` become block_size and
    k_neighbours, with coverage "paper", which those weights were trained with.

    Args:
        block_size: B, the number of tokens in a block; 128 in the paper, as in LongT5.
        k_neighbours: k, the number of nodes of each level on each side; 1 in the paper.
        coverage: "full" lets every query see the whole sequence; "paper" leaves out what the last
            nodes that fit do not reach.
        size_bias: Whether log(m) is added to the scores of an average of m tokens, which then
            weighs as much as m tokens, as in VCC; not in the paper.

    Raises:
        ValueError: A size is below 1, the coverage is unknown, or the checkpoint is of another
            model type.
    """

    model_type = "fovea"

    block_size: int = 128
    k_neighbours: int = 1
    coverage: str = "full"
    size_bias: bool = False

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        self.check()

    def check(self) -> None:
        """Validate the sizes and the coverage.

        Raises:
            ValueError: A size is below 1, or the coverage is unknown.
        """
        if self.block_size < 1 or self.k_neighbours < 1:
            raise ValueError(
                f"block_size and k_neighbours must be at least 1, "
                f"got {self.block_size} and {self.k_neighbours}"
            )
        if self.coverage not in COVERAGES:
            raise ValueError(f"unknown coverage {self.coverage!r}: choose among {list(COVERAGES)}")

    @classmethod
    def get_config_dict(cls, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Load a configuration of Fovea, T5 or LongT5, and translate the names of its fields."""
        config_dict, unused = super().get_config_dict(*args, **kwargs)
        supported = {cls.model_type, *_COMPATIBLE_MODEL_TYPES}
        check_model_type(config_dict.get("model_type"), supported)
        if config_dict:
            config_dict["model_type"] = cls.model_type
        for name in ("encoder_attention_type", "global_block_size", "global_attn", "stop_level"):
            config_dict.pop(name, None)
        local_radius = config_dict.pop("local_radius", None)
        block_len = config_dict.pop("block_len", None)
        wing_size = config_dict.pop("wing_size", None)
        translated: dict[str, Any] = {}
        if local_radius is not None:
            translated["block_size"] = local_radius + 1
        if block_len is not None:
            translated["block_size"] = block_len
        if wing_size is not None:
            translated |= {"k_neighbours": wing_size, "coverage": "paper"}
        return translated | config_dict, unused
