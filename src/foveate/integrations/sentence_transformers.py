"""Foveate in sentence-transformers: an encoder as its first module."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from os import PathLike
from typing import Any

if not find_spec("sentence_transformers"):
    raise ImportError(
        "this module needs sentence-transformers: run "
        "`pip install 'foveate[sentence-transformers]'`"
    )

from sentence_transformers.base.modules import InputModule

from foveate.inference import Encoder, as_encoder


class FoveateModule(InputModule):
    """An encoder that reads every text by itself, to its end.

    `SentenceTransformer(modules=[FoveateModule()])` has all methods of sentence-transformers; its
    vectors are those of `Encoder.encode_texts`. It cannot be trained. For vectors of chunks that
    depend on the chunks around them, see `foveate.integrations.chunks.encode_chunks`.

    Args:
        model: An encoder, or the name or path of its checkpoint; by default foveate's own model.
        options: Options of `Encoder.from_pretrained` for a model that is not loaded yet.
    """

    config_keys = ["model", "options"]  # noqa: RUF012 -- declared so by the base class

    def __init__(
        self,
        model: Encoder | str | PathLike[str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.encoder = as_encoder(model, **(options or {}))
        self.network = self.encoder.model  # which goes where sentence-transformers moves it

    def preprocess(
        self, inputs: Sequence[str], prompt: str | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Keep texts as they are, since the encoder fills batches by their number of tokens."""
        return {"texts": [f"{prompt or ''}{text}" for text in inputs]}

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Add the vectors of the texts, `(texts, dimension)`, as `sentence_embedding`."""
        vectors = self.encoder.encode_texts(features["texts"], show_progress=False)
        return {**features, "sentence_embedding": vectors.to(self.encoder.model.device)}

    def get_embedding_dimension(self) -> int:
        """Return the length of the vectors."""
        return self.encoder.dimension

    def get_config_dict(self) -> dict[str, Any]:
        """Return the arguments, for sentence-transformers to store."""
        return {"model": self.encoder.name, "options": self.encoder.options}

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        """Write the name of the checkpoint, from which `load` loads it."""
        self.save_config(output_path)
