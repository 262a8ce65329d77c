"""What part does a section play? Fine-tuned HDT against BERT of its size, truncated at 512 tokens.

    python benchmarks/classification.py --prepare data.zip      # read, train a tokenizer
    python benchmarks/classification.py --data data.zip --predictions classes.json     # train
    python benchmarks/classification.py --score classes.json --data data.zip   # F1 of predictions

Sections of ScisummNet's papers are classified by their sentences, without the heading, which says
the class: introduction, related work, method, results or conclusion. The sections of the dev
split's papers are held out.

- bert: the first 512 tokens, dense attention;
- hdt, 512: the first 512 nodes as a tree;
- hdt: the whole section.

All have the same vocabulary, layers and width, and start from random weights or from masked
language modelling on the same texts, with the same number of steps and tokens per step; BERT reads
the texts in pieces that fit its 512 positions. Fine-tuning takes the same steps and examples, with
several seeds. The baselines are the most frequent class and logistic regression on TF-IDF of words
and pairs of words. An interrupted run continues when the command is repeated.
"""

import argparse
import gzip
import json
import re
import tempfile
from collections import Counter
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

import report
import stages
from foveate.data import Corpus
from foveate.evaluation import label_f1
from foveate.evaluation.benchmark import load_trained
from foveate.preprocessing.text import plain_text
from foveate.training import Recipe
from foveate.training.tokenizer import train_tokenizer

