"""An encoder with the interface of a `SentenceTransformer`, for code that expects one."""

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from foveate.inference import Encoder, as_encoder
from foveate.integrations.chunks import encode_chunks

Vectors = npt.NDArray[np.float32] | Tensor | list[Tensor]
"""Vectors in the form that was asked for."""


class FoveateSentenceTransformer:
    """An encoder with the methods of a `SentenceTransformer`.

    `encode` sees every text by itself, as sentence-transformers does. For a long document that was
    cut into chunks, `encode_contextual` returns vectors that depend on the chunks around each. Both
    are compared with the vectors of `encode_query`.

    sentence-transformers itself is not needed. Texts of any length are read to their end, and
    batches are filled by their number of tokens, so that `batch_size` has no effect.

    Args:
        model: An encoder, or the name or path of its checkpoint; by default foveate's own model.
        prompts: What to put in front of texts, by name; `encode_query` uses "query", and
            `encode_document` uses "document", "passage" or "corpus", if they are there.

    Example:
        >>> from foveate.integrations.sentence_transformers import FoveateSentenceTransformer
        >>> model = FoveateSentenceTransformer()
        >>> fish = model.encode_document(["Cod swim in cold seas.", "Salt is white."])
        >>> model.similarity(model.encode_query("Where do fish live?"), fish).argmax().item()
        0
        >>> [vectors] = model.encode_contextual([["Cod swim in cold seas.", "They eat herring."]])
        >>> vectors.shape
        (2, 384)
    """

    similarity_fn_name = "cosine"

    def __init__(
        self,
        model: Encoder | str | PathLike[str] | None = None,
        *,
        prompts: Mapping[str, str] | None = None,
    ) -> None:
        self.encoder = as_encoder(model)
        self.prompts = dict(prompts or {})
        # Evaluators of sentence-transformers note what they measure there.
        self.model_card_data = SimpleNamespace(set_evaluation_metrics=lambda *args, **kwargs: None)

    def encode(
        self,
        sentences: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        output_value: Literal["sentence_embedding"] = "sentence_embedding",
        precision: Literal["float32"] | None = None,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        device: str | torch.device | None = None,
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
    ) -> Vectors:
        """Encode texts, each by itself.

        Args:
            sentences: A text, or several.
            prompt_name: Which of the prompts to put in front of each text.
            prompt: What to put in front of each text instead.
            batch_size: Has no effect.
            show_progress_bar: Show a bar if it takes long; by default on a terminal.
            output_value: Only "sentence_embedding".
            precision: Only "float32", which is the default.
            convert_to_numpy: Return an array; without, a list of tensors.
            convert_to_tensor: Return one tensor, on the CPU, instead.
            device: Only the device that the encoder is on.
            normalize_embeddings: Scale vectors to length 1.
            truncate_dim: Number of leading components to keep.

        Returns:
            `(texts, dimension)`; of a single text `(dimension,)`.

        Raises:
            ValueError: There is no prompt with this name, or an argument has another value.
        """
        self._check(output_value, precision, device)
        texts = [sentences] if isinstance(sentences, str) else list(sentences)
        if prompt is None and prompt_name is not None:
            if prompt_name not in self.prompts:
                raise ValueError(
                    f"there is no prompt named {prompt_name!r}: "
                    f"give one of {sorted(self.prompts)}, or prompts={{{prompt_name!r}: …}}"
                )
            prompt = self.prompts[prompt_name]
        vectors = self.encoder.encode_texts(
            [f"{prompt or ''}{text}" for text in texts], show_progress=show_progress_bar
        )
        vectors = _finish(vectors, normalize_embeddings, truncate_dim)
        if isinstance(sentences, str):
            vectors = vectors[0]
        return _convert(vectors, convert_to_numpy, convert_to_tensor)

    def encode_query(
        self,
        sentences: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        **options: Any,
    ) -> Vectors:
        """Encode queries, with the prompt "query" if there is one; see `encode`."""
        return self._encode_as(("query",), sentences, prompt_name, prompt, options)

    def encode_document(
        self,
        sentences: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        **options: Any,
    ) -> Vectors:
        """Encode texts that can be searched, each by itself, with their prompt; see `encode`."""
        names = ("document", "passage", "corpus")
        return self._encode_as(names, sentences, prompt_name, prompt, options)

    def encode_contextual(
        self,
        documents: Sequence[Sequence[str]],
        *,
        show_progress_bar: bool | None = None,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
    ) -> list[Vectors]:
        """Encode the chunks of documents, each among the others of its document.

        Args:
            documents: A list of chunks for each document, in the document's order.
            show_progress_bar: See `encode`.
            convert_to_numpy: See `encode`.
            convert_to_tensor: See `encode`.
            normalize_embeddings: See `encode`.
            truncate_dim: See `encode`.

        Returns:
            For each document, `(chunks, dimension)`.

        Raises:
            TypeError: A document is a string instead of a list of chunks.
        """
        return [
            _convert(
                _finish(vectors, normalize_embeddings, truncate_dim),
                convert_to_numpy,
                convert_to_tensor,
            )
            for vectors in encode_chunks(self.encoder, documents, show_progress=show_progress_bar)
        ]

    def similarity(
        self, embeddings1: npt.ArrayLike | Tensor, embeddings2: npt.ArrayLike | Tensor
    ) -> Tensor:
        """Return the cosine of each vector with each of the others: `(vectors, others)`."""
        return _unit(embeddings1) @ _unit(embeddings2).T

    def similarity_pairwise(
        self, embeddings1: npt.ArrayLike | Tensor, embeddings2: npt.ArrayLike | Tensor
    ) -> Tensor:
        """Return the cosine of each vector with the one at the same index: `(vectors,)`."""
        return (_unit(embeddings1) * _unit(embeddings2)).sum(-1)

    def get_embedding_dimension(self) -> int:
        """Return the length of the vectors."""
        return self.encoder.dimension

    def get_sentence_embedding_dimension(self) -> int:
        """Return the length of the vectors."""
        return self.encoder.dimension

    def tokenize(self, texts: Sequence[str]) -> dict[str, Tensor]:
        """Return the tokens of texts, padded to the longest, as stock encoders take them."""
        return dict(self.tokenizer(list(texts), padding=True, return_tensors="pt"))

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The encoder's tokenizer."""
        return self.encoder.tokenizer

    @property
    def device(self) -> torch.device:
        """Where the encoder runs."""
        return self.encoder.model.device

    @property
    def max_seq_length(self) -> None:
        """None: texts of any length are read to their end."""
        return None

    def _encode_as(
        self,
        names: Sequence[str],
        sentences: str | Iterable[str],
        prompt_name: str | None,
        prompt: str | None,
        options: dict[str, Any],
    ) -> Vectors:
        """Encode texts with the first prompt of some names, unless the caller chose one."""
        if prompt_name is None and prompt is None:
            prompt_name = next((name for name in names if name in self.prompts), None)
        return self.encode(sentences, prompt_name, prompt, **options)

    def _check(
        self, output_value: str, precision: str | None, device: str | torch.device | None
    ) -> None:
        if output_value != "sentence_embedding":
            raise ValueError(f"output_value must be 'sentence_embedding', got {output_value!r}")
        if precision not in (None, "float32"):
            raise ValueError(f"precision must be 'float32', got {precision!r}")
        if device is not None and torch.device(device).type != self.device.type:
            raise ValueError(
                f"the encoder is on {self.device}, and cannot be moved to {device}: "
                f"load it there with Encoder.from_pretrained(…, device={str(device)!r})"
            )


def _finish(vectors: Tensor, is_unit: bool, dimension: int | None) -> Tensor:
    vectors = vectors[..., :dimension]
    return F.normalize(vectors, dim=-1) if is_unit else vectors


def _convert(vectors: Tensor, is_array: bool, is_tensor: bool) -> Vectors:
    """Return an array, a tensor or, of several vectors, a list of tensors."""
    if is_tensor or (vectors.ndim == 1 and not is_array):
        return vectors
    return vectors.numpy() if is_array else list(vectors)


def _unit(vectors: npt.ArrayLike | Tensor) -> Tensor:
    """Scale vectors, or a list of them, to length 1: `(vectors, dimension)` float32."""
    if isinstance(vectors, list) and vectors and isinstance(vectors[0], Tensor):
        vectors = torch.stack(vectors)
    tensor = torch.as_tensor(vectors, dtype=torch.float32)
    return F.normalize(torch.atleast_2d(tensor), dim=-1)
