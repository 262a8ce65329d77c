"""Shared by benchmarks that train small encoders from scratch: documents, models, training.

Documents are arrays of nodes in reading order, as `HDTProcessor` lists them: an anchor for the
document, for each section and each sentence, and the tokens. HDT reads them as a tree. Its twins
have the same layers and read the tokens without anchors after one root, attending from each to all
or as Longformer does. HAT, with layers of its own, reads segments of equal length.
"""

import argparse
import json
import lzma
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import runs
from benchmarks.hat import HATConfig, HATModel, token_places
from document_nodes import DOCUMENT, TOKEN, Nodes, parents
from foveate import Document
from foveate.models.hdt import HDTConfig, HDTForMaskedLM
from foveate.models.hdt.modeling_hdt import HDTMaskedLMPredictions, Rotation
from foveate.ops.rotary import rotary_angles, rotate
from foveate.ops.tree_attention import Tree
from foveate.ops.window_attention import GlobalKeysValues, window_attention
from foveate.preprocessing import HDTProcessor

RATIO, WARM_UP = 0.15, 100
SEGMENT = 128  # tokens of HAT's, with the one that begins it
SAVED_EVERY = 60.0  # seconds
CHECKED = 20  # steps between looks at the clock, each of which waits for a GPU

# Documents, in one compressed file


def nodes_of(document: Document, processor: HDTProcessor) -> Nodes:
    """Tokenize a document."""
    features = processor.features(document)
    return (
        features["input_ids"].numpy().astype(np.uint16),
        features["node_types"].numpy().astype(np.int8),
    )


def write_documents(
    file: Path, processor: HDTProcessor, parts: dict[str, list[Nodes]], **others: np.ndarray
) -> None:
    """Write the documents of several parts, and other arrays."""
    arrays: dict[str, np.ndarray] = dict(others)
    for name, documents in parts.items():
        arrays[f"{name}_ids"] = np.concatenate([ids for ids, _ in documents])
        arrays[f"{name}_types"] = np.concatenate([types for _, types in documents])
        arrays[f"{name}_sizes"] = np.array([len(ids) for ids, _ in documents])
        tokens = int((arrays[f"{name}_types"] == TOKEN).sum())
        print(f"{name}: {len(documents):,} documents, {tokens:,} tokens", flush=True)
    tokenizer = processor.tokenizer
    arrays["special"] = np.array([tokenizer.mask_token_id, len(tokenizer)])
    buffer = BytesIO()
    np.savez(buffer, **arrays)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(lzma.compress(buffer.getvalue()))
    print(f"{file}: {file.stat().st_size / 1e6:.1f} MB", flush=True)


class Documents:
    """What `write_documents` wrote.

    Attributes:
        mask: Token that hides another.
        vocabulary: Number of tokens.
    """

    def __init__(self, file: Path) -> None:
        self.arrays = dict(np.load(BytesIO(lzma.decompress(file.read_bytes()))))
        self.mask, self.vocabulary = self.arrays["special"].tolist()

    def part(self, name: str) -> list[Nodes]:
        """Return the documents of a part."""
        ends = self.arrays[f"{name}_sizes"].cumsum()[:-1]
        columns = (np.split(self.arrays[f"{name}_{column}"], ends) for column in ("ids", "types"))
        return list(zip(*columns, strict=True))


def batches(sizes: Sequence[int], total: int, rng: np.random.Generator) -> Iterator[list[int]]:
    """Draw all documents in random order, in batches of at most `total` nodes or one document."""
    batch: list[int] = []
    room = total
    for i in rng.permutation(len(sizes)).tolist():
        if batch and sizes[i] > room:
            yield batch
            batch, room = [], total
        batch.append(i)
        room -= sizes[i]
    if batch:
        yield batch


def epochs(sizes: Sequence[int], total: int, seed: int, step: int) -> Iterator[list[int]]:
    """Draw batches for ever, from a step on."""
    epoch = 0
    while True:
        for batch in batches(sizes, total, np.random.default_rng([seed, epoch])):
            step -= 1
            if step < 0:
                yield batch
        epoch += 1


# Models


