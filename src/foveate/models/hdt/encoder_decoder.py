"""HDT-ED: an HDT encoder and a decoder that writes from what it reads, in the published layout."""

from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import DynamicCache, EncoderDecoderCache, GenerationMixin
from transformers import initialization as init
from transformers.modeling_outputs import ModelOutput, Seq2SeqLMOutput

from foveate.ops.tree_attention import Tree
from foveate.preprocessing.collate import IGNORE_INDEX

from .configuration import HDTConfig
from .decoder import HDTDecoder, RelativeBias
from .memory import memory_of
from .modeling import HDTEncoder, HDTPreTrainedModel, packed, returned

_UNSUPPORTED = (
    "inputs_embeds",
    "decoder_inputs_embeds",
    "output_attentions",
    "output_hidden_states",
)


@dataclass
class HDTMemory(ModelOutput):
    """What the encoder gives the decoder.

    Attributes:
        last_hidden_state: `(batch, length, d_model)`, all rows in their order, zero at padding.
        memory: `(documents, most rows, d_model)`, those that the decoder reads.
        memory_mask: `(documents, most rows)`, false at padding.
    """

    # ModelOutput allows but one field without a default.
    last_hidden_state: Tensor
    memory: Tensor = None  # type: ignore[assignment] # a ModelOutput's fields have defaults
    memory_mask: Tensor = None  # type: ignore[assignment] # as above


