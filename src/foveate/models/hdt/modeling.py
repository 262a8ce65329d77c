"""HDT: a Transformer that attends along document structure, in the published layout."""

from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.modeling_outputs import (
    BaseModelOutputWithPooling,
    MaskedLMOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)

from foveate.ops.tree_attention import Tree
from foveate.preprocessing.collate import IGNORE_INDEX

from .configuration import HDTConfig
from .layers import HDTBlock, HDTNorm, HierarchicalPositions
from .packing import PackedForest


class HDTPreTrainedModel(PreTrainedModel):
    """What all HDT models share."""

    config_class = HDTConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    accepts_loss_kwargs = False  # losses are means, which Trainer divides by the steps it gathers
    _no_split_modules = ["HDTBlock"]  # noqa: RUF012

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        # Called for modules that hold parameters of their own. T5's scheme, but queries are not
        # made smaller, since scores here are scaled.
        factor = self.config.initializer_factor
        match module:
            case nn.Linear():
                init.normal_(module.weight, std=factor * module.in_features**-0.5)
                if module.bias is not None:
                    init.zeros_(module.bias)
            case nn.Embedding():
                # Of the size of the positions, and of unit scores where a head is tied to them.
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


@dataclass
class HDTEncoderOutput:
    """`rows`: `(tokens, d_model)` after the final norm; `hidden_states`: before each block too."""

    rows: Tensor
    hidden_states: tuple[Tensor, ...]


class HDTEncoder(HDTPreTrainedModel):
    """The blocks, on packed rows in level order."""

    def __init__(self, config: HDTConfig) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.d_model)
        self.embed_positions = HierarchicalPositions(config)
        self.emb_norm = HDTNorm(config.d_model, eps=config.layer_norm_epsilon)
        self.block = nn.ModuleList(
            HDTBlock(config, carries_bias_table=i == 0) for i in range(config.num_layers)
        )
        self.final_layer_norm = HDTNorm(config.d_model, eps=config.layer_norm_epsilon)
        self.dropout = nn.Dropout(config.dropout_rate)
        self.post_init()

    def forward(
        self, embeddings: Tensor, tree: Tree, output_hidden_states: bool = False
    ) -> HDTEncoderOutput:
        """Encode packed token embeddings `(tokens, d_model)` whose rows are in the tree's order."""
        rows = self.dropout(self.emb_norm(self.embed_positions(embeddings, tree)))
        states = []
        for block in self.block:
            if output_hidden_states:
                states.append(rows)
            rows = block(rows, tree)
        rows = self.final_layer_norm(rows)
        return HDTEncoderOutput(rows, (*states, rows))


class HDTPooler(nn.Module):
    """tanh of a dense layer."""

    def __init__(self, config: HDTConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.d_model, config.d_model)

    def forward(self, rows: Tensor) -> Tensor:
        """Pool the documents' first rows."""
        return torch.tanh(self.dense(rows))


class HDTModel(HDTPreTrainedModel):
    """The HDT encoder.

    Example:
        >>> import torch
        >>> from foveate import HDTConfig, HDTModel
        >>> config = HDTConfig(vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=2)
        >>> model = HDTModel(config).eval()
        >>> ids = torch.tensor([[1, 2, 3, 10, 11, 3, 12]])  # doc, sec, sent, two tokens, sent, one
        >>> parents = torch.tensor([[-1, 0, 1, 2, 2, 1, 5]])
        >>> model(ids, parent_ids=parents).last_hidden_state.shape
        torch.Size([1, 7, 16])
    """

    # Published weights name the embeddings twice.
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

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        parent_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        tree: Tree | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPooling | tuple[Tensor, ...]:
        """Encode documents.

        Args:
            input_ids: `(batch, length)` int64.
            attention_mask: `(batch, length)`, 0 at padding, which may stand on either side.
            parent_ids: `(batch, length)` int64, the place of each node's parent in its row, -1 at
                a root: what `HDTProcessor` gives.
            inputs_embeds: `(batch, length, d_model)`, where `input_ids` is None.
            tree: in place of `attention_mask` and `parent_ids`, for documents that are packed into
                one row of ids `(1, tokens)` in level order, as a data loader can prepare them.
            output_hidden_states: also return the rows before every block.
            return_dict: False for a tuple.

        Returns:
            `last_hidden_state` `(batch, length, d_model)`, zero at padding, and `pooler_output`
            `(batch, d_model)`, from each document's first row (with a tree, from its roots).

        Raises:
            ValueError: no parents, neither ids nor embeddings, or parents that do not form a forest
                within their rows.
        """
        packing = packed(tree, parent_ids, attention_mask)
        if input_ids is not None:
            embeddings = self.shared(packing.pack(input_ids))
        elif inputs_embeds is not None:
            embeddings = packing.pack(inputs_embeds)
        else:
            raise ValueError("HDT needs input_ids or inputs_embeds")
        if output_hidden_states is None:
            output_hidden_states = bool(self.config.output_hidden_states)
        encoded = self.encoder(embeddings, packing.tree, output_hidden_states)
        first_rows = encoded.rows[packing.first]
        output = BaseModelOutputWithPooling(
            last_hidden_state=packing.unpack(encoded.rows),
            pooler_output=self.pooler(first_rows),
            hidden_states=tuple(packing.unpack(rows) for rows in encoded.hidden_states)
            if output_hidden_states
            else None,
        )
        return returned(output, self.config, return_dict)


class HDTPredictionTransform(nn.Module):
    """Dense, activation, norm."""

    def __init__(self, config: HDTConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.d_model, config.d_model)
        self.activation = ACT2FN[config.dense_act_fn]
        self.LayerNorm = nn.LayerNorm(config.d_model, eps=config.layer_norm_epsilon)

    def forward(self, rows: Tensor) -> Tensor:
        """Transform every row by itself."""
        return self.LayerNorm(self.activation(self.dense(rows)))


