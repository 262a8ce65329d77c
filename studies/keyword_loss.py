"""Do keywords help to write a summary's content words? EGAD's claim, by loss and with power.

    python studies/keyword_loss.py --prepare FOLDER       # tokenize the texts
    python studies/keyword_loss.py --data FOLDER --minutes 8.5
    python studies/keyword_loss.py --docs                 # write saved results into the page

A small LED whose windows reach 16 tokens to each side is pretrained to write sentences removed from
a text and, in a quarter of the steps, answers and summaries of whole texts, but never the summary
of a whole meeting. Whole texts come in equal shares without keywords, with keywords before the
text, with the first place of each keyword in the text as a global token, and with keywords before
the text as global tokens, as EGAD has them. For each seed, which draws meetings to learn from, and
each way to give keywords, it is fine-tuned from the same weights in the same order. Then it reads
meetings kept apart, and the loss of their summaries' words is measured, given the words before.
Differences are paired by seed and meeting. To tell what a difference is worth, the model without
keywords also reads another meeting in place of the right one.

An interrupted run continues when the command is repeated. A seed that has not finished is named in
the results and left out of the tables.
"""

import argparse
import gzip
import json
import lzma
import time
from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import chain
from multiprocessing import Pool
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.stats import t as student_t
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    LEDConfig,
    LEDForConditionalGeneration,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)
from transformers.utils import logging

import runs
import small_encoders
from benchmarks import report
from benchmarks.structured_documents import (
    answers,
    meetings,
    papers,
    read_records,
    without_abstracts,
)
from foveate import Document
from foveate.detectors import tfidf
from foveate.detectors.keyword import words
from foveate.models.speed_ups import speed_up
from foveate.preprocessing.collate import IGNORE_INDEX
from foveate.preprocessing.text import plain_text

RESULTS = report.STUDIES / "results" / "keyword-loss.json"
PAGE = report.STUDIES / "keywords.md"
SEED = 0
VOCABULARY, LENGTH, TARGET_LENGTH = 8000, 4096, 192
PREFIX = 256  # tokens that keywords before a text, and what surrounds the text, may take
MOST_KEYWORDS = 50
HELD_OUT = 40  # meetings of the train part that are kept for testing
REMOVED_SHARE = 0.3
SENTENCES = 24  # of a piece from which some are removed
WHOLE_TEXT_SHARE = 0.25  # of the steps; fewer whole texts fit into a batch
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
BOS, PAD, EOS, _, MASK = range(len(SPECIAL))
FORMS = ("none", "before the text", "global in the text", "global before the text")
FUNCTION, CONTENT, KEYWORD = range(3)
"""Kinds of a summary's tokens: of stop words and punctuation, of content words, of keywords."""


class Arm(NamedTuple):
    """How keywords are given.

    Attributes:
        form: One of `FORMS`.
        keywords: Number of keywords.
        of_another: Whether they are another meeting's.
    """

    form: str
    keywords: int
    of_another: bool = False


ARMS = {
    "none": Arm("none", 0),
    "10, global before the text": Arm("global before the text", 10),
    "50, global before the text": Arm("global before the text", 50),
    "50, before the text": Arm("before the text", 50),
    "50, global in the text": Arm("global in the text", 50),
    "50 of another meeting, global before the text": Arm("global before the text", 50, True),
}
ANOTHER_TEXT = "none, but another meeting's text"
CONTRASTS = (
    ("50, global before the text", "50 of another meeting, global before the text"),
    ("50, global before the text", "50, before the text"),
    ("50, global before the text", "50, global in the text"),
)
SMOKE = {"layers": 1, "width": 64, "minutes": 0.5, "pretraining": 0.05, "seeds": 2, "limit": 12}


def main() -> None:
    parser = small_encoders.parser(__doc__.splitlines()[0], RESULTS, width=384)
    parser.set_defaults(layers=4)
    parser.add_argument("--documents", type=Path, default=report.DATA)
    parser.add_argument("--window", type=int, default=32, help="tokens that one sees, half a side")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--rate", type=float, default=6e-4, help="in pretraining")
    parser.add_argument("--tuning-rate", type=float, default=2e-4)
    parser.add_argument("--examples", type=int, default=32, help="meetings to fine-tune on")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=4, help="meetings per step of fine-tuning")
    parser.add_argument("--pretraining", type=float, default=3, help="minutes")
    parser.add_argument(
        "--minutes", type=float, default=8.5, help="after which no seed is begun, all included"
    )
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--processes", type=int, default=4, help="that share the seeds and a GPU")
    parser.set_defaults(length=LENGTH, target_length=TARGET_LENGTH)
    small_encoders.run_script(parser, SMOKE, prepare, run_all, write_page)


