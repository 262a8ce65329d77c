"""Encoders of other authors, run by sentence-transformers as their `modules.json` says."""

from collections.abc import Callable, Sequence
from importlib.metadata import version
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from foveate.checkpoint_files import load_checkpoint_json
from foveate.inference.runner import TEXTS_PER_CHUNK, Context, DocumentVectors, Runner
from foveate.inference.sentence_models import check_code, is_multi_vector, load_whole, module_types
from foveate.inference.weights import note_loaded
from foveate.preprocessing.collate import fill_packs
from foveate.preprocessing.tree import Anchor
from foveate.progress import progress

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_MODULES = ("Transformer", "Pooling", "Dense", "LayerNorm", "Dropout", "Normalize")

_TOKENS_PER_BATCH_ON_CPU, _TOKENS_PER_BATCH_ON_GPU = 2048, 16384

_one_at_a_time = Lock()
"""Held while a model runs: its tokenizer cannot be used by two threads at once."""


class SentenceProcessor:
    """What prepares texts: the tokenizer, and the number of tokens above which texts are split.

    Args:
        tokenizer: The tokenizer.
        max_sentence_tokens: Longest text without its special tokens; None if there is no limit.
    """

    levels = None
    passage_tokens = None

    def __init__(self, tokenizer: Any, max_sentence_tokens: int | None) -> None:
        self.tokenizer = tokenizer
        self.max_sentence_tokens = max_sentence_tokens

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize texts of any length, without special tokens."""
        encoding = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)
        return cast(list[list[int]], encoding["input_ids"])

    def pieces(self, texts: Sequence[str]) -> tuple[list[int], list[str]]:
        """Split texts that are too long, before words if possible.

        Returns:
            The index of the text that each piece is from, and the pieces.
        """
        owners: list[int] = []
        pieces: list[str] = []
        for i, text in enumerate(texts):
            parts = self._split(text)
            owners += [i] * len(parts)
            pieces += parts
        return owners, pieces

    def _split(self, text: str) -> list[str]:
        limit = self.max_sentence_tokens
        if limit is None or len(text.encode()) <= limit:  # a token has at least one byte
            return [text]
        encoding = self.tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        starts = [start for start, _ in encoding["offset_mapping"]]
        cuts, first = [0], 0
        while len(starts) - first > limit:
            words = (i for i in range(first + limit, first, -1) if text[starts[i] - 1].isspace())
            first = next(words, first + limit)
            cuts.append(starts[first])
        return [text[start:end] for start, end in zip(cuts, [*cuts[1:], len(text)], strict=True)]


class SentenceRunner(Runner):
    """A model that sentence-transformers runs.

    With the context "sentence" it reads each sentence by itself; with "document", which is for
    models that were trained on long texts, as many sentences at once as it takes, and pools the
    tokens of each (late chunking, Günther et al. 2024, arXiv 2409.04701).

    Its vectors of texts are those of `SentenceTransformer.encode_document`, and those of queries
    are those of `encode_query`. A text that is too long for the model, of which these would leave
    out the end, is split, and its vector is the mean over its pieces.

    Args:
        model: The model, in evaluation mode.
        name: The folder of its checkpoint, or its name on the hub.
        options: See `foveate.inference.Encoder`.
        context: "sentence" or "document".
        linear_dtype: The model's dtype.

    Raises:
        ValueError: The context is "document", and the model does not pool by the mean.
    """

    def __init__(
        self,
        model: "SentenceTransformer",
        name: str,
        options: dict[str, Any],
        context: Context,
        linear_dtype: torch.dtype,
    ) -> None:
        pooling = [getattr(module, "pooling_mode", None) for module in model]
        if context == "document" and pooling[1:2] != ["mean"]:
            raise ValueError(
                f"{name} does not pool by the mean, so a sentence has no vector of its own in a "
                "document: leave out context='document'"
            )
        modules = [type(module).__name__ for module in model]
        prompts = {kind: model.prompts.get(kind) or "" for kind in ("query", "document")}
        self._added_tokens = max(
            len(model.tokenizer(prompt)["input_ids"]) for prompt in prompts.values()
        )
        longest = model.get_max_seq_length()
        if longest is not None:
            longest -= self._added_tokens
        super().__init__(
            model,
            SentenceProcessor(model.tokenizer, longest),
            context,
            int(model.get_embedding_dimension() or 0),
            linear_dtype,
            normalizes=modules[-1] == "Normalize" and model.truncate_dim is None,
            details={
                "runner": f"sentence-transformers {version('sentence-transformers')}",
                "modules": modules,
                "query_prompt": prompts["query"],
                "document_prompt": prompts["document"],
                "max_tokens": longest,
                "similarity": str(model.similarity_fn_name),
            },
            options=options,
        )
        on_cpu = model.device.type == "cpu"
        self._batch_tokens = _TOKENS_PER_BATCH_ON_CPU if on_cpu else _TOKENS_PER_BATCH_ON_GPU

    def encode_texts(self, texts: Sequence[str], show_progress: bool | None = None) -> Tensor:
        """Encode texts that can be found, each by itself; see `Runner.encode_texts`."""
        return self._encode(self.model.encode_document, texts, show_progress)

    def encode_queries(self, queries: Sequence[str]) -> Tensor:
        """Encode queries, with their prompt; see `Runner.encode_queries`."""
        return self._encode(self.model.encode_query, queries, False)

    def encode_outlines(
        self, outlines: list[list[Anchor]], show_progress: bool | None = None
    ) -> list[DocumentVectors]:
        """See `Runner.encode_outlines`; with the context "document", as many sentences at once."""
        if self.context == "sentence":
            return super().encode_outlines(outlines, show_progress)
        encoded = []
        with progress("Encoding", len(outlines), show_progress) as advance:
            for anchors in outlines:
                read = [
                    anchor for anchor in anchors if anchor.text or anchor.sentence_idx is not None
                ]
                vectors = self._encode_together([anchor.text for anchor in read])
                is_title = torch.tensor(
                    [one.sentence_idx is None for one in read], dtype=torch.bool
                )
                encoded.append(self._from_sentences(anchors, vectors[~is_title], vectors[is_title]))
                advance()
        return encoded

    @torch.inference_mode()
    def _encode_together(self, texts: Sequence[str]) -> Tensor:
        """Read texts one after the other, and pool the tokens of each: `(texts, dimension)`."""
        sums = torch.zeros(len(texts), self.dimension)
        counts = torch.zeros(len(texts), 1)
        with _one_at_a_time:
            owners, pieces = self.processor.pieces(texts)
            # A space between two pieces may be a token.
            sizes = [len(ids) + 1 for ids in self.processor.token_ids(pieces)]
            limit = self.processor.max_sentence_tokens or sum(sizes)
            for window in fill_packs(range(len(pieces)), sizes, limit):
                vectors = self._pool_each([pieces[i] for i in window])
                rows = torch.tensor([owners[i] for i in window])
                sums.index_add_(0, rows, vectors.float().cpu())
                counts.index_add_(0, rows, torch.ones(len(rows), 1))
        return self._finish(sums, counts)

    def _pool_each(self, texts: list[str]) -> Tensor:
        """Read texts that fit into the model together: `(texts, dimension)`."""
        prompt, [first, *others] = self.details["document_prompt"], list(self.model)
        joined = " ".join(texts)
        features = self.model.preprocess([joined], prompt=prompt or None)
        features = {
            name: x.to(self.model.device) if isinstance(x, Tensor) else x
            for name, x in features.items()
        }
        tokens = first(features)["token_embeddings"][0]
        offsets = self.processor.tokenizer(prompt + joined, return_offsets_mapping=True)[
            "offset_mapping"
        ]
        ends = torch.tensor([end if end > start else 0 for start, end in offsets])
        spans, start = [], len(prompt)
        for text in texts:
            inside = (ends > start) & (ends <= start + len(text))
            spans.append(tokens[inside.to(tokens.device)])
            start += len(text) + 1
        output = {
            "token_embeddings": pad_sequence(spans, batch_first=True),
            "attention_mask": pad_sequence(
                [torch.ones(len(span), dtype=torch.long, device=span.device) for span in spans],
                batch_first=True,
            ),
        }
        for module in others:
            output = module(output)
        return output["sentence_embedding"][:, : self.dimension]

    def _encode(
        self, encode: Callable[..., Tensor], texts: Sequence[str], show_progress: bool | None
    ) -> Tensor:
        sums = torch.zeros(len(texts), self.dimension)
        counts = torch.zeros(len(texts), 1)
        with progress("Encoding", sum(map(len, texts)), show_progress) as advance:
            for start in range(0, len(texts), TEXTS_PER_CHUNK):
                with _one_at_a_time:
                    owners, pieces = self.processor.pieces(texts[start : start + TEXTS_PER_CHUNK])
                    ids = self.processor.token_ids(pieces)
                sizes = [self._added_tokens + len(piece) for piece in ids]
                # In batches of 32 texts that are sorted by characters, half as many more would be
                # padding: a sentence has some 20 tokens.
                by_length = sorted(range(len(pieces)), key=sizes.__getitem__)
                for batch in fill_packs(by_length, sizes, self._batch_tokens):
                    together = [pieces[i] for i in batch]
                    with _one_at_a_time:
                        vectors = encode(
                            together,
                            batch_size=len(batch),
                            convert_to_tensor=True,
                            show_progress_bar=False,
                        )
                    rows = torch.tensor([start + owners[i] for i in batch])
                    sums.index_add_(0, rows, vectors.float().cpu())
                    counts.index_add_(0, rows, torch.ones(len(rows), 1))
                    advance(sum(map(len, together)))
        return self._finish(sums, counts)


def load(
    name: str,
    context: Context | None,
    device: torch.device,
    dtype: torch.dtype,
    options: dict[str, Any],
    trust_remote_code: bool,
) -> SentenceRunner:
    """Load a checkpoint, if it can be run as its authors mean it; see `Encoder.from_pretrained`.

    Raises:
        ImportError: sentence-transformers is not installed.
        OSError: There are no safetensors weights.
        ValueError: The checkpoint cannot be run.
    """
    if context == "tree":
        raise ValueError(f"{name} was not trained on trees: leave out context='tree'")
    if context not in (None, "sentence", "document"):
        raise ValueError(f"context must be 'sentence' or 'document' for {name}, got {context!r}")
    dimensions = options.get("dimensions")
    if dimensions is not None and dimensions < 1:
        raise ValueError(f"dimensions must be at least 1, got {dimensions}")
    _check(name, trust_remote_code)
    from sentence_transformers import SentenceTransformer

    prompts = {
        kind: options[f"{kind}_prompt"]
        for kind in ("query", "document")
        if f"{kind}_prompt" in options
    }
    model = load_whole(
        SentenceTransformer,
        name,
        device=str(device),
        prompts=prompts,
        trust_remote_code=trust_remote_code,
        model_kwargs={"dtype": dtype},
    )
    if dimensions is not None:
        size = model.get_embedding_dimension() or 0
        if dimensions > size:
            raise ValueError(
                f"the vectors of {name} have {size} dimensions, fewer than {dimensions}"
            )
        model.truncate_dim = dimensions
    note_loaded(model, name)
    return SentenceRunner(model, name, options, context or "sentence", dtype)


def _check(name: str, trust_remote_code: bool) -> None:
    """Refuse a checkpoint that cannot be run as its authors mean it, by its small files alone."""
    types = module_types(name)
    if is_multi_vector(name):
        raise ValueError(
            f"{name} has a vector for each token, and an encoder needs one for a text: name an "
            "encoder, and this model with rerank= or --rerank"
        )
    settings = load_checkpoint_json(name, "config_sentence_transformers.json") or {}
    kind = settings.get("model_type", "SentenceTransformer")
    if kind != "SentenceTransformer":
        raise ValueError(
            f"{name} is a model of another kind ({kind}), which has no single vector for a text: "
            "name an encoder that has"
        )
    own = [one for one in types if one.startswith("sentence_transformers.")]
    names = [one.rpartition(".")[2] for one in own]
    unknown = [one for one in names if one not in _MODULES]
    if unknown or (types[0] in own and names[0] != "Transformer"):
        raise ValueError(
            f"{name} has a {(unknown or names)[0]} layer, which Encoder cannot run there: use a "
            f"model that begins with Transformer and goes on with {', '.join(_MODULES[1:])}"
        )
    similarity = settings.get("similarity_fn_name") or "cosine"
    if similarity != "cosine" and names[-1:] != ["Normalize"]:
        raise ValueError(
            f"the vectors of {name} are meant to be compared by {similarity}, and foveate compares "
            "by cosine: use a model whose similarity is the cosine"
        )
    check_code(
        name,
        trust_remote_code=trust_remote_code,
        advice="if you trust its authors, allow that with trust_remote_code=True or "
        "--trust-remote-code",
    )
