"""Do anchors carry content (HDT, Table 3)? Abstracts written from anchors alone.

    python benchmarks/anchors.py --prepare data.zip     # read the documents, learn a vocabulary
    python benchmarks/anchors.py --data data.zip --predictions anchors.json   # train and write
    python benchmarks/anchors.py --score anchors.json   # ROUGE of what was written

A small HDT-ED learns from scratch, by UL2's mixture of denoisers, on papers, Python Enhancement
Proposals, meetings and two novels; then to write the abstracts of ScisummNet's papers from their
sections, without title and abstract. In both stages, its decoder reads section anchors alone,
section and sentence anchors, or all tokens; nothing else differs.

The abstracts that it writes for the papers of the dev split are scored by ROUGE, also against the
abstracts of other papers. Two more measures do not depend on style: the loss of a paper's abstract
when this paper is read and when another one is; and how often, of all papers, this one makes its
abstract most likely. An interrupted run continues when the command is repeated.
"""

import argparse
import gzip
import json
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

import report
import stages
from foveate.data import Corpus
from foveate.evaluation import rouge
from foveate.evaluation.benchmark import load_trained
from foveate.models.hdt import HDTForConditionalGeneration, HDTMemory
from foveate.preprocessing import DocumentProcessor, Features
from foveate.training import Recipe
from foveate.training.tokenizer import train_tokenizer
from scisummnet import repeats

