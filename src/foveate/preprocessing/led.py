"""Inputs of models with global tokens, LED and Longformer: keywords first, as global tokens."""

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any, ClassVar

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from foveate.detectors import Detector
from foveate.documents import Document

from .collate import Features
from .detector import build_detector
from .text import TextProcessor


class LEDProcessor(TextProcessor):
    """Prepend a document's keywords to its text, and make them global tokens (EGAD, section 2).

    The text is `keyword keyword … query`, a line break, and the document. Global tokens attend to
    every token, and every token attends to them: the first token, which stands for the task, and
    the tokens of the keywords. Without keywords that is LED's usual input.

    Args:
        tokenizer: A fast tokenizer that adds a special token before the text and one after it, as
            LED's and Longformer's do.
        max_length: Longest input in tokens, None for no limit.
        prefix: Text that names the task.
        num_keywords: Number of keywords; 10 to 100 in the paper, 0 for none.
        detector: Keyword detector: a name such as "tfidf"; a mapping with the name and options,
            such as `{"name": "given", "keywords": ["cod"]}`, see
            `foveate.preprocessing.detector.build_detector`; or a function, which is not saved with
            the processor.
        language: ISO 639 code of the documents' language, for a detector given by name.

    Raises:
        ValueError: The tokenizer is not fast or does not add these tokens, `num_keywords` is
            negative or less than the number of given keywords, `max_length` is below 1, there is
            no such detector or language, or the detector rejects an option.
        TypeError: `detector` is neither a name, a mapping nor callable.
        ImportError: The detector needs an extra that is not installed.
        OSError: The encoder that the detector names does not exist.

    Example:
        >>> from foveate import Document
        >>> from foveate.inference import default_model_path
        >>> from foveate.preprocessing import LEDProcessor, load_tokenizer
        >>> tokenizer = load_tokenizer(default_model_path())
        >>> processor = LEDProcessor(tokenizer, num_keywords=1)
        >>> batch = processor(Document.from_text("Cod swim. A cod eats."))
        >>> tokenizer.decode(batch["input_ids"][0])
        '[CLS] cod cod swim. a cod eats. [SEP]'
        >>> batch["global_attention_mask"][0].tolist()
        [1, 1, 0, 0, 0, 0, 0, 0, 0, 0]
    """

    columns: ClassVar[tuple[str, ...]] = ("input_ids", "attention_mask", "global_attention_mask")

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        max_length: int | None = None,
        prefix: str = "",
        num_keywords: int = 0,
        detector: str | Mapping[str, Any] | Detector = "tfidf",
        language: str = "en",
    ) -> None:
        if not tokenizer.is_fast:
            raise ValueError(
                "the tokenizer does not say which characters its tokens stand for, so keywords "
                "cannot be found among them: load a fast tokenizer"
            )
        special = tokenizer("a", return_special_tokens_mask=True)["special_tokens_mask"]
        if not (special[0] and special[-1]):
            raise ValueError(
                "the tokenizer does not put special tokens before and after the text: use one "
                "that does, such as LED's, Longformer's or BERT's"
            )
        if num_keywords < 0:
            raise ValueError(f"num_keywords must be at least 0, got {num_keywords}")
        self.num_keywords = num_keywords
        self.detector = detector
        self.language = language
        if isinstance(detector, str | Mapping):
            self._detect = build_detector(detector, language=language)
            if num_keywords:  # so that bad options are found before training
                self._detect(Document.from_text("Cod swim."), num_keywords)
        else:
            self._detect = detector
        super().__init__(tokenizer, max_length, prefix)

    def keywords(self, document: Document) -> list[str]:
        """Find the keywords that are prepended to a document."""
        if not self.num_keywords:
            return []
        return [keyword.text for keyword in self._detect(document, self.num_keywords)]

    def text(self, document: Document, query: str = "", choices: Sequence[str] = ()) -> str:
        """Write out what the model reads; `offset_mapping` points into it."""
        keywords = " ".join(self.keywords(document))
        text = super().text(document, query, choices)
        return f"{keywords} {text}" if keywords else text

    def prompted_features(self, document: Document, query: str, choices: Sequence[str]) -> Features:
        """Tokenize keywords, prefix, query and a document of any length."""
        keywords = " ".join(self.keywords(document))
        prompt = self.prompt(query, choices)
        features = self._features(document, f"{keywords} {prompt}" if keywords else prompt)
        offsets = features["offset_mapping"]
        is_keyword = (features["special_tokens_mask"] == 0) & (offsets[:, 1] <= len(keywords))
        features["global_attention_mask"] = is_keyword.long()
        features["global_attention_mask"][0] = 1
        self._check_room(int(features["global_attention_mask"].sum()))
        return features

    def document_features(self, document: Document) -> Features:
        """Tokenize a document alone; only the first token is global."""
        features = self._features(document, "")
        features["global_attention_mask"] = torch.zeros_like(features["input_ids"])
        features["global_attention_mask"][0] = 1
        return self.truncate(features)

    def to_dict(self) -> dict[str, Any]:
        """Return the options to save; a detector that is a function is omitted."""
        saved: dict[str, Any] = super().to_dict()
        if not isinstance(self.detector, str | Mapping):
            saved.pop("detector", None)
        return saved

    def _check_room(self, num_global_tokens: int) -> None:
        if self.max_length is not None and num_global_tokens + 1 >= self.max_length:
            raise ValueError(
                f"the keywords fill all {self.max_length:,} tokens of the input and leave no room "
                "for the text: ask for fewer keywords or a greater max_length"
            )


def has_global_tokens(model: PreTrainedModel) -> bool:
    """Return whether a model takes a `global_attention_mask`, as LED and Longformer do."""
    encoder = model.get_encoder() if model.config.is_encoder_decoder else model
    return "global_attention_mask" in signature(encoder.forward).parameters