ROOT = Path(__file__).parents[1]
STATE = Path(tempfile.gettempdir()) / "foveate" / "classification"
VOCABULARY, WORDS = 16384, {"bert": 340, "hdt": 1400}
HEADINGS = {
    "introduction": r"introduction",
    "related work": r"related|previous|prior|background|literature",
    "results": r"experiment|result|evaluation|analysis|discussion",
    "conclusion": r"conclu|summary|future work",
    "": r"a(c?)knowledg|reference|appendi",  # none of the classes
}
OTHERS = "method"
"""The class of sections with any other heading that contains words."""
CLASSES = ("introduction", "related work", OTHERS, "results", "conclusion")
LENGTHS = {"bert": 512, "hdt, 512": 512, "hdt": 4096}
STARTS = ("scratch", "pretrained")
SMOKE = {
    "limit": 2,
    "models": ["bert", "hdt"],
    "layers": 1,
    "width": 64,
    "steps": [2, 2],
    "tokens": 2048,
    "batch": 2,
    "seeds": 1,
    "workers": 0,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prepare", type=Path, metavar="FILE", help="write the data and stop")
    parser.add_argument("--documents", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--limit", type=int, help="maximum documents of each kind to prepare")
    parser.add_argument("--data", type=Path, help="file written by --prepare")
    parser.add_argument("--models", nargs="*", choices=LENGTHS, default=list(LENGTHS))
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument(
        "--steps", type=int, nargs=2, default=(1500, 300), help="steps of both stages"
    )
    parser.add_argument(
        "--rates", type=float, nargs=2, default=(5e-4, 1e-4), help="learning rates of both stages"
    )
    parser.add_argument(
        "--tokens", type=int, default=65536, help="tokens per step of the first stage"
    )
    parser.add_argument(
        "--batch", type=int, default=32, help="sections per step of the second stage"
    )
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds of fine-tuning")
    parser.add_argument("--workers", type=int, default=5, help="data loading workers per model")
    parser.add_argument("--state", type=Path, default=STATE, help="folder of interrupted runs")
    parser.add_argument("--predictions", type=Path, help="file for the predictions")
    parser.add_argument("--score", type=Path, metavar="PREDICTIONS", help="score and stop")
    parser.add_argument("--results", type=Path, default=report.RESULTS / "classification.json")
    parser.add_argument("--smoke", action="store_true", help="run everything on tiny data")
    options = parser.parse_args()
    if options.smoke:
        with tempfile.TemporaryDirectory() as folder:
            vars(options).update(SMOKE, state=Path(folder), data=Path(folder) / "data.zip")
            prepare(options.documents, options.data, options.limit)
            predict(options, Path(folder) / "predictions.json")
            score(Path(folder) / "predictions.json", options.data, Path(folder) / "results.json")
    elif options.prepare:
        prepare(options.documents, options.prepare, options.limit)
    elif not options.data:
        parser.error("give --data, or write it with --prepare")
    elif options.score:
        score(options.score, options.data, options.results)
    else:
        predict(options, options.predictions or options.state / "predictions.json")


# Data


def prepare(folder: Path, file: Path, limit: int | None) -> None:
    documents = stages.documents(folder, limit)
    tokenizer = train_tokenizer(documents, VOCABULARY)
    begin_with_class_token(tokenizer)
    stages.pack(
        file,
        tokenizer,
        pretrain=(
            piece for document in documents for piece in stages.pieces(document, WORDS["hdt"])
        ),
        train=sections(folder / "scisummnet" / "train.jsonl.gz", limit),
        dev=sections(folder / "scisummnet" / "dev.jsonl.gz", limit),
    )


def begin_with_class_token(tokenizer: PreTrainedTokenizerFast) -> None:
    """Add [CLS] and [SEP] as for BERT; trees have their anchors instead."""
    special = ("<cls>", "</s>")
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<cls> $A </s>",
        special_tokens=list(zip(special, tokenizer.convert_tokens_to_ids(special), strict=True)),
    )


def sections(path: Path, limit: int | None) -> list[stages.Record]:
    """Read the sections whose heading names exactly one class, without the heading."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        papers = [json.loads(line) for line in lines][:limit]
    return [
        {"sections": [{"heading": "", "sentences": section["sentences"]}], "labels": [label]}
        for paper in papers
        for section in paper["sections"]
        if section["sentences"] and (label := class_of(section["heading"]))
    ]


def class_of(heading: str) -> str:
    """Return the class that a heading names, or "" for none or several.

    Example:
        >>> class_of("4 Experimental results"), class_of("3."), class_of("2 A parser")
        ('results', '', 'method')
    """
    named = [name for name, words in HEADINGS.items() if re.search(words, heading.lower())]
    if len(named) == 1:
        return named[0]
    return OTHERS if not named and re.search("[a-z]{3}", heading.lower()) else ""


# Training


def pretraining(kind: str, options: argparse.Namespace) -> stages.Record:
    data, (steps, _), (rate, _) = options.state / "data", options.steps, options.rates
    return {
        "model": new(kind, options),
        "tokenizer": str(data / "tokenizer"),
        "objective": {"name": "masked_lm"},
        "data": {"train": str(data / f"{kind}.jsonl")},
        "processor": {"max_length": LENGTHS[kind]},
        "batch": {"tokens": options.tokens},
        "training": stages.training(steps, rate, options.workers, 0),
    }


def finetuning(name: str, start: str, seed: int, options: argparse.Namespace) -> stages.Record:
    kind = kind_of(name)
    data, (_, steps), (_, rate) = options.state / "data", options.steps, options.rates
    checkpoint = {"checkpoint": str(options.state / "pretrained" / kind)}
    return {
        "model": checkpoint if start == "pretrained" else new(kind, options),
        "tokenizer": str(data / "tokenizer"),
        "objective": {"name": "classification", "labels": list(CLASSES)},
        "data": {"train": str(data / "train.jsonl")},
        "processor": {"max_length": LENGTHS[name]},
        "batch": {"documents": options.batch},
        "training": stages.training(steps, rate, options.workers, seed),
    }


def kind_of(name: str) -> str:
    return name.partition(",")[0]


def new(kind: str, options: argparse.Namespace) -> dict[str, Any]:
    heads, inner = options.width // 64, 4 * options.width
    if kind == "hdt":
        return {
            "type": "hdt",
            "d_model": options.width,
            "d_ff": inner,
            "num_heads": heads,
            "num_layers": options.layers,
        }
    return {
        "type": "bert",
        "hidden_size": options.width,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_hidden_layers": options.layers,
        "max_position_embeddings": LENGTHS[kind],
    }


def predict(options: argparse.Namespace, file: Path) -> None:
    """Train all models, classify the held-out sections, and save the predictions."""
    stages.unpack(options.data, options.state / "data")
    kinds = sorted({kind_of(name) for name in options.models})
    stages.run_in_parallel(pretrain, [(kind, options) for kind in kinds])
    stages.run_in_parallel(finetune, [(name, options) for name in options.models])
    names = ("layers", "width", "steps", "rates", "tokens", "batch", "seeds")
    results = {
        "recipe": {name: getattr(options, name) for name in names} | {"vocabulary": VOCABULARY},
        "pretraining": {kind: pretrain(kind, options) for kind in kinds},
        "models": {
            name: json.loads((options.state / name / "predictions.json").read_text())
            for name in options.models
        },
    }
    report.save(file, results, "transformers")


def pretrain(kind: str, options: argparse.Namespace) -> stages.Record:
    """Pretrain one kind of model, if that is not done, and return the learning curve."""
    data = options.state / "data"
    pieces_file = data / f"{kind}.jsonl"
    if not pieces_file.exists():
        corpus = Corpus(data / "pretrain.jsonl")
        pieces = (
            piece for example in corpus for piece in stages.pieces(example.document, WORDS[kind])
        )
        pieces_file.write_text(stages.as_lines(pieces), encoding="utf-8")
    return stages.stage(pretraining(kind, options), options.state / "pretrained" / kind)


def finetune(name: str, options: argparse.Namespace) -> None:
    """Fine-tune one model from both starting points with all seeds."""
    folder = options.state / name
    finetuned: dict[str, Any] = {start: [] for start in STARTS}
    for start in STARTS:
        for seed in range(options.seeds):
            run_folder = folder / f"{start}-{seed}"
            predictions = run_folder / "predictions.json"
            recipe = finetuning(name, start, seed, options)
            curve = stages.stage(recipe, run_folder)
            if not predictions.exists():
                classes = classify(Recipe.from_dict(recipe), run_folder, options)
                predictions.write_text(json.dumps(classes))
            finetuned[start].append({**curve, **json.loads(predictions.read_text())})
            print(name, start, seed, curve["seconds"], "s", flush=True)
    (folder / "predictions.json").write_text(json.dumps(finetuned))


@torch.inference_mode()
def classify(recipe: Recipe, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    model, processor = load_trained(recipe, folder)
    model.eval()
    dev = Corpus(options.state / "data" / "dev.jsonl")
    features = [processor.model_inputs(processor.features(example.document)) for example in dev]
    classes: list[int] = []
    with torch.autocast(model.device.type, torch.bfloat16, enabled=torch.cuda.is_available()):
        for start in range(0, len(features), options.batch):
            batch = processor.pad(features[start : start + options.batch])
            batch = {name: column.to(model.device) for name, column in batch.items()}
            classes += model(**batch).logits.argmax(1).tolist()
    parameters = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return {"parameters": parameters, "classes": [CLASSES[number] for number in classes]}


# Scores


def score(file: Path, data: Path, results: Path) -> None:
    """Replace the predictions by their F1, and print the table."""
    saved = json.loads(file.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        stages.unpack(data, Path(folder))
        train, dev = (Corpus(Path(folder) / f"{part}.jsonl") for part in ("train", "dev"))
        tokenizer = PreTrainedTokenizerFast.from_pretrained(Path(folder) / "tokenizer")
        texts = [[plain_text(example.document) for example in part] for part in (train, dev)]
        known, truth = ([example.labels[0] for example in part] for part in (train, dev))
    long = [len(ids) > LENGTHS["bert"] for ids in tokenizer(texts[1], verbose=False)["input_ids"]]

    saved_results = saved["results"]
    saved_results["examples"] = {"train": len(known), "held out": len(truth), "over 512": sum(long)}
    [(most_frequent, _)] = Counter(known).most_common(1)
    baselines = {
        "most frequent class": [most_frequent] * len(truth),
        "logistic regression": linear(texts[0], known, texts[1]),
    }
    rows = []
    for name, classes in baselines.items():
        saved_results[name] = scores(classes, truth, long)
        rows.append([name, None, *(f"{value:.1f}" for value in saved_results[name].values())])
    for name, starts in saved_results["models"].items():
        for start, runs in starts.items():
            for run in runs:
                run["f1"] = scores(run.pop("classes"), truth, long)
            measures = [[run["f1"][key] for run in runs] for key in runs[0]["f1"]]
            millions = f"{runs[0]['parameters'] / 1e6:.1f} M"
            rows.append([f"{name}, {start}", millions, *map(mean_and_deviation, measures)])
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps(saved, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    header = ["model", "parameters", "micro F1", "macro F1", "micro, long", "macro, long"]
    print(report.table(header, rows))


def linear(train: list[str], known: list[str], dev: list[str]) -> list[str]:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    model = make_pipeline(words, LogisticRegression(C=10.0, max_iter=1000))
    return model.fit(train, known).predict(dev).tolist()


def scores(classes: list[str], truth: list[str], long: list[bool]) -> dict[str, float]:
    """F1 over all sections, and over those that BERT truncates."""
    pairs = list(zip(classes, truth, strict=True))
    parts = {
        "": pairs,
        ", long": [pair for pair, is_long in zip(pairs, long, strict=True) if is_long],
    }
    return {
        average + suffix: round(value, 2)
        for suffix, part in parts.items()
        for average, value in label_f1([{c} for c, _ in part], [{t} for _, t in part]).items()
    }


def mean_and_deviation(values: list[float]) -> str:
    deviation = f" ± {stdev(values):.1f}" if len(values) > 1 else ""
    return f"{fmean(values):.1f}{deviation}"


if __name__ == "__main__":
    main()