ROOT = Path(__file__).parents[1]
STATE = Path(tempfile.gettempdir()) / "foveate" / "anchors"
READS = ("section", "sentence", "token")
VOCABULARY, WORDS, LEAD, BATCH = 16384, 1400, 150, 16
SMOKE = {
    "limit": 2,
    "reads": ["section", "token"],
    "layers": 1,
    "width": 64,
    "steps": [2, 2],
    "tokens": 2048,
    "length": 1024,
    "target": 8,
    "workers": 0,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prepare", type=Path, metavar="FILE", help="write the data and stop")
    parser.add_argument("--documents", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--limit", type=int, help="maximum documents of each kind to prepare")
    parser.add_argument("--data", type=Path, help="file written by --prepare")
    parser.add_argument("--reads", nargs="*", choices=READS, default=READS)
    parser.add_argument(
        "--layers", type=int, default=6, help="layers of the encoder, and of the decoder"
    )
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument(
        "--steps", type=int, nargs=2, default=(800, 300), help="steps of both stages"
    )
    parser.add_argument("--rate", type=float, default=5e-4, help="learning rate")
    parser.add_argument("--tokens", type=int, default=65536, help="nodes per step")
    parser.add_argument("--length", type=int, default=8192, help="maximum nodes of a paper")
    parser.add_argument("--target", type=int, default=320, help="maximum tokens of an abstract")
    parser.add_argument("--beams", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=5, help="data loading workers per model")
    parser.add_argument("--state", type=Path, default=STATE, help="folder of interrupted runs")
    parser.add_argument("--predictions", type=Path, help="file for the abstracts written")
    parser.add_argument("--score", type=Path, metavar="PREDICTIONS", help="score and stop")
    parser.add_argument("--results", type=Path, default=report.RESULTS / "anchors.json")
    parser.add_argument("--smoke", action="store_true", help="run everything on tiny data")
    options = parser.parse_args()
    if options.smoke:
        with tempfile.TemporaryDirectory() as folder:
            vars(options).update(SMOKE, state=Path(folder), data=Path(folder) / "data.zip")
            prepare(options.documents, options.data, options.limit)
            predict(options, Path(folder) / "predictions.json")
            score(Path(folder) / "predictions.json", Path(folder) / "results.json")
    elif options.prepare:
        prepare(options.documents, options.prepare, options.limit)
    elif options.score:
        score(options.score, options.results)
    elif options.data:
        predict(options, options.predictions or options.state / "predictions.json")
    else:
        parser.error("give --data, or write it with --prepare")


# Data


def prepare(folder: Path, file: Path, limit: int | None) -> None:
    documents = stages.documents(folder, limit)
    stages.pack(
        file,
        train_tokenizer(documents, VOCABULARY),
        pretrain=(piece for document in documents for piece in stages.pieces(document, WORDS)),
        train=papers(folder / "scisummnet" / "train.jsonl.gz", limit),
        dev=papers(folder / "scisummnet" / "dev.jsonl.gz", limit),
    )


def papers(path: Path, limit: int | None) -> list[stages.Record]:
    """Read papers without titles and abstracts, including abstracts repeated as a section."""
    records = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for paper in list(map(json.loads, lines))[:limit]:
            sections = [
                section
                for section in paper["sections"]
                if section["sentences"] and not repeats(section["sentences"], paper["abstract"])
            ]
            if sections and paper["abstract"]:
                records.append({"sections": sections, "references": [" ".join(paper["abstract"])]})
    return records


# Training


def recipes(read: str, options: argparse.Namespace) -> tuple[stages.Record, stages.Record]:
    """Return the recipes of both stages."""
    data, first = options.state / "data", options.state / read / "pretrained"
    new = {
        "type": "hdt",
        "d_model": options.width,
        "d_ff": 4 * options.width,
        "num_heads": options.width // 64,
        "num_layers": options.layers,
        "num_decoder_layers": options.layers,
        "decode_anchors": read,
    }
    denoising, writing = (
        stages.training(steps, options.rate, options.workers, options.seed)
        for steps in options.steps
    )
    return {
        "model": new,
        "tokenizer": str(data / "tokenizer"),
        "objective": {"name": "mixture_of_denoisers", "max_target_length": 768},
        "data": {"train": str(data / "pretrain.jsonl")},
        "processor": {"max_length": options.length},
        "batch": {"tokens": options.tokens},
        "training": denoising,
    }, {
        "model": {"checkpoint": str(first), "decode_anchors": read},
        "objective": {"name": "sequence_to_sequence", "max_target_length": options.target},
        "data": {"train": str(data / "train.jsonl")},
        "processor": {"max_length": options.length},
        "batch": {"tokens": options.tokens},
        "training": writing,
    }


def predict(options: argparse.Namespace, file: Path) -> None:
    """Train all models, let them write, and save the abstracts with the machine and the recipe."""
    stages.unpack(options.data, options.state / "data")
    stages.run_in_parallel(run, [(read, options) for read in options.reads])
    names = ("layers", "width", "steps", "rate", "tokens", "length", "target", "beams", "seed")
    dev = stages.lines(options.state / "data" / "dev.jsonl")
    texts = [[text for part in paper["sections"] for text in part["sentences"]] for paper in dev]
    results = {
        "recipe": {name: getattr(options, name) for name in names} | {"vocabulary": VOCABULARY},
        "abstracts": [paper["references"][0] for paper in dev],
        "leads": [" ".join(" ".join(sentences).split()[:LEAD]) for sentences in texts],
        "models": {
            read: json.loads((options.state / read / "written.json").read_text())
            for read in options.reads
        },
    }
    report.save(file, results, "transformers")


def run(read: str, options: argparse.Namespace) -> None:
    """Train one model in both stages, and let it write abstracts."""
    folder = options.state / read
    if (folder / "written.json").exists():
        return
    first, second = recipes(read, options)
    curves = {
        "pretraining": stages.stage(first, folder / "pretrained"),
        "training": stages.stage(second, folder / "trained"),
    }
    recipe = Recipe.from_dict(second)
    model, processor = load_trained(recipe, folder / "trained")
    dev = Corpus(options.state / "data" / "dev.jsonl")
    features = [
        example
        for paper in dev
        for example in recipe.objective.features(processor, paper, torch.Generator())
    ]
    autocast = torch.autocast(model.device.type, torch.bfloat16, torch.cuda.is_available())
    with torch.inference_mode(), autocast:
        memories = [
            encode(model, processor, features[start : start + BATCH])
            for start in range(0, len(features), BATCH)
        ]
        nodes_read = sum(int(memory.memory_mask.sum()) for memory in memories)
        losses = torch.stack(
            [
                losses_of(model, memories, paper["labels"][: options.target].to(model.device))
                for paper in features
            ]
        )
        texts = [text for memory in memories for text in write(model, processor, memory, options)]
    results = {
        **curves,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "nodes read": nodes_read / len(features),
        **likelihood(losses.cpu()),
    }
    print(read, json.dumps(results), flush=True)
    (folder / "written.json").write_text(json.dumps({**results, "written": texts}))


def encode(
    model: HDTForConditionalGeneration, processor: DocumentProcessor, features: list[Features]
) -> HDTMemory:
    batch = processor.pad([processor.model_inputs(example) for example in features])
    return model.encode(**{name: column.to(model.device) for name, column in batch.items()})


def write(
    model: HDTForConditionalGeneration,
    processor: DocumentProcessor,
    memory: HDTMemory,
    options: argparse.Namespace,
) -> list[str]:
    ids = model.generate(
        encoder_outputs=HDTMemory(**memory),  # a copy, which generate may change
        num_beams=options.beams,
        no_repeat_ngram_size=3,
        max_new_tokens=options.target,
    )
    texts = processor.tokenizer.batch_decode(ids, skip_special_tokens=True)
    return [text.strip() for text in texts]


def losses_of(
    model: HDTForConditionalGeneration, memories: list[HDTMemory], abstract: Tensor
) -> Tensor:
    """Loss per token of an abstract `(tokens,)` with each of the papers as input: `(papers,)`."""
    losses = []
    for memory in memories:
        labels = abstract.expand(len(memory.memory), -1)
        logits = model(encoder_outputs=memory, labels=labels).logits
        losses.append(F.cross_entropy(logits.float().mT, labels, reduction="none").mean(1))
    return torch.cat(losses)


def likelihood(losses: Tensor) -> dict[str, float]:
    """Compare an abstract's losses `(abstracts, papers)` for its paper and for other papers."""
    matching = losses.diagonal()
    number = len(losses)
    return {
        "loss, own paper": round(float(matching.mean()), 4),
        "loss, another": round(float((losses.sum() - matching.sum()) / (number * (number - 1))), 4),
        "own paper most likely": round(
            100 * float((losses.argmin(1) == torch.arange(number)).float().mean()), 1
        ),
    }


# Scores


def score(file: Path, results: Path) -> None:
    """Replace the abstracts written by their ROUGE, and print the table."""
    saved = json.loads(file.read_text(encoding="utf-8"))
    saved_results = saved["results"]
    abstracts, leads = saved_results.pop("abstracts"), saved_results.pop("leads")
    saved_results["papers"] = len(abstracts)
    saved_results["lead"] = scores(leads, abstracts)
    rows = [["first words of the paper", None, *saved_results["lead"].values(), None, None, None]]
    for name, model in saved_results["models"].items():
        model["rouge"] = scores(model.pop("written"), abstracts)
        rows.append(
            [
                name,
                model["nodes read"],
                *model["rouge"].values(),
                model["loss, own paper"],
                model["loss, another"],
                model["own paper most likely"],
            ]
        )
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps(saved, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    header = ["decoder reads", "nodes", "ROUGE-1", "ROUGE-2", "ROUGE-L", "ROUGE-L, another's"]
    header += ["loss", "loss, another's", f"own of {len(abstracts)} papers most likely, %"]
    print(report.table(header, rows))


def scores(texts: list[str], abstracts: list[str]) -> dict[str, float]:
    """ROUGE, and ROUGE-L against the abstracts of other papers, each the next one's."""
    others = [*abstracts[1:], *abstracts[:1]]
    matching = rouge(texts, [[abstract] for abstract in abstracts])
    another = rouge(texts, [[abstract] for abstract in others])["rougeL"]
    return {name: round(value, 2) for name, value in {**matching, "another's": another}.items()}


if __name__ == "__main__":
    main()
