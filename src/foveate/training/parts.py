"""The vocabulary, the reader and the model that a recipe names."""

from collections.abc import Sequence
from inspect import signature

from transformers import (
    AutoConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from foveate.models import fovea, hdt, vcc  # noqa: F401  (makes them known to the Auto classes)
from foveate.models.accelerate import speed_up
from foveate.models.loading import load_tokenizer

from .entries import check, value
from .objectives.base import Example
from .reading import Reader, as_text, as_tree, with_keywords
from .recipe import Recipe
from .tokenizer import learn_tokenizer

_LEARNED_FROM = 5000
"""Documents from which a vocabulary is learned."""

_COLUMNS = {"tree": "parent_ids", "keywords": "global_attention_mask", "vips": "vip_mask"}
"""What models take that are read for in each way."""

_BESIDE = ("num_labels", "attn_implementation")
"""What configurations take and do not list."""


def vocabulary(
    recipe: Recipe, examples: Sequence[Example], checkpoint: str | None
) -> PreTrainedTokenizerBase:
    """Load or learn the vocabulary; that of the checkpoint, where a run goes on from one."""
    if checkpoint is None and isinstance(recipe.tokenizer, int):
        few = range(0, len(examples), max(1, len(examples) // _LEARNED_FROM))
        return learn_tokenizer((examples[i].document for i in few), recipe.tokenizer)
    name = checkpoint or recipe.tokenizer or recipe.model["checkpoint"]
    return load_tokenizer(str(name))


def reader_of(recipe: Recipe, tokenizer: PreTrainedTokenizerBase) -> Reader:
    """Make the reader."""
    data = recipe.data
    if data.read == "keywords":
        return with_keywords(tokenizer, data.max_length, data.keywords)
    if data.read == "tree":
        return as_tree(tokenizer, data.max_length)
    return as_text(tokenizer, data.max_length, vips=data.read == "vips")


def model_of(recipe: Recipe, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    """Make the model, or load its checkpoint.

    Raises:
        ValueError: an entry that the configuration has not; a vocabulary that is too large for the
            model; or a model that does not read as the recipe says, or cannot be sped up.
    """
    own = dict(recipe.model)
    checkpoint, kind = own.pop("checkpoint", None), own.pop("type", None)
    faster = value(own.pop("speed_up", False), bool, "model: speed_up")
    auto, asked = recipe.objective.auto, recipe.objective.configuration()
    if checkpoint is not None:
        reads = AutoConfig if kind is None else type(AutoConfig.for_model(kind))
        _check_entries(own, reads.from_pretrained(checkpoint))
        config = reads.from_pretrained(checkpoint, **own, **asked)
    else:
        _check_entries(own, AutoConfig.for_model(kind))
        special = {
            "vocab_size": len(tokenizer),
            "pad_token_id": tokenizer.pad_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "decoder_start_token_id": tokenizer.pad_token_id,
        }
        config = AutoConfig.for_model(kind, **{**special, **own, **asked})
    if len(tokenizer) > config.vocab_size:
        raise ValueError(
            f"the tokenizer has {len(tokenizer)} tokens, but the model knows {config.vocab_size}: "
            "name the tokenizer that the model was trained with"
        )
    if checkpoint is not None:
        model = auto.from_pretrained(checkpoint, config=config, use_safetensors=True)
    else:
        model = auto.from_config(config)
    check_reading(model, recipe.data.read)
    return speed_up(model) if faster else model


def check_reading(model: PreTrainedModel, read: str) -> None:
    """Raise a ValueError where a model does not take what documents are read to."""
    takes = {*signature(model.forward).parameters, *signature(model.base_model.forward).parameters}
    ways = [way for way, column in _COLUMNS.items() if column in takes]
    if ways != ["tree"]:  # whose models read nothing else
        ways.append("text")
    if read not in ways:
        raise ValueError(
            f"data: read is {read!r}, which {type(model).__name__} does not take: "
            f"let it be {' or '.join(map(repr, ways))}"
        )


def _check_entries(own: dict[str, object], config: PreTrainedConfig) -> None:
    check(own, {*config.to_dict(), *config.attribute_map, *_BESIDE}, "model")
