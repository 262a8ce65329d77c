"""Configuration of Fovea: T5's, and which keys a query sees."""

from typing import Any

from huggingface_hub.dataclasses import strict
from transformers import T5Config

from foveate.models.loading import check_model_type
from foveate.ops.fovea_attention import COVERAGES

_COMPATIBLE_MODEL_TYPES = ("longt5", "t5")
"""Model types whose parameters include Fovea's."""

_PUBLISHED_NAMES = (
    *("local_radius", "block_len", "wing_size"),
    *("encoder_attention_type", "global_block_size", "global_attn"),  # which change nothing
)
"""What configurations of LongT5 and of the published Fovea name otherwise."""


@strict
class FoveaConfig(T5Config):
    """Configuration of a Fovea model: the fields of `transformers.T5Config`, and five more.

    Configurations of T5, of LongT5 and of the published Fovea load too. LongT5's `local_radius`
    becomes block_size - 1; the published `block_len` and `wing_size` become block_size and
    k_neighbours, with coverage "paper", which those weights were trained with, and `stop_level`,
    which is 5 where a published configuration has none.

    Args:
        block_size: B, the number of tokens in a block; 128 in the paper, as in LongT5.
        k_neighbours: k, the number of nodes of each level on each side; 1 in the paper.
        coverage: "full" lets every query see the whole sequence; "paper" leaves out what the last
            nodes that fit do not reach.
        size_bias: Whether log(m) is added to the scores of an average of m tokens, which then
            weighs as much as m tokens, as in VCC; not in the paper.
        stop_level: The number of levels, as published: nodes of the last go on to the end of the
            sequence. None for as many levels as fit, as in the paper.

    Raises:
        ValueError: A size is below 1, the coverage is unknown, or the checkpoint is of another
            model type.
    """

    model_type = "fovea"

    block_size: int = 128
    k_neighbours: int = 1
    coverage: str = "full"
    size_bias: bool = False
    stop_level: int | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        read = {name: kwargs.pop(name, None) for name in _PUBLISHED_NAMES}
        if read["local_radius"] is not None:
            self.block_size = read["local_radius"] + 1
        if read["block_len"] is not None:
            self.block_size = read["block_len"]
        if read["wing_size"] is not None:
            self.k_neighbours, self.coverage = read["wing_size"], "paper"
            self.stop_level = self.stop_level or 5
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
        if self.stop_level is not None and self.stop_level < 1:
            raise ValueError(f"stop_level must be at least 1 or None, got {self.stop_level}")
        if self.coverage not in COVERAGES:
            raise ValueError(f"unknown coverage {self.coverage!r}: choose among {list(COVERAGES)}")

    @classmethod
    def get_config_dict(cls, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Load a configuration of Fovea, T5 or LongT5."""
        config_dict, unused = super().get_config_dict(*args, **kwargs)
        supported = {cls.model_type, *_COMPATIBLE_MODEL_TYPES}
        check_model_type(config_dict.get("model_type"), supported)
        if config_dict:
            config_dict["model_type"] = cls.model_type
        for name in _PUBLISHED_NAMES:
            if name in unused:  # an argument of from_pretrained
                config_dict[name] = unused.pop(name)
        return config_dict, unused
