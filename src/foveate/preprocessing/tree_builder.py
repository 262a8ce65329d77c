"""Building of trees of nodes from the anchors of documents, with any tokenizer."""

import json
from collections.abc import Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import Generic, TypeVar

from tokenizers import Encoding, Tokenizer

from .collate import Features
from .tree import (
    Anchor,
    AnchorKind,
    join_into_passages,
    parents_of_pieces,
    passage_columns,
    split_long,
)

_LIMITS = ("levels", "max_sentence_tokens", "passage_tokens")
_SAVED_OPTIONS = {"processor_class", "max_length", *_LIMITS}


Nodes = TypeVar("Nodes")


class TreeBuilder(Generic[Nodes]):
    """Base class of all processors of trees: the limits of trees, and how they are built.

    Subclasses define `token_ids` and `nodes`.

    Attributes:
        closing_ids: The tokens that close a sentence.
    """

    closing_ids: Sequence[int] = ()

    def set_limits(
        self, levels: int | None, max_sentence_tokens: int | None, passage_tokens: int | None
    ) -> None:
        """Set the depth of trees and the length of the longest sentence and passage.

        Raises:
            ValueError: A limit is too low, or a passage is too short for the longest sentence.
        """
        limits = levels, max_sentence_tokens, passage_tokens
        for name, value, least in zip(_LIMITS, limits, (3, 1, 1), strict=True):
            if value is not None and (type(value) is not int or value < least):
                raise ValueError(f"{name} must be at least {least} or None, got {value!r}")
        self.levels, self.max_sentence_tokens, self.passage_tokens = limits
        if passage_tokens is not None and (
            max_sentence_tokens is None
            or passage_tokens < max_sentence_tokens + len(self.closing_ids)
        ):
            raise ValueError(
                f"passages of {passage_tokens} tokens are shorter than a sentence may be: "
                "raise passage_tokens or lower max_sentence_tokens"
            )

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize texts of any length, without special tokens."""
        raise NotImplementedError

    def nodes(
        self,
        kinds: Sequence[AnchorKind],
        parents: Sequence[int],
        pieces: Sequence[list[int]],
        passages: Sequence[int],
    ) -> Nodes:
        """Build what the model reads of the pieces of an outline, see `TreeNodes.from_pieces`."""
        raise NotImplementedError

    def tree(self, *outlines: Sequence[Anchor], query: str = "") -> tuple[Nodes, list[int]]:
        """Build the nodes of a document as a tree, or those of several as a forest.

        Args:
            outlines: The anchors of each document in reading order, see
                `foveate.preprocessing.tree.outline`.
            query: Text directly below the first anchor of all, next to the sections.

        Returns:
            The nodes, and the index, among the anchors of all documents, that each of their anchors
            is from: a sentence that is too long has several.
        """
        anchors = list(chain.from_iterable(outlines))
        parents = [
            anchor.parent + start if anchor.parent >= 0 else -1
            for outline, start in zip(
                outlines, accumulate(map(len, outlines), initial=0), strict=False
            )
            for anchor in outline
        ]
        owners, pieces = self.pieces([_words(anchor) for anchor in anchors])
        # Only sentences have tokens: other anchors do not even have a closing one.
        pieces = [
            ids if anchors[owner].kind == "sentence" else []
            for owner, ids in zip(owners, pieces, strict=True)
        ]
        sizes = [len(ids) for ids in pieces]
        passages = join_into_passages(owners, sizes, anchors, self.passage_tokens)
        if query:
            [pieces[0]] = self.token_ids([query])
        kinds = [anchors[owner].kind for owner in owners]
        return self.nodes(kinds, parents_of_pieces(owners, parents), pieces, passages), owners

    def forest(self, pieces: Sequence[list[int]]) -> Nodes:
        """Make every piece a passage of its own, below nothing."""
        number = len(pieces)
        return self.nodes(["sentence"] * number, [-1] * number, pieces, range(number))

    def pieces(self, texts: Sequence[str]) -> tuple[list[int], list[list[int]]]:
        """Tokenize texts, splitting those that are longer than `max_sentence_tokens`.

        Returns:
            The index of the text that each piece is from, and the pieces, each with the closing
            tokens; an empty text gives one piece without other tokens.
        """
        if not texts:
            return [], []
        owners, pieces = split_long(self.token_ids(texts), self.max_sentence_tokens)
        return owners, [[*piece, *self.closing_ids] for piece in pieces]


def _words(anchor: Anchor) -> str:
    """Return the text of a sentence with the name of whoever begins to speak."""
    return f"{anchor.speaker}: {anchor.text}" if anchor.speaker else anchor.text


class PassageBuilder(TreeBuilder[Features]):
    """Base class of TreeBert's processors: trees of passages as `passage_columns`."""

    def set_special_tokens(self, cls_id: int, bare: list[int], enclosed: list[int]) -> None:
        """Set the token that begins a passage, and find those that close a sentence.

        Args:
            cls_id: The token that begins a passage.
            bare: The ids of a sentence without special tokens.
            enclosed: Its ids with them.

        Raises:
            ValueError: There is not exactly one token before a sentence and at least one after it.
        """
        self._cls_id = cls_id
        self.closing_ids = enclosed[1 + len(bare) :]
        if enclosed[1 : 1 + len(bare)] != bare or not self.closing_ids:
            raise ValueError(
                "the tokenizer does not put exactly one token (CLS) before a sentence and at least "
                "one (SEP) after it: choose a tokenizer that does, such as BERT's"
            )

    def encoding(self, text: str) -> Encoding:
        """Tokenize a text of any length, without special tokens, with the place of each token."""
        raise NotImplementedError

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return where each token of the `pieces` of a text begins and ends in it.

        Tokens that close a piece have (0, 0).
        """
        _, pieces = split_long([self.encoding(text).offsets], self.max_sentence_tokens)
        closing = [(0, 0)] * len(self.closing_ids)
        return [place for piece in pieces for place in (*piece, *closing)]

    def nodes(
        self,
        kinds: Sequence[AnchorKind],
        parents: Sequence[int],
        pieces: Sequence[list[int]],
        passages: Sequence[int],
    ) -> Features:
        """Build the columns of passages, see `passage_columns`."""
        return passage_columns(kinds, parents, pieces, passages, self._cls_id)


class TreeTokenizer(PassageBuilder):
    """The inference part of a `TreeBertProcessor`, without transformers.

    Args:
        tokenizer: A tokenizer that puts one token before a sentence.
        cls_token: That token.
        levels: See `TreeBertProcessor`.
        max_sentence_tokens: See `TreeBertProcessor`.
        passage_tokens: See `TreeBertProcessor`.

    Raises:
        ValueError: The tokenizer does not know `cls_token` or does not put exactly one token before
            a sentence and at least one after it, or a limit is too low.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        cls_token: str,
        levels: int | None,
        max_sentence_tokens: int | None,
        passage_tokens: int,
    ) -> None:
        self.tokenizer = tokenizer
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        cls_id = tokenizer.token_to_id(cls_token)
        if cls_id is None:
            raise ValueError(f"the tokenizer has no token {cls_token!r}")
        bare, enclosed = (tokenizer.encode("a", add_special_tokens=x).ids for x in (False, True))
        self.set_special_tokens(cls_id, bare, enclosed)
        self.set_limits(levels, max_sentence_tokens, passage_tokens)

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize texts of any length, without special tokens."""
        # Without offsets, which takes a third less time.
        encodings = self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def encoding(self, text: str) -> Encoding:
        """Tokenize a text of any length, without special tokens, with the place of each token."""
        return self.tokenizer.encode(text, add_special_tokens=False)


def load_tree_tokenizer(folder: Path) -> TreeTokenizer | None:
    """Load what a `TreeBertProcessor` saved.

    Returns:
        The tokenizer; None if the folder has no such files, or others than expected: transformers,
        which knows more forms of tokenizers, loads them or says what is wrong.
    """
    try:
        options, names = (
            json.loads((folder / name).read_text(encoding="utf-8"))
            for name in ("processor_config.json", "tokenizer_config.json")
        )
        if set(options) != _SAVED_OPTIONS or options["processor_class"] != "TreeBertProcessor":
            return None
        tokenizer = Tokenizer.from_buffer((folder / "tokenizer.json").read_bytes())
        limits = [options[name] for name in _LIMITS]
        if options["passage_tokens"] is None:
            return None
        return TreeTokenizer(tokenizer, names["cls_token"], *limits)
    except (OSError, ValueError, KeyError, TypeError):
        return None
