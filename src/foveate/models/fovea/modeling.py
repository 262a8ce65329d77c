"""Fovea: T5 whose encoder attends near tokens one by one and farther ones averaged."""

import copy
import warnings
from functools import partial
from typing import Any

from torch import Tensor, nn
from transformers import T5EncoderModel, T5ForConditionalGeneration
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.t5.modeling_t5 import T5Stack

from foveate.models.accelerate import accelerate
from foveate.models.accelerate.cuda_graphs import CAPTURED, Captured, can_replay, replay
from foveate.models.accelerate.t5_layers import DerivedT5Model, FusedRMSNorm
from foveate.models.padding import Packed

from .configuration import FoveaConfig
from .layers import FoveaBlock

_LONGT5_NAMES = {r"\.(Local|TransientGlobal)SelfAttention\.": ".SelfAttention."}


class FoveaPreTrainedModel(DerivedT5Model):
    """What all Fovea models share."""

    config_class = FoveaConfig
    _no_split_modules = ["FoveaBlock", "T5Block"]  # noqa: RUF012

    @classmethod
    def from_pretrained(
        cls,
        *args: Any,
        key_mapping: dict[str, str] | None = None,
        output_loading_info: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Load a folder, or a name on the hub, of Fovea, T5 or LongT5.

        All parameters of Fovea are among theirs. Those of LongT5's global attention are dropped,
        which is logged. Arguments are as for every model of transformers; `block_size`,
        `k_neighbours` and `coverage` take the place of what the configuration says.

        Warns:
            UserWarning: parameters that the checkpoint does not have start at random.
        """
        loaded: Any = super().from_pretrained(
            *args,
            key_mapping=_LONGT5_NAMES | (key_mapping or {}),
            output_loading_info=True,
            **kwargs,
        )
        model, info = loaded
        model._weight_conversions = None  # or LongT5's names would come back in save_pretrained
        if missing := sorted(info["missing_keys"]):
            warnings.warn(
                f"the checkpoint lacks {len(missing)} parameters of {cls.__name__}, which start "
                f"at random: {missing[0]}" + (", ..." if len(missing) > 1 else ""),
                stacklevel=2,
            )
        return (model, info) if output_loading_info else model


class FoveaEncoder(FoveaPreTrainedModel):
    """The blocks, on packed rows."""

    def __init__(self, config: FoveaConfig) -> None:
        super().__init__(config)
        config.check()  # arguments of from_pretrained come after the configuration's own
        self.embed_tokens = nn.Embedding(config.vocab_size, config.d_model)
        self.block = nn.ModuleList(
            FoveaBlock(config, has_relative_attention_bias=i == 0) for i in range(config.num_layers)
        )
        self.final_layer_norm = FusedRMSNorm(config.d_model, eps=config.layer_norm_epsilon)
        self.dropout = nn.Dropout(config.dropout_rate)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> BaseModelOutput | tuple[Tensor, ...]:
        """Encode sequences; see `FoveaEncoderModel`."""
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds")
        if output_attentions or (output_attentions is None and self.config.output_attentions):
            warnings.warn(
                "Fovea's encoder never forms attention weights: it returns none", stacklevel=2
            )
        if output_hidden_states is None:
            output_hidden_states = bool(self.config.output_hidden_states)
        tokens = inputs_embeds if input_ids is None else input_ids
        assert tokens is not None
        packed = Packed.of(attention_mask, (tokens.shape[0], tokens.shape[1]))
        tokens = packed.pack(tokens)
        states: list[Tensor] = []
        rows = self._encode(  # what goes in is kept nowhere else, or it would stay to the end
            self.dropout(self.embed_tokens(tokens) if inputs_embeds is None else tokens),
            packed.lengths,
            states if output_hidden_states else None,
        )
        last = packed.unpack(self.dropout(self.final_layer_norm(rows)))
        output = BaseModelOutput(
            last_hidden_state=last,
            hidden_states=(*map(packed.unpack, states), last) if output_hidden_states else None,
        )
        as_dict = self.config.return_dict if return_dict is None else return_dict
        return output if as_dict else output.to_tuple()

    def _encode(self, rows: Tensor, lengths: list[int], states: list[Tensor] | None) -> Tensor:
        """Apply all blocks to packed rows; `states` gets what each of them is given."""
        bias = None
        for block in self.block:
            if states is not None:
                states.append(rows)
            rows, bias = block(rows, bias, lengths)
        return rows

    def get_input_embeddings(self) -> nn.Module:
        """Return the token embeddings."""
        return self.embed_tokens

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the token embeddings."""
        assert isinstance(value, nn.Embedding)
        self.embed_tokens = value


class CapturedFoveaEncoder(Captured, FoveaEncoder):
    """The same, launched as one graph in inference."""

    def _encode(self, rows: Tensor, lengths: list[int], states: list[Tensor] | None) -> Tensor:
        encode = super()._encode
        if states is not None or not can_replay(self, rows, self.config.d_kv):
            return encode(rows, lengths, states)
        return replay(self, partial(encode, states=None), rows, lengths)


CAPTURED[FoveaEncoder] = CapturedFoveaEncoder


class FoveaEncoderModel(FoveaPreTrainedModel, T5EncoderModel):
    """The Fovea encoder, called as `transformers.T5EncoderModel`.

    A batch runs packed: padding, wherever `attention_mask` puts it, is dropped at the input, and
    its rows of `last_hidden_state` `(batch, length, d_model)` and `hidden_states` are zero. What a
    sequence comes to depends neither on padding nor on the sequences beside it.

    Example:
        >>> import torch
        >>> from foveate import FoveaConfig, FoveaEncoderModel
        >>> config = FoveaConfig(vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=2)
        >>> model = FoveaEncoderModel(config).eval()
        >>> model(torch.arange(40)[None]).last_hidden_state.shape
        torch.Size([1, 40, 16])
    """

    _keys_to_ignore_on_load_unexpected = ["decoder", "lm_head"]  # noqa: RUF012

    def __init__(self, config: FoveaConfig) -> None:
        config = copy.deepcopy(config)
        config.use_cache = config.is_encoder_decoder = False
        super(T5EncoderModel, self).__init__(config)  # passing over its __init__, which builds T5
        self.shared = nn.Embedding(config.vocab_size, config.d_model)
        self.encoder: Any = FoveaEncoder(config)
        self.post_init()


class FoveaForConditionalGeneration(FoveaPreTrainedModel, T5ForConditionalGeneration):
    """Fovea that writes, called and trained as `transformers.T5ForConditionalGeneration`.

    The encoder is Fovea's, see `FoveaEncoderModel`. The decoder is T5's, accelerated.

    Example:
        >>> import torch
        >>> from foveate import FoveaConfig, FoveaForConditionalGeneration
        >>> config = FoveaConfig(
        ...     vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=2, decoder_start_token_id=0
        ... )
        >>> model = FoveaForConditionalGeneration(config).eval()
        >>> model.generate(torch.arange(40)[None], max_new_tokens=5, min_new_tokens=5).shape
        torch.Size([1, 6])
    """

    def __init__(self, config: FoveaConfig) -> None:
        super(T5ForConditionalGeneration, self).__init__(config)  # as above
        self.model_dim = config.d_model
        self.shared = nn.Embedding(config.vocab_size, config.d_model)
        of_encoder, of_decoder = copy.deepcopy(config), copy.deepcopy(config)
        of_encoder.use_cache = False
        of_decoder.is_decoder = True
        of_decoder.num_layers = config.num_decoder_layers or config.num_layers
        self.encoder: Any = FoveaEncoder(of_encoder)
        self.decoder = accelerate(T5Stack(of_decoder))
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.post_init()
