"""HDT: a Transformer that attends along document structure, with the published parameter names.

Inside the encoder, all documents of a batch are packed in level order: `(tokens, d_model)`.
"""

import warnings
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import (
    BaseModelOutputWithPooling,
    MaskedLMOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.utils.generic import can_return_tuple

from foveate.models.joint_layers import convert_parts, load_parts
from foveate.models.masked_lm import masked_lm_output
from foveate.models.packing import PackedForest
from foveate.models.projections import drop, feed_forward
from foveate.models.speed_ups.cuda_graphs import CapturableTreeEncoder
from foveate.ops._triton.cache import cached_for_graphs
from foveate.ops.backends import autocast_dtype
from foveate.ops.compiling import uncompiled
from foveate.ops.rms_norm import residual_rms_norm, rms_norm
from foveate.ops.rotary import rotary_angles, rotate
from foveate.ops.tree_attention import Tree, tree_attention, tree_attention_qkv
from foveate.ops.tree_positions import reading_order, tree_positions
from foveate.preprocessing.collate import IGNORE_INDEX

from .configuration_hdt import HDTConfig


class HierarchicalPositions(nn.Module):
    """Hierarchical positional encoding (HDT, eq. 2), scaled by a learned number."""

    def __init__(self, config: HDTConfig) -> None:
        super().__init__()
        self.d_model = config.d_model
        self.levels = config.num_position_levels
        self.scale_factor = nn.Parameter(torch.empty(1))

    def forward(self, embeddings: Tensor, tree: Tree) -> Tensor:
        """Add the position of every node to the embeddings `(tokens, d_model)`."""
        return torch.addcmul(embeddings, self.scale_factor, self.encoding(tree).to(embeddings))

    @uncompiled  # the size of the table depends on the tree
    def encoding(self, tree: Tree) -> Tensor:
        """Encode the position of every node, without scaling: `(tokens, d_model)`.

        Levels below a node count as index 0, as published; sections count from 1 after a query or
        a mode that is read globally.
        """
        scale = self.scale_factor
        size = 1 << max(_FEWEST_INDICES - 1, tree.largest_family).bit_length()
        table = sinusoids(size, self.d_model, scale.device, scale.dtype)
        return tree_positions(tree, table, levels=self.levels, global_leaves=True)


_FEWEST_INDICES = 1024
"""Indices for which sinusoids are computed at least, so that a CUDA graph serves most trees."""


@cached_for_graphs(maxsize=64)
def sinusoids(size: int, d_model: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Compute the sinusoids of the indices below `size`: sin on even channels, cos on odd ones."""
    with torch.inference_mode(False):  # tensors made in inference mode are unusable in training
        index = torch.arange(size, dtype=torch.float64)
        channel = torch.arange(0, d_model, 2, dtype=torch.float64)
        angle = index[:, None] * 10000.0 ** (-channel / d_model)
        sinusoids = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
        return sinusoids[:, :d_model].to(device, dtype)


Rotation = tuple[Tensor, Tensor]
"""Cosines and sines `(tokens, d_kv / 2)` by which queries and keys are turned."""


class RotaryPositions(nn.Module):
    """Rotary positions, by the place of every node in the reading order of its document."""

    def __init__(self, config: HDTConfig) -> None:
        super().__init__()
        self.head_dim, self.theta = config.d_kv, float(config.rope_theta)

    @uncompiled  # the reading order depends on the tree
    def forward(self, tree: Tree) -> Rotation:
        """Return the angles of all nodes."""
        return rotary_angles(reading_order(tree), self.head_dim, self.theta)


class HDTAttention(nn.Module):
    """Tree attention with its projections; no biases."""

    def __init__(self, config: HDTConfig, has_bias_table: bool) -> None:
        super().__init__()
        self.num_heads, self.edges = config.num_heads, tuple(config.edges)
        inner = config.num_heads * config.d_kv
        self.qkv = nn.Linear(config.d_model, 3 * inner, bias=False)
        load_parts(self, "qkv", ("q", "k", "v"))
        self.o = nn.Linear(inner, config.d_model, bias=False)
        if has_bias_table:  # in block 0 of published weights; tree attention uses no bias
            self.relative_attention_bias = nn.Embedding(
                config.relative_attention_num_buckets, config.num_heads
            )
            self.relative_attention_bias.weight.requires_grad_(False)

    def forward(
        self, hidden_states: Tensor, tree: Tree, rotation: Rotation | None = None
    ) -> Tensor:
        """Let every node attend along its edges; with a rotation, queries and keys are turned."""
        qkv: Tensor = self.qkv(hidden_states).unflatten(1, (3, self.num_heads, -1))
        if rotation is None:
            attended = tree_attention_qkv(qkv, tree, edges=self.edges)
        else:
            q, k, v = qkv.unbind(1)
            attended = tree_attention(*rotate(q, k, *rotation), v, tree, edges=self.edges)
        output: Tensor = self.o(attended.flatten(1))
        return output


class HDTNorm(nn.RMSNorm):
    """RMSNorm with a fused backward pass."""

    eps: float

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Normalize every hidden state."""
        return rms_norm(hidden_states, self.weight.to(hidden_states.dtype), self.eps)


class HDTResidualNorm(HDTNorm):
    """The norm at the beginning of a layer with a residual connection."""

    def forward(  # type: ignore[override] # returns two outputs
        self, hidden_states: Tensor, update: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Add an update to every hidden state; return the sums, and normalized for products."""
        weight = self.weight.to(hidden_states.dtype)
        dtype = autocast_dtype(hidden_states)
        return residual_rms_norm(hidden_states, weight, self.eps, update=update, dtype=dtype)


def _add(hidden_states: Tensor, update: Tensor | None) -> Tensor:
    """Add the update of the layer before, if there is one."""
    return hidden_states if update is None else hidden_states + update


class HDTFeedForward(nn.Module):
    """Feed-forward, plain or gated; no biases."""

    def __init__(self, config: HDTConfig) -> None:
        super().__init__()
        self.activation = ACT2FN[config.dense_act_fn]
        self.is_gated = config.is_gated_act
        if self.is_gated:
            self.wi_01 = nn.Linear(config.d_model, 2 * config.d_ff, bias=False)
            load_parts(self, "wi_01", ("wi_0", "wi_1"))
        else:
            self.wi = nn.Linear(config.d_model, config.d_ff, bias=False)
        self.wo = nn.Linear(config.d_ff, config.d_model, bias=False)
        self.dropout = nn.Dropout(config.dropout_rate)

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Transform every hidden state independently."""
        if not self.is_gated:
            return feed_forward(hidden_states, self.wi, self.activation, self.wo, self.dropout)
        inner, gate = self.wi_01(hidden_states).chunk(2, -1)
        output: Tensor = self.wo(drop(self.dropout, self.activation(inner) * gate))
        return output


class HDTSelfAttentionLayer(nn.Module):
    """x and its update dropout(attention(norm(x))), where x is the input with its own update.

    The next layer adds an update in the kernel that normalizes the sum.
    """

    def __init__(self, config: HDTConfig, has_bias_table: bool) -> None:
        super().__init__()
        self.SelfAttention = HDTAttention(config, has_bias_table)
        self.layer_norm = HDTResidualNorm(config.d_model, eps=config.layer_norm_epsilon)
        self.dropout = nn.Dropout(config.dropout_rate)

    def forward(
        self,
        hidden_states: Tensor,
        tree: Tree,
        update: Tensor | None = None,
        rotation: Rotation | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the hidden states `(tokens, d_model)` and their update."""
        residual, normed = self.layer_norm(hidden_states, update)
        return residual, drop(self.dropout, self.SelfAttention(normed, tree, rotation))


class HDTFeedForwardLayer(nn.Module):
    """x and its update dropout(feed_forward(norm(x))), where x is the input with its own update."""

    def __init__(self, config: HDTConfig) -> None:
        super().__init__()
        self.DenseReluDense = HDTFeedForward(config)
        self.layer_norm = HDTResidualNorm(config.d_model, eps=config.layer_norm_epsilon)
        self.dropout = nn.Dropout(config.dropout_rate)

    def forward(self, hidden_states: Tensor, update: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the hidden states `(..., d_model)` and their update."""
        residual, normed = self.layer_norm(hidden_states, update)
        return residual, drop(self.dropout, self.DenseReluDense(normed))


class HDTBlock(GradientCheckpointingLayer):
    """One HDT block (HDT, 3.2): attention, then feed-forward, each on normalized inputs."""

    def __init__(self, config: HDTConfig, has_bias_table: bool) -> None:
        super().__init__()
        attention = HDTSelfAttentionLayer(config, has_bias_table)
        self.layer = nn.ModuleList([attention, HDTFeedForwardLayer(config)])

    def forward(
        self,
        hidden_states: Tensor,
        tree: Tree,
        update: Tensor | None = None,
        rotation: Rotation | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the hidden states `(tokens, d_model)` and the update that the next block adds."""
        attention, feed_forward = self.layer
        hidden_states, update = attention(hidden_states, tree, update, rotation)
        outputs: tuple[Tensor, Tensor] = feed_forward(hidden_states, update)
        return outputs


convert_parts(
    HDTConfig.model_type,
    {
        "SelfAttention.qkv": ("SelfAttention.q", "SelfAttention.k", "SelfAttention.v"),
        "EncDecAttention.kv": ("EncDecAttention.k", "EncDecAttention.v"),
        "DenseReluDense.wi_01": ("DenseReluDense.wi_0", "DenseReluDense.wi_1"),
    },
)


class HDTPreTrainedModel(PreTrainedModel):
    """Base class of all HDT models."""

    config_class = HDTConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    accepts_loss_kwargs = False  # the losses are means over a batch
    _no_split_modules = ["HDTBlock"]  # noqa: RUF012

    @classmethod
    def from_pretrained(cls, *args: Any, output_loading_info: bool = False, **kwargs: Any) -> Any:
        """Load a checkpoint of HDT, from a folder or the hub.

        Args:
            args: See `PreTrainedModel.from_pretrained`.
            output_loading_info: See there.
            kwargs: See there; fields of the configuration override the checkpoint's.

        Warns:
            UserWarning: The checkpoint has other positions than the model.
        """
        loaded: Any = super().from_pretrained(*args, output_loading_info=True, **kwargs)
        model, info = loaded
        differing = info["missing_keys"] | info["unexpected_keys"]
        if any(name.endswith("embed_positions.scale_factor") for name in differing):
            warnings.warn(
                "the checkpoint was not trained with "
                f"{model.config.position_embedding_type} positions: leave "
                "position_embedding_type out, or train the model before you use it",
                stacklevel=2,
            )
        return (model, info) if output_loading_info else model

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        # Called for modules with parameters of their own. T5's scheme, but the weights of queries
        # are not made smaller, since the scores are scaled here.
        factor = self.config.initializer_factor
        match module:
            case nn.Linear():
                init.normal_(module.weight, std=factor * module.in_features**-0.5)
                if module.bias is not None:
                    init.zeros_(module.bias)
            case nn.Embedding():
                # As large as the positions, and with unit logits where a head is tied to it.
                init.normal_(module.weight, std=factor * self.config.d_model**-0.5)
            case nn.RMSNorm():
                init.constant_(module.weight, factor)
            case nn.LayerNorm():
                init.constant_(module.weight, factor)
                init.zeros_(module.bias)
            case HierarchicalPositions():
                init.constant_(module.scale_factor, self.config.d_model**-0.5)
            case HDTMaskedLMPredictions():
                init.zeros_(module.bias)


class HDTEncoder(CapturableTreeEncoder, HDTPreTrainedModel):
    """The blocks, on tokens packed in level order."""

    def __init__(self, config: HDTConfig) -> None:
        super().__init__(config)
        config.check()  # from_pretrained sets fields after the configuration was validated
        self.embed_tokens = nn.Embedding(config.vocab_size, config.d_model)
        self.embed_positions = self.rotary_positions = None
        if config.position_embedding_type == "rotary":
            self.rotary_positions = RotaryPositions(config)
        else:
            self.embed_positions = HierarchicalPositions(config)
        self.emb_norm = HDTNorm(config.d_model, eps=config.layer_norm_epsilon)
        self.block = nn.ModuleList(
            HDTBlock(config, has_bias_table=layer_idx == 0)
            for layer_idx in range(config.num_layers)
        )
        self.final_layer_norm = HDTNorm(config.d_model, eps=config.layer_norm_epsilon)
        self.dropout = nn.Dropout(config.dropout_rate)
        self.post_init()

    def forward(
        self, embeddings: Tensor, tree: Tree, all_hidden_states: list[Tensor] | None = None
    ) -> Tensor:
        """Encode token embeddings `(tokens, d_model)` in the order of the tree."""
        return self.run_on_tree(embeddings, tree, all_hidden_states)

    def run_layers(
        self, hidden_states: Tensor, layout: Any, all_hidden_states: list[Tensor] | None = None
    ) -> Tensor:
        """Apply positions, blocks and norms to embeddings; the layout is their tree."""
        if self.embed_positions is not None:
            hidden_states = self.embed_positions(hidden_states, layout)
        rotation = None if self.rotary_positions is None else self.rotary_positions(layout)
        hidden_states = self.dropout(self.emb_norm(hidden_states))
        update = None
        for block in self.block:
            if block.training and block.gradient_checkpointing:
                # A checkpoint keeps what a block is given: one tensor is less than two.
                hidden_states, update = _add(hidden_states, update), None
            if all_hidden_states is not None:
                all_hidden_states.append(_add(hidden_states, update))
            hidden_states, update = block(hidden_states, layout, update, rotation)
        output: Tensor = drop(self.dropout, self.final_layer_norm(_add(hidden_states, update)))
        return output


class HDTPooler(nn.Module):
    """A dense layer and tanh."""

    def __init__(self, config: HDTConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.d_model, config.d_model)

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Pool the first hidden state of each document, `(batch, d_model)`."""
        return torch.tanh(self.dense(hidden_states))


class HDTModel(HDTPreTrainedModel):
    """The HDT encoder.

    Example:
        >>> import torch
        >>> from foveate.models.hdt import HDTConfig, HDTModel
        >>> config = HDTConfig(vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=2)
        >>> model = HDTModel(config).eval()
        >>> ids = torch.tensor([[1, 2, 3, 10, 11, 3, 12]])  # doc, sec, sent, two tokens, sent, one
        >>> parents = torch.tensor([[-1, 0, 1, 2, 2, 1, 5]])
        >>> model(ids, parent_ids=parents).last_hidden_state.shape
        torch.Size([1, 7, 16])
    """

    # Published weights have the embeddings under two names.
    _tied_weights_keys = {"encoder.embed_tokens.weight": "shared.weight"}  # noqa: RUF012

    def __init__(self, config: HDTConfig) -> None:
        super().__init__(config)
        self.shared = nn.Embedding(config.vocab_size, config.d_model)
        self.encoder = HDTEncoder(config)
        self.pooler = HDTPooler(config)
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the token embeddings."""
        return self.shared

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the token embeddings."""
        assert isinstance(value, nn.Embedding)
        self.shared = self.encoder.embed_tokens = value

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        parent_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        tree: Tree | None = None,
        output_hidden_states: bool | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPooling:
        """Encode documents.

        Args:
            input_ids: `(batch, length)` int64.
            attention_mask: `(batch, length)`, 0 at padding, which may be on either side.
            parent_ids: `(batch, length)` int64, the position of each node's parent in its
                sequence, -1 at a root, as an `HDTProcessor` returns them.
            inputs_embeds: `(batch, length, d_model)`, in place of `input_ids`.
            tree: In place of `attention_mask` and `parent_ids`, for documents that are packed into
                one sequence of ids `(1, tokens)` in level order, as a data loader can do.
            output_hidden_states: Whether to return the input of every block too.
            kwargs: `return_dict`, False for a tuple; columns that processors add are ignored.

        Returns:
            `last_hidden_state` `(batch, length, d_model)`, zero at padding, and `pooler_output`
            `(batch, d_model)` of each document's first token (with a tree, of its roots).

        Raises:
            ValueError: Parents are missing or do not form a forest within their sequences, or
                there are neither or both of ids and embeddings.

        Warns:
            UserWarning: Attention weights are requested.
        """
        if kwargs.get("output_attentions", self.config.output_attentions):
            warnings.warn("HDT never materializes attention weights: it returns none", stacklevel=2)
        if input_ids is not None and inputs_embeds is not None:
            raise ValueError("give either input_ids or inputs_embeds")
        packed = PackedForest.from_inputs(tree, parent_ids, attention_mask)
        if input_ids is not None:
            embeddings = packed.embed(self.shared, input_ids)
        elif inputs_embeds is not None:
            embeddings = packed.pack(inputs_embeds)
        else:
            raise ValueError("HDT needs input_ids or inputs_embeds")
        if output_hidden_states is None:
            output_hidden_states = bool(self.config.output_hidden_states)
        states: list[Tensor] | None = [] if output_hidden_states else None
        encoded = self.encoder(embeddings, packed.tree, states)
        last = packed.unpack(encoded)
        return BaseModelOutputWithPooling(
            last_hidden_state=last,
            pooler_output=self.pooler(encoded[packed.first]),
            hidden_states=None if states is None else (*map(packed.unpack, states), last),
        )


class HDTPredictionTransform(nn.Module):
    """Dense layer, activation, norm."""

    def __init__(self, config: HDTConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.d_model, config.d_model)
        self.activation = ACT2FN[config.dense_act_fn]
        self.LayerNorm = nn.LayerNorm(config.d_model, eps=config.layer_norm_epsilon)

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Transform every hidden state independently."""
        output: Tensor = self.LayerNorm(self.activation(self.dense(hidden_states)))
        return output


class HDTMaskedLMPredictions(nn.Module):
    """Norm, transform, and logits against the (tied) embeddings."""

    def __init__(self, config: HDTConfig) -> None:
        super().__init__()
        self.LayerNorm = nn.LayerNorm(config.d_model)  # published with torch's default epsilon
        self.transform = HDTPredictionTransform(config)
        self.decoder = nn.Linear(config.d_model, config.vocab_size)
        self.bias = nn.Parameter(torch.empty(config.vocab_size))

    def forward(self, hidden_states: Tensor) -> Tensor:
        """Compute logits `(..., vocab_size)`."""
        logits: Tensor = self.decoder(self.transform(self.LayerNorm(hidden_states)))
        return logits


class HDTMaskedLMHead(nn.Module):
    """The predictions, under their published name."""

    def __init__(self, config: HDTConfig) -> None:
        super().__init__()
        self.predictions = HDTMaskedLMPredictions(config)


class HDTForMaskedLM(HDTPreTrainedModel):
    """HDT with the masked-language-model head of HDT-E."""

    _tied_weights_keys = {  # noqa: RUF012
        "model.encoder.embed_tokens.weight": "model.shared.weight",
        "cls.predictions.decoder.weight": "model.shared.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }

    def __init__(self, config: HDTConfig) -> None:
        super().__init__(config)
        self.model = HDTModel(config)
        self.model.pooler.requires_grad_(False)  # published, but not part of this loss
        self.cls = HDTMaskedLMHead(config)
        self.post_init()

    def get_output_embeddings(self) -> nn.Linear:
        """Return the layer that computes the logits."""
        return self.cls.predictions.decoder

    def set_output_embeddings(self, value: nn.Linear) -> None:
        """Replace the layer that computes the logits."""
        self.cls.predictions.decoder = value
        self.cls.predictions.bias = value.bias

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        parent_ids: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs: Any,
    ) -> MaskedLMOutput:
        """Predict the token at every node.

        Args:
            input_ids: See `HDTModel.forward`.
            attention_mask: See `HDTModel.forward`.
            parent_ids: See `HDTModel.forward`.
            labels: `(batch, length)` int64, the true token where the loss counts, else -100.
            kwargs: Other arguments of `HDTModel.forward`.

        Returns:
            `logits` `(batch, length, vocab_size)` and, with labels, the mean cross-entropy `loss`.
            With labels and `config.sparse_prediction`, the logits are `(labelled tokens,
            vocab_size)`, those of the tokens whose label counts, in their order.
        """
        return masked_lm_output(
            lambda: self.model(input_ids, attention_mask, parent_ids, return_dict=True, **kwargs),
            self.cls.predictions,
            labels,
            sparse=self.config.sparse_prediction,
        )


class HDTClassifier(HDTPreTrainedModel):
    """HDT with dropout and a linear classifier; base class of the classification models."""

    _tied_weights_keys = {  # noqa: RUF012
        "model.encoder.embed_tokens.weight": "model.shared.weight"
    }

    def __init__(self, config: HDTConfig) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels
        self.model = HDTModel(config)
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.classifier = nn.Linear(config.d_model, cast(int, config.num_labels))
        self.post_init()


class HDTForSequenceClassification(HDTClassifier):
    """HDT that classifies whole documents: one label, several, or a number."""

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        parent_ids: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput:
        """Classify documents.

        Args:
            input_ids: See `HDTModel.forward`.
            attention_mask: See `HDTModel.forward`.
            parent_ids: See `HDTModel.forward`.
            labels: `(batch,)` int64 for exclusive labels, `(batch, num_labels)` floats 0 or 1 for
                independent ones, `(batch,)` floats for a number. `config.problem_type` says
                which; the first labels set it.
            kwargs: Other arguments of `HDTModel.forward`.

        Returns:
            `logits` `(batch, num_labels)` and, with labels, the `loss`.
        """
        encoded = self.model(input_ids, attention_mask, parent_ids, return_dict=True, **kwargs)
        logits = self.classifier(self.dropout(encoded.pooler_output))
        loss = None
        if labels is not None:
            loss = self.loss_function(labels=labels, pooled_logits=logits, config=self.config)
        return SequenceClassifierOutput(
            loss=loss, logits=logits, hidden_states=encoded.hidden_states
        )


class HDTForTokenClassification(HDTClassifier):
    """HDT that classifies tokens, or sections and sentences at their anchors."""

    def __init__(self, config: HDTConfig) -> None:
        super().__init__(config)
        self.model.pooler.requires_grad_(False)  # not part of this loss

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        parent_ids: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs: Any,
    ) -> TokenClassifierOutput:
        """Classify the nodes of documents.

        Args:
            input_ids: See `HDTModel.forward`.
            attention_mask: See `HDTModel.forward`.
            parent_ids: See `HDTModel.forward`.
            labels: `(batch, length)` int64 for exclusive labels, or `(batch, length, num_labels)`
                floats 0 or 1 for independent ones; -100 at nodes that do not count.
            kwargs: Other arguments of `HDTModel.forward`.

        Returns:
            `logits` `(batch, length, num_labels)` and, with labels, the mean `loss`.
        """
        encoded = self.model(input_ids, attention_mask, parent_ids, return_dict=True, **kwargs)
        logits = self.classifier(self.dropout(encoded.last_hidden_state))
        loss = None
        if labels is not None and labels.dim() == 2:
            loss = F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())
        elif labels is not None:
            # Without a boolean index, whose size the host would have to wait for.
            counts = (labels != IGNORE_INDEX).all(dim=-1, keepdim=True).expand_as(logits)
            targets = torch.where(counts, labels, 0).float()
            losses = F.binary_cross_entropy_with_logits(logits.float(), targets, reduction="none")
            loss = torch.where(counts, losses, 0).sum() / counts.sum()
        return TokenClassifierOutput(loss=loss, logits=logits, hidden_states=encoded.hidden_states)
