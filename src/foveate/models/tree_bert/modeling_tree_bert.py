"""TreeBert as a transformers model; its layers are in `foveate.models.tree_bert_network`."""

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils.generic import ModelOutput, can_return_tuple

from foveate.models.joint_layers import convert_parts
from foveate.models.speed_ups.cuda_graphs import CapturableTreeEncoder
from foveate.models.tree_bert_network import (
    Layout,
    NetworkConfig,
    TreeBertEncoder,
    TreeBertLayer,
    TreeBertLayers,
    TreeBertPooling,
)
from foveate.ops.tree_attention import Tree

from .configuration_tree_bert import TreeBertConfig


@dataclass
class TreeBertOutput(ModelOutput):
    """Output of `TreeBertModel`.

    Anchors and tokens are in reading order, those of all documents one after another.

    Attributes:
        embeddings: `(anchors, hidden_size)` float32 of unit length, the vector of each document,
            section and sentence, as `anchor_kinds` lists them.
        salience: `(anchors,)` float32, how much each sentence belongs in a summary of its document,
            as a logit; only differences within a document mean anything. 0 at other anchors.
        token_vectors: `(tokens, token_size)` float32 of unit length, the vector of each token in
            its passage, for late interaction; [SEP] counts, [CLS] does not. None if the model has
            no head for it.
    """

    embeddings: Tensor | None = None
    salience: Tensor | None = None
    token_vectors: Tensor | None = None


class TreeBertCheckpointedLayer(GradientCheckpointingLayer, TreeBertLayer):
    """A layer that can be computed again in the backward pass, to save memory."""


class CapturableTreeBertEncoder(CapturableTreeEncoder, TreeBertEncoder):
    """The layers, which can be launched as one CUDA graph."""

    @property
    def head_dim(self) -> int:
        """Channels of a head."""
        attention: Any = self.layer[0].attention
        return int(attention.self.qkv.in_features) // self.num_heads

    def forward(self, hidden_states: Tensor, passages: Layout) -> Tensor:
        """Apply all layers to the tokens of passages `(tokens, hidden_size)`."""
        if isinstance(passages, Tree):
            return self.run_on_tree(hidden_states, passages)
        return super().forward(hidden_states, passages)

    def run_layers(
        self, hidden_states: Tensor, layout: Any, all_hidden_states: list[Tensor] | None = None
    ) -> Tensor:
        """Apply all layers; the layout is the tree, and no hidden states are recorded."""
        return TreeBertEncoder.forward(self, hidden_states, layout)


convert_parts(
    TreeBertConfig.model_type,
    {"attention.self.qkv": [f"attention.self.{name}" for name in ("query", "key", "value")]},
    has_biases=True,
)


class TreeBertPreTrainedModel(PreTrainedModel):
    """Base class of TreeBert models."""

    config_class = TreeBertConfig
    base_model_prefix = "bert"
    supports_gradient_checkpointing = True
    accepts_loss_kwargs = False
    _no_split_modules = ["TreeBertCheckpointedLayer"]  # noqa: RUF012
    # BERT's own pooler and its heads, which are not used here.
    _keys_to_ignore_on_load_unexpected = [r"^pooler\.", r"^cls\.", "position_ids"]  # noqa: RUF012

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        std = self.config.initializer_range
        match module:
            case nn.Linear():
                init.normal_(module.weight, std=std)
                if module.bias is not None:
                    init.zeros_(module.bias)
            case nn.Embedding():
                init.normal_(module.weight, std=std)
            case nn.LayerNorm():
                init.ones_(module.weight)
                init.zeros_(module.bias)
            case TreeBertPooling():
                for parameter in module.parameters():
                    init.zeros_(parameter)


class TreeBertModel(TreeBertPreTrainedModel, TreeBertLayers):
    """TreeBert with its heads: vectors of sentences, sections and documents, and salience.

    Example:
        >>> import torch
        >>> from foveate.models.tree_bert import TreeBertConfig, TreeBertModel
        >>> config = TreeBertConfig(
        ...     vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        ...     intermediate_size=32,
        ... )
        >>> model = TreeBertModel(config).eval()
        >>> output = model(
        ...     torch.tensor([[1, 10, 11, 2, 12, 2]]),  # a passage of two sentences
        ...     position_ids=torch.tensor([[0, 1, 2, 3, 4, 5]]),
        ...     anchor_ids=torch.tensor([[-1, 2, 2, 2, 3, 3]]),
        ...     anchor_parents=torch.tensor([[-1, 0, 1, 1]]),
        ...     anchor_kinds=torch.tensor([[3, 2, 1, 1]]),  # a document, its section, the sentences
        ... )
        >>> output.embeddings.shape
        torch.Size([4, 16])
    """

    def __init__(self, config: TreeBertConfig) -> None:
        super().__init__(config)
        sizes = NetworkConfig.from_fields(vars(config))
        self.add_layers(sizes, CapturableTreeBertEncoder(sizes, TreeBertCheckpointedLayer))
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the token embeddings."""
        return self.embeddings.word_embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the token embeddings."""
        assert isinstance(value, nn.Embedding)
        self.embeddings.word_embeddings = value

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        anchor_ids: Tensor | None = None,
        anchor_parents: Tensor | None = None,
        anchor_kinds: Tensor | None = None,
        **kwargs: Any,
    ) -> TreeBertOutput:
        """Encode documents, as a `TreeBertProcessor` prepares them.

        Args:
            input_ids: `(batch, length)` int64, the passages of each document one after another.
            attention_mask: `(batch, length)`, 0 at padding, which may be on either side.
            position_ids: `(batch, length)` int64, counted from 0 in each passage.
            anchor_ids: `(batch, length)` int64, the sentence that each token belongs to, as its
                index among the anchors of its row; -1 at the first token of a passage.
            anchor_parents: `(batch, anchors)` int64, the index of each anchor's parent, -1 at a
                root. A row may hold several documents.
            anchor_kinds: `(batch, anchors)` int64, see `foveate.preprocessing.tree.NODE_TYPES`; -1
                at padding, which follows the anchors.
            kwargs: `return_dict`, False for a tuple.

        Raises:
            ValueError: Inputs are missing, `inputs_embeds` are given, or an anchor does not follow
                its parent.

        Warns:
            UserWarning: The hidden states of all layers, or attention weights, are requested.
        """
        if input_ids is None or kwargs.get("inputs_embeds") is not None:
            raise ValueError("TreeBert needs input_ids, and does not support inputs_embeds")
        for name in ("output_hidden_states", "output_attentions"):
            if kwargs.get(name):
                warnings.warn(
                    f"TreeBert ignores {name}: it returns vectors and salience only", stacklevel=2
                )
        output = super().forward(
            input_ids, attention_mask, position_ids, anchor_ids, anchor_parents, anchor_kinds
        )
        return TreeBertOutput(**output._asdict())
