"""Configuration of Fovea: T5's, and what a query sees."""

from typing import Any

from huggingface_hub.dataclasses import strict
from transformers import T5Config

from foveate.models.family import check_family
from foveate.ops.fovea_attention import COVERAGES

_LIKE_FOVEA = ("longt5", "t5")
"""Model types whose parameters are Fovea's too."""


@strict
class FoveaConfig(T5Config):
    """What a Fovea model is made of: the fields of `transformers.T5Config`, and three more.

    Configurations of T5, of LongT5 and of the published Fovea are read as well. LongT5's
    `local_radius` becomes block_size - 1; the published `block_len` and `wing_size` become
    block_size and k_neighbours, with coverage "paper", which those weights were trained with.

    Args:
        block_size: B, tokens in a block; 128 in the paper, as in LongT5.
        k_neighbours: k, nodes of each level on each side; 1 in the paper.
        coverage: "full" lets every query see the whole sequence, "paper" leaves out what the last
            nodes that fit do not reach.

    Raises:
        ValueError: a size below 1, an unknown coverage, or the configuration of another family.
    """

    model_type = "fovea"

    block_size: int = 128
    k_neighbours: int = 1
    coverage: str = "full"

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        self.check()

    def check(self) -> None:
        """Raise a ValueError at sizes and a coverage that there are not."""
        if self.block_size < 1 or self.k_neighbours < 1:
            raise ValueError(
                f"block_size and k_neighbours must be at least 1, "
                f"got {self.block_size} and {self.k_neighbours}"
            )
        if self.coverage not in COVERAGES:
            raise ValueError(f"unknown coverage {self.coverage!r}: choose among {list(COVERAGES)}")

    @classmethod
    def get_config_dict(cls, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Read a configuration, of T5, LongT5 or the published Fovea too, in the names of this."""
        found, unused = super().get_config_dict(*args, **kwargs)
        check_family(found.get("model_type"), {cls.model_type, *_LIKE_FOVEA})
        if found:
            found["model_type"] = cls.model_type
        radius = found.pop("local_radius", None)
        for name in ("encoder_attention_type", "global_block_size", "global_attn", "stop_level"):
            found.pop(name, None)
        block_len, wing_size = found.pop("block_len", None), found.pop("wing_size", None)
        published: dict[str, Any] = {}
        if radius is not None:
            published["block_size"] = radius + 1
        if block_len is not None:
            published["block_size"] = block_len
        if wing_size is not None:
            published |= {"k_neighbours": wing_size, "coverage": "paper"}
        return published | found, unused
