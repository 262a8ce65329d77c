"""The default model for queries, in NumPy: a query is encoded before torch would be imported."""

import hashlib
import json
import struct
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from foveate.inference.default_model import WEIGHTS_SHA256, default_model_path

Floats = npt.NDArray[np.float32]


class QueryEncoder:
    """The default model, which encodes short texts as `Encoder` does, to 1e-5.

    A text by itself is what BERT reads: [CLS], its tokens and [SEP], and its vector is the mean of
    their states. It may not be longer than a sentence of the model.

    Attributes:
        context: See `Encoder`.
        min_likely_score: See `Encoder`.
        sha256: What identifies its weights in a library.
    """

    context: Literal["tree"] = "tree"

    def __init__(self) -> None:
        folder = default_model_path()
        self._config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self._folder = folder
        # As `foveate.inference.weights.hash_files` has it, without reading the file again.
        self.sha256 = hashlib.sha256(bytes.fromhex(WEIGHTS_SHA256)).hexdigest()
        self.min_likely_score: float | None = self._config.get("min_likely_score")

    def encode_queries(self, queries: Sequence[str]) -> Floats:
        """Encode texts: `(texts, dimension)`, of unit length."""
        return np.stack([_unit(self._states(query).sum(0)) for query in queries])

    def encode_query(self, query: str) -> tuple[Floats, Floats]:
        """Encode a query and its tokens, see `Encoder.encode_query`."""
        states = self._states(query)
        tokens = _unit(states[1:] @ self._weights.get("token_head.weight").T)
        return _unit(states.sum(0)), tokens

    def fits(self, query: str) -> bool:
        """Return whether a text is short enough."""
        return len(self._tokenizer.encode(query).ids) <= self._longest

    def _states(self, text: str) -> Floats:
        """Compute the states of the last layer, `(tokens, dimension)`."""
        weights, ids = self._weights, self._tokenizer.encode(text).ids
        states = weights.rows("embeddings.word_embeddings.weight", ids)
        states = states + weights.get("embeddings.position_embeddings.weight")[: len(ids)]
        states += weights.get("embeddings.token_type_embeddings.weight")[0]
        states = self._norm(states, "embeddings.")
        for i in range(self._config["num_hidden_layers"]):
            states = self._layer(states, f"encoder.layer.{i}.")
        return states

    def _layer(self, states: Floats, name: str) -> Floats:
        heads = self._config["num_attention_heads"]
        q, k, v = (
            self._linear(states, f"{name}attention.self.{part}.")
            .reshape(len(states), heads, -1)
            .transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1], dtype=np.float32)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        attended = scores / scores.sum(-1, keepdims=True) @ v
        attended = attended.transpose(1, 0, 2).reshape(states.shape)
        states = self._add(states, attended, f"{name}attention.output.")
        inner = _gelu(self._linear(states, f"{name}intermediate.dense."))
        return self._add(states, inner, f"{name}output.")

    def _add(self, states: Floats, update: Floats, name: str) -> Floats:
        return self._norm(states + self._linear(update, f"{name}dense."), name)

    def _linear(self, states: Floats, name: str) -> Floats:
        weights = self._weights
        result: Floats = states @ weights.get(f"{name}weight").T + weights.get(f"{name}bias")
        return result

    def _norm(self, states: Floats, name: str) -> Floats:
        weight, bias = (self._weights.get(f"{name}LayerNorm.{x}") for x in ("weight", "bias"))
        centered = states - states.mean(-1, keepdims=True)
        variance = (centered**2).mean(-1, keepdims=True) + self._config["layer_norm_eps"]
        normed: Floats = (centered / np.sqrt(variance) * weight + bias).astype(np.float32)
        return normed

    @cached_property
    def _weights(self) -> "_Weights":
        return _Weights(self._folder / "model.safetensors")

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_buffer((self._folder / "tokenizer.json").read_bytes())
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    @cached_property
    def _longest(self) -> int:
        processor = (self._folder / "processor_config.json").read_text(encoding="utf-8")
        return int(json.loads(processor)["max_sentence_tokens"]) + 2


class _Weights:
    """Tensors in bfloat16 of a safetensors file, which NumPy has no type for."""

    def __init__(self, path: Path) -> None:
        self._bytes = np.memmap(path, np.uint8, "r")
        [size] = struct.unpack("<Q", self._bytes[:8].tobytes())
        self._header = json.loads(self._bytes[8 : 8 + size].tobytes())
        self._start = 8 + size
        self._widened: dict[str, Floats] = {}

    def rows(self, name: str, idx: Sequence[int]) -> Floats:
        """Return some rows of a tensor."""
        return _widen(self._raw(name)[list(idx)])

    def get(self, name: str) -> Floats:
        """Return a tensor."""
        if name not in self._widened:
            self._widened[name] = _widen(self._raw(name))
        return self._widened[name]

    def _raw(self, name: str) -> npt.NDArray[np.uint16]:
        first, end = self._header[name]["data_offsets"]
        raw = self._bytes[self._start + first : self._start + end].view(np.uint16)
        return raw.reshape(self._header[name]["shape"])


def _unit(vectors: Floats) -> Floats:
    unit: Floats = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return unit


def _widen(raw: npt.NDArray[np.uint16]) -> Floats:
    """Return bfloat16 as float32, of which it is the upper half."""
    return (raw.astype(np.uint32) << 16).view(np.float32)


def _gelu(x: Floats) -> Floats:
    """Return x Φ(x), by the approximation 7.1.26 of Abramowitz and Stegun, to 1e-7."""
    z = np.abs(x) / np.sqrt(2, dtype=np.float32)
    t = 1 / (1 + 0.3275911 * z)
    series = t * (
        0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))
    )
    erf = np.sign(x) * (1 - series * np.exp(-z * z))
    result: Floats = (x * (1 + erf) / 2).astype(np.float32)
    return result
