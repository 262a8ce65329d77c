"""RoBERTa with VCC for questions: all choices in one sequence, and HotpotQA (VCC, section 4)."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import RobertaPreTrainedModel
from transformers.modeling_outputs import MultipleChoiceModelOutput, QuestionAnsweringModelOutput
from transformers.models.auto.auto_factory import _BaseAutoModelClass, _LazyAutoMapping
from transformers.utils.generic import can_return_tuple

from foveate.ops.precision import widened
from foveate.preprocessing.collate import IGNORE_INDEX

from .configuration_vcc import VccRobertaConfig
from .modeling_vcc_bert import RobertaCheckpoint, VccRobertaModel, first_tokens
from .modeling_vcc_shared import reject_unsupported


class _Reader(RobertaCheckpoint, RobertaPreTrainedModel):
    """An encoder without a pooler, on which heads are put."""

    config_class = VccRobertaConfig
    accepts_loss_kwargs = False  # the losses are means over a batch

    def __init__(self, config: VccRobertaConfig) -> None:
        super().__init__(config)
        self.roberta = VccRobertaModel(config, add_pooling_layer=False)


class VccRobertaForMultipleChoice(_Reader):
    """RoBERTa with VCC that reads the question, all choices and the document as one sequence.

    Its published classifier reads a token before each choice; see `VCCProcessor`.
    """

    def __init__(self, config: VccRobertaConfig) -> None:
        super().__init__(config)
        self.classifier = nn.Linear(config.hidden_size, 1, bias=False)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        *,
        choice_mask: Tensor,
        vip_mask: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs: Any,
    ) -> MultipleChoiceModelOutput:
        """Score the choices.

        Args:
            input_ids: `(batch, length)` int64.
            attention_mask: `(batch, length)`, 0 at padding.
            choice_mask: `(batch, length)`, not 0 at the token before each choice.
            vip_mask: `(batch, length)`, not 0 at question and choices.
            labels: `(batch,)` int64, the number of the correct choice, from 0.
            kwargs: Other arguments of `VccRobertaModel.forward`.

        Returns:
            `logits` `(batch, most choices)`, -inf beyond the choices of an example, and with labels
            the mean cross-entropy `loss`.
        """
        reject_unsupported(self.config, kwargs)
        is_choice = choice_mask.bool()
        counts = is_choice.sum(1, keepdim=True)
        places = is_choice.byte().argsort(dim=1, descending=True, stable=True)[
            :, : int(counts.max())
        ]
        encoded = self.roberta(
            input_ids, attention_mask, vip_mask=vip_mask, return_dict=True, **kwargs
        )
        choices = encoded.last_hidden_state.take_along_dim(places[..., None], 1)
        logits = self.classifier(choices)[..., 0]
        is_missing = torch.arange(places.shape[1], device=places.device) >= counts
        logits = logits.masked_fill(is_missing, -torch.inf)
        return MultipleChoiceModelOutput(
            loss=None if labels is None else F.cross_entropy(widened(logits), labels.long()),
            logits=logits,
            hidden_states=encoded.hidden_states,
        )


@dataclass
class HotpotQAOutput(QuestionAnsweringModelOutput):
    """Output of `VccRobertaForHotpotQA`, with the fields of extractive question answering.

    Attributes:
        answer_type_logits: `(batch, 3)`: the answer is no, is yes, or is in the text.
        sentence_logits: `(batch, length, 2)`, whether the sentence that begins here supports the
            answer, no or yes.
        paragraph_logits: The same for the paragraph that begins here.
    """

    answer_type_logits: Tensor | None = None
    sentence_logits: Tensor | None = None
    paragraph_logits: Tensor | None = None


class VccRobertaForHotpotQA(_Reader):
    """RoBERTa with VCC that answers, and finds what supports the answer, with the published heads.

    The published code puts a token of its own before every paragraph and sentence; here their first
    tokens are read.
    """

    def __init__(self, config: VccRobertaConfig) -> None:
        super().__init__(config)
        self.para_classifier = _classifier(config.hidden_size, 2)
        self.sent_classifier = _classifier(config.hidden_size, 2)
        self.cls_classifier = _classifier(config.hidden_size, 3)
        self.ans_classifier = _classifier(config.hidden_size, 2)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        *,
        vip_mask: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        answer_types: Tensor | None = None,
        sentence_labels: Tensor | None = None,
        paragraph_labels: Tensor | None = None,
        **kwargs: Any,
    ) -> HotpotQAOutput:
        """Answer questions; every target is -100 where it does not count.

        Args:
            input_ids: `(batch, length)` int64.
            attention_mask: `(batch, length)`, 0 at padding.
            vip_mask: `(batch, length)`, not 0 at the question.
            start_positions: `(batch,)` int64, the first token of the answer.
            end_positions: `(batch,)` int64, its last token.
            answer_types: `(batch,)` int64: 0 for no, 1 for yes, 2 for a span of the text.
            sentence_labels: `(batch, length)` int64, 0 or 1 at the first token of each sentence.
            paragraph_labels: `(batch, length)` int64, 0 or 1 at the first token of each paragraph.
            kwargs: Other arguments of `VccRobertaModel.forward`.

        Returns:
            With all targets also the `loss`: the mean of the two of the span, plus those of type,
            sentences and paragraphs.
        """
        reject_unsupported(self.config, kwargs)
        encoded = self.roberta(
            input_ids, attention_mask, vip_mask=vip_mask, return_dict=True, **kwargs
        )
        hidden_states = encoded.last_hidden_state
        spans = self.ans_classifier(hidden_states)
        if attention_mask is not None:
            lowest = torch.finfo(spans.dtype).min
            spans = spans.masked_fill(attention_mask[..., None] == 0, lowest)
        start, end = spans.unbind(-1)
        types = self.cls_classifier(first_tokens(hidden_states)[:, 0])
        sentences = self.sent_classifier(hidden_states)
        paragraphs = self.para_classifier(hidden_states)
        loss = None
        if answer_types is not None:
            loss = (_loss(start, start_positions) + _loss(end, end_positions)) / 2
            loss = loss + _loss(types, answer_types)
            loss = loss + _loss(sentences, sentence_labels) + _loss(paragraphs, paragraph_labels)
        return HotpotQAOutput(
            loss=loss,
            start_logits=start,
            end_logits=end,
            hidden_states=encoded.hidden_states,
            answer_type_logits=types,
            sentence_logits=sentences,
            paragraph_logits=paragraphs,
        )


class AutoModelForHotpotQA(_BaseAutoModelClass):  # type: ignore[misc] # transformers leaves it untyped
    """The model that answers the questions of HotpotQA, by the type of its configuration."""

    _model_mapping: Any = _LazyAutoMapping(OrderedDict(), OrderedDict())


def _classifier(width: int, num_classes: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, num_classes))


def _loss(logits: Tensor, labels: Any) -> Tensor:
    """Average the cross-entropy where labels count; 0 if none does."""
    total = F.cross_entropy(
        widened(logits).flatten(0, -2), labels.flatten().long(), reduction="sum"
    )
    mean: Tensor = total / (labels != IGNORE_INDEX).sum().clamp(min=1)
    return mean
