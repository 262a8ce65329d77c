"""Inputs of TreeBert, and of BERT and its relatives when they read documents as trees."""

from typing import ClassVar, Literal

from transformers import PreTrainedTokenizerBase

from .hdt import HDTProcessor
from .tree import closing_ids


class TreeBertProcessor(HDTProcessor):
    """Turn documents into token ids, the parent of each, and which of them are anchors.

    Trees are those of `HDTProcessor` with two differences: they have a level for every level of
    nesting, and sentences are enclosed as in BERT's training, with an anchor in place of [CLS] and
    [SEP] at the end of each sentence.

    Args:
        tokenizer: Any tokenizer that puts one token before a sentence.
        max_length: Longest input in nodes, None for no limit.
        levels: Depth of the tree, None for one level per level of nesting (see `outline`).
        max_sentence_tokens: Longer sentences are split into several, None for no limit.
        query_as: See `HDTProcessor`.

    Raises:
        ValueError: The tokenizer has no CLS token or does not put exactly one token before a
            sentence, or see `HDTProcessor`.

    Example:
        >>> from foveate import Document
        >>> from foveate.inference import default_model_path
        >>> from foveate.preprocessing import TreeBertProcessor, load_tokenizer
        >>> processor = TreeBertProcessor(load_tokenizer(default_model_path()))
        >>> batch = processor(Document.from_sections("", [("", "Cod swim.")]))
        >>> batch["parent_ids"][0].tolist(), batch["node_types"][0].tolist()
        ([-1, 0, 1, 2, 2, 2, 2], [3, 2, 1, 0, 0, 0, 0])
    """

    columns: ClassVar[tuple[str, ...]] = (*HDTProcessor.columns, "node_types")

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        max_length: int | None = None,
        levels: int | None = None,
        max_sentence_tokens: int | None = 254,
        query_as: Literal["section", "global"] = "section",
    ) -> None:
        if tokenizer.cls_token is None:
            raise ValueError(
                "the tokenizer names no CLS token, which the anchors are: name it in its "
                "tokenizer_config.json"
            )
        super().__init__(
            tokenizer,
            max_length,
            levels,
            max_sentence_tokens,
            query_as,
            *[str(tokenizer.cls_token)] * 3,
        )
        bare, enclosed = (tokenizer("a", add_special_tokens=x)["input_ids"] for x in (False, True))
        self.closing_ids = closing_ids(bare, enclosed)
