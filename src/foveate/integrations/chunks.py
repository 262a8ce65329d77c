"""Contextual vectors of given chunks: each is read together with the others of its document."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from foveate.documents import Document, DocumentError
from foveate.documents.blocks import collapse
from foveate.documents.decoding import check_characters
from foveate.documents.language import detect_language
from foveate.inference import Encoder


def encode_chunks(
    encoder: Encoder,
    documents: Sequence[Sequence[str]],
    headings: Sequence[Sequence[str]] | None = None,
) -> list[Tensor]:
    """Encode the chunks of documents, each as a part of its document.

    foveate's own encoder reads consecutive chunks in one passage, as far as they fit and no heading
    comes between them, so the vector of each depends on its neighbours. Other encoders see every
    sentence by itself. The vector of a chunk is the mean direction of those of its sentences, with
    their mean length. A blank chunk is encoded as an empty text.

    Args:
        encoder: The encoder.
        documents: The chunks of each document, in order.
        headings: The heading above each chunk, empty if it has none; by default none has.

    Returns:
        For each document, `(chunks, dimension)` float32.

    Raises:
        DocumentError: A chunk has characters that are not text, such as U+0000.
        TypeError: A document is a string instead of a list of chunks.

    Example:
        >>> from foveate import Encoder
        >>> encoder = Encoder.from_pretrained()
        >>> [fish] = encode_chunks(encoder, [["Cod swim. They eat.", "They are sold in June."]])
        >>> fish.shape
        torch.Size([2, 384])
        >>> [boats] = encode_chunks(encoder, [["Boats are old.", "They are sold in June."]])
        >>> bool((fish[1] == boats[1]).all())
        False
    """
    if isinstance(documents, str) or any(isinstance(chunks, str) for chunks in documents):
        raise TypeError("expected a list of chunks for each document, got a string")
    for number, chunks in enumerate(documents):
        for i, chunk in enumerate(chunks):
            try:
                check_characters(chunk)
            except DocumentError as error:
                raise DocumentError(f"Chunk {i} of document {number} {error}") from error
    if headings is None:
        headings = [[""] * len(chunks) for chunks in documents]
    filled = [[i for i, chunk in enumerate(chunks) if collapse(chunk)] for chunks in documents]
    joined = [
        _join([chunks[i] for i in places], [titles[i] for i in places])
        for chunks, titles, places in zip(documents, headings, filled, strict=True)
        if places
    ]
    encoded = encoder.encode([document for document, _ in joined], show_progress=False)
    sentences = (
        its.sentences.split(sizes) for its, (_, sizes) in zip(encoded, joined, strict=True)
    )
    results = []
    for chunks, places in zip(documents, filled, strict=True):
        vectors = encoder.encode_texts("").repeat(len(chunks), 1)
        if places:
            vectors[places] = torch.stack([*map(_mean, next(sentences))])
        results.append(vectors)
    return results


def _join(chunks: Sequence[str], headings: Sequence[str]) -> tuple[Document, list[int]]:
    """Make a document of chunks, in which a heading begins a section.

    Returns:
        The document, and the number of sentences of each chunk.
    """
    language = detect_language("\n".join(chunks))
    sections: list[tuple[str, list[str]]] = []
    sizes = []
    for chunk, heading in zip(chunks, headings, strict=True):
        alone = Document.from_sections("", [("", chunk)], language=language)
        sentences = [sentence.text for sentence in alone.sentences()]
        sizes.append(len(sentences))
        if heading or not sections:
            sections.append((heading, []))
        sections[-1][1].extend(sentences)
    return Document.from_sections("", sections, language=language), sizes


def _mean(vectors: Tensor) -> Tensor:
    mean: Tensor = F.normalize(vectors.mean(0), dim=0) * vectors.norm(dim=1).mean()
    return mean