class HDTMaskedLMPredictions(nn.Module):
    """Norm, transform, and scores of the vocabulary against the (tied) embeddings."""

    def __init__(self, config: HDTConfig) -> None:
        super().__init__()
        self.LayerNorm = nn.LayerNorm(config.d_model)  # published with torch's own epsilon
        self.transform = HDTPredictionTransform(config)
        self.decoder = nn.Linear(config.d_model, config.vocab_size)
        self.bias = nn.Parameter(torch.empty(config.vocab_size))

    def forward(self, rows: Tensor) -> Tensor:
        """Score the vocabulary at every row."""
        return self.decoder(self.transform(self.LayerNorm(rows)))


class HDTMaskedLMHead(nn.Module):
    """Holds the predictions under their published name."""

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
        self.model.pooler.requires_grad_(False)  # published along, but no part of this loss
        self.cls = HDTMaskedLMHead(config)
        self.post_init()

    def get_output_embeddings(self) -> nn.Linear:
        """Return the layer that scores the vocabulary."""
        return self.cls.predictions.decoder

    def set_output_embeddings(self, value: nn.Linear) -> None:
        """Replace the layer that scores the vocabulary."""
        self.cls.predictions.decoder = value
        self.cls.predictions.bias = value.bias

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        parent_ids: Tensor | None = None,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> MaskedLMOutput | tuple[Tensor, ...]:
        """Score the vocabulary at every node; arguments as `HDTModel.forward`.

        Args:
            labels: `(batch, length)` int64, the true token where the loss counts, else -100.

        Returns:
            `logits` `(batch, length, vocab_size)` and, with labels, the mean cross-entropy `loss`.
        """
        encoded = self.model(input_ids, attention_mask, parent_ids, return_dict=True, **kwargs)
        logits = self.cls.predictions(encoded.last_hidden_state)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten().long())
        output = MaskedLMOutput(loss=loss, logits=logits, hidden_states=encoded.hidden_states)
        return returned(output, self.config, return_dict)


class HDTForSequenceClassification(HDTPreTrainedModel):
    """HDT that says what a whole document is: one label, several, or a number."""

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

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        parent_ids: Tensor | None = None,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput | tuple[Tensor, ...]:
        """Classify documents; arguments as `HDTModel.forward`.

        Args:
            labels: `(batch,)` int64 for one label of several, `(batch, num_labels)` floats 0 or 1
                for any number of them, `(batch,)` floats for a number. `config.problem_type`
                says which, or is set by the first labels seen.

        Returns:
            `logits` `(batch, num_labels)` and, with labels, the `loss`.
        """
        encoded = self.model(input_ids, attention_mask, parent_ids, return_dict=True, **kwargs)
        logits = self.classifier(self.dropout(encoded.pooler_output))
        loss = None
        if labels is not None:
            loss = self.loss_function(labels=labels, pooled_logits=logits, config=self.config)
        output = SequenceClassifierOutput(
            loss=loss, logits=logits, hidden_states=encoded.hidden_states
        )
        return returned(output, self.config, return_dict)


class HDTForAnchorClassification(HDTPreTrainedModel):
    """HDT that says what each section or sentence is, at its anchor."""

    _tied_weights_keys = {  # noqa: RUF012
        "model.encoder.embed_tokens.weight": "model.shared.weight"
    }

    def __init__(self, config: HDTConfig) -> None:
        super().__init__(config)
        self.model = HDTModel(config)
        self.model.pooler.requires_grad_(False)  # no part of this loss
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.classifier = nn.Linear(config.d_model, cast(int, config.num_labels))
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        parent_ids: Tensor | None = None,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> TokenClassifierOutput | tuple[Tensor, ...]:
        """Classify the anchors of documents; arguments as `HDTModel.forward`.

        `HDTProcessor(…, return_node_types=True)` says which rows are section or sentence anchors.

        Args:
            labels: `(batch, length)` int64 for one label each, or `(batch, length, num_labels)`
                floats 0 or 1 for any number of labels each; -100 on rows that do not count.

        Returns:
            `logits` `(batch, length, num_labels)` and, with labels, the mean `loss`.
        """
        encoded = self.model(input_ids, attention_mask, parent_ids, return_dict=True, **kwargs)
        logits = self.classifier(self.dropout(encoded.last_hidden_state))
        loss = None
        if labels is not None and labels.dim() == 2:
            loss = F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())
        elif labels is not None:
            counts = (labels != IGNORE_INDEX).all(dim=-1)
            loss = F.binary_cross_entropy_with_logits(
                logits[counts].float(), labels[counts].float()
            )
        output = TokenClassifierOutput(
            loss=loss, logits=logits, hidden_states=encoded.hidden_states
        )
        return returned(output, self.config, return_dict)


@torch.compiler.disable
def packed(
    tree: Tree | None, parent_ids: Tensor | None, attention_mask: Tensor | None
) -> PackedForest:
    """Pack documents that are given in one of the two ways of `HDTModel.forward`.

    Raises:
        ValueError: neither a tree nor parents, or what `PackedForest` refuses.
    """
    if tree is not None:
        return PackedForest.of_tree(tree)
    if parent_ids is not None:
        return PackedForest.of(parent_ids, attention_mask)
    raise ValueError("HDT needs parent_ids: encode documents with foveate.preprocessing.HDTProcessor")


def returned(output: Any, config: PreTrainedConfig, return_dict: bool | None) -> Any:
    """Give the output as it is or, if so wanted, as a tuple."""
    as_dict = config.return_dict if return_dict is None else return_dict
    return output if as_dict else output.to_tuple()
