"""Questions to a document: the passages that answer, and an answer in a checkpoint's words."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Self

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from foveate.documents import Document, Paragraph, as_document
from foveate.inference.encoder import Encoder
from foveate.models.device import device_named, dtype_named
from foveate.models.loading import load_config, load_model, load_tokenizer
from foveate.models.vcc import VccT5ForConditionalGeneration
from foveate.preprocessing.text import located_text
from foveate.preprocessing.vcc import prompted
from foveate.progress import progress
from foveate.tasks.search import search

LONGEST_ANSWER = 128
"""Tokens of an answer, where the checkpoint does not say."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A paragraph that bears on a question.

    Attributes:
        text: its sentences.
        start: offset in `Document.text` of its first character.
        end: offset just behind its last.
        path: titles from the outermost section to its own.
        speaker: who says it, where the document tells.
        score: of an encoder, that of its best sentence by `foveate.tasks.relevance.relevance`; of a
            model that answers, the highest share of the question's attention that one of its blocks
            got, averaged over the compressed layers.
    """

    text: str
    start: int
    end: int
    path: tuple[str, ...]
    speaker: str | None
    score: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What a document says to a question.

    Attributes:
        text: the answer, None where no model was asked for one.
        passages: the best first.
    """

    text: str | None
    passages: tuple[Passage, ...]


def ask(
    question: str,
    document: Document,
    *,
    top: int = 3,
    encoder: Encoder | None = None,
    model: "str | PathLike[str] | Reader | None" = None,
) -> Answer:
    """Answer a question from a document.

    Args:
        question: in words of one's own.
        document: what to read, of any length.
        top: number of passages.
        encoder: finds the passages; by default `Encoder.from_pretrained()`. Not used with `model`.
        model: a T5 checkpoint, by name or path or loaded, that reads all of the document and
            answers; the passages are then those that its question looked at most.

    Raises:
        ValueError: an empty question, `top` below 1, or a model that is no T5.

    Example:
        >>> from foveate import Document
        >>> from foveate.tasks.ask import ask
        >>> parts = [("Fish", "Cod swim. They eat herring."), ("Salt", "Salt is white.")]
        >>> answer = ask("What do fish live on?", Document.from_sections("Sea", parts), top=1)
        >>> answer.passages[0].text, answer.passages[0].path
        ('Cod swim. They eat herring.', ('Fish',))
    """
    if not isinstance(question, str):
        raise TypeError(
            f"expected a question and then what to read, got {type(question).__name__} first"
        )
    if not question.strip():
        raise ValueError("the question is empty: say what to look for")
    if top < 1:
        raise ValueError(f"top must be at least 1, got {top}")
    document = as_document(document)
    if model is not None:
        reader = model if isinstance(model, Reader) else Reader.from_pretrained(model)
        text, scores = reader.read(question, document)
        return Answer(text, _best(document, scores, top))
    sentences = sum(1 for _ in document.sentences())
    hits = search(question, document, top=sentences, encoder=encoder)
    of_sentences = {hit.sentence.start: hit.score for hit in hits}
    scores = [
        max(of_sentences[sentence.start] for sentence in paragraph.sentences)
        for paragraph in document.paragraphs()
    ]
    return Answer(None, _best(document, scores, top))


class Reader:
    """A T5 checkpoint that reads whole documents, question first, and answers.

    Args:
        model: in evaluation mode.
        tokenizer: its tokenizer.
    """

    def __init__(
        self, model: VccT5ForConditionalGeneration, tokenizer: PreTrainedTokenizerBase
    ) -> None:
        self.model: Any = model  # transformers declares `generate` on a mixin alone
        self.tokenizer = tokenizer

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | PathLike[str],
        *,
        device: str | torch.device | None = None,
        dtype: str | torch.dtype | None = None,
    ) -> Self:
        """Load a checkpoint of T5 or of VCC.

        Args:
            name_or_path: a folder, or a name on the hub, which then is downloaded.
            device: by default CUDA if there is one, else the CPU.
            dtype: float32, bfloat16 or float16; by default that of the checkpoint.

        Raises:
            OSError: there is no such checkpoint, or it has no safetensors weights.
            ValueError: it is no T5, or another dtype.
        """
        kind = load_config(name_or_path).model_type
        path = str(name_or_path)
        named = "auto" if dtype is None else dtype_named(dtype)
        if kind not in ("t5", "vcc_t5"):
            raise ValueError(
                f"{path} is a {kind} model: name a T5 checkpoint to answer in its own words, "
                "whose encoder can read a whole document"
            )
        model = load_model(VccT5ForConditionalGeneration, path, dtype=named)
        return cls(model.eval().to(device_named(device)), load_tokenizer(path))

    @torch.inference_mode()
    def read(self, question: str, document: Document) -> tuple[str, list[float]]:
        """Answer a question, and say how much it looked at each paragraph."""
        text, spans = located_text(document)
        row, places = prompted(self.tokenizer, f"question: {question} context:", text)
        device = self.model.device
        inputs = {
            name: torch.tensor([row[name]], device=device)
            for name in ("input_ids", "attention_mask", "vip_mask")
        }
        with progress("Reading", 2) as advance:
            encoded = self.model.encoder(**inputs, output_vip_scores=True, return_dict=True)
            advance()
            habits = self.model.generation_config
            known = habits.max_length or habits.max_new_tokens
            [output] = self.model.generate(
                encoder_outputs=encoded,
                attention_mask=inputs["attention_mask"],
                **({} if known else {"max_new_tokens": LONGEST_ANSWER}),
            )
            advance()
        answer = str(self.tokenizer.decode(output, skip_special_tokens=True)).strip()
        looked = torch.zeros(len(places), device=device)
        if encoded.vip_scores:
            looked = torch.stack(encoded.vip_scores).float().mean(0)[0]
        return answer, _by_paragraph(looked.cpu(), places, spans)


def _by_paragraph(
    scores: Tensor, places: Sequence[int], spans: Sequence[tuple[int, int]]
) -> list[float]:
    """Highest score of the tokens of each paragraph, from their places in the text."""
    at, (begins, ends) = torch.tensor(places), torch.tensor(spans).T.contiguous()
    of_token = torch.bucketize(at, begins, right=True) - 1
    there = (of_token >= 0) & (at < ends[of_token])  # else a title, or before the text
    highest = torch.zeros(len(spans))
    highest.scatter_reduce_(0, of_token[there], scores[there], "amax")
    return highest.tolist()


def _best(document: Document, scores: Sequence[float], top: int) -> tuple[Passage, ...]:
    """The paragraphs of highest score; of equals, the first."""
    paths = [path for path, section in document.walk() for _ in section.paragraphs]
    paragraphs = list(document.paragraphs())
    order = sorted(range(len(paragraphs)), key=lambda i: -scores[i])[:top]
    return tuple(_passage(paragraphs[i], paths[i], scores[i]) for i in order)


def _passage(paragraph: Paragraph, path: tuple[str, ...], score: float) -> Passage:
    first, *_, last = (*paragraph.sentences, paragraph.sentences[-1])
    text = " ".join(sentence.text for sentence in paragraph.sentences)
    return Passage(text, first.start, last.end, path, paragraph.speaker, score)
