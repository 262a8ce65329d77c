"""Building of trees of nodes from the anchors of documents, with any tokenizer."""

import json
from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from pathlib import Path

from tokenizers import Tokenizer

from .tree import (
    NODE_TYPES,
    Anchor,
    AnchorKind,
    TreeNodes,
    closing_ids,
    join_into_passages,
    parents_of_pieces,
    split_long,
)

_LIMITS = ("levels", "max_sentence_tokens", "passage_tokens")
_SAVED_OPTIONS = {"processor_class", "max_length", *_LIMITS}


class TreeBuilder:
    """Base class of all processors of trees: the limits of trees, and how they are built.

    Subclasses define `token_ids`.
    """

    def set_limits(
        self, levels: int | None, max_sentence_tokens: int | None, passage_tokens: int | None
    ) -> None:
        """Set the depth of trees and the length of the longest sentence and passage.

        Raises:
            ValueError: A limit is too low.
        """
        limits = levels, max_sentence_tokens, passage_tokens
        for name, value, least in zip(_LIMITS, limits, (3, 1, 1), strict=True):
            if value is not None and (type(value) is not int or value < least):
                raise ValueError(f"{name} must be at least {least} or None, got {value!r}")
        self.levels, self.max_sentence_tokens, self.passage_tokens = limits

    def set_special_tokens(
        self, anchor_ids: Mapping[AnchorKind, int], closing_ids: Sequence[int] = ()
    ) -> None:
        """Set the token of each kind of anchor, and those that close a sentence.

        Raises:
            ValueError: A passage is too short for the longest sentence.
        """
        self._anchor_ids = dict(anchor_ids)
        self.closing_ids = list(closing_ids)
        longest = self.max_sentence_tokens
        if self.passage_tokens is not None and (
            longest is None or self.passage_tokens < longest + len(closing_ids)
        ):
            raise ValueError(
                f"passages of {self.passage_tokens} tokens are shorter than a sentence may be: "
                "raise passage_tokens or lower max_sentence_tokens"
            )

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize texts of any length, without special tokens."""
        raise NotImplementedError

    def tree(self, *outlines: Sequence[Anchor], query: str = "") -> tuple[TreeNodes, list[int]]:
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
            [ids] = self.token_ids([query])
            pieces[0] = ids + self.closing_ids
        kinds = [anchors[owner].kind for owner in owners]
        return self._nodes(kinds, parents_of_pieces(owners, parents), pieces, passages), owners

    def forest(self, pieces: Sequence[list[int]]) -> TreeNodes:
        """Make every piece a passage of its own, in a forest of two levels."""
        number = len(pieces)
        return self._nodes(["sentence"] * number, [-1] * number, pieces, range(number))

    def _nodes(
        self,
        kinds: Sequence[AnchorKind],
        parents: Sequence[int],
        pieces: Sequence[list[int]],
        passages: Sequence[int],
    ) -> TreeNodes:
        has_passages = self.passage_tokens is not None
        return TreeNodes.from_pieces(
            kinds,
            parents,
            pieces,
            passages,
            self._anchor_ids,
            passage_type=NODE_TYPES["passage" if has_passages else "sentence"],
            closing_type=NODE_TYPES["sentence" if has_passages and self.closing_ids else "token"],
        )

    def pieces(self, texts: Sequence[str]) -> tuple[list[int], list[list[int]]]:
        """Tokenize texts, splitting those that are longer than `max_sentence_tokens`.

        Returns:
            The index of the text that each piece is from, and the pieces, each with the closing
            tokens; an empty text gives one piece without other tokens.
        """
        if not texts:
            return [], []
        owners, pieces = split_long(self.token_ids(texts), self.max_sentence_tokens)
        return owners, [piece + self.closing_ids for piece in pieces]


def _words(anchor: Anchor) -> str:
    """Return the text of a sentence with the name of whoever begins to speak."""
    return f"{anchor.speaker}: {anchor.text}" if anchor.speaker else anchor.text


class TreeTokenizer(TreeBuilder):
    """The inference part of a `TreeBertProcessor`, without transformers.

    Args:
        tokenizer: A tokenizer that puts one token before a sentence.
        cls_token: That token, which is every anchor's.
        levels: See `TreeBertProcessor`.
        max_sentence_tokens: See `TreeBertProcessor`.
        passage_tokens: See `TreeBertProcessor`.

    Raises:
        ValueError: The tokenizer does not know `cls_token` or does not put exactly one token before
            a sentence, or a limit is too low.
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
        self.set_limits(levels, max_sentence_tokens, passage_tokens)
        cls_id = tokenizer.token_to_id(cls_token)
        if cls_id is None:
            raise ValueError(f"the tokenizer has no token {cls_token!r}")
        bare, enclosed = (tokenizer.encode("a", add_special_tokens=x).ids for x in (False, True))
        self.set_special_tokens(
            {"document": cls_id, "section": cls_id, "sentence": cls_id}, closing_ids(bare, enclosed)
        )

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize texts of any length, without special tokens."""
        # Without offsets, which takes a third less time.
        encodings = self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]


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
