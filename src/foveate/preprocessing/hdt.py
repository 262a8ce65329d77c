"""Inputs of models whose attention follows a document's structure: HDT, and encoders like it."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from transformers import PreTrainedTokenizerBase

from foveate.documents import Document

from .collate import Features
from .processor import DocumentProcessor, join_prompt
from .tree import NODE_TYPES, Anchor, AnchorKind, TreeNodes, outline
from .tree_builder import TreeBuilder

_ANCHOR_TOKENS = {
    "doc_token": ("<doc>", "[DOC]"),
    "sec_token": ("<sec>", "[SEC]"),
    "sent_token": ("<cls>", "<sent>", "[SENT]"),
}


class HDTProcessor(TreeBuilder[TreeNodes], DocumentProcessor):
    """Turn documents into token ids and the parent of each.

    A document is a sequence in reading order: [DOC], then for each section [SEC], for each of its
    sentences [SENT] and the sentence's tokens (HDT, 3.2). A node's parent always precedes it, so
    truncation never separates a node from its ancestors.

    Args:
        tokenizer: Any Hugging Face tokenizer.
        max_length: Longest input in nodes, None for no limit.
        levels: Depth of the tree, 3 for the published form, None for one level per level of
            nesting (see `outline`).
        max_sentence_tokens: Longer sentences are split into several, None for no limit.
        passage_tokens: Sentences that follow each other in a section share one anchor, as a passage
            of at most so many tokens (see `join_into_passages`), and attend to each other; None,
            the published form, gives every sentence an anchor.
        query_as: "section" makes the query the first section. "global" puts its tokens directly
            under [DOC], as siblings of the sections, so that every section exchanges information
            with them in one step and every sentence in two, like the global query of the published
            tokenizer.
        doc_token: Token of the [DOC] anchor; by default `<doc>` or `[DOC]` if the vocabulary has
            it, else the tokenizer's CLS token.
        sec_token: Token of the [SEC] anchor; by default `<sec>`, `[SEC]` or CLS.
        sent_token: Token of the [SENT] anchor; by default `<cls>` (in the published vocabulary),
            `<sent>`, `[SENT]` or CLS.

    Raises:
        ValueError: The tokenizer does not know a token, a limit is too low, or `query_as` is
            neither "section" nor "global".

    Example:
        >>> from foveate import Document
        >>> from foveate.inference import default_model_path
        >>> from foveate.preprocessing import HDTProcessor, load_tokenizer
        >>> processor = HDTProcessor(load_tokenizer(default_model_path()))
        >>> document = Document.from_sections("Fish", [("Cod", "Cod swim. They eat.")])
        >>> batch = processor(document)
        >>> batch["parent_ids"][0].tolist()
        [-1, 0, 1, 2, 1, 4, 1, 6, 6, 6, 1, 10, 10, 10]
    """

    columns: ClassVar[tuple[str, ...]] = ("input_ids", "attention_mask", "parent_ids")

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        max_length: int | None = None,
        levels: int | None = 3,
        max_sentence_tokens: int | None = 256,
        passage_tokens: int | None = None,
        query_as: Literal["section", "global"] = "section",
        doc_token: str | None = None,
        sec_token: str | None = None,
        sent_token: str | None = None,
    ) -> None:
        self.set_limits(levels, max_sentence_tokens, passage_tokens)
        if max_length is not None and max_length < 4:
            raise ValueError(f"max_length must be at least 4 or None, got {max_length}")
        if query_as not in ("section", "global"):
            raise ValueError(f"query_as must be 'section' or 'global', got {query_as!r}")
        self.query_as = query_as
        self.doc_token = _anchor_token(tokenizer, "doc_token", doc_token)
        self.sec_token = _anchor_token(tokenizer, "sec_token", sec_token)
        self.sent_token = _anchor_token(tokenizer, "sent_token", sent_token)
        vocabulary = tokenizer.get_vocab()
        self._anchor_ids: dict[AnchorKind, int] = {
            "document": vocabulary[self.doc_token],
            "section": vocabulary[self.sec_token],
            "sentence": vocabulary[self.sent_token],
        }
        super().__init__(tokenizer, max_length)

    def prompted_features(self, document: Document, query: str, choices: Sequence[str]) -> Features:
        """Tokenize a document of any length with a query.

        Returns:
            Columns `(nodes,)`, `node_types` among them, see `NODE_TYPES`.
        """
        query = join_prompt(query, choices)
        anchors = outline(document, levels=self.levels)
        if query and self.query_as == "section":
            anchors, query = with_query_section(anchors, query), ""
        nodes, owners = self.tree(anchors, query=query)
        sentences = [anchors[owner].sentence_idx for owner in owners]
        sentence_ids = torch.tensor([-1 if i is None else i for i in sentences])
        return {
            "input_ids": nodes.input_ids,
            "attention_mask": torch.ones_like(nodes.input_ids),
            "parent_ids": nodes.parent_ids,
            "node_types": nodes.node_types,
            "special_tokens_mask": (nodes.positions == 0).long(),
            "sentence_ids": sentence_ids[nodes.piece_idx],
        }

    def nodes(
        self,
        kinds: Sequence[AnchorKind],
        parents: Sequence[int],
        pieces: Sequence[list[int]],
        passages: Sequence[int],
    ) -> TreeNodes:
        """Build the nodes of the pieces of an outline."""
        passage_type = NODE_TYPES["sentence" if self.passage_tokens is None else "passage"]
        return TreeNodes.from_pieces(
            kinds, parents, pieces, passages, self._anchor_ids, passage_type=passage_type
        )

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize texts of any length, without special tokens."""
        # verbose=False: what is too long is split afterwards, so a warning would be wrong.
        ids = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
        return list(ids)

    def document_features(self, document: Document) -> Features:
        """Tokenize a document without a query."""
        return self.truncate(self.prompted_features(document, "", ()))

    def truncate(self, features: Features) -> Features:
        """Drop the nodes beyond `max_length`, and anchors that are left without a token."""
        is_anchor = features["special_tokens_mask"][: self.max_length]
        end = max(1, len(is_anchor) - int(is_anchor.flip(0).cumprod(0).sum()))
        return {name: column[:end] for name, column in features.items()}


def with_query_section(anchors: list[Anchor], query: str) -> list[Anchor]:
    """Make a query the first section of an outline."""
    section = [Anchor("section", 0), Anchor("sentence", 1, query)]
    shifted = [
        anchor._replace(parent=anchor.parent + len(section) if anchor.parent > 0 else 0)
        for anchor in anchors[1:]
    ]
    return [anchors[0], *section, *shifted]


def _anchor_token(tokenizer: PreTrainedTokenizerBase, role: str, token: str | None) -> str:
    vocabulary = tokenizer.get_vocab()
    if token is not None:
        if token not in vocabulary:
            raise ValueError(
                f"the tokenizer has no token {token!r} for {role}: "
                "add it with tokenizer.add_tokens or name one it has"
            )
        return token
    for candidate in _ANCHOR_TOKENS[role]:
        if candidate in vocabulary:
            return candidate
    if tokenizer.cls_token is None:
        raise ValueError(
            f"the tokenizer has none of {_ANCHOR_TOKENS[role]} and no CLS token: name a {role}"
        )
    return str(tokenizer.cls_token)