class Batch(NamedTuple):
    """Documents as a model reads them.

    Attributes:
        ids: `(nodes,)`.
        structure: A tree in level order, or which places of padded sequences are used,
            `(documents, length)`.
        places: `(nodes of the documents,)`, where each node that is read, in reading order, stands
            in `ids`.
        types: `(nodes of the documents,)`, on the CPU.
        sizes: Number of these nodes of each document.
    """

    ids: Tensor
    structure: Tree | Tensor
    places: Tensor
    types: np.ndarray
    sizes: list[int]

    def nodes(self, kind: int) -> Tensor:
        """Return the indices of the nodes of a kind, in reading order."""
        return torch.from_numpy(np.flatnonzero(self.types == kind)).to(self.ids.device)

    def anchors(self, kind: int) -> Tensor:
        """Return the number of the anchor of a kind that each node is below, `(nodes,)`."""
        return torch.from_numpy(np.cumsum(self.types == kind) - 1).to(self.ids.device)


def trees(documents: Sequence[Nodes], device: str) -> Batch:
    """Pack documents as trees."""
    types = np.concatenate([types for _, types in documents])
    tree = Tree.from_parents(torch.from_numpy(parents(types)).to(device))
    ids = torch.from_numpy(np.concatenate([ids for ids, _ in documents]).astype(np.int64))
    return Batch(
        tree.to_level_order(ids.to(device)),
        tree.in_level_order,
        tree.to_level_index(torch.arange(len(ids), device=device)),
        types,
        [len(ids) for ids, _ in documents],
    )


