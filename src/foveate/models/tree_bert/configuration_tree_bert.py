"""Configuration of TreeBert: BERT's, the sizes of heads, and which of its results are likely."""

from typing import Any

from huggingface_hub.dataclasses import strict
from transformers import BertConfig

from foveate.models.loading import check_model_type


@strict
class TreeBertConfig(BertConfig):
    """Configuration of a TreeBert model: the fields of `transformers.BertConfig`, and four more.

    Configurations of BERT and MiniLM load too, so that their weights can be trained on trees.

    Args:
        salience_size: Width inside the salience head.
        salience_dropout: Dropout inside the salience head.
        min_likely_score: Score of `foveate.tasks.relevance.relevance` below which nine of ten
            results are wrong, as `benchmarks/likely.py` finds it; None if that is not known.
        token_size: Dimension of the vectors of tokens; None for a model without them.

    Raises:
        ValueError: The checkpoint is of another model type.
    """

    model_type = "tree_bert"

    salience_size: int = 128
    salience_dropout: float | int = 0.1
    min_likely_score: float | None = None
    token_size: int | None = None

    @classmethod
    def get_config_dict(cls, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Load a configuration of TreeBert or BERT."""
        config_dict, unused = super().get_config_dict(*args, **kwargs)
        check_model_type(config_dict.get("model_type"), {cls.model_type, "bert"})
        if config_dict:
            config_dict["model_type"] = cls.model_type
        return config_dict, unused
