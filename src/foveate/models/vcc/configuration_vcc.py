"""Configuration of VCC: that of T5, BERT or RoBERTa, and how sequences are compressed."""

from dataclasses import dataclass
from typing import Any, ClassVar

from huggingface_hub.dataclasses import strict
from transformers import BertConfig, RobertaConfig, T5Config

from foveate.models.utils import check_model_type
from foveate.ops.vip_compression import check_budgets


@dataclass(kw_only=True)
class VipFields:  # a mixin; lines ignored by mypy use what the other base class declares
    """How sequences are compressed: the fields of all VCC configurations.

    Attributes:
        segment_size: Number of tokens that attend to each other in the first layers.
        num_segment_layers: Number of those layers; None follows the paper: a third of up to 12
            layers (4 of 12), a quarter of more (6 of 24).
        block_size: Number of tokens averaged into one by the other layers.
        num_fine_blocks: Number of blocks that each of those layers sees token by token.
        budgets: (resolution, count) pairs in place of ((block_size, num_fine_blocks),), for more
            than two resolutions: the best `count` segments of each are split into the next one's.
        num_vip_slots: None keeps the VIP tokens as they are. A number follows the published code:
            this many tokens are kept, VIP tokens first, then those that follow.
        compatible_model_types: Model types whose parameters these models take, with the fields that
            follow from them; of each class.
    """

    compatible_model_types: ClassVar[dict[str, dict[str, Any]]]

    segment_size: int = 512
    num_segment_layers: int | None = None
    block_size: int = 16
    num_fine_blocks: int = 90
    budgets: list[list[int]] | None = None
    num_vip_slots: int | None = None

    @property
    def resolutions(self) -> list[list[int]]:
        """The budgets, however they are given."""
        return self.budgets or [[self.block_size, self.num_fine_blocks]]

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)  # type: ignore[misc] # as above
        if self.num_segment_layers is None:
            layers: int = self.num_hidden_layers  # type: ignore[attr-defined] # as above
            self.num_segment_layers = layers // (3 if layers <= 12 else 4)

        self.check()

    def check(self) -> None:
        """Validate the fields.

        Raises:
            ValueError: A size or a budget is out of range, or `is_decoder` is set.
        """
        check_budgets(self.resolutions)
        if self.segment_size < 1:
            raise ValueError(f"segment_size must be at least 1, got {self.segment_size}")
        layers: int = self.num_hidden_layers  # type: ignore[attr-defined] # as above
        if self.num_segment_layers is None or not 0 <= self.num_segment_layers <= layers:
            raise ValueError(
                f"num_segment_layers must be from 0 to the number of layers, {layers}, got "
                f"{self.num_segment_layers}"
            )
        if self.is_decoder:  # type: ignore[attr-defined] # as above
            raise ValueError("is_decoder must be False: only encoders compress sequences")
        if self.num_vip_slots is not None and self.num_vip_slots < 1:
            raise ValueError(f"num_vip_slots must be at least 1 or None, got {self.num_vip_slots}")

    @classmethod
    def get_config_dict(cls, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Load a configuration of VCC, or of a model whose parameters these models take."""
        config_dict, unused = super().get_config_dict(*args, **kwargs)  # type: ignore[misc] # as above
        model_type: str = cls.model_type  # type: ignore[attr-defined] # as above
        loaded = config_dict.get("model_type")
        check_model_type(loaded, {model_type, *cls.compatible_model_types})
        if config_dict:
            config_dict |= cls.compatible_model_types.get(loaded, {}) | {"model_type": model_type}
        return config_dict, unused


@strict
class VccT5Config(VipFields, T5Config):
    """The fields of `transformers.T5Config` and of `VipFields`."""

    model_type = "vcc_t5"
    compatible_model_types: ClassVar = {"t5": {}}


@strict
class VccBertConfig(VipFields, BertConfig):
    """The fields of `transformers.BertConfig` and of `VipFields`."""

    model_type = "vcc_bert"
    compatible_model_types: ClassVar = {"bert": {}, "tree_bert": {}}


@strict
class VccRobertaConfig(VipFields, RobertaConfig):
    """The fields of `transformers.RobertaConfig` and of `VipFields`.

    Attributes:
        norm_first: Whether attention and feed-forward have their norm before them, not after, as in
            transformers' RobertaPreLayerNorm and in the paper (6.6.1).
    """

    model_type = "vcc_roberta"
    compatible_model_types: ClassVar = {
        "roberta": {},
        "xlm-roberta": {},
        "camembert": {},
        "roberta-prelayernorm": {"norm_first": True},
    }

    norm_first: bool = False
