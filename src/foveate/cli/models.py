"""Loading the model that a command uses."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from foveate.cache import Cache
from foveate.progress import progress
from foveate.tasks.parameters import parameter

from .command import Command, options
from .common import open_library, silence

if TYPE_CHECKING:
    from foveate.index import Index
    from foveate.inference import Answerer, Encoder, Summarizer
    from foveate.inference.reranker import Reranker

ENCODER = (
    "Encoder checkpoint, a folder or a name on the Hugging Face hub. Default: foveate's own model"
)
OF_LIBRARY = "; with a library, the one that it was built with."
WRITER = (
    "Checkpoint, a folder or a name on the hub. An encoder chooses what is shown; a model that "
    "generates text (ask: T5; summarize: T5, BART, LED …) writes in its own words. Default: "
    f"foveate's own model{OF_LIBRARY}"
)
TOKENIZER = "Checkpoint whose tokenizer is used. Default: foveate's own model."
RERANKER = (
    "Checkpoint of a reranker, a folder or a name on the hub: a cross-encoder sorts the best 50 "
    "passages, a multi-vector model the best 200."
)
DEVICE = "Where the model runs: cpu, cuda, cuda:1 … Default: the GPU, if there is one."
_PANEL = "Encoders of other authors"
_log = logging.getLogger(__name__)
Writer = TypeVar("Writer", "Answerer", "Summarizer")


def _check_checkpoint(name_or_path: str | None) -> str | None:
    """Check that there is such a checkpoint before anything is read or imported."""
    if name_or_path is not None:
        silence()
        from foveate.checkpoints import check_name_or_path  # takes a moment

        check_name_or_path(name_or_path)
    return name_or_path


def checkpoint(description: str) -> Any:
    """Declare the name or path of a checkpoint as an option."""
    return parameter(description, None, metavar="PATH", callback=_check_checkpoint)


@dataclass(kw_only=True)
class LoadingOptions(Command):
    """The options that say how a model is loaded; the last four are for encoders of others."""

    model: str | None = checkpoint(f"{ENCODER}.")
    device: str | None = parameter(DEVICE, None, metavar="NAME")
    dtype: str | None = parameter(
        "Precision of the model: float32, bfloat16 or float16. bfloat16 is faster on processors "
        "with instructions for it.",
        None,
        metavar="NAME",
    )
    dimensions: int | None = parameter(
        "Number of dimensions to keep of the vectors of a model that was trained for it.",
        None,
        ge=1,
        panel=_PANEL,
    )
    query_prompt: str | None = parameter(
        "What to put before queries, such as 'query: '. Default: what the model says.",
        None,
        metavar="TEXT",
        panel=_PANEL,
    )
    document_prompt: str | None = parameter(
        "What to put before sentences, such as 'passage: '. Default: what the model says.",
        None,
        metavar="TEXT",
        panel=_PANEL,
    )
    trust_remote_code: bool = parameter(
        "Run Python code that comes with the model.", False, panel=_PANEL
    )

    def loading(self) -> dict[str, Any]:
        """Return the options that are given, as those of `Encoder.from_pretrained`."""
        names = (one.name for one in options(LoadingOptions) if one.name != "model")
        given = {name: getattr(self, name) for name in names}
        return {name: value for name, value in given.items() if value not in (None, False)}

    def load_encoder(self, cache: Cache | None = None) -> "Encoder":
        """Load an encoder, which keeps the vectors of documents in a cache if it is given one."""
        prepare()
        from foveate.inference import Encoder

        with progress("Loading the model", None):
            encoder = Encoder.from_pretrained(self.model, **self.loading())
        _log.info("model: %s", encoder.describe())
        encoder.cache = cache
        return encoder

    def load_encoder_or(
        self, writer: "type[Writer]", cache: Cache | None, **guidance: Any
    ) -> "Encoder | Writer":
        """Load an encoder or, from an encoder-decoder's checkpoint, a generative model."""
        prepare()
        from foveate.inference.encoder import is_writer

        if self.model is None or not is_writer(self.model):
            return self.load_encoder(cache)
        given = self.loading()
        device, dtype = given.pop("device", None), given.pop("dtype", None)
        if given:
            name = next(iter(given)).replace("_", "-")
            raise ValueError(
                f"--{name} is for encoders, and {self.model} is a generative model: leave it out"
            )
        with progress("Loading the model", None):
            return writer.from_pretrained(self.model, device=device, dtype=dtype, **guidance)

    def open_library(self, library: Path) -> "Index":
        """Open a library, which loads torch only when it must."""
        return open_library(library, model=self.model, **self.loading())


def load_reranker(name_or_path: str) -> "Reranker":
    """Load a reranker."""
    prepare()
    from foveate.inference.reranker import as_reranker

    with progress("Loading the reranker", None):
        return as_reranker(name_or_path)


def prepare() -> None:
    """Import what runs models, and turn off the messages of transformers and the hub."""
    silence()
    with progress("Starting", None):
        import foveate.inference.encoder  # noqa: F401  (takes seconds)
