"""The base class of the processors of all model families."""

import warnings
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, ClassVar

import torch
from torch import Tensor
from transformers import BatchEncoding, PreTrainedConfig, PreTrainedTokenizerBase
from transformers.processing_utils import ProcessorMixin

from foveate.checkpoints import load_checkpoint_json
from foveate.documents import Document, as_documents

from .collate import Features, pad_features

OWN_MODEL_TYPES = ("fovea", "hdt", "tree_bert", "vcc_bert", "vcc_roberta", "vcc_t5")
"""The types of `foveate.models`, which transformers knows only once that package is imported."""


def tokenizer_options(name_or_path: str | PathLike[str]) -> dict[str, Any]:
    """Return the arguments by which transformers loads a tokenizer.

    It looks for the tokenizer's class in the configuration of the model too, and warns of model
    types that it does not know. Those of foveate say nothing about it, so any configuration does.
    """
    config = load_checkpoint_json(name_or_path, "config.json") or {}
    return {"config": PreTrainedConfig()} if config.get("model_type") in OWN_MODEL_TYPES else {}


class DocumentProcessor(ProcessorMixin):
    """Turn documents, with a query and targets, into the inputs of one model family.

    Subclasses define `prompted_features` and `document_features`, and name in `columns` what their
    models take. A processor is saved and loaded like a tokenizer, which is saved with it.

    Args:
        tokenizer: Any Hugging Face tokenizer.
        max_length: Longest input in tokens; longer documents are truncated. None for no limit.

    Raises:
        ValueError: `max_length` is below 1.
    """

    columns: ClassVar[tuple[str, ...]] = ("input_ids", "attention_mask")
    """The features that models of this family take."""

    tokenizer: PreTrainedTokenizerBase

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, max_length: int | None = None, **kwargs: Any
    ) -> None:
        if max_length is not None and max_length < 1:
            raise ValueError(f"max_length must be at least 1 or None, got {max_length}")
        self.max_length = max_length
        super().__init__(tokenizer, **kwargs)  # type: ignore[no-untyped-call] # transformers leaves it untyped

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | PathLike[str], *args: Any, **kwargs: Any
    ) -> Any:
        """Load a processor and its tokenizer, see `ProcessorMixin.from_pretrained`."""
        options = tokenizer_options(pretrained_model_name_or_path)
        return super().from_pretrained(pretrained_model_name_or_path, *args, **options | kwargs)

    @property
    def model_input_names(self) -> list[str]:
        """Names of the model's inputs."""
        return list(self.columns)

    def prompted_features(self, document: Document, query: str, choices: Sequence[str]) -> Features:
        """Tokenize a document with its prompt, without truncation; see `features`."""
        raise NotImplementedError

    def document_features(self, document: Document) -> Features:
        """Tokenize a document alone, without a prompt, as pretraining objectives read it.

        Returns:
            The columns of `features`, truncated to `max_length`.
        """
        raise NotImplementedError

    def features(
        self,
        document: Document,
        *,
        query: str | None = None,
        choices: Sequence[str] = (),
        target: str | None = None,
        max_target_length: int | None = None,
    ) -> Features:
        """Tokenize one example, truncated to `max_length`.

        Args:
            document: The document to read.
            query: A question about it, or the topic of a summary. None or an empty string for the
                family's own prompt, such as "summarize:".
            choices: Answers to choose from.
            target: The text that the model learns to write.
            max_target_length: Longest target in tokens, None for no limit.

        Returns:
            int64 columns `(tokens,)`: those that the model takes, `special_tokens_mask`,
            `sentence_ids` (which of `Document.sentences` each token belongs to, -1 for none) and,
            except for trees, `offset_mapping` `(tokens, 2)`, the characters of the processor's
            `text` that each token stands for. A tokenizer that is not fast gives neither of the
            last two. With a target also `labels`.

        Warns:
            UserWarning: A document longer than `max_length`, or a target longer than
                `max_target_length`, is truncated. Python shows it once, however many examples a
                training has.

        Raises:
            TypeError: `choices` is a single string.
            ValueError: Global tokens (LED) or VIP tokens (VCC) leave no room for the document.
        """
        untruncated = self.prompted_features(document, query or "", choices)
        warn_of_truncation("document", len(untruncated["input_ids"]), self.max_length)
        features = self.truncate(untruncated)
        if target is not None:
            labels = self.labels(target)
            warn_of_truncation("target", len(labels), max_target_length)
            features["labels"] = self.end_labels(labels, max_target_length)
        return features

    def __call__(
        self,
        documents: Document | Sequence[Document],
        *,
        query: str | Sequence[str] | None = None,
    ) -> BatchEncoding:
        """Encode one document or several as a batch, ready for `model(**batch)`.

        Args:
            documents: One document or a sequence.
            query: One query for all documents, or one for each.

        Returns:
            int64 tensors `(documents, longest)` of the model's inputs.

        Warns:
            UserWarning: Documents longer than `max_length` are truncated.

        Raises:
            ValueError: There are no documents, the numbers of documents and queries differ, or the
                prompt leaves no room for the document.
        """
        documents = as_documents(documents)
        queries = [query] * len(documents) if query is None or isinstance(query, str) else query
        if len(queries) != len(documents):
            raise ValueError(
                f"the numbers of documents and queries differ: {len(documents)} and {len(queries)}"
            )
        examples = zip(documents, queries, strict=True)
        features = (self.features(document, query=its_query) for document, its_query in examples)
        return self.pad([*map(self.model_inputs, features)])

    def pad(self, features: Sequence[Mapping[str, Any]]) -> BatchEncoding:
        """Pad examples, with all of their columns, into a batch: a `Trainer`'s `data_collator`."""
        return BatchEncoding(pad_features(features, self.tokenizer.pad_token_id or 0))

    def model_inputs(self, features: Features) -> Features:
        """Keep the columns that the model takes."""
        return {name: features[name] for name in self.columns if name in features}

    def truncate(self, features: Features) -> Features:
        """Drop the tokens beyond `max_length`, but keep a special token at the end."""
        limit = self.max_length
        if limit is None or len(features["input_ids"]) <= limit:
            return features
        if not features["special_tokens_mask"][-1]:
            return {name: column[:limit] for name, column in features.items()}
        return {name: torch.cat([x[: limit - 1], x[-1:]]) for name, x in features.items()}

    def labels(self, target: str, max_length: int | None = None) -> Tensor:
        """Tokenize a target, int64 `(tokens,)`; the last token is `end_token_id`."""
        ids = self.tokenizer(text_target=target, verbose=False)["input_ids"]
        return self.end_labels(torch.tensor(ids, dtype=torch.long), max_length)

    def end_labels(self, labels: Tensor, max_length: int | None = None) -> Tensor:
        """Truncate labels `(tokens,)`, and append `end_token_id` unless they end with it."""
        labels = labels[:max_length]
        if len(labels) and labels[-1] == self.end_token_id:
            return labels
        if max_length is not None:
            labels = labels[: max_length - 1]
        return torch.cat([labels, labels.new_tensor([self.end_token_id])])

    @property
    def end_token_id(self) -> int:
        """Token that ends a target: `</s>` or, in BERT's vocabulary, `[SEP]`.

        Raises:
            ValueError: The tokenizer has neither.
        """
        for token_id in (self.tokenizer.eos_token_id, self.tokenizer.sep_token_id):
            if token_id is not None:
                return int(token_id)
        raise ValueError("the tokenizer has no token to end a target with: add an eos_token")


def warn_of_truncation(what: str, num_tokens: int, limit: int | None) -> None:
    """Warn that a text is truncated, in the same words for every text.

    Args:
        what: The kind of text: "document" or "target".
        num_tokens: Its number of tokens.
        limit: Longest text in tokens, None for no limit.
    """
    if limit is not None and num_tokens > limit:
        message = f"a {what} has more than {limit:,} tokens: only the first {limit:,} are used"
        warnings.warn(message, stacklevel=3)


def join_prompt(query: str, choices: Sequence[str]) -> str:
    """Join a query and the answers to choose from into one line.

    Raises:
        TypeError: `choices` is a single string.
    """
    if isinstance(choices, str):  # whose characters would be mistaken for choices
        raise TypeError(f"a document's choices must be a list of strings, got {choices!r}")
    return " ".join(part for part in (query, "; ".join(choices)) if part)