def sequences(documents: Sequence[Nodes], device: str, *, marked: Sequence[int] = ()) -> Batch:
    """Pad documents as sequences of tokens and marked anchors, after the document's anchor."""
    read = [np.isin(types, [TOKEN, DOCUMENT, *marked]) for _, types in documents]
    sizes = [int(its.sum()) for its in read]
    length = -(-max(sizes) // 64) * 64
    ids = torch.zeros(len(documents), length, dtype=torch.long)
    used = torch.arange(length) < torch.tensor(sizes)[:, None]
    ids[used] = torch.from_numpy(
        np.concatenate([ids[its] for (ids, _), its in zip(documents, read, strict=True)])
    ).long()
    return Batch(
        ids.flatten().to(device),
        used.to(device),
        used.flatten().nonzero().flatten().to(device),
        np.concatenate([types[its] for (_, types), its in zip(documents, read, strict=True)]),
        sizes,
    )


def segments(documents: Sequence[Nodes], device: str) -> Batch:
    """Cut documents without anchors into HAT's segments, which begin with the document's anchor.

    The first anchor of a document counts as one of its nodes, the others are read by HAT only.
    """
    tokens = [ids[types == TOKEN] for ids, types in documents]
    sizes = [1 + len(its) for its in tokens]
    places = [np.append(0, token_places(len(its), SEGMENT)) for its in tokens]
    ends = np.array([its[-1] + 1 for its in places])
    length = -(-ends.max() // SEGMENT) * SEGMENT
    ids = np.zeros((len(documents), length), np.int64)
    for row, (nodes, _) in enumerate(documents):
        ids[row, ::SEGMENT] = nodes[0]
        ids[row, places[row][1:]] = tokens[row]
    used = np.arange(length) < ends[:, None]
    places = [its + row * length for row, its in enumerate(places)]
    types = np.full(sum(sizes), TOKEN, np.int8)
    types[np.cumsum([0, *sizes[:-1]])] = DOCUMENT
    return Batch(
        torch.from_numpy(ids.flatten()).to(device),
        torch.from_numpy(used).to(device),
        torch.from_numpy(np.concatenate(places)).to(device),
        types,
        sizes,
    )


def dense(q: Tensor, k: Tensor, v: Tensor, used: Tensor | None = None) -> Tensor:
    """Attend to all tokens of sequences.

    Args:
        q: `(batch, length, heads, head_dim)`.
        k: Like `q`, or of another length.
        v: Like `k`.
        used: `(batch, length of k)` bool, which tokens are not padding; None: all.
    """
    mask = None if used is None else used[:, None, None]
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2)


def longformer(q: Tensor, k: Tensor, v: Tensor, used: Tensor | None = None) -> Tensor:
    """Attend to 256 tokens to each side and to the first, which attends to all; see `dense`."""
    batch, length = q.shape[:2]
    masked = torch.zeros(batch, length, dtype=torch.bool, device=q.device)
    if used is not None:
        masked |= ~used
    masked[:, 0] = True  # the first token is seen as a global one instead
    local = window_attention(
        *(x.flatten(0, 1) for x in (q, k, v)),
        (256, 256),
        global_keys_values=GlobalKeysValues(k[:, 0], v[:, 0], [1] * batch),
        masked_keys=masked.flatten(),
        lengths=[length] * batch,
    )
    first = dense(q[:, :1], k, v, used)
    return torch.cat([first, local.unflatten(0, (batch, length))[:, 1:]], dim=1)


class PaddedPositions(nn.Module):
    """Rotary positions of padded sequences."""

    def __init__(self, config: HDTConfig) -> None:
        super().__init__()
        self.head_dim, self.theta = config.d_kv, config.rope_theta

    def forward(self, used: Tensor) -> Rotation:
        """Return the angles of all tokens of sequences `(sequences, length)`."""
        positions = torch.arange(used.shape[1], device=used.device).repeat(len(used))
        return rotary_angles(positions, self.head_dim, self.theta)


class SequenceAttention(nn.Module):
    """HDT's attention weights, on sequences of equal length, some of which may be padded.

    Args:
        tree_attention: HDT's layer.
        attend: `dense` or `longformer`.
    """

    def __init__(self, tree_attention: nn.Module, attend: Callable[..., Tensor]) -> None:
        super().__init__()
        self.qkv, self.o = tree_attention.qkv, tree_attention.o
        self.num_heads, self.attend = tree_attention.num_heads, attend

    def forward(
        self, hidden_states: Tensor, layout: Tensor | int, rotation: Rotation | None
    ) -> Tensor:
        """Attend within sequences.

        Args:
            hidden_states: `(sequences * length, d_model)`.
            layout: `(sequences, length)` bool, which tokens are not padding; if all are, the number
                of sequences.
            rotation: The angles of rotary positions, if there are any.
        """
        number, used = (layout, None) if isinstance(layout, int) else (len(layout), layout)
        q, k, v = self.qkv(hidden_states).unflatten(-1, (3, self.num_heads, -1)).unbind(-3)
        if rotation is not None:
            q, k = rotate(q, k, *rotation)
        q, k, v = (x.unflatten(0, (number, -1)) for x in (q, k, v))
        output: Tensor = self.o(self.attend(q, k, v, used).flatten(2).flatten(0, 1))
        return output


def mixed_precision(device: str) -> torch.autocast:
    """Compute in bfloat16 on a GPU."""
    return torch.autocast(device, torch.bfloat16, enabled=device == "cuda")


class MaskedLM(nn.Module):
    """The base of encoders with a head that predicts masked words.

    They encode nodes `(nodes,)` to `(nodes, width)`, given their `Batch.structure`.

    Attributes:
        embeddings: Of words.
        predictions: The head, which shares their weights.
        read: Packs documents as `forward` takes them.
    """

    embeddings: nn.Embedding
    predictions: HDTMaskedLMPredictions
    read: Callable[[Sequence[Nodes], str], Batch]

    def masked_loss(
        self, documents: Sequence[Nodes], mask: int, rng: np.random.Generator
    ) -> Tensor:
        """Mean loss of masked tokens: BERT's 15 %, of which 80 % hidden and 10 % replaced."""
        device = self.embeddings.weight.device.type
        batch = self.read(documents, device)
        tokens = np.flatnonzero(batch.types == TOKEN)
        chosen = rng.choice(tokens, max(1, round(RATIO * len(tokens))), replace=False)
        fate = torch.from_numpy(rng.random(len(chosen))).to(device)
        random = torch.from_numpy(rng.integers(self.embeddings.num_embeddings, size=len(chosen)))
        places = batch.places[torch.from_numpy(chosen).to(device)]
        truth = batch.ids[places]
        kept = torch.where(fate < 0.9, random.to(device), truth)
        ids = batch.ids.index_copy(0, places, torch.where(fate < 0.8, mask, kept))
        encoded = self(ids, batch.structure)[places]
        with mixed_precision(device):
            logits = self.predictions(encoded)
        return F.cross_entropy(logits.float(), truth)


def config_of(vocabulary: int, layers: int, width: int, **others: Any) -> HDTConfig:
    """Return the configuration of an encoder without dropout, of whose channels a head has 64."""
    return HDTConfig(
        vocab_size=vocabulary,
        d_model=width,
        d_kv=64,
        d_ff=4 * width,
        num_layers=layers,
        num_heads=width // 64,
        dropout_rate=0.0,
        **others,
    )


class SmallEncoder(MaskedLM):
    """HDT or one of its twins.

    Args:
        vocabulary: Number of tokens.
        layers: Number of layers.
        width: Number of channels, of which each head has 64.
        position_embedding_type: As in `HDTConfig`; the twins know rotary positions only.
        attend: The attention of a twin, such as `dense`; None for HDT's.
        marked: The kinds of anchors that the twin reads besides the document's.
    """

    def __init__(
        self,
        vocabulary: int,
        layers: int,
        width: int,
        *,
        position_embedding_type: str = "rotary",
        attend: Callable[..., Tensor] | None = None,
        marked: Sequence[int] = (),
    ) -> None:
        super().__init__()
        config = config_of(
            vocabulary, layers, width, position_embedding_type=position_embedding_type
        )
        hdt = HDTForMaskedLM(config)
        self.encoder, self.predictions = hdt.model.encoder, hdt.cls.predictions
        self.embeddings = hdt.model.shared
        self.read = trees
        if attend is not None:
            self.read = partial(sequences, marked=marked)
            self.encoder.rotary_positions = PaddedPositions(config)
            for block in self.encoder.block:
                layer = block.layer[0]
                layer.SelfAttention = SequenceAttention(layer.SelfAttention, attend)

    def forward(self, ids: Tensor, structure: Tree | Tensor) -> Tensor:
        """Encode nodes by HDT's layers."""
        with mixed_precision(ids.device.type):
            encoded: Tensor = self.encoder(self.embeddings(ids), structure)
        return encoded


class SmallHAT(MaskedLM):
    """HAT with rotary positions, and a layer over segments after every third layer.

    Args:
        vocabulary: Number of tokens.
        layers: Number of layers within segments.
        width: Number of channels, of which each head has 64.
    """

    def __init__(self, vocabulary: int, layers: int, width: int) -> None:
        super().__init__()
        self.hat, self.predictions = hat_for_masked_lm(
            config_of(vocabulary, layers, width), rotary=True
        )
        self.embeddings = self.hat.word_embeddings
        self.read = segments

    def forward(self, ids: Tensor, used: Tensor) -> Tensor:
        """Encode the tokens of documents cut into segments."""
        with mixed_precision(ids.device.type):
            encoded = self.hat(ids.unflatten(0, used.shape), used).last_hidden_state
        return encoded.flatten(0, 1)


def hat_for_masked_lm(
    config: HDTConfig, *, rotary: bool, max_segments: int = 32
) -> tuple[HATModel, HDTMaskedLMPredictions]:
    """Return a HAT of the sizes of HDT, and HDT's head with HAT's embeddings."""
    hat = HATModel(
        HATConfig(
            config.vocab_size,
            hidden_size=config.d_model,
            intermediate_size=config.d_ff,
            num_hidden_layers=config.num_layers,
            num_attention_heads=config.num_heads,
            segment_length=SEGMENT,
            max_segments=max_segments,
            cross_segment_every=3,
            dropout=0.0,
            rotary=rotary,
        )
    )
    predictions = HDTMaskedLMPredictions(config)
    predictions.decoder.weight = hat.word_embeddings.weight
    predictions.decoder.bias = predictions.bias
    nn.init.zeros_(predictions.bias)
    return hat, predictions


# Training

Progress = Callable[[dict[str, Any]], float]
"""Given the log of a run, which share of it is done."""


def minutes(number: float) -> Progress:
    """Train for a number of minutes, not counting start-up."""
    return lambda log: log["seconds"] / (60 * number)


def steps(number: int) -> Progress:
    """Train for a number of steps, rounded up to a multiple of `CHECKED`."""
    return lambda log: log["step"] / number


def train(
    progress: Progress,
    model: nn.Module,
    loss_of: Callable[[int], Iterable[Tensor]],
    folder: Path,
    rate: float,
    *,
    falls: bool,
    name: str,
) -> dict[str, Any]:
    """Train until a run is done, or return the log of the one that was.

    Args:
        progress: When the run is done: after some `minutes` or `steps`.
        model: Its parameters are changed; a run that was interrupted continues.
        loss_of: Given the step to begin with, yields losses for ever.
        folder: Where the run is saved.
        rate: Learning rate, after a warm-up.
        falls: Whether the rate falls to zero.
        name: Printed with the curve.

    Returns:
        The steps, the seconds and the curve.
    """
    device = next(model.parameters()).device.type
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        trained, lr=rate, betas=(0.9, 0.98), weight_decay=0.01, fused=device == "cuda"
    )
    log = runs.resume(folder, model, optimizer)
    if log.get("finished"):
        if progress(log) < 1:
            raise SystemExit(f"{folder} has a shorter run of {name}: delete it, or name another")
        return log
    model.train()
    before, began = log["seconds"], time.perf_counter()
    saved = before
    losses: list[Tensor] = []
    for loss in loss_of(log["step"]):
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        left = max(0.0, 1 - progress(log)) if falls else 1.0
        optimizer.param_groups[0]["lr"] = rate * left * min(1.0, (log["step"] + 1) / WARM_UP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
        log["step"] += 1
        if log["step"] == 1:  # do not count what happens once, such as compiling kernels
            float(losses[0])
            began = time.perf_counter()
        if len(losses) % CHECKED == 0 or device == "cpu":
            average = float(torch.stack(losses[-CHECKED:]).mean())
            log["seconds"] = round(before + time.perf_counter() - began, 2)
            log["finished"] = progress(log) >= 1
            if log["finished"] or len(losses) % 100 == 0:
                log["curve"].append({"step": log["step"], "loss": round(average, 4)})
                print(name, json.dumps(log["curve"][-1]), log["seconds"], "s", flush=True)
            if log["finished"] or log["seconds"] > saved + SAVED_EVERY:
                saved = log["seconds"]
                runs.save(folder, model, optimizer, log)
            if log["finished"]:
                return log
    raise AssertionError("losses are for ever")


# Scripts


def parser(description: str, results: Path, width: int) -> argparse.ArgumentParser:
    """Return the options that the scripts share, with the file of the results."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--prepare", type=Path, metavar="FOLDER", help="write the data and stop")
    parser.add_argument("--limit", type=int, help="maximum documents of each kind to prepare")
    parser.add_argument("--data", type=Path, help="folder written by --prepare")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=width)
    parser.add_argument("--tokens", type=int, default=32768, help="nodes per step, at most")
    state = Path(gettempdir()) / "foveate" / results.stem
    parser.add_argument("--state", type=Path, default=state, help="folder of interrupted runs")
    parser.add_argument("--results", type=Path, default=results)
    parser.add_argument("--smoke", action="store_true", help="run everything on tiny data")
    parser.add_argument("--docs", action="store_true", help="write saved results into the page")
    return parser


def run_script(
    parser: argparse.ArgumentParser,
    smoke: dict[str, Any],
    prepare: Callable[[argparse.Namespace, Path], None],
    run_all: Callable[[argparse.Namespace], None],
    write_page: Callable[[Path], None],
) -> None:
    """Do what the command line asks for.

    Args:
        parser: What the function of that name returned, with more options.
        smoke: The options of a trial on tiny data.
        prepare: Writes the data to a folder.
        run_all: Trains all models, evaluates them and saves the results.
        write_page: Writes saved results into the page.
    """
    options = parser.parse_args()
    if options.docs:
        write_page(options.results)
    elif options.smoke:
        with TemporaryDirectory() as name:
            folder = Path(name)
            results = folder / "results.json"
            vars(options).update(smoke, state=folder, data=folder / "data", results=results)
            prepare(options, options.data)
            run_all(options)
    elif options.prepare:
        prepare(options, options.prepare)
    elif options.data:
        run_all(options)
    else:
        parser.error("give --data, or write it with --prepare")
