"""Configuration of HDT, in the names of the published checkpoints."""

from typing import Any

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

from foveate.models.family import check_family
from foveate.ops.tree_attention import EDGES

READ = ("section", "sentence", "token")
"""What `decode_anchors` may be: section anchors; these and sentence anchors; every row."""


@strict
class HDTConfig(PreTrainedConfig):
    """What an HDT encoder is made of (HDT, A.2.2; the defaults are HDT-E's).

    Args:
        vocab_size: number of token ids.
        d_model: width of the rows.
        d_kv: width of a head.
        d_ff: width inside the feed-forward.
        num_layers: encoder blocks.
        num_heads: attention heads.
        num_position_levels: levels below the root that every row's position counts (3: section,
            sentence, token). Rows of deeper levels count their own levels as well.
        feed_forward_proj: "relu", or "gated-gelu" and the like, as in T5.
        edges: what a node attends beside itself, among "parent", "siblings", "children".
        dropout_rate: dropout of the embeddings and of what a block adds to its rows.
        layer_norm_epsilon: of the norms.
        initializer_factor: scale of the initial weights, as in T5.
        num_decoder_layers: decoder blocks of an encoder-decoder (6 in HDT-ED), None for an encoder.
        decode_anchors: what the decoder reads: "section" anchors, these and "sentence" anchors, or
            every "token" (HDT, Table 3).
        relative_attention_num_buckets: rows of the decoder's table of relative position bias.
            Block 0 of the encoder carries one that no layer reads; kept so that published weights
            load and save unchanged.
        relative_attention_max_distance: distance from which on the bias stays the same.
        classifier_dropout: dropout before a classifier.
        tie_word_embeddings: whether the masked-language-model head shares the embeddings.
    """

    model_type = "hdt"
    attribute_map = {  # noqa: RUF012  (the name and form that transformers reads)
        "hidden_size": "d_model",
        "num_attention_heads": "num_heads",
        "num_hidden_layers": "num_layers",
        "intermediate_size": "d_ff",
        "head_dim": "d_kv",
    }

    vocab_size: int = 32768
    d_model: int = 768
    d_kv: int = 64
    d_ff: int = 3072
    num_layers: int = 12
    num_heads: int = 12
    num_position_levels: int = 3
    feed_forward_proj: str = "relu"
    edges: list[str] | tuple[str, ...] = ("parent", "siblings", "children")
    dropout_rate: float = 0.1
    layer_norm_epsilon: float = 1e-6
    initializer_factor: float = 1.0
    num_decoder_layers: int | None = None
    decode_anchors: str = "token"
    relative_attention_num_buckets: int = 32
    relative_attention_max_distance: int = 128
    classifier_dropout: float = 0.1
    tie_word_embeddings: bool = True
    use_cache: bool = True
    pad_token_id: int | None = 0
    eos_token_id: int | list[int] | None = 1
    decoder_start_token_id: int | None = 0

    def __post_init__(self, **kwargs: Any) -> None:
        *gate, activation = self.feed_forward_proj.split("-")
        if gate not in ([], ["gated"]):
            raise ValueError(
                f"feed_forward_proj={self.feed_forward_proj!r} is neither an activation "
                "like 'relu' nor 'gated-' and an activation like 'gated-gelu'"
            )
        self.is_gated_act = bool(gate)
        # T5's "gated-gelu" has always meant the tanh approximation.
        self.dense_act_fn = "gelu_new" if gate and activation == "gelu" else activation
        if unknown := set(self.edges) - set(EDGES):
            raise ValueError(f"unknown edges {sorted(unknown)}: choose among {list(EDGES)}")
        if self.decode_anchors not in READ:
            raise ValueError(f"decode_anchors must be one of {READ}, got {self.decode_anchors!r}")
        self.is_encoder_decoder = self.num_decoder_layers is not None
        super().__post_init__(**kwargs)

    @classmethod
    def get_config_dict(cls, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Read a configuration, of no other family."""
        found, unused = super().get_config_dict(*args, **kwargs)
        check_family(found.get("model_type"), {cls.model_type})
        return found, unused

    def get_text_config(self, decoder: bool | None = None, encoder: bool | None = None) -> Any:
        """Give what transformers sizes caches by: of the decoder, a copy with its depth."""
        config = super().get_text_config(decoder=decoder, encoder=encoder)
        if decoder and config is not self:
            config.num_layers = self.num_decoder_layers
        return config
