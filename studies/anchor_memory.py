"""Can a decoder write from anchors alone (HDT, Table 3)? Losses of abstracts, by what it reads.

    python studies/anchors.py --prepare FOLDER --corpus CORPUS   # the same documents
    python studies/anchor_memory.py --data FOLDER --minutes 4.7
    python studies/anchor_memory.py --docs      # write saved results into the page

The encoder of `anchors.py` learns masked words and then reconstruction, and is frozen. Three equal
decoders then learn on the same batches. One attends to section anchors, one to sentence anchors
too, one to all nodes, as in the paper. They learn to write abstracts of papers without them, and
sentences that were cut out of other documents. For papers kept apart, the loss of the abstract is
measured with the paper's own memory and with another's: the difference is what the memory tells.

A run that is interrupted continues when the command is repeated.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

import anchors
import small_encoders
from benchmarks import report
from document_nodes import TOKEN, Nodes
from foveate.models.hdt import HDTForConditionalGeneration
from foveate.models.hdt.configuration_hdt import DECODE_ANCHORS
from foveate.models.hdt.modeling_hdt_ed import HDTMemory, select_memory
from foveate.ops.tree_attention import Tree
from foveate.preprocessing.collate import IGNORE_INDEX
from small_encoders import Documents, SmallEncoder, config_of, epochs, mixed_precision, trees

RESULTS = report.STUDIES / "results" / "anchor-memory.json"
SHARES = {"masked words": 0.25, "reconstruction": 0.25, "decoders": 0.5}  # of the minutes
DECODER_LAYERS, TARGET_LENGTH = 3, 256
TEST_STEP = 6  # every sixth paper is kept apart
READS = {"section": "[SEC]", "sentence": "[SEC], [SENT]", "token": "[SEC], [SENT], tokens"}
SMOKE = anchors.SMOKE | {"minutes": 0.15, "limit": 24}


def main() -> None:
    parser = small_encoders.parser(__doc__.splitlines()[0], RESULTS, width=384)
    parser.add_argument("--corpus", help="see `anchors.py`, which writes the data")
    parser.add_argument("--documents", type=Path, default=report.DATA)
    parser.add_argument("--length", type=int, default=1024, help="tokens per piece of a document")
    parser.add_argument("--rate", type=float, default=1e-3, help="learning rate")
    parser.add_argument("--minutes", type=float, default=4.7, help="of training")
    small_encoders.run_script(parser, SMOKE, anchors.prepare, run, write_page)


def write_page(results: Path) -> None:
    """Write saved results into the page."""
    report.write_tables(anchors.PAGE, tables(report.load(results)))


class Decoders(nn.ModuleDict):
    """A decoder for each of `DECODE_ANCHORS`, which begins with the encoder's word embeddings."""

    def __init__(self, encoder: SmallEncoder, layers: int, width: int) -> None:
        super().__init__()
        words = encoder.embeddings.weight
        config = config_of(len(words), 1, width, num_decoder_layers=layers)
        for kind in DECODE_ANCHORS:
            torch.manual_seed(0)
            model = HDTForConditionalGeneration(config)
            del model.encoder
            with torch.no_grad():  # the decoder's logits want the scale of T5's embeddings
                model.shared.weight.copy_(words / words.std())
            self[kind] = model.to(words.device)

    def losses(
        self, hidden_states: Tensor, tree: Tree, labels: Tensor, roll: int = 0
    ) -> dict[str, Tensor]:
        """Return the mean loss of each document's labels by each decoder, `(documents,)`.

        Args:
            hidden_states: `(nodes, width)`, of the documents that are read.
            tree: The documents.
            labels: `(documents, tokens)`.
            roll: How many documents after its own each decoder reads in its place.
        """
        found = {}
        for kind, model in self.items():
            memory, mask = select_memory(hidden_states, tree, kind)
            memory, mask = memory.roll(-roll, 0), mask.roll(-roll, 0)
            outputs = HDTMemory(memory, memory, mask)  # of which the decoder needs the last two
            given = model.prepare_decoder_input_ids_from_labels(labels)
            with mixed_precision(hidden_states.device.type):
                logits = model(
                    encoder_outputs=outputs, decoder_input_ids=given, use_cache=False
                ).logits
            each = F.cross_entropy(
                logits.float().transpose(1, 2), labels, reduction="none", ignore_index=IGNORE_INDEX
            )
            found[kind] = each.sum(1) / (labels != IGNORE_INDEX).sum(1)
        return found


def labels_of(targets: Sequence[Nodes], device: str) -> Tensor:
    """Return the first tokens of each target, padded, `(targets, tokens)`."""
    words = [ids[types == TOKEN][:TARGET_LENGTH].astype(np.int64) for ids, types in targets]
    return pad_sequence([torch.from_numpy(its) for its in words], True, IGNORE_INDEX).to(device)


@torch.no_grad()
def encode(encoder: SmallEncoder, documents: Sequence[Nodes]) -> tuple[Tensor, Tree]:
    batch = trees(documents, encoder.embeddings.weight.device.type)
    return encoder(batch.ids, batch.structure), batch.structure


def split(papers: Documents) -> tuple[list[tuple[Nodes, Nodes]], list[tuple[Nodes, Nodes]]]:
    """Return papers with their abstracts, to learn from and kept apart."""
    pairs = list(zip(papers.part("papers"), papers.part("abstract"), strict=True))
    train = [pair for i, pair in enumerate(pairs) if i % TEST_STEP]
    return train, pairs[::TEST_STEP]


