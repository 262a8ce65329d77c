"""Inputs of models that read plain text: T5, BART, PEGASUS-X, LongT5, Fovea, BERT and others."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from foveate.documents import Document

from .collate import Features
from .processor import DocumentProcessor, join_prompt


class TextProcessor(DocumentProcessor):
    """Read a document as plain text, after the task's prefix and the query.

    The text is `{prefix}{query}`, a line break, and the document's titles and paragraphs, one on
    each line.

    Args:
        tokenizer: Any Hugging Face tokenizer.
        max_length: Longest input in tokens, None for no limit.
        prefix: Text that names the task, such as T5's "summarize: ".

    Raises:
        ValueError: `max_length` is below 1.

    Example:
        >>> from foveate import Document
        >>> from foveate.inference import default_model_path
        >>> from foveate.preprocessing import TextProcessor, load_tokenizer
        >>> tokenizer = load_tokenizer(default_model_path())
        >>> processor = TextProcessor(tokenizer)
        >>> batch = processor(Document.from_text("Cod swim."), query="Which fish?")
        >>> tokenizer.decode(batch["input_ids"][0])
        '[CLS] which fish? cod swim. [SEP]'
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, max_length: int | None = None, prefix: str = ""
    ) -> None:
        self.prefix = prefix
        super().__init__(tokenizer, max_length)

    def text(self, document: Document, query: str = "", choices: Sequence[str] = ()) -> str:
        """Write out what the model reads; `offset_mapping` points into it."""
        return self.prompt(query, choices) + plain_text(document)

    def prompt(self, query: str, choices: Sequence[str]) -> str:
        """Write out what comes before the document."""
        prompt = join_prompt(query, choices)
        return self.prefix + (f"{prompt}\n" if prompt else "")

    def prompted_features(self, document: Document, query: str, choices: Sequence[str]) -> Features:
        """Tokenize the prompt and a document of any length."""
        return self._features(document, self.prompt(query, choices))

    def document_features(self, document: Document) -> Features:
        """Tokenize a document without prefix or query."""
        return self.truncate(self._features(document, ""))

    def _features(self, document: Document, prompt: str) -> Features:
        text, sentences = text_and_sentences(document)
        # verbose=False: the processor truncates long inputs and warns of them itself.
        tokens = self.tokenizer(
            prompt + text,
            return_offsets_mapping=self.tokenizer.is_fast,
            return_special_tokens_mask=True,
            verbose=False,
        )
        features = {
            name: torch.tensor(tokens[name])
            for name in ("input_ids", "attention_mask", "special_tokens_mask")
        }
        if self.tokenizer.is_fast:
            offsets = torch.tensor(tokens["offset_mapping"]).view(-1, 2)
            features["offset_mapping"] = offsets
            features["sentence_ids"] = sentence_ids(offsets, sentences + len(prompt))
        return features


def plain_text(document: Document) -> str:
    """Join the titles and paragraphs of a document, one on each line."""
    return text_and_sentences(document)[0]


def text_and_sentences(document: Document) -> tuple[str, Tensor]:
    """Join titles and paragraphs, one on each line, and locate the sentences in that text.

    Returns:
        The text, and `(sentences, 2)` int64: start and end, exclusive, of the characters of each of
        `Document.sentences`.
    """
    lines: list[str] = []
    spans: list[tuple[int, int]] = []
    start = 0
    for title, sentences in _lines(document):
        for sentence in sentences:
            spans.append((start, start + len(sentence)))
            start += len(sentence) + 1  # a space or, after the last, the line break
        if title:
            start += len(title) + 1
        if line := title or " ".join(sentences):
            lines.append(line)
    return "\n".join(lines), torch.tensor(spans)


def sentence_ids(offsets: Tensor, sentences: Tensor) -> Tensor:
    """Find the sentence of each token.

    Args:
        offsets: `(tokens, 2)` int64, start and end of each token's characters; the two are equal
            for special tokens.
        sentences: `(sentences, 2)` int64, start and end of each sentence's characters, sorted and
            non-overlapping.

    Returns:
        `(tokens,)` int64, -1 for tokens of titles, prompts and special tokens.
    """
    last = offsets[:, 1] - 1  # a token may begin with the space before its word
    starts, ends = sentences.T.contiguous()
    sentence_idx = torch.bucketize(last, starts, right=True) - 1
    inside = (sentence_idx >= 0) & (last < ends[sentence_idx]) & (offsets[:, 1] > offsets[:, 0])
    return torch.where(inside, sentence_idx, -1)


def _lines(document: Document) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Iterate over lines: a title, which may be empty, or the sentences of a paragraph."""
    yield document.title, ()
    for _, section in document.walk():
        yield section.title, ()
        for paragraph in section.paragraphs:
            yield "", tuple(sentence.text for sentence in paragraph.sentences)
