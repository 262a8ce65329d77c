"""Documents into the inputs of a model that attends along their structure."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import BatchEncoding, PreTrainedTokenizerBase
from transformers.processing_utils import ProcessorMixin

from foveate.documents import Document, as_documents

from .tree import Anchor, Nodes, outline, parents_of_pieces, split_long

_ANCHOR_TOKENS = {
    "doc_token": ("<doc>", "[DOC]"),
    "sec_token": ("<sec>", "[SEC]"),
    "sent_token": ("<cls>", "<sent>", "[SENT]"),
}

NODE_TYPES = {"token": 0, "sentence": 1, "section": 2, "document": 3}
"""What `node_types` says of each row; padding is -1."""


class HDTProcessor(ProcessorMixin):
    """Turn documents into token ids and parents, beside the tokenizer it saves and loads with.

    Each document becomes one row in reading order: [DOC], then for each section [SEC], for each of
    its sentences [SENT] and the sentence's tokens (HDT, 3.2). A node's parent always stands
    before it, so cutting a row short never parts a node from its ancestors.

    Args:
        tokenizer: any Hugging Face tokenizer.
        levels: depth of the tree, 3 for the published form, None for one level per level of
            nesting (see `outline`).
        max_length: nodes per document at most, None for no limit; what is beyond is cut off.
        max_sentence_tokens: longer sentences are split into several, None for no limit.
        doc_token: the [DOC] anchor's token; by default `<doc>` or `[DOC]` if the vocabulary has
            it, else the tokenizer's CLS token.
        sec_token: the [SEC] anchor's, likewise.
        sent_token: the [SENT] anchor's, likewise (`<cls>` in the published vocabulary).

    Raises:
        ValueError: a token that the tokenizer does not know, or a limit below its least value.

    Example:
        >>> from foveate import Document, HDTProcessor
        >>> from foveate.inference.default import default_model_path
        >>> from transformers import AutoTokenizer
        >>> processor = HDTProcessor(AutoTokenizer.from_pretrained(default_model_path()))
        >>> document = Document.from_sections("Fish", [("Cod", "Cod swim. They eat.")])
        >>> batch = processor(document)
        >>> batch["parent_ids"][0].tolist()
        [-1, 0, 1, 2, 1, 4, 1, 6, 6, 6, 1, 10, 10, 10]
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        levels: int | None = 3,
        max_length: int | None = None,
        max_sentence_tokens: int | None = 256,
        doc_token: str | None = None,
        sec_token: str | None = None,
        sent_token: str | None = None,
        **kwargs: Any,
    ) -> None:
        for name, value, least in (
            ("levels", levels, 3),
            ("max_length", max_length, 4),
            ("max_sentence_tokens", max_sentence_tokens, 1),
        ):
            if value is not None and value < least:
                raise ValueError(f"{name} must be at least {least} or None, got {value}")
        self.levels = levels
        self.max_length = max_length
        self.max_sentence_tokens = max_sentence_tokens
        self.doc_token = _anchor_token(tokenizer, "doc_token", doc_token)
        self.sec_token = _anchor_token(tokenizer, "sec_token", sec_token)
        self.sent_token = _anchor_token(tokenizer, "sent_token", sent_token)
        super().__init__(tokenizer, **kwargs)

    def __call__(
        self,
        documents: Document | Sequence[Document],
        *,
        query: str | Sequence[str] | None = None,
        query_as: Literal["section", "global"] = "section",
        return_special_tokens_mask: bool = False,
        return_node_types: bool = False,
    ) -> BatchEncoding:
        """Encode one document or several.

        Args:
            documents: what to encode, one row each.
            query: one text for all documents, or one each.
            query_as: "section" makes the query the first section. "global" hangs its tokens under
                [DOC] beside the sections, so that every section exchanges with them in one step and
                every sentence in two, as the published tokenizer's global query does.
            return_special_tokens_mask: also return 1 at anchors, 0 at tokens, 1 at padding.
            return_node_types: also return what each row is, by `NODE_TYPES`.

        Returns:
            int64 tensors `(documents, longest)`: `input_ids`; `attention_mask`, 0 at padding; and
            `parent_ids`, the place of each node's parent in the row, -1 at [DOC] and padding.

        Raises:
            ValueError: no documents, or as many queries as there are not documents.
        """
        documents = as_documents(documents)
        if query_as not in ("section", "global"):
            raise ValueError(f"query_as must be 'section' or 'global', got {query_as!r}")
        if not documents:
            raise ValueError("there is no document to encode: give at least one")
        queries = [query] * len(documents) if query is None or isinstance(query, str) else query
        if len(queries) != len(documents):
            raise ValueError(f"{len(documents)} documents need as many queries, got {len(queries)}")

        rows = [
            self._row(document, words, query_as)
            for document, words in zip(documents, queries, strict=True)
        ]
        batch = self.pad(
            [
                {"input_ids": ids, "parent_ids": parents, "node_types": types}
                for ids, parents, types in rows
            ]
        )
        types = batch["node_types"] if return_node_types else batch.pop("node_types")
        if return_special_tokens_mask:
            batch["special_tokens_mask"] = (types != NODE_TYPES["token"]).long()
        return batch

    def pad(self, rows: Sequence[Mapping[str, Any]]) -> BatchEncoding:
        """Collate rows of different lengths: what a `Trainer` takes as `data_collator`.

        Args:
            rows: mappings of columns, each a list or tensor with a value per node (`input_ids`,
                `parent_ids`, `node_types`, `special_tokens_mask`, `labels` of nodes) or a single
                value (`labels` of documents).

        Returns:
            Tensors `(rows, longest)`, padded with the padding token, -1 for parents and types, 1
            in the special tokens mask, and -100 for labels; and the `attention_mask`.
        """
        padding = {"input_ids": self.tokenizer.pad_token_id or 0, "special_tokens_mask": 1}
        padding |= {"parent_ids": -1, "node_types": -1, "labels": -100}
        lengths = torch.tensor([len(row["input_ids"]) for row in rows])
        mask = torch.arange(int(lengths.max())) < lengths[:, None]
        batch = {"attention_mask": mask.long()}
        for name in rows[0]:
            if name == "attention_mask":
                continue
            columns = [torch.as_tensor(row[name]) for row in rows]
            if columns[0].dim() and name in padding:
                batch[name] = pad_sequence(columns, True, padding[name])
            else:
                batch[name] = torch.stack(columns)
        return BatchEncoding(batch)

    def anchor_ids(self) -> dict[str, int]:
        """Token id of each kind of anchor: "document", "section", "sentence"."""
        tokens = (self.doc_token, self.sec_token, self.sent_token)
        ids = self.tokenizer.convert_tokens_to_ids(list(tokens))
        return dict(zip(("document", "section", "sentence"), ids, strict=True))

    def _row(
        self, document: Document, query: str | None, query_as: str
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Token ids, parents and types of a document's nodes, in reading order."""
        anchors = outline(document, levels=self.levels)
        if query is not None and query_as == "section":
            anchors = _with_query_section(anchors, query)
        tokens = self._tokenize([anchor.text for anchor in anchors])
        owners, pieces = split_long(tokens, self.max_sentence_tokens)
        if query is not None and query_as == "global":
            pieces[0] = self._tokenize([query])[0]
        kinds = [anchors[owner].kind for owner in owners]
        anchor_ids = self.anchor_ids()
        nodes = Nodes.of(
            [anchor_ids[kind] for kind in kinds],
            parents_of_pieces(owners, [anchor.parent for anchor in anchors]),
            pieces,
        )
        types = torch.tensor([NODE_TYPES[kind] for kind in kinds])[nodes.anchor]
        types[nodes.position > 0] = NODE_TYPES["token"]
        # Whatever is beyond the limit is cut off, and so are anchors with nothing left under them.
        bare = types[: self.max_length].flip(0).ne(NODE_TYPES["token"]).int().cumprod(0).sum()
        end = max(1, len(types[: self.max_length]) - int(bare))
        return nodes.input_ids[:end], nodes.parents[:end], types[:end]

    def _tokenize(self, texts: list[str]) -> list[list[int]]:
        # verbose=False: a long sentence is no reason for the tokenizer to warn, it will be split.
        return self.tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]


def _with_query_section(anchors: list[Anchor], query: str) -> list[Anchor]:
    section = [Anchor("section", 0), Anchor("sentence", 1, query)]
    moved = [
        anchor._replace(parent=anchor.parent + len(section) if anchor.parent > 0 else 0)
        for anchor in anchors[1:]
    ]
    return [anchors[0], *section, *moved]


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
    return tokenizer.cls_token
