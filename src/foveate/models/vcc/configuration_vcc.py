"""Configuration of VCC: that of T5, BERT or RoBERTa, and how sequences are compressed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from huggingface_hub.dataclasses import strict
from transformers import BertConfig, RobertaConfig, T5Config

from foveate.models.utils import check_model_type
from foveate.ops.vip_compression import check_budgets

_PUBLISHED_NAMES = {
    "short_segment_size": "segment_size",
    "num_important_tokens": "num_vip_slots",
}
"""What published configurations call these fields, wherever they are given."""

_PUBLISHED_VALUES = {
    "selector_type": "attention_based_selector",
    "coarser_type": "mean",
    "scale_correction": True,
}
"""Published fields of which only one value is supported, that of all published experiments."""

_PUBLISHED_LAYERS = ("encoder_layers", "encoder_layer_types")
"""Published fields that name the class of every layer, of T5 and of RoBERTa."""

_WITHOUT_EFFECT = (
    *("checkpoint_attention", "checkpoint_ffn", "custom_relative_attention", "cache_version"),
    *("include_positions_in_mixed_states", "max_decoder_length"),
)
"""Published fields that say how, not what, the published code computes."""


@dataclass(kw_only=True)
class VipFields:  # a mixin; lines ignored by mypy use what the other base class declares
    """How sequences are compressed: the fields of all VCC configurations.

    Published configurations load too: `short_segment_size` is `segment_size`,
    `num_important_tokens` is `num_vip_slots`, and `encoder_layers` (of T5) or `encoder_layer_types`
    (of RoBERTa) say the number of segment layers.

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
        explore_prob: The share of the texts of which blocks are split at random in training.
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
    explore_prob: float | int = 0.1

    @property
    def resolutions(self) -> list[list[int]]:
        """The budgets, however they are given."""
        return self.budgets or [[self.block_size, self.num_fine_blocks]]

    def __post_init__(self, **kwargs: Any) -> None:
        for name, supported in _PUBLISHED_VALUES.items():
            if (value := kwargs.pop(name, supported)) != supported:
                raise ValueError(f"{name} must be {supported!r}, got {value!r}")
        for name in _WITHOUT_EFFECT:
            kwargs.pop(name, None)
        for name in _PUBLISHED_LAYERS:
            if name in kwargs:
                self.num_segment_layers = self._count_segment_layers(name, kwargs.pop(name))
        super().__post_init__(**kwargs)  # type: ignore[misc] # as above
        if self.num_segment_layers is None:
            layers: int = self.num_hidden_layers  # type: ignore[attr-defined] # as above
            self.num_segment_layers = layers // (3 if layers <= 12 else 4)

        self.check()

    def _count_segment_layers(self, name: str, classes: Sequence[str]) -> int:
        """Count the layers of segments among the published names of the layers' classes."""
        compressed = [path.rpartition(".")[2].startswith("Vcc") for path in classes]
        layers: int = self.num_hidden_layers  # type: ignore[attr-defined] # as above
        if len(compressed) != layers or compressed != sorted(compressed):
            raise ValueError(
                f"{name} must name {layers} layers, with none of segments after one of VCC's, got "
                f"{list(classes)}"
            )
        return compressed.count(False)

    def check(self) -> None:
        """Validate the fields.

        Raises:
            ValueError: A size, a budget or `explore_prob` is out of range, or `is_decoder` is set.
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
        if not 0 <= self.explore_prob <= 1:
            raise ValueError(f"explore_prob must be from 0 to 1, got {self.explore_prob}")

    @classmethod
    def get_config_dict(cls, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Load a configuration of VCC, or of a model whose parameters these models take."""
        config_dict, unused = super().get_config_dict(*args, **kwargs)  # type: ignore[misc] # as above
        for name in (*_PUBLISHED_VALUES, *_PUBLISHED_LAYERS, *_WITHOUT_EFFECT):
            if name in unused:  # an argument of from_pretrained
                config_dict[name] = unused.pop(name)
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
    attribute_map: ClassVar = T5Config.attribute_map | _PUBLISHED_NAMES
    compatible_model_types: ClassVar = {"t5": {}}


@strict
class VccBertConfig(VipFields, BertConfig):
    """The fields of `transformers.BertConfig` and of `VipFields`."""

    model_type = "vcc_bert"
    attribute_map: ClassVar = _PUBLISHED_NAMES
    compatible_model_types: ClassVar = {"bert": {}, "tree_bert": {}}


@strict
class VccRobertaConfig(VipFields, RobertaConfig):
    """The fields of `transformers.RobertaConfig` and of `VipFields`.

    Attributes:
        norm_first: Whether attention and feed-forward have their norm before them, not after, as in
            transformers' RobertaPreLayerNorm and in the paper (6.6.1).
        sparse_prediction: Whether a masked-language model, given labels, computes the logits of
            the labelled tokens alone, which saves memory and time in training.
    """

    model_type = "vcc_roberta"
    attribute_map: ClassVar = _PUBLISHED_NAMES
    compatible_model_types: ClassVar = {
        "roberta": {},
        "xlm-roberta": {},
        "camembert": {},
        "roberta-prelayernorm": {"norm_first": True},
    }

    norm_first: bool = False
    sparse_prediction: bool = False

    def __post_init__(self, **kwargs: Any) -> None:
        self.norm_first |= "encoder_layer_types" in kwargs  # all published layers are such
        super().__post_init__(**kwargs)
