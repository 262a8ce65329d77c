"""Configuration of HDT; fields are named as in the published checkpoints."""

from typing import Any

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig
from transformers.activations import ACT2FN

from foveate.models.loading import check_model_type
from foveate.ops.tree_attention import EDGES

DECODE_ANCHORS = ("section", "sentence", "token")
"""Values of `decode_anchors`: section anchors; section and sentence anchors; all tokens."""

POSITION_EMBEDDING_TYPES = ("hierarchical", "rotary")
"""Values of `position_embedding_type`."""

_LEAST = {"vocab_size": 1, "d_model": 1, "d_kv": 1, "d_ff": 1, "num_heads": 1, "num_layers": 0}
"""The smallest sizes that make a model."""


@strict
class HDTConfig(PreTrainedConfig):
    """Configuration of an HDT model (HDT, A.2.2); the defaults are those of HDT-E.

    Args:
        vocab_size: Number of token ids.
        d_model: Width of the hidden states.
        d_kv: Width of a head.
        d_ff: Width inside the feed-forward layers.
        num_layers: Number of encoder blocks.
        num_heads: Number of attention heads.
        position_embedding_type: "hierarchical" adds the position of every token on every level to
            its embedding, as published (HDT, eq. 2), where it is called "absolute"; "rotary" turns
            queries and keys by positions in reading order instead, with which models that are
            trained from scratch learn faster.
        rope_theta: The base of the frequencies of rotary positions.
        num_position_levels: Number of levels below the root that are part of every token's
            hierarchical position (3: section, sentence, token). Tokens of deeper levels add their
            own levels.
        feed_forward_proj: An activation, such as "relu", or "gated-" and an activation, as in T5.
        edges: What a node attends to besides itself, among "parent", "siblings", "children".
        dropout_rate: Dropout of the embeddings and of the output of every layer.
        layer_norm_epsilon: Epsilon of the norms.
        initializer_factor: Scale of the initial weights, as in T5.
        num_decoder_layers: Number of decoder blocks of an encoder-decoder (6 in HDT-ED), None for
            an encoder.
        is_encoder_decoder: False for an encoder even if `num_decoder_layers` is given, which
            published configurations always do; None to follow `num_decoder_layers`.
        decode_anchors: What the decoder attends to: "section" anchors, section and "sentence"
            anchors, or every "token" (HDT, Table 3). Published configurations have
            `decode_anchor_tokens` instead: false for every token, true for anchors alone, of which
            kind the caller says there and "sentence" is assumed here.
        relative_attention_num_buckets: Number of buckets of the decoder's relative position bias.
            Block 0 of the encoder has such a table too, which no layer uses; it is kept so that
            published weights load and save unchanged.
        relative_attention_max_distance: Distance from which the bias stays the same.
        classifier_dropout: Dropout before a classifier.
        tie_word_embeddings: Whether the masked-language-model head shares the embeddings.
        sparse_prediction: Whether a masked-language model, given labels, computes the logits of
            the labelled tokens alone, which saves memory and time in training.
        decoder_start_token_id: The token that every written text begins with; by default
            `bos_token_id`. Published configurations have neither: it is then `<s>`, with which
            published pretraining began, or the padding token if a checkpoint's tokenizer has none.

    Raises:
        ValueError: An unknown feed-forward, unknown edges, an unknown `decode_anchors` or
            `position_embedding_type`, a size that is too small, a `rope_theta` that is not
            positive, rotary positions for heads of an odd width, a decoder without a number of
            blocks, or a published model that is not hierarchical or has biases.
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
    position_embedding_type: str = "hierarchical"
    rope_theta: float | int = 10000.0
    num_position_levels: int = 3
    feed_forward_proj: str = "relu"
    edges: list[str] | tuple[str, ...] = ("parent", "siblings", "children")
    dropout_rate: float | int = 0.1
    layer_norm_epsilon: float = 1e-6
    initializer_factor: float | int = 1.0
    num_decoder_layers: int | None = None
    is_encoder_decoder: bool | None = None  # type: ignore[assignment] # a bool once it is made
    decode_anchors: str = "token"
    relative_attention_num_buckets: int = 32
    relative_attention_max_distance: int = 128
    classifier_dropout: float | int = 0.1
    tie_word_embeddings: bool = True
    sparse_prediction: bool = False
    use_cache: bool = True
    pad_token_id: int | None = 0
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = 1
    decoder_start_token_id: int | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        *gate, activation = self.feed_forward_proj.split("-")
        if gate not in ([], ["gated"]):
            raise ValueError(
                f"feed_forward_proj={self.feed_forward_proj!r} is neither an activation, such as "
                "'relu', nor 'gated-' and an activation, such as 'gated-gelu'"
            )
        if activation not in ACT2FN:
            raise ValueError(
                f"feed_forward_proj={self.feed_forward_proj!r}: there is no activation "
                f"{activation!r}, name one such as 'relu' or 'gelu'"
            )
        self.is_gated_act = bool(gate)
        # T5's "gated-gelu" has always meant the tanh approximation.
        self.dense_act_fn = "gelu_new" if gate and activation == "gelu" else activation
        if self.is_encoder_decoder is None:
            self.is_encoder_decoder = self.num_decoder_layers is not None
        elif not self.is_encoder_decoder:
            self.num_decoder_layers = None
        elif self.num_decoder_layers is None:
            raise ValueError("an encoder-decoder needs num_decoder_layers (6 in HDT-ED)")
        if self.decoder_start_token_id is None:
            self.decoder_start_token_id = self.bos_token_id
        super().__post_init__(**self._read_published(kwargs))
        self.check()

    def _read_published(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Set what published configurations name otherwise, and return the other fields."""
        if not fields.get("is_hierarchical", True) or fields.get("use_bias", False):
            raise ValueError(
                "is_hierarchical=False and use_bias=True are not supported: no published "
                "checkpoint has them"
            )
        if self.position_embedding_type == "absolute":
            self.position_embedding_type = "hierarchical"
        if fields.pop("decode_anchor_tokens", False):
            self.decode_anchors = "sentence"
        return fields

    def check(self) -> None:
        """Validate all fields but the feed-forward's.

        Raises:
            ValueError: Unknown edges, an unknown `decode_anchors` or `position_embedding_type`, a
                size that is too small, a `rope_theta` that is not positive, or rotary positions for
                heads of an odd width.
        """
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")
        if unknown := set(self.edges) - set(EDGES):
            raise ValueError(f"unknown edges {sorted(unknown)}: choose among {list(EDGES)}")
        if self.decode_anchors not in DECODE_ANCHORS:
            raise ValueError(
                f"decode_anchors must be one of {DECODE_ANCHORS}, got {self.decode_anchors!r}"
            )
        if self.position_embedding_type not in POSITION_EMBEDDING_TYPES:
            raise ValueError(
                f"position_embedding_type must be one of {POSITION_EMBEDDING_TYPES}, "
                f"got {self.position_embedding_type!r}"
            )
        if self.position_embedding_type == "rotary" and self.d_kv % 2:
            raise ValueError(
                f"rotary positions turn pairs of channels: d_kv must be even, got {self.d_kv}"
            )
        if self.rope_theta <= 0:
            raise ValueError(f"rope_theta must be positive, got {self.rope_theta}")

    @classmethod
    def get_config_dict(cls, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Load a configuration and reject those of other model types."""
        config_dict, unused = super().get_config_dict(*args, **kwargs)
        check_model_type(config_dict.get("model_type"), {cls.model_type})
        return config_dict, unused

    def get_text_config(self, decoder: bool | None = None, encoder: bool | None = None) -> Any:
        """Return the configuration by which caches are sized; the decoder's has its own depth."""
        config = super().get_text_config(decoder=decoder, encoder=encoder)
        if decoder and config is not self:
            config.num_layers = self.num_decoder_layers
        return config
