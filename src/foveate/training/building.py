"""Builders of what a recipe describes: examples, tokenizer, model, processor and data set."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import partial

import torch
from huggingface_hub.errors import StrictDataclassFieldValidationError
from transformers import (
    CONFIG_MAPPING,
    AutoConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from foveate.data import Corpus, Example, read_benchmark
from foveate.data.validation import validated
from foveate.documents import Document, DocumentError
from foveate.models import fovea, hdt, tree_bert, vcc  # noqa: F401  (registers them with the Auto classes)
from foveate.models.loading import explain_errors
from foveate.models.positions import repeat_positions
from foveate.models.speed_ups import speed_up
from foveate.preprocessing import DocumentProcessor, Features, load_tokenizer, processor_for

from .config import check_names
from .objectives import Objective
from .packing import PackedDataset, describe_place
from .recipe import Batch, Data, Recipe
from .tokenizer import train_tokenizer

_TOKENIZER_DOCUMENTS = 5000
"""About how many documents a tokenizer is trained on."""

_LENGTH_SAMPLES = 32
"""About how many examples are tokenized to estimate the number of tokens per byte."""

_UNLISTED_CONFIG_ENTRIES = ("num_labels", "attn_implementation")
"""Entries that configurations accept but do not list."""


def load_examples(data: Data, paths: Sequence[str]) -> tuple[Sequence[Example], list[int]]:
    """Load the examples of files, with their sizes in bytes or characters.

    Raises:
        OSError: A file does not exist.
        ValueError: A record is not in the benchmark's format, or there are none.
    """
    if not data.benchmark:
        corpus = Corpus(paths)
        return corpus, corpus.sizes
    examples = [example for path in paths for example in read_benchmark(data.benchmark, path)]
    if not examples:
        raise ValueError(f"there is no example in {', '.join(paths)}: check the files")
    return examples, [len(example.document.text) for example in examples]


def build_tokenizer(
    recipe: Recipe, examples: Sequence[Example], checkpoint: str | None = None
) -> PreTrainedTokenizerBase:
    """Load or train the tokenizer.

    Args:
        recipe: The recipe.
        examples: The examples to train a tokenizer on.
        checkpoint: The checkpoint from which a run resumes, whose tokenizer is used again.
    """
    if checkpoint is None and isinstance(recipe.tokenizer, int):
        step = max(1, len(examples) // _TOKENIZER_DOCUMENTS)
        sample = range(0, len(examples), step)
        return train_tokenizer(_readable_documents(examples, sample), recipe.tokenizer)
    return load_tokenizer(str(checkpoint or recipe.tokenizer or recipe.checkpoint))


def _readable_documents(examples: Sequence[Example], sample: Iterable[int]) -> Iterator[Document]:
    for i in sample:
        with suppress(DocumentError):  # of which `PackedDataset` warns
            yield examples[i].document


def build_model(recipe: Recipe, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    """Build a new model, or load a checkpoint.

    If the recipe asks for more positions than a checkpoint has (`max_position_embeddings`), the
    checkpoint's are repeated; see `foveate.models.positions.repeat_positions`.

    Raises:
        ValueError: The configuration has no such entry or rejects its value, the vocabulary is too
            large for the checkpoint, its positions cannot be repeated, or the model cannot be sped
            up.
    """
    overrides = dict(recipe.model)
    overrides.pop("checkpoint", None)
    checkpoint, model_type = recipe.checkpoint, overrides.pop("type", None)
    should_speed_up = validated(bool, overrides.pop("speed_up", False), "model: speed_up")
    auto_class, options = recipe.objective.auto_class, recipe.objective.config_options()
    if model_type is not None and model_type not in CONFIG_MAPPING:
        similar = get_close_matches(str(model_type), CONFIG_MAPPING, 1)
        suggestion = f": did you mean {similar[0]!r}?" if similar else ""
        raise ValueError(f"model: unknown type {model_type!r}{suggestion}")
    try:
        if checkpoint is not None:
            loader = AutoConfig if model_type is None else type(AutoConfig.for_model(model_type))
            _check_config_entries(overrides, loader.from_pretrained(checkpoint))
            num_positions = overrides.pop("max_position_embeddings", None)
            validated(int | None, num_positions, "model: max_position_embeddings")
            config = loader.from_pretrained(checkpoint, **overrides, **options)
        else:
            _check_config_entries(overrides, AutoConfig.for_model(model_type))
            start_id = tokenizer.pad_token_id  # as in T5, whose tokenizers have no <s>
            if tokenizer.bos_token_id is not None:
                start_id = tokenizer.bos_token_id
            vocabulary = {
                "vocab_size": len(tokenizer),
                "pad_token_id": tokenizer.pad_token_id,
                "eos_token_id": tokenizer.eos_token_id,
                "decoder_start_token_id": start_id,
            }
            config = AutoConfig.for_model(model_type, **{**vocabulary, **overrides, **options})
    except StrictDataclassFieldValidationError as error:
        raise ValueError(f"model: {error.__cause__}") from error
    if len(tokenizer) > config.vocab_size:
        raise ValueError(
            f"the tokenizer has {len(tokenizer)} tokens, but the model only {config.vocab_size}: "
            "name the tokenizer that the model was trained with"
        )
    model: PreTrainedModel
    try:
        if checkpoint is not None:
            # Half precision in a checkpoint is for storage: it would round small updates away.
            with explain_errors(checkpoint):
                model = auto_class.from_pretrained(
                    checkpoint, config=config, use_safetensors=True, dtype=torch.float32
                )
            if num_positions is not None:
                repeat_positions(model, num_positions)
        else:
            model = auto_class.from_config(config)
    except ValueError as error:
        if "Unrecognized configuration class" not in str(error):
            raise
        raise ValueError(
            f"model: a {config.model_type} model cannot be trained for this objective, since there "
            f"is none for {auto_class.__name__}: choose another model or another objective"
        ) from error  # which lists all models of transformers
    return speed_up(model) if should_speed_up else model


def build_processor(
    recipe: Recipe, config: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase
) -> DocumentProcessor:
    """Build the processor of the model's family with the recipe's options.

    Raises:
        ValueError: The processor has no such option, or rejects its value.
    """
    try:
        return processor_for(config, tokenizer, **recipe.processor)
    except (TypeError, ValueError) as error:
        raise ValueError(f"processor: {error}") from error


def build_dataset(
    examples: Sequence[Example],
    sizes: Sequence[int],
    objective: Objective,
    processor: DocumentProcessor,
    batch: Batch,
    seed: int,
) -> PackedDataset[Example]:
    """Build one epoch of packs, each of which is the batch of one device.

    Args:
        examples: The examples.
        sizes: Their sizes, in any unit that is proportional to tokens.
        objective: Makes features of an example.
        processor: The model's processor.
        batch: The size of a pack.
        seed: Seed of the order and of the objective's random decisions.
    """
    make_features = partial(objective.features, processor)
    if batch.documents is not None:
        lengths, budget = [1] * len(examples), batch.documents
    else:
        lengths = _estimate_lengths(examples, sizes, objective, processor)
        budget = batch.tokens or 0
    return PackedDataset(examples, lengths, budget, make_features, seed=seed)


def _estimate_lengths(
    examples: Sequence[Example],
    sizes: Sequence[int],
    objective: Objective,
    processor: DocumentProcessor,
) -> list[int]:
    """Estimate the tokens of each example from its size and the tokens of a sample."""
    generator = torch.Generator().manual_seed(0)
    samples: dict[int, list[Features]] = {}
    for i in range(0, len(examples), max(1, len(examples) // _LENGTH_SAMPLES)):
        try:
            samples[i] = objective.features(processor, examples[i], generator)
        except ValueError as error:  # of which `PackedDataset` warns
            last_error, last = error, i
    if not samples:
        place = describe_place(examples, last)
        raise ValueError(
            f"none of the examples that were tried can be used, such as {place}: {last_error}"
        ) from last_error
    num_tokens = {
        i: sum(len(features["input_ids"]) for features in sample) for i, sample in samples.items()
    }
    longest = math.inf
    if processor.max_length is not None:
        longest = processor.max_length * max(len(sample) for sample in samples.values())
    complete = [i for i in num_tokens if num_tokens[i] < longest] or list(num_tokens)
    rate = sum(num_tokens[i] for i in complete) / max(1, sum(sizes[i] for i in complete))
    return [int(min(longest, max(1, rate * size))) for size in sizes]


def _check_config_entries(overrides: dict[str, object], config: PreTrainedConfig) -> None:
    known = {*config.to_dict(), *config.attribute_map, *_UNLISTED_CONFIG_ENTRIES}
    check_names(overrides, known, "model")
