"""The documents of `classification.py`: in true order, and shuffled by sections or sentences."""

import argparse
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from document_nodes import SECTION, SENTENCE, TOKEN, Nodes, pseudo_sections
from foveate import Document
from foveate.data import Corpus
from foveate.preprocessing import HDTProcessor
from foveate.training.tokenizer import train_tokenizer
from small_encoders import nodes_of, write_documents

CORPORA = ("papers", "peps", "proposals")
VOCABULARY, TOKENIZED = 16384, 2000
LEAST_SECTIONS, LEAST_TOKENS, MOST_TOKENS = 5, 1024, 4096
HELD_OUT = 5  # every fifth document
DEVELOPMENT = 10  # the second of every ten
VERSIONS = ("true", "sections", "sentences")


def prepare(options: argparse.Namespace, folder: Path) -> None:
    """Write the documents that are long enough, in three parts."""
    documents = {
        name: [
            without_headings(example.document)
            for example in islice(Corpus(options.corpus / f"{name}.jsonl"), options.limit)
        ]
        for name in CORPORA
    }
    everything = [document for its in documents.values() for document in its]
    order = np.random.default_rng(0).permutation(len(everything))[:TOKENIZED]
    processor = HDTProcessor(train_tokenizer((everything[i] for i in order), VOCABULARY))
    parts: dict[str, list[Nodes]] = {"training": [], "development": [], "held_out": []}
    sources = []
    for name, its in documents.items():
        tokenized = (nodes_of(document, processor) for document in its)
        kept = (first_sections(nodes, MOST_TOKENS) for nodes in tokenized)
        for number, nodes in enumerate(nodes for nodes in kept if is_suitable(nodes)):
            if number % HELD_OUT == 0:
                parts["held_out"].append(nodes)
                sources.append(CORPORA.index(name))
            else:
                is_development = number % DEVELOPMENT == 1
                parts["development" if is_development else "training"].append(nodes)
    write_documents(folder / "classification.xz", processor, parts, sources=np.array(sources))


def without_headings(document: Document) -> Document:
    """Return a document's sections one after the other, without title and headings."""
    sections = [
        ("", [sentence.text for part in section.paragraphs for sentence in part.sentences])
        for _, section in document.walk()
    ]
    return Document.from_sections("", [its for its in sections if its[1]], language="en")


def first_sections(nodes: Nodes, most_tokens: int) -> Nodes:
    """Return the sections that end within a number of tokens: a cut one would show its place."""
    ids, types = nodes
    starts = np.append(np.flatnonzero(types == SECTION), len(types))
    tokens_before = np.append(0, np.cumsum(types == TOKEN))[starts]
    end = starts[np.searchsorted(tokens_before, most_tokens, side="right") - 1]
    return ids[:end], types[:end]


def first_tokens(nodes: Nodes, number: int) -> Nodes:
    """Return a document to its `number`-th token."""
    ids, types = nodes
    tokens = np.flatnonzero(types == TOKEN)
    end = tokens[min(number, len(tokens)) - 1] + 1
    return ids[:end], types[:end]


def is_suitable(nodes: Nodes) -> bool:
    """Whether a document has enough tokens and sections."""
    _, types = nodes
    counts = (types == TOKEN).sum(), (types == SECTION).sum()
    return bool(counts[0] >= LEAST_TOKENS and counts[1] >= LEAST_SECTIONS)


def version(nodes: Nodes, name: str, rng: np.random.Generator) -> Nodes:
    """Return a version of a document."""
    ids, types = nodes
    section, sentence = np.cumsum(types == SECTION), np.cumsum(types == SENTENCE)
    if name == "sections":  # 0 is the document's anchor
        rank = np.arange(section[-1] + 1)
        while (rank[2:] == np.arange(2, len(rank))).all():
            rank[2:] = 2 + rng.permutation(len(rank) - 2)
        order = np.argsort(rank[section], kind="stable")
    elif name == "sentences":
        draw = np.where(types >= SECTION, -1.0, rng.random(sentence[-1] + 1)[sentence])
        order = np.lexsort((np.arange(len(ids)), draw, section))
    else:
        return nodes
    return ids[order], types[order]


def in_pseudo_sections(nodes: Nodes) -> Nodes:
    """Put every 32 sentences in a section."""
    ids, types = nodes
    return pseudo_sections(ids, types, int(ids[types == SECTION][0]))


def all_versions(documents: Sequence[Nodes], rng: np.random.Generator) -> list[Nodes]:
    """Return all versions of the first document, then of the next."""
    return [version(nodes, name, rng) for nodes in documents for name in VERSIONS]


def held_out_versions(documents: Sequence[Nodes], first: int) -> list[Nodes]:
    """Return all versions of held-out documents, the same for every model and seed."""
    return [
        nodes
        for number, document in enumerate(documents, first)
        for nodes in all_versions([document], np.random.default_rng([10**9, number]))
    ]
