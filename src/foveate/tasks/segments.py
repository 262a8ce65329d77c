"""The segments in which a model with VIP compression sees a document, layer by layer."""

from dataclasses import dataclass
from os import PathLike

import torch
from torch import Tensor

import foveate.models.vcc as vcc
from foveate.documents import Document, as_document
from foveate.inference import default_model_path
from foveate.inference.devices import resolve_device
from foveate.models.loading import load_config, load_model
from foveate.preprocessing import VCCProcessor, load_tokenizer
from foveate.tasks.arguments import check_query

_ENCODERS = {
    "bert": vcc.VccBertModel,
    "roberta": vcc.VccRobertaModel,
    "t5": vcc.VccT5EncoderModel,
    "tree_bert": vcc.VccBertModel,
}


@dataclass(frozen=True)
class Segments:
    """The segments in which each layer of a model saw a document.

    Attributes:
        resolutions: `(layers, tokens)` int64, the length in tokens of the segment in which a
            compressed layer saw each token of the document.
        sentence_ids: `(tokens,)` int64, which of `Document.sentences` each token belongs to, -1 for
            titles.
        first_layer: Index of the first compressed layer.
    """

    resolutions: Tensor
    sentence_ids: Tensor
    first_layer: int


@torch.inference_mode()
def segments(
    query: str,
    document: Document,
    *,
    model: str | PathLike[str] | None = None,
    device: str | torch.device | None = None,
) -> Segments:
    """Read a document with the tokens of a query as VIP tokens.

    Args:
        query: The query, whose tokens are the VIP tokens.
        document: A document of any length.
        model: A BERT, RoBERTa, T5 or VCC checkpoint, a folder or a name on the hub; by default
            foveate's own model, whose last four layers are compressed.
        device: The device to run on, by default CUDA if available, else the CPU.

    Raises:
        ValueError: The query is empty, or the model is of another kind.

    Example:
        >>> from foveate import Document
        >>> from foveate.tasks.segments import segments
        >>> result = segments("Who swims?", Document.from_text("Cod swim. Eels are long."))
        >>> result.resolutions.shape, result.first_layer
        (torch.Size([4, 7]), 2)
    """
    check_query(query)
    document = as_document(document)
    path = default_model_path() if model is None else model
    kind = load_config(path).model_type
    encoder_class = _ENCODERS.get(kind.removeprefix("vcc_"))
    if encoder_class is None:
        raise ValueError(f"{path} is a {kind} model: name a BERT, RoBERTa, T5 or VCC checkpoint")
    encoder = load_model(encoder_class, path).eval().to(resolve_device(device))
    processor = VCCProcessor(load_tokenizer(path))
    features = processor.features(document, query=query)
    inputs = processor.pad([processor.model_inputs(features)]).to(encoder.device)
    outputs = encoder(**inputs, output_vip_scores=True)
    is_document = (features["vip_mask"] == 0) & (features["special_tokens_mask"] == 0)
    return Segments(
        resolutions=torch.cat(outputs.resolutions).cpu()[:, is_document],
        sentence_ids=features["sentence_ids"][is_document],
        first_layer=encoder.config.num_segment_layers,
    )