class HDTForConditionalGeneration(HDTPreTrainedModel, GenerationMixin):
    """HDT that reads documents and writes text: summaries, answers, what was masked.

    Example:
        >>> import torch
        >>> from foveate import HDTConfig, HDTForConditionalGeneration
        >>> config = HDTConfig(
        ...     vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_decoder_layers=2
        ... )
        >>> model = HDTForConditionalGeneration(config).eval()
        >>> ids = torch.tensor([[1, 2, 3, 10, 11, 3, 12]])  # doc, sec, sent, two tokens, sent, one
        >>> parents = torch.tensor([[-1, 0, 1, 2, 2, 1, 5]])
        >>> model.generate(
        ...     ids, parent_ids=parents, num_beams=2, min_new_tokens=4, max_new_tokens=4
        ... ).shape
        torch.Size([1, 5])
    """

    _no_split_modules = ["HDTBlock", "HDTDecoderBlock"]  # noqa: RUF012
    _keys_to_ignore_on_load_unexpected = [r"pooler\."]  # noqa: RUF012
    _tied_weights_keys = {  # noqa: RUF012
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
        "lm_head.weight": "shared.weight",
    }
    keys_to_ignore_at_inference = ["past_key_values", "encoder_last_hidden_state"]  # noqa: RUF012

    def __init__(self, config: HDTConfig) -> None:
        super().__init__(config)
        if config.num_decoder_layers is None:
            raise ValueError(
                "this configuration has no decoder: give it num_decoder_layers (6 in HDT-ED)"
            )
        self.shared = nn.Embedding(config.vocab_size, config.d_model)
        self.encoder = HDTEncoder(config)
        self.decoder = HDTDecoder(config)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Embedding) and not isinstance(module, RelativeBias):
            # T5's: what the head scores by the embeddings it scales first.
            init.normal_(module.weight, std=self.config.initializer_factor)
        else:
            super()._init_weights(module)

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the token embeddings."""
        return self.shared

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the token embeddings."""
        assert isinstance(value, nn.Embedding)
        self.shared = self.encoder.embed_tokens = self.decoder.embed_tokens = value

    def encode(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        parent_ids: Tensor | None = None,
        tree: Tree | None = None,
        decode_anchors: str | None = None,
    ) -> HDTMemory:
        """Read documents, once for all that is to be written about them; arguments as `forward`."""
        packing = packed(tree, parent_ids, attention_mask)
        if input_ids is None:
            raise ValueError("HDT needs input_ids")
        rows = self.encoder(self.shared(packing.pack(input_ids)), packing.tree).rows
        memory, mask = memory_of(rows, packing.tree, decode_anchors or self.config.decode_anchors)
        return HDTMemory(packing.unpack(rows), memory, mask)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        parent_ids: Tensor | None = None,
        tree: Tree | None = None,
        decode_anchors: str | None = None,
        encoder_outputs: HDTMemory | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        use_cache: bool | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> Seq2SeqLMOutput | tuple[Tensor, ...]:
        """Score the vocabulary at every token of what is written.

        Args:
            input_ids: `(batch, length)` int64, the documents; every tree of the forest is one, so
                that several may also stand one after the other in a row.
            attention_mask: `(batch, length)`, 0 at padding.
            parent_ids: `(batch, length)` int64, as `HDTProcessor` gives.
            tree: in place of `attention_mask` and `parent_ids`, for documents that are packed into
                one row of ids `(1, tokens)` in level order.
            decode_anchors: what the decoder reads: "section" anchors, these and "sentence"
                anchors, or every "token"; by default what the configuration says.
            encoder_outputs: what `encode` gave, in place of all the above.
            decoder_input_ids: `(documents, tokens)` int64; by default the labels, moved by one.
            decoder_attention_mask: `(documents, tokens)`, 0 at padding; with `past_key_values` of
                the tokens before as well.
            labels: `(documents, tokens)` int64, -100 where the loss does not count.
            past_key_values: what this method returned for the tokens before, which
                `decoder_input_ids` then leaves out; a cache that grows.
            use_cache: whether to return keys and values for the next call; not with labels.
            return_dict: False for a tuple.

        Returns:
            `logits` `(documents, tokens, vocab_size)`, with labels the mean cross-entropy `loss`
            (0 where no label counts), and `encoder_last_hidden_state` `(batch, length, d_model)`.

        Raises:
            ValueError: nothing to read or nothing to write, an unknown `decode_anchors`, a document
                without such anchors, as many documents as there are not rows to write, a
                `decoder_attention_mask` of another shape, a cache of a fixed length, embeddings in
                place of ids, or attentions or hidden states are asked for.
        """
        for name in _UNSUPPORTED:
            if kwargs.get(name) is not None and kwargs[name] is not False:
                raise ValueError(f"HDT-ED has no {name}: leave it out")
        if encoder_outputs is None:
            encoder_outputs = self.encode(
                input_ids, attention_mask, parent_ids, tree, decode_anchors
            )
        memory, memory_mask = encoder_outputs.memory, encoder_outputs.memory_mask
        if decoder_input_ids is None:
            if labels is None:
                raise ValueError("HDT-ED needs decoder_input_ids or labels, or use generate")
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        if len(decoder_input_ids) != len(memory):
            raise ValueError(
                f"there are {len(memory)} documents to read, "
                f"but {len(decoder_input_ids)} rows to write"
            )
        use_cache = self.config.use_cache if use_cache is None else use_cache
        if use_cache and labels is None and past_key_values is None:
            past_key_values = EncoderDecoderCache(DynamicCache(), DynamicCache())
        rows = self.decoder(
            self.shared(decoder_input_ids),
            memory,
            memory_mask,
            decoder_attention_mask,
            past_key_values,
        )
        logits = self.lm_head(rows * self.config.d_model**-0.5)
        loss = None
        if labels is not None:
            losses = F.cross_entropy(
                logits.flatten(0, 1).float(),
                labels.flatten(),
                ignore_index=IGNORE_INDEX,
                reduction="sum",
            )
            loss = losses / (labels != IGNORE_INDEX).sum().clamp(min=1)
        output = Seq2SeqLMOutput(
            loss=loss,
            logits=logits,
            past_key_values=past_key_values,
            encoder_last_hidden_state=encoder_outputs.last_hidden_state,
        )
        return returned(output, self.config, return_dict)

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """Move labels by one, behind the start token: `(documents, tokens)`."""
        start = labels.new_full((len(labels), 1), self.config.decoder_start_token_id)
        moved = labels[:, :-1].masked_fill(labels[:, :-1] == IGNORE_INDEX, self.config.pad_token_id)
        return torch.cat([start, moved], dim=1)

    @torch.no_grad()
    def generate(self, inputs: Tensor | None = None, *args: Any, **kwargs: Any) -> Any:
        """Write, as any model of transformers does, from documents as `encode` takes them.

        What they were encoded to may be given instead, as `encoder_outputs`. Gives a row of ids for
        each document, however many stand in a row of `inputs`.
        """
        if inputs is None:
            inputs = kwargs.pop("input_ids", None)
        names = ("attention_mask", "parent_ids", "tree", "decode_anchors")
        read = {name: kwargs.pop(name) for name in names if name in kwargs}
        # transformers would call the encoder itself, which takes packed rows.
        if kwargs.get("encoder_outputs") is None:
            kwargs["encoder_outputs"] = self.encode(inputs, **read)
        documents = len(kwargs["encoder_outputs"].memory)
        if inputs is None or len(inputs) != documents:
            # It writes as many rows as it gets: here one for each document, of no token at all.
            inputs = torch.full((documents, 1), IGNORE_INDEX, device=self.device)
        return GenerationMixin.generate(cast(Any, self), inputs, *args, **kwargs)