def training_losses(
    encoder: SmallEncoder,
    decoders: Decoders,
    pieces: Sequence[Nodes],
    pairs: Sequence[tuple[Nodes, Nodes]],
    total: int,
    step: int,
) -> Iterator[Tensor]:
    """Yield losses for ever, half of what is read being papers, the other half cut pieces."""
    drawn = zip(
        epochs([len(ids) for ids, _ in pieces], total // 2, 0, step),
        epochs([len(paper[0]) for paper, _ in pairs], total // 2, 1, step),
        strict=True,
    )
    for of_pieces, of_papers in drawn:
        rng = np.random.default_rng([0, step])
        step += 1
        batch = [pairs[i] for i in of_papers]
        for i in of_pieces:
            left, cuts = anchors.cut(pieces[i], rng)
            batch += [(left, cuts[0][1])] if cuts else []
        documents, targets = zip(*batch, strict=True)
        hidden_states, tree = encode(encoder, documents)
        labels = labels_of(targets, hidden_states.device.type)
        losses = decoders.losses(hidden_states, tree, labels)
        yield torch.stack([its.mean() for its in losses.values()]).mean()


@torch.no_grad()
def losses_apart(
    encoder: SmallEncoder, decoders: Decoders, pairs: Sequence[tuple[Nodes, Nodes]]
) -> np.ndarray:
    """Return the loss of each abstract, `(own and another memory, decoders, papers)`."""
    decoders.eval()
    found = []
    for start in range(0, len(pairs), 4):
        part = pairs[start : start + 4]
        part = part if len(part) > 1 else pairs[-2:]  # another paper is needed
        documents, targets = zip(*part, strict=True)
        hidden_states, tree = encode(encoder, documents)
        labels = labels_of(targets, hidden_states.device.type)
        both = [decoders.losses(hidden_states, tree, labels, roll) for roll in (0, 1)]
        losses = torch.stack([torch.stack(list(its.values())) for its in both])
        found.append(losses[:, :, -len(pairs[start : start + 4]) :].cpu())
    return torch.cat(found, -1).numpy()


def run(options: argparse.Namespace) -> None:
    """Train the encoder and the decoders, measure the losses and save them."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_num_threads(1)
    options.state.mkdir(parents=True, exist_ok=True)
    data = Documents(options.data / "anchors-training.xz")
    train, apart = split(Documents(options.data / "anchors-papers.xz"))
    objectives = anchors.Objectives(options, data, 0)
    torch.manual_seed(0)
    encoder = SmallEncoder(
        data.vocabulary, options.layers, options.width, position_embedding_type="hierarchical"
    ).to(device)

    def learn(name: str, model: nn.Module, losses: Any) -> dict[str, Any]:
        return small_encoders.train(
            small_encoders.minutes(SHARES[name] * options.minutes),
            model,
            losses,
            options.state / name.replace(" ", "_"),
            options.rate,
            falls=name != "masked words",
            name=name,
        )

    logs = {
        name: learn(name, encoder, lambda step, name=name: objectives.losses(name, encoder, step))
        for name in ("masked words", "reconstruction")
    }
    encoder.eval().requires_grad_(False)
    decoders = Decoders(encoder, DECODER_LAYERS, options.width)
    logs["decoders"] = learn(
        "decoders",
        decoders,
        lambda step: training_losses(
            encoder, decoders, objectives.pieces, train, options.tokens, step
        ),
    )
    losses = losses_apart(encoder, decoders, apart)
    np.save(options.state / "losses.npy", losses)
    keys = ("layers", "width", "tokens", "length", "rate", "minutes")
    recipe = {key: getattr(options, key) for key in keys} | {
        "shares": SHARES,
        "decoder layers": DECODER_LAYERS,
        "target length": TARGET_LENGTH,
    }
    results = {
        "recipe": recipe,
        "parameters of a decoder": sum(p.numel() for p in decoders["token"].parameters()),
        "logs": logs,
        "papers": [len(train), len(apart)],
        "found": measures(losses),
    }
    report.save(options.results, results, "transformers")
    print(f"\n{tables(results)['decoder']}")


def measures(losses: np.ndarray) -> list[dict[str, Any]]:
    """Return means of what `losses_apart` returns, and what a memory tells.

    Intervals are 95 % of a bootstrap over papers.
    """
    own, another = losses.astype(np.float64)
    rows = []
    for i, kind in enumerate(DECODE_ANCHORS):
        row: dict[str, Any] = {"reads": kind, "own": own[i].mean(), "another": another[i].mean()}
        told = another[i] - own[i]
        more = own[i - 1] - own[i] if i else None  # what is read more helps by this
        for name, values in (("told", told), ("more", more)):
            if values is not None:
                row[name] = [values.mean(), *anchors.interval(values[:, None], 3)[0]]
        rows.append(row)
    return rows


def tables(results: dict[str, Any]) -> dict[str, str]:
    """Return the table of losses by what is read."""
    rows = [
        [
            READS[row["reads"]],
            f"{row['own']:.3f}",
            f"{row['another']:.3f}",
            *(
                "{:+.3f} ({:+.3f} to {:+.3f})".format(*row[name]) if name in row else None
                for name in ("told", "more")
            ),
        ]
        for row in results["found"]
    ]
    header = ["the decoder reads", "loss", "with another paper's", "own memory gains"]
    return {"decoder": report.table([*header, "over the row above"], rows)}


if __name__ == "__main__":
    main()
