"""Documents as nodes, ids and types in reading order, and the pieces they are cut into.

A piece has a number of tokens, and the anchors of the sentences and sections that these are in.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from foveate.data import Corpus
from foveate.preprocessing import HDTProcessor
from foveate.preprocessing.tree import NODE_TYPES
from foveate.training.tokenizer import train_tokenizer

VOCABULARY = 16384
TOKENIZED = 2000  # documents that the tokenizer is trained on
TOKEN, SENTENCE, SECTION, DOCUMENT = (
    NODE_TYPES[name] for name in ("token", "sentence", "section", "document")
)

Nodes = tuple[np.ndarray, np.ndarray]
"""The ids and types of nodes."""


def prepare(corpus: Path, file: Path, limit: int | None) -> None:
    """Tokenize documents, and write the nodes of all: ids and types, in reading order."""
    begun = time.perf_counter()
    # Meetings are there several times; a copy in training of one held out would give it away.
    files = [file for file in corpus.glob("*.jsonl") if not file.stem.endswith(("_flat", "_2"))]
    examples = Corpus(sorted(files))
    order = np.random.default_rng(0).permutation(len(examples))[:limit]
    tokenizer = train_tokenizer([examples[i].document for i in order[:TOKENIZED]], VOCABULARY)
    processor = HDTProcessor(tokenizer)
    ids, types, sizes = [], [], []
    for i in order:
        features = processor.features(examples[i].document)
        ids.append(features["input_ids"].numpy().astype(np.uint16))
        types.append(features["node_types"].numpy().astype(np.int8))
        sizes.append(len(ids[-1]))
    file.parent.mkdir(parents=True, exist_ok=True)
    all_ids, all_types = np.concatenate(ids), np.concatenate(types)
    anchors = [all_ids[all_types == kind][0] for kind in (DOCUMENT, SECTION)]
    np.savez_compressed(
        file,
        ids=all_ids,
        types=all_types,
        sizes=np.array(sizes),
        special=np.array([*anchors, tokenizer.mask_token_id, len(tokenizer)]),
    )
    tokens = sum(int((kinds == TOKEN).sum()) for kinds in types)
    seconds = time.perf_counter() - begun
    print(f"{len(sizes)} documents, {tokens:,} tokens, {seconds:.0f} s: {file}", flush=True)


def latest(types: np.ndarray, kind: int) -> np.ndarray:
    """Position of the latest anchor of a kind, at or before each node."""
    return np.maximum.accumulate(np.where(types == kind, np.arange(len(types)), 0))


def parents(types: np.ndarray) -> np.ndarray:
    above = np.full(len(types), -1)
    for kind in (TOKEN, SENTENCE, SECTION):
        above = np.where(types == kind, latest(types, kind + 1), above)
    return above


def pieces(ids: np.ndarray, types: np.ndarray, length: int) -> Iterator[Nodes]:
    tokens = np.flatnonzero(types == TOKEN)
    anchors_of = [latest(types, kind) for kind in (SENTENCE, SECTION, DOCUMENT)]
    for start in range(0, len(tokens) - length + 1, length):
        chosen = tokens[start : start + length]
        nodes = np.unique(np.concatenate([chosen, *(anchors[chosen] for anchors in anchors_of)]))
        yield ids[nodes], types[nodes]


def pseudo_sections(ids: np.ndarray, types: np.ndarray, section_id: int) -> Nodes:
    """The same sentences, 32 to a section."""
    kept = types != SECTION
    ids, types = ids[kept], types[kept]
    before = np.flatnonzero(types == SENTENCE)[::32]
    return np.insert(ids, before, section_id), np.insert(types, before, SECTION)


def join_sentences(ids: np.ndarray, types: np.ndarray, most: int) -> Nodes:
    """Let sentences that follow each other in a section share an anchor, up to `most` tokens."""
    kept = np.ones(len(ids), bool)
    starts = np.flatnonzero(types != TOKEN)
    total, is_open = 0, False
    for start, end in zip(starts, np.append(starts[1:], len(ids)), strict=True):
        if types[start] != SENTENCE:
            is_open = False
        elif is_open and total + end - start - 1 <= most:
            kept[start] = False
            total += end - start - 1
        else:
            total, is_open = end - start - 1, True
    return ids[kept], types[kept]
