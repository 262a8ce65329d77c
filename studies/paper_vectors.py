"""One vector for each paper: from a document encoder, or as in SciRepEval's own evaluation.

A paper is a document as `foveate.data.readers.scirepeval.parse_papers` makes it.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from os import PathLike
from typing import Any, Protocol, Self

import torch
from torch import Tensor
from transformers import AutoModel, PreTrainedModel

from foveate.documents import Document
from foveate.inference import Encoder
from foveate.inference.devices import resolve_device, resolve_dtype
from foveate.models.loading import load_config, load_model
from foveate.preprocessing import load_tokenizer
from foveate.progress import progress

PAPERS_AT_ONCE = 64

_TEXTS_PER_BATCH = 16


class PaperEncoder(Protocol):
    """The interface of encoders of papers; the two implementations follow."""

    def encode_papers(self, papers: Sequence[Document]) -> Tensor:
        """Encode papers: `(papers, dimension)`, on the CPU."""
        ...

    def encode_queries(self, queries: Sequence[str]) -> Tensor:
        """Encode queries of a few words: `(queries, dimension)`, on the CPU."""
        ...


class WholePapers:
    """The vectors of whole documents, read as trees or by their sentences.

    Args:
        encoder: An encoder of HDT-E, TreeBert, BERT …, pretrained or contrastive.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder

    def encode_papers(self, papers: Sequence[Document]) -> Tensor:
        """Take the vector of each document; for HDT, this is its first token [DOC] (HDT, 4.2)."""
        if not papers:
            return torch.empty(0, self.encoder.dimension)
        encoded = self.encoder.encode(list(papers), show_progress=False)
        return torch.stack([vectors.document for vectors in encoded])

    def encode_queries(self, queries: Sequence[str]) -> Tensor:
        """Encode queries; HDT reads them as documents of one sentence, as its evaluation does."""
        if self.encoder.model.config.model_type == "hdt":
            return self.encode_papers([Document.from_text(query) for query in queries])
        return self.encoder.encode_queries(list(queries))


class FirstTokens:
    """The vectors of first tokens, as SciRepEval takes them from SciBERT, SciNCL and others.

    The input is the title, a separator, the abstract and, if there is one, the full text, cut where
    the model's positions end.

    Args:
        model: The model, in evaluation mode.
        tokenizer: Its tokenizer.
    """

    def __init__(self, model: PreTrainedModel, tokenizer: Any) -> None:
        self.model = model
        self.tokenizer = tokenizer
        positions = getattr(model.config, "max_position_embeddings", tokenizer.model_max_length)
        # Position ids of RoBERTa and models like it begin after that of padding.
        padding_idx = getattr(getattr(model, "embeddings", None), "padding_idx", None)
        unused = 0 if padding_idx is None else padding_idx + 1
        self.max_length = min(positions - unused, tokenizer.model_max_length)

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | PathLike[str],
        *,
        device: str | None = None,
        dtype: torch.dtype | str | None = None,
    ) -> Self:
        """Load a checkpoint of BERT or a model like it.

        Args:
            name_or_path: A folder, or a name on the hub, which is then downloaded.
            device: By default CUDA if available, else the CPU.
            dtype: The dtype of the model, by default float32.

        Raises:
            OSError: There is no such checkpoint, or it has no safetensors weights.
            ValueError: The checkpoint is of a model that reads trees or generates text.
        """
        check_gives_vectors(name_or_path)
        if (kind := load_config(name_or_path).model_type) in ("hdt", "tree_bert"):
            raise ValueError(
                f"{name_or_path} is a {kind} model, which reads documents as trees: evaluate it as "
                "an Encoder, without --flat"
            )
        model = load_model(AutoModel, name_or_path, dtype=resolve_dtype(dtype or torch.float32))
        return cls(model.eval().to(resolve_device(device)), load_tokenizer(str(name_or_path)))

    def encode_papers(self, papers: Sequence[Document]) -> Tensor:
        """Encode papers as texts."""
        separator = f" {self.tokenizer.sep_token} "
        # Of some papers, the title is all that is known; it is not repeated.
        parts = [dict.fromkeys(filter(None, (paper.title, _body(paper)))) for paper in papers]
        return self.encode_queries([separator.join(part) for part in parts])

    @torch.inference_mode()
    def encode_queries(self, queries: Sequence[str]) -> Tensor:
        """Encode texts."""
        vectors = torch.empty(len(queries), self.model.config.hidden_size)
        by_length = sorted(range(len(queries)), key=lambda i: len(queries[i]))
        for start in range(0, len(queries), _TEXTS_PER_BATCH):
            chosen = by_length[start : start + _TEXTS_PER_BATCH]
            inputs = self.tokenizer(
                [queries[i] for i in chosen],
                padding=True,
                truncation=True,
                max_length=self.max_length,
                return_token_type_ids=False,
                return_tensors="pt",
            ).to(self.model.device)
            vectors[chosen] = self.model(**inputs).last_hidden_state[:, 0].float().cpu()
        return vectors


def check_gives_vectors(name_or_path: str | PathLike[str]) -> None:
    """Check that a checkpoint is of an encoder, with or without a head.

    Raises:
        OSError: There is no such checkpoint.
        ValueError: The checkpoint is of a generative model, or of one that reads with a question.
    """
    config = load_config(name_or_path)
    if config.model_type.startswith("vcc"):
        raise ValueError(
            f"{name_or_path} is a {config.model_type} model, which reads with a question and gives "
            "no vectors to compare: evaluate it with the recipe that it was trained with"
        )
    if config.is_encoder_decoder:
        raise ValueError(
            f"{name_or_path} is a {config.model_type} model, which writes text and gives no "
            "vectors to compare: evaluate it with the recipe that it was trained with"
        )


def encode_papers(
    encoder: PaperEncoder,
    papers: Iterable[tuple[str, Document]],
    *,
    queries: Collection[str] = (),
    total: int | None = None,
) -> dict[str, Tensor]:
    """Encode papers, with only a few in memory at a time.

    Args:
        encoder: The encoder.
        papers: Identifiers and papers.
        queries: The identifiers of those that are queries of a few words instead of papers.
        total: The number of papers, for a progress bar; None if it is not known.

    Returns:
        The vector `(dimension,)` of each, float32 on the CPU.
    """
    vectors: dict[str, Tensor] = {}
    remaining = iter(papers)
    with progress("Encoding", total) as advance:
        while batch := dict(islice(remaining, PAPERS_AT_ONCE)):
            texts = {name: batch.pop(name).text for name in batch.keys() & set(queries)}
            vectors |= zip(texts, encoder.encode_queries(list(texts.values())), strict=True)
            vectors |= zip(batch, encoder.encode_papers(list(batch.values())), strict=True)
            advance(len(texts) + len(batch))
    return vectors


def _body(paper: Document) -> str:
    """Return the text below the title: sections and their headings, on one line."""
    texts = []
    for i, (_, section) in enumerate(paper.walk()):
        if section.title and i > 0:  # the first is the abstract
            texts.append(section.title)
        texts += [sentence.text for part in section.paragraphs for sentence in part.sentences]
    return " ".join(texts)