def write_page(results: Path) -> None:
    """Write saved results into the page."""
    report.write_tables(PAGE, tables(report.load(results)))


# Texts

Pair = tuple[str, str]
"""A text, and what is to be written about it."""


class Item(NamedTuple):
    """A text and what is to be written about it, as tokens.

    Attributes:
        text: `(tokens,)`.
        target: `(tokens,)`, with the end of the sequence.
        kinds: `(tokens of the target,)`.
        keywords: The tokens of each keyword, best first.
        places: `(keywords, 2)`, the first place of each in the text, and where it ends.
    """

    text: np.ndarray
    target: np.ndarray
    kinds: np.ndarray
    keywords: list[np.ndarray]
    places: np.ndarray


def prepare(options: argparse.Namespace, folder: Path) -> None:
    """Tokenize texts, targets and keywords, those of test meetings apart from all others."""
    logging.set_verbosity_error()  # of texts that are longer than what is read
    qmsum = options.documents / "qmsum"
    records = list(read_records(qmsum / "train.jsonl.gz"))[: options.limit]
    number = min(HELD_OUT, len(records) // 3)
    held_out = {int(i) for i in np.random.default_rng(0).choice(len(records), number, False)}
    with TemporaryDirectory() as name:
        texts = Path(name)
        (texts / "qmsum").mkdir()
        for part in ("train", "held_out"):
            with gzip.open(texts / "qmsum" / f"{part}.jsonl.gz", "wt", encoding="utf-8") as file:
                for i, record in enumerate(records):
                    if (i in held_out) == (part == "held_out"):
                        file.write(json.dumps(record) + "\n")
        (texts / "scisummnet").symlink_to((options.documents / "scisummnet").absolute())
        pairs = pairs_of(texts)[: options.limit]
        sources = sentences_of(texts)[: options.limit]
        train = list(meetings(texts / "qmsum" / "train.jsonl.gz"))
        test = list(meetings(texts / "qmsum" / "held_out.jsonl.gz"))
        test += list(meetings(qmsum / "val.jsonl.gz"))[: options.limit]
    corpus = [line for pair in pairs for line in pair] + [" ".join(text) for text in sources]
    tokenizer = make_tokenizer(corpus, VOCABULARY)
    arrays: dict[str, np.ndarray] = {"vocabulary": np.array(len(tokenizer))}
    tokens = [[encoded(tokenizer, f" {sentence}") for sentence in text] for text in sources]
    put_ragged(arrays, "sentences", [sentence for text in tokens for sentence in text])
    arrays["sources"] = np.array([len(text) for text in tokens])
    for part, examples in (("train", train), ("test", test)):
        examples = [example for example in examples if example.references]
        arrays[f"{part}_domains"] = np.array([example.labels[0] for example in examples])
        its = [(plain_text(example.document), example.references[0]) for example in examples]
        put_items(arrays, part, its, tokenizer)
    put_items(arrays, "pairs", pairs, tokenizer)
    buffer = BytesIO()
    np.savez(buffer, **arrays)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "keyword-loss.npz.xz"
    file.write_bytes(lzma.compress(buffer.getvalue()))
    print(f"{file}: {file.stat().st_size / 1e6:.1f} MB", flush=True)


def pairs_of(data: Path) -> list[Pair]:
    """List texts with what is to be written about them, from the train splits.

    These are what was said on a topic with an annotator's answer to a question about it, and papers
    with the summaries that people wrote of them.
    """
    pairs = [
        (f"{question}\n{said}", answer)
        for question, said, answer in answers(data / "qmsum" / "train.jsonl.gz")
    ]
    for paper, example in without_abstracts(papers(data / "scisummnet" / "train.jsonl.gz")):
        pairs.append((plain_text(paper), example.references[0]))
    return pairs


def sentences_of(data: Path) -> list[list[str]]:
    """List the sentences of each meeting and paper, some of which are to be removed and written."""
    examples = chain(
        meetings(data / "qmsum" / "train.jsonl.gz"), papers(data / "scisummnet" / "train.jsonl.gz")
    )
    return [[sentence.text for sentence in example.document.sentences()] for example in examples]


def make_tokenizer(corpus: list[str], size: int) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    # It leaves spaces out of the offsets.
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", EOS), ("<s>", BOS))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def put_items(
    arrays: dict[str, np.ndarray],
    part: str,
    pairs: Sequence[Pair],
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    """Add the items of a part to the arrays."""
    with Pool(2) as pool:
        items = pool.starmap(item_of, [(*pair, tokenizer) for pair in pairs], chunksize=8)
    for column in ("text", "target", "kinds"):
        put_ragged(arrays, f"{part}_{column}", [getattr(item, column) for item in items])
    put_ragged(arrays, f"{part}_keywords", [its for item in items for its in item.keywords])
    put_ragged(arrays, f"{part}_places", [item.places for item in items])
    sizes = [len(item.text) for item in items]
    print(f"{part}: {len(items)} texts of {np.mean(sizes):.0f} tokens", flush=True)


def put_ragged(arrays: dict[str, np.ndarray], name: str, parts: Sequence[np.ndarray]) -> None:
    """Add arrays of different lengths, joined, with their lengths."""
    arrays[name] = np.concatenate(parts)
    arrays[f"{name}_sizes"] = np.array([len(part) for part in parts])


def ragged(arrays: dict[str, np.ndarray], name: str) -> list[np.ndarray]:
    """Return the arrays that `put_ragged` added."""
    return np.split(arrays[name], arrays[f"{name}_sizes"].cumsum()[:-1])


def encoded(tokenizer: PreTrainedTokenizerFast, text: str) -> np.ndarray:
    """Tokenize a text without special tokens."""
    return np.array(tokenizer(text, add_special_tokens=False)["input_ids"], np.uint16)


def item_of(text: str, target: str, tokenizer: PreTrainedTokenizerFast) -> Item:
    """Tokenize a text as far as it is read, its keywords, and what is to be written about it."""
    tokens = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    ids = np.array(tokens["input_ids"], np.uint16)[: LENGTH - PREFIX]
    offsets = np.array(tokens["offset_mapping"])[: LENGTH - PREFIX]
    text = text[: offsets[-1, 1]]
    first: dict[str, tuple[int, int]] = {}
    for word in words(text):
        first.setdefault(word.key, (word.start, word.end))
    ranked = tfidf(Document.from_text(text, language="en"), MOST_KEYWORDS)
    keywords = [keyword.text for keyword in ranked if keyword.text.lower() in first]
    places = []
    for keyword in keywords:
        start, end = first[keyword.lower()]
        inside = np.flatnonzero((offsets[:, 0] < end) & (offsets[:, 1] > start))
        places.append((inside[0], inside[-1] + 1))
    said = tokenizer(target, add_special_tokens=False, return_offsets_mapping=True)
    target_ids = [*said["input_ids"][: TARGET_LENGTH - 1], EOS]
    kinds = kinds_of(target, said["offset_mapping"], {keyword.lower() for keyword in keywords})
    return Item(
        ids,
        np.array(target_ids, np.uint16),
        np.append(kinds[: TARGET_LENGTH - 1], FUNCTION).astype(np.int8),
        [encoded(tokenizer, f" {keyword}") for keyword in keywords],
        np.array(places, np.int16).reshape(-1, 2),
    )


def kinds_of(text: str, offsets: Sequence[tuple[int, int]], keywords: set[str]) -> np.ndarray:
    """Return the kind of each token: content words are those that scikit-learn does not stop."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    starts, ends = np.array(offsets).reshape(-1, 2).T
    kinds = np.full(len(starts), FUNCTION)
    for word in words(text):
        if word.key not in ENGLISH_STOP_WORDS and len(word.key) > 1:
            inside = (starts < word.end) & (ends > word.start)
            kinds[inside] = KEYWORD if word.key in keywords else CONTENT
    return kinds


class Texts:
    """What `prepare` wrote."""

    def __init__(self, file: Path) -> None:
        self.arrays = dict(np.load(BytesIO(lzma.decompress(file.read_bytes()))))
        self.vocabulary = int(self.arrays["vocabulary"])
        sentences = iter(ragged(self.arrays, "sentences"))
        self.sources = [[next(sentences) for _ in range(n)] for n in self.arrays["sources"]]

    def items(self, part: str) -> list[Item]:
        """Return the items of a part: train, test or pairs."""
        keywords = iter(ragged(self.arrays, f"{part}_keywords"))
        columns = [ragged(self.arrays, f"{part}_{name}") for name in ("text", "target", "kinds")]
        places = ragged(self.arrays, f"{part}_places")
        return [
            Item(*its, [next(keywords) for _ in at], at)
            for *its, at in zip(*columns, places, strict=True)
        ]

    def others(self, part: str) -> list[int]:
        """Return another item of the same domain for each item, each of them once."""
        domains = self.arrays[f"{part}_domains"]
        found = np.zeros(len(domains), int)
        for domain in np.unique(domains):
            # meetings of one team follow each other and share words
            order = np.random.default_rng(0).permutation(np.flatnonzero(domains == domain))
            found[order] = np.roll(order, 1)
        return found.tolist()


def inputs(item: Item, form: str, number: int, other: Item | None = None) -> dict[str, Tensor]:
    """Return the ids of keywords and text, and which are global, besides the first token.

    Args:
        item: The text.
        form: One of `FORMS`.
        number: Number of keywords.
        other: Whose keywords are given; by default the text's own.
    """
    prefix = np.array([], np.int64)
    if form.endswith("before the text"):
        parts = (other or item).keywords[:number]
        prefix = np.concatenate([prefix, *parts])[: PREFIX - 3]
        prefix = np.append(prefix, EOS)
    ids = np.concatenate([[BOS], prefix, item.text, [EOS]]).astype(np.int64)
    is_global = np.zeros(len(ids), np.int64)
    is_global[0] = 1
    if form == "global before the text":
        is_global[1 : len(prefix)] = 1  # but not what ends them
    elif form == "global in the text":
        for start, end in item.places[:number]:
            is_global[1 + start : 1 + end] = 1
    return {
        "input_ids": torch.from_numpy(ids),
        "global_attention_mask": torch.from_numpy(is_global),
    }


def arm_inputs(item: Item, arm: Arm, other: Item) -> dict[str, Tensor]:
    """Return the inputs of an arm; `other` is the item whose keywords it may need."""
    return inputs(item, arm.form, arm.keywords, other if arm.of_another else None)


def batch_of(
    features: Sequence[dict[str, Tensor]], targets: Sequence[np.ndarray], device: str
) -> dict[str, Tensor]:
    """Pad inputs and targets, and put them on a device."""
    fill = {"input_ids": PAD, "global_attention_mask": 0}
    batch = {
        name: pad_sequence([its[name] for its in features], True, value)
        for name, value in fill.items()
    }
    batch["attention_mask"] = (batch["input_ids"] != PAD).long()
    labels = [torch.from_numpy(target.astype(np.int64)) for target in targets]
    batch["labels"] = pad_sequence(labels, True, IGNORE_INDEX)
    return {name: column.to(device, non_blocking=True) for name, column in batch.items()}


# Training


def gap(sentences: list[np.ndarray], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw a piece of a text with some long sentences hidden, and these sentences."""
    start = int(rng.integers(max(1, len(sentences) - SENTENCES)))
    piece = sentences[start : start + SENTENCES]
    long = [i for i, sentence in enumerate(piece) if len(sentence) > 8] or [0]
    number = max(1, min(8, round(REMOVED_SHARE * len(long))))
    gone = sorted(rng.choice(long, number, replace=False).tolist())
    shown = [[MASK] if i in gone else sentence for i, sentence in enumerate(piece)]
    hidden = np.concatenate([piece[i] for i in gone])[: TARGET_LENGTH - 1]
    return np.concatenate(shown)[: LENGTH - PREFIX], np.append(hidden, EOS)


def pretraining_losses(
    model: PreTrainedModel, data: Texts, step: int, device: str
) -> Iterator[Tensor]:
    """Yield losses of hidden sentences, and of targets of whole texts, from a step on."""
    pairs = data.items("pairs")
    while True:
        rng = np.random.default_rng([SEED, step])
        step += 1
        if rng.random() < WHOLE_TEXT_SHARE:
            chosen = [pairs[i] for i in rng.integers(len(pairs), size=8)]
            features = [
                inputs(
                    item, FORMS[rng.integers(len(FORMS))], int(rng.integers(10, MOST_KEYWORDS + 1))
                )
                for item in chosen
            ]
            targets = [item.target for item in chosen]
        else:
            drawn = rng.integers(len(data.sources), size=64)
            texts, targets = zip(*(gap(data.sources[i], rng) for i in drawn), strict=True)
            nothing = np.zeros((0, 2), int)
            items = [Item(text, text, text, [], nothing) for text in texts]
            features = [inputs(item, "none", 0) for item in items]
        yield loss_of(model, batch_of(features, targets, device))


def loss_of(model: PreTrainedModel, batch: dict[str, Tensor]) -> Tensor:
    """Return the mean loss of the target's tokens."""
    with small_encoders.mixed_precision(model.device.type):
        loss: Tensor = model(**batch, use_cache=False).loss
    return loss


def make_model(options: argparse.Namespace, vocabulary: int) -> LEDForConditionalGeneration:
    torch.manual_seed(SEED)
    heads = max(1, options.width // 64)
    return LEDForConditionalGeneration(
        LEDConfig(
            vocab_size=vocabulary,
            d_model=options.width,
            encoder_layers=options.layers,
            decoder_layers=options.layers,
            encoder_attention_heads=heads,
            decoder_attention_heads=heads,
            encoder_ffn_dim=4 * options.width,
            decoder_ffn_dim=4 * options.width,
            attention_window=options.window,
            dropout=options.dropout,
            max_encoder_position_embeddings=options.length,
            max_decoder_position_embeddings=options.target_length + 2,
            bos_token_id=0,
            pad_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=2,
        )
    )


def fast_model(options: argparse.Namespace, data: Texts, device: str) -> PreTrainedModel:
    logging.set_verbosity_error()  # each batch is padded to the window, and said to be
    return speed_up(make_model(options, data.vocabulary)).to(device)


def pretrain(options: argparse.Namespace) -> None:
    """Pretrain the model, or go on with it."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data = Texts(options.data / "keyword-loss.npz.xz")
    model = fast_model(options, data, device)
    small_encoders.train(
        small_encoders.minutes(options.pretraining),
        model,
        lambda step: pretraining_losses(model, data, step, device),
        options.state / "pretraining",
        options.rate,
        falls=True,
        name="pretraining",
    )


def tune(
    model: PreTrainedModel,
    features: Sequence[dict[str, Tensor]],
    targets: Sequence[np.ndarray],
    order: Sequence[np.ndarray],
    rate: float,
) -> None:
    """Fine-tune on batches of examples, whose numbers are given, with a rate that falls to 0."""
    device = model.device.type
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01, fused=device == "cuda")
    model.train()
    for step, chosen in enumerate(order):
        optimizer.param_groups[0]["lr"] = rate * (1 - step / len(order))
        batch = batch_of([features[i] for i in chosen], [targets[i] for i in chosen], device)
        loss_of(model, batch).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def order_of(number: int, options: argparse.Namespace, seed: int) -> list[np.ndarray]:
    """Draw the examples of a seed, in the same batches for every arm."""
    rng = np.random.default_rng(seed)
    drawn = rng.permutation(number)[: options.examples]
    return [
        batch
        for _ in range(options.epochs)
        for batch in np.array_split(rng.permutation(drawn), -(-len(drawn) // options.batch))
    ]


@torch.no_grad()
def losses_by_kind(
    model: PreTrainedModel, features: Sequence[dict[str, Tensor]], items: Sequence[Item]
) -> np.ndarray:
    """Return the sum of the losses of each kind of token of each target, `(items, kinds)`."""
    model.eval()
    sums = []
    for start in range(0, len(items), 16):
        part = items[start : start + 16]
        batch = batch_of(
            features[start : start + 16], [item.target for item in part], model.device.type
        )
        with small_encoders.mixed_precision(model.device.type):
            logits = model(**batch, use_cache=False).logits
        labels = batch["labels"]
        losses = nn.functional.cross_entropy(
            logits.float().transpose(1, 2), labels, reduction="none", ignore_index=IGNORE_INDEX
        )
        for item, its in zip(part, losses.cpu().double().numpy(), strict=True):
            sums.append(np.bincount(item.kinds, its[: len(item.kinds)], minlength=3))
    return np.array(sums)


# Runs


def run_all(options: argparse.Namespace) -> None:
    """Pretrain, fine-tune all arms for all seeds until the time is over, and save the results."""
    stop = time.time() + 60 * options.minutes
    options.state.mkdir(parents=True, exist_ok=True)
    try:
        todo = [s for s in range(options.seeds) if not seed_file(options, s).exists()]
        if todo and options.minutes > 0:
            runs.run_in_parallel(pretrain, [(options,)])
            parts = [todo[i :: options.processes] for i in range(options.processes)]
            runs.run_in_parallel(run, [(part, stop, options) for part in parts if part])
    finally:
        gather(options)


def seed_file(options: argparse.Namespace, seed: int) -> Path:
    return Path(options.state / f"seed_{seed}.npy")


def run(seeds: Sequence[int], stop: float, options: argparse.Namespace) -> None:
    """Save `(arms and another text, meetings, kinds)` sums of losses for each seed."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_num_threads(1)
    data = Texts(options.data / "keyword-loss.npz.xz")
    model = fast_model(options, data, device)
    runs.load_weights(options.state / "pretraining", model)
    pretrained = {name: p.detach().clone() for name, p in model.named_parameters()}
    train, test = data.items("train"), data.items("test")
    of_train, of_test = (
        [items[i] for i in data.others(part)] for part, items in (("train", train), ("test", test))
    )
    for seed in seeds:
        if time.time() > stop:
            print(f"no time for seed {seed}", flush=True)
            return
        begun = time.time()
        order = order_of(len(train), options, seed)
        found = []
        for arm in ARMS.values():
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    parameter.copy_(pretrained[name])
            features = [
                arm_inputs(item, arm, other) for item, other in zip(train, of_train, strict=True)
            ]
            tune(model, features, [item.target for item in train], order, options.tuning_rate)
            features = [
                arm_inputs(item, arm, other) for item, other in zip(test, of_test, strict=True)
            ]
            found.append(losses_by_kind(model, features, test))
            if arm.form == "none":
                features = [arm_inputs(other, arm, other) for other in of_test]
                another = losses_by_kind(model, features, test)
        partial = seed_file(options, seed).with_suffix(".tmp.npy")
        np.save(partial, np.stack([*found, another]))
        partial.replace(seed_file(options, seed))
        loss = found[0][:, CONTENT:].sum() / sum((item.kinds >= CONTENT).sum() for item in test)
        print(f"seed {seed}: content {loss:.3f}, {time.time() - begun:.1f} s", flush=True)


# Results


def gather(options: argparse.Namespace) -> None:
    """Save the losses and differences of the seeds that finished, and print the tables."""
    done = [seed for seed in range(options.seeds) if seed_file(options, seed).exists()]
    missing = [f"seed {seed}" for seed in range(options.seeds) if seed not in done]
    keys = (
        *("layers", "width", "window", "dropout", "rate", "tuning_rate", "examples", "epochs"),
        *("batch", "pretraining", "length", "target_length"),
    )
    log = options.state / "pretraining" / "log.json"
    results: dict[str, Any] = {
        "recipe": {key: getattr(options, key) for key in keys},
        "pretraining": json.loads(log.read_text()) if log.exists() else None,
        "seeds": done,
    }
    if len(done) > 1:
        data = Texts(options.data / "keyword-loss.npz.xz")
        kinds = [np.bincount(item.kinds, minlength=3) for item in data.items("test")]
        sums = np.stack([np.load(seed_file(options, seed)) for seed in done])
        results |= effects(sums, np.array(kinds), data.arrays["test_domains"])
    report.save(options.results, results, "transformers", "scipy", missing=missing)
    if "arms" in results:
        for name, table in tables(results).items():
            print(f"\n{name}\n\n{table}")


def effects(sums: np.ndarray, counts: np.ndarray, domains: np.ndarray) -> dict[str, Any]:
    """Compare all arms with none, and those of `CONTRASTS`.

    Args:
        sums: `(seeds, arms and another text, meetings, kinds)`, of losses.
        counts: `(meetings, kinds)`, numbers of tokens.
        domains: `(meetings,)`.
    """
    with np.errstate(invalid="ignore"):  # some summaries have no keyword
        by_kind = {
            "content words": sums[..., CONTENT:].sum(-1) / counts[:, CONTENT:].sum(-1),
            "keywords": sums[..., KEYWORD] / counts[:, KEYWORD],
            "other content words": sums[..., CONTENT] / counts[:, CONTENT],
            "other tokens": sums[..., FUNCTION] / counts[:, FUNCTION],
        }
    content = by_kind["content words"]
    names = [*ARMS, ANOTHER_TEXT]
    arms = []
    for i, name in enumerate(names):
        row: dict[str, Any] = {"arm": name, "loss": content[:, i].mean()}
        row["each seed"] = content[:, i].mean(1).round(4).tolist()
        row["each meeting"] = content[:, i].mean(0).round(4).tolist()
        if i:
            row["against none"] = {
                kind: effect(losses[:, i] - losses[:, 0]) for kind, losses in by_kind.items()
            } | {
                str(domain): effect((content[:, i] - content[:, 0])[:, domains == domain])
                for domain in np.unique(domains)
            }
        arms.append(row)
    contrasts = [
        {"of": of, "from": other}
        | effect(content[:, names.index(of)] - content[:, names.index(other)])
        for of, other in CONTRASTS
    ]
    number = {str(domain): int((domains == domain).sum()) for domain in np.unique(domains)}
    words_of = {
        kind: int(its)
        for kind, its in zip(("other", "content", "keyword"), counts.sum(0), strict=True)
    }
    return {"meetings": number, "tokens": words_of, "arms": arms, "contrasts": contrasts}


def effect(differences: np.ndarray) -> dict[str, float]:
    """Return the mean of paired differences `(seeds, meetings)`, and how sure it is.

    Seeds and meetings are both drawn, so the variances of their means add up. What remains within
    them is thus counted twice, which makes the standard error a little too large. Meetings without
    the kind of token are left out.

    Returns:
        `mean`, `error` (standard), `p` of a two-sided t-test, and `least`, the smallest effect that
        such a test at 5 % finds in 80 % of the cases.
    """
    differences = differences[:, ~np.isnan(differences).any(0)]
    seeds, number = differences.shape
    variance = differences.mean(1).var(ddof=1) / seeds + differences.mean(0).var(ddof=1) / number
    mean, error, freedom = differences.mean(), variance**0.5, min(seeds, number) - 1
    return {
        "mean": float(mean),
        "error": float(error),
        "p": float(2 * student_t.sf(abs(mean) / error, freedom)),
        "least": float(student_t.ppf([0.975, 0.8], freedom).sum() * error),
    }


def tables(results: dict[str, Any]) -> dict[str, str]:
    """Return tables of content words, of other words and domains, and of contrasts."""
    first, second = [], []
    kinds = ["keywords", "other content words", "other tokens"]
    for row in results["arms"]:
        found = row.get("against none")
        cells = [row["arm"], f"{row['loss']:.3f}"]
        first.append([*cells, *(_cells(found["content words"]) if found else [None] * 3)])
        if found:
            columns = [found[name] for name in (*kinds, *results["meetings"])]
            second.append([row["arm"], *(_cells(its)[0] for its in columns)])
    certain = ["against none", "p", "found by 80 %"]
    meetings_of = [f"{name}, {number} meetings" for name, number in results["meetings"].items()]
    contrasts = [[its["of"], its["from"], *_cells(its)] for its in results["contrasts"]]
    return {
        "content words": report.table(["keywords", "loss of content words", *certain], first),
        "kinds and domains": report.table(["keywords", *kinds, *meetings_of], second),
        "contrasts": report.table(["keywords", "against", "difference", *certain[1:]], contrasts),
    }


def _cells(its: dict[str, float]) -> list[str]:
    """Format an effect: the mean with its standard error, p, and what would have been found."""
    p = "< 0.001" if its["p"] < 0.001 else f"{its['p']:.3f}"
    return [f"{its['mean']:+.4f} ± {its['error']:.4f}", p, f"{its['least']:.4f}"]


if __name__ == "__main__":
    main()
