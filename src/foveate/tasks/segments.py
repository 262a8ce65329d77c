"""What a model with VIP compression looks at closely in a document, layer by layer."""

from dataclasses import dataclass
from os import PathLike

import torch
from torch import Tensor

import foveate.models.vcc as vcc
from foveate.documents import Document, as_document
from foveate.inference.default import default_model_path
from foveate.models.device import device_named
from foveate.models.loading import load_config, load_model, load_tokenizer
from foveate.preprocessing.text import plain_text
from foveate.preprocessing.vcc import prompted

_ENCODERS = {
    "bert": vcc.VccBertModel,
    "roberta": vcc.VccRobertaModel,
    "t5": vcc.VccT5EncoderModel,
}


@dataclass(frozen=True)
class Segments:
    """What was looked at.

    Attributes:
        resolutions: `(layers, tokens)` int64, of how many tokens the segment is that a compressed
            layer saw each token of the document in.
        scores: `(layers, tokens)`, the share of the query's attention that the token's coarsest
            segment got.
        places: `(tokens,)` int64, where each token begins in the text that was read, which is the
            document's `foveate.preprocessing.text.plain_text`.
        first_layer: number of the first compressed layer, from 0.
    """

    resolutions: Tensor
    scores: Tensor
    places: Tensor
    first_layer: int


@torch.inference_mode()
def segments(
    document: Document,
    query: str,
    *,
    model: str | PathLike[str] | None = None,
    device: str | torch.device | None = None,
) -> Segments:
    """Read a document with the tokens of a query as VIP tokens.

    Args:
        document: of any length.
        query: what it is read for.
        model: a BERT, RoBERTa, T5 or VCC checkpoint, a folder or a name on the hub; by default
            all-MiniLM-L6-v2, whose later four layers are compressed.
        device: by default CUDA if there is one, else the CPU.

    Raises:
        ValueError: an empty query, or a model of another kind.

    Example:
        >>> from foveate import Document
        >>> from foveate.tasks.segments import segments
        >>> found = segments(Document.from_text("Cod swim. Eels are long."), "Who swims?")
        >>> found.resolutions.shape, found.first_layer
        (torch.Size([4, 7]), 2)
    """
    if not query.strip():
        raise ValueError("the query is empty: say what to look for")
    text = plain_text(as_document(document))
    path = str(default_model_path() if model is None else model)
    kind = load_config(path).model_type
    encoder = _ENCODERS.get(kind.removeprefix("vcc_"))
    if encoder is None:
        raise ValueError(f"{path} is a {kind} model: name a BERT, RoBERTa, T5 or VCC checkpoint")
    loaded = load_model(encoder, path).eval().to(device_named(device))
    row, places = prompted(load_tokenizer(path), query, text)
    inputs = {name: torch.tensor([ids], device=loaded.device) for name, ids in row.items()}
    out = loaded(**inputs, output_vip_scores=True)
    read = torch.tensor(places) >= 0
    return Segments(
        resolutions=torch.cat(out.resolutions).cpu()[:, read],
        scores=torch.cat(out.vip_scores).float().cpu()[:, read],
        places=torch.tensor(places)[read],
        first_layer=loaded.config.num_segment_layers,
    )
