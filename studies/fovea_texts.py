"""Texts as tokens, for the study of what Fovea learns."""

import argparse
import gzip
import io
import lzma
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.random import default_rng
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.structured_documents import read_records

Ids = NDArray[np.integer]


def texts(folder: Path) -> Iterator[tuple[str, bool, list[str]]]:
    """Yield each kind of text, whether it is held out, and the documents."""
    for held_out, part, meetings in ((False, "train", "train"), (True, "dev", "val")):
        yield (
            "papers",
            held_out,
            [
                " ".join([paper["title"], *paper["abstract"], *_sentences(paper["sections"])])
                for paper in read_records(folder / "scisummnet" / f"{part}.jsonl.gz")
            ],
        )
        yield (
            "proposals",
            held_out,
            [record["text"] for record in read_records(folder / "proposals" / f"{part}.jsonl.xz")],
        )
        yield (
            "meetings",
            held_out,
            [
                "\n".join(f"{turn['speaker']}: {turn['text']}" for turn in meeting["turns"])
                for meeting in read_records(folder / "qmsum" / f"{meetings}.jsonl.gz")
            ],
        )
        book = "moby_dick" if held_out else "war_and_peace"
        with gzip.open(folder / "books" / f"{book}.txt.gz", "rt", encoding="utf-8") as file:
            yield "novels", held_out, [file.read()]
    peps = read_records(folder / "peps" / "train.jsonl.gz")
    yield "PEPs", False, [record["text"] for record in peps]


def _sentences(sections: list[dict[str, Any]]) -> Iterator[str]:
    for section in sections:
        yield section["heading"] or ""
        yield from section["sentences"]


def prepare(folder: Path, file: Path, options: argparse.Namespace) -> None:
    """Write pieces of --length tokens, none of which spans two documents, and the vocabulary.

    The tokenizer is trained on the documents to train with. Those are shuffled, and taken until
    there are --pieces; of the held-out ones, all are.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    kinds = {
        (kind, held_out): [re.sub(r"[^\S\n]+", " ", text) for text in documents]
        for kind, held_out, documents in texts(folder)
    }
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=options.vocabulary,
        special_tokens=["<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    learned = (
        document for (_, out), documents in kinds.items() if not out for document in documents
    )
    tokenizer.train_from_iterator(learned, trainer)
    train: list[list[Ids]] = []
    held_out, names = [], []
    for (kind, out), documents in kinds.items():
        encoded = tokenizer.encode_batch_fast(documents)
        for document in encoded:
            ids = np.array(document.ids, dtype=np.uint16)
            pieces = [
                ids[start : start + options.length]
                for start in range(0, len(ids) - options.length + 1, options.length)
            ]
            if out:
                held_out += pieces
                names += [kind] * len(pieces)
            elif pieces:
                train.append(pieces)
    order = default_rng(0).permutation(len(train))
    chosen = [piece for i in order for piece in train[i]][: options.pieces]
    strings = [tokenizer.decode([token]) for token in range(tokenizer.get_vocab_size())]
    buffer = io.BytesIO()
    np.savez(
        buffer,
        train=np.stack(chosen),
        held_out=np.stack(held_out),
        kinds=np.array(names),
        strings=np.array(strings),
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(lzma.compress(buffer.getvalue(), preset=6))
    print(
        f"{len(chosen)} pieces to train with, {len(held_out)} held out, of {options.length} "
        f"tokens; {file.stat().st_size / 1e6:.1f} MB: {file}"
    )


@dataclass(frozen=True)
class Texts:
    """What `prepare` wrote.

    Attributes:
        train: `(pieces, length)` ids; 0 is the mask.
        held_out: The same, of documents that are not trained with.
        kinds: `(pieces,)`, what each held-out piece is.
        strings: `(vocabulary,)`, the text of each token.
    """

    train: Ids
    held_out: Ids
    kinds: NDArray[np.str_]
    strings: NDArray[np.str_]

    @classmethod
    def load(cls, path: Path, options: argparse.Namespace) -> "Texts":
        """Load a file, and cut its pieces to --length."""
        with lzma.open(path) as file:
            arrays = dict(np.load(io.BytesIO(file.read())))
        if options.length > arrays["train"].shape[1]:
            raise SystemExit(f"{path} has pieces of {arrays['train'].shape[1]} tokens: too short")
        kept = _first_of_each(arrays["kinds"], options.held_out)
        return cls(
            arrays["train"][:, : options.length],
            arrays["held_out"][kept, : options.length],
            arrays["kinds"][kept],
            arrays["strings"],
        )

    @property
    def signs(self) -> NDArray[np.int64]:
        """Whether each token begins with letters, digits or others (0, 1, 2), + 3 after a space."""
        first = [string.lstrip(" ")[:1] for string in self.strings]
        sign = [1 if c.isdigit() else 0 if c.isalpha() or c > "\x7f" else 2 for c in first]
        spaced = [3 * string.startswith(" ") for string in self.strings]
        return np.array(sign) + np.array(spaced)


def _first_of_each(kinds: NDArray[np.str_], number: int | None) -> NDArray[np.intp]:
    """Indices of the first pieces of each kind, all if the number is None."""
    chosen = [np.flatnonzero(kinds == kind)[:number] for kind in np.unique(kinds)]
    return np.sort(np.concatenate(chosen))


def word_starts(signs: Tensor) -> Tensor:
    """Return where words start, bool; `signs` `(…, length)` as `Texts.signs`.

    A word starts after a space, and where letters, digits and others meet.
    """
    differ = signs[..., 1:] % 3 != signs[..., :-1] % 3
    starts = torch.ones_like(signs, dtype=torch.bool)
    starts[..., 1:] = differ | (signs[..., 1:] >= 3)
    return starts


def mask_words(starts: Tensor, number: int, generator: torch.Generator) -> Tensor:
    """Choose whole words at random until they have a number of tokens; the last may be cut.

    Args:
        starts: `(batch, length)` bool, on any device.
        number: Tokens to mask in each sequence.
        generator: A generator of the CPU, so that all devices mask the same.

    Returns:
        Their positions, `(batch, number)`, sorted.
    """
    batch, length = starts.shape
    random = torch.rand(batch, length, generator=generator, dtype=torch.float64).to(starts.device)
    of_word = random.gather(1, starts.cumsum(1) - 1)
    tie = torch.arange(length, device=starts.device) * 1e-12  # words are cut at their end
    return (of_word - tie).topk(number).indices.sort().values
