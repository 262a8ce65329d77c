"""Each paper's model on a real task, trained here, with several seeds.

    python studies/real_tasks.py --processes 8       # about five minutes on a GPU
    python studies/real_tasks.py --docs              # the saved results into the page
    python studies/real_tasks.py --seeds 0 --steps 2 --size 32 --max-length 256 --limit 2  # a try

EGAD, HDT-ED and Fovea answer questions about the beginnings of meetings (QMSum) in their own words,
from scratch; VCC finds the answers in cut-outs of articles and papers (SQuAD, COVID-QA), from
MiniLM's weights, which RoBERTa's class takes with its positions moved by one. Every arm of a task
reads the same examples in the same number of steps. The controls are LED without keywords, T5 with
dense attention, and RoBERTa with dense attention or with segments alone.
"""

import gzip
import json
import lzma
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import AutoTokenizer, BertModel

import arguments
import runs
from benchmarks import report
from benchmarks.retrieval_systems import minilm_path
from foveate.evaluation.benchmark import load_trained
from foveate.evaluation.metrics import exact_match, rouge, token_f1
from foveate.evaluation.predict import predict
from foveate.inference import default_model_path
from foveate.models.vcc import VccRobertaConfig, VccRobertaModel
from foveate.training import Recipe, train
from foveate.training.building import build_dataset, load_examples

PAGE = report.STUDIES / "real_tasks.md"
RESULTS = report.STUDIES / "results" / "real-tasks.json"
CUT_OUT = 16_000  # characters, nearly 4,096 tokens
EVERYTHING = 10**6  # tokens
RATES = {"egad": 3e-4, "hdt-ed": 1e-3, "fovea": 1e-3, "vcc": 1e-4}
SEP = 102  # ends a text in BERT's vocabulary


def sizes(size: int) -> dict[str, int]:
    """Return the size of a T5, HDT-ED or Fovea."""
    return {
        "d_model": size,
        "d_ff": 4 * size,
        "d_kv": size // 4,
        "num_heads": 4,
        "num_layers": 4,
        "num_decoder_layers": 4,
    }


def led_sizes(size: int, max_length: int) -> dict[str, Any]:
    """Return that of an LED."""
    parts = ("encoder", "decoder")
    heads = {f"{part}_attention_heads": 4 for part in parts}
    layers = {f"{part}_layers": 4 for part in parts}
    widths = {f"{part}_ffn_dim": 4 * size for part in parts}
    positions = {"max_encoder_position_embeddings": max_length, "attention_window": 128}
    return {"d_model": size, **heads, **layers, **widths, **positions}


def arms(size: int, max_length: int) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the model of every arm of every task; `num_keywords` is for the processor."""
    t5, led = sizes(size), led_sizes(size, max_length)
    vcc = {"num_segment_layers": 2, "num_fine_blocks": 16}
    everything = {"segment_size": EVERYTHING, "num_segment_layers": 6}
    return {
        "egad": {
            "LED": {"type": "led", "speed_up": True, "num_keywords": 0, **led},
            "LED, 20 keywords": {"type": "led", "speed_up": True, "num_keywords": 20, **led},
        },
        "hdt-ed": {"HDT-ED": {"type": "hdt", **t5}},
        "fovea": {
            "Fovea": {"type": "fovea", **t5},
            "T5, dense": {"type": "t5", "speed_up": True, **t5},
        },
        "vcc": {
            "dense": everything,
            "segments of 512": {"num_segment_layers": 6},
            "VCC, 16 blocks of 16": vcc,
        },
    }


def main() -> None:
    options = _options()
    named = arms(options.size, options.max_length)
    calls = [
        (options, task, arm, seed)
        for seed in options.seeds
        for task in options.tasks
        for arm in named[task]
    ]
    if options.docs:
        report.write_tables(PAGE, tables(report.load(options.output)))
        return
    with TemporaryDirectory() as name:
        options.folder = Path(name)
        prepare(options)
        runs.run_in_parallel(run, calls, options.processes)
        results = [json.loads(file.read_text()) for file in sorted(options.folder.glob("*.result"))]
    setting = {name: getattr(options, name) for name in ("steps", "size", "max_length", "limit")}
    found = {"setting": setting, "runs": results}
    report.save(options.output, found, "transformers")
    for title, table in tables(found).items():
        print(f"\n{title}\n\n{table}")


def _options() -> Any:
    parser = arguments.parser(__doc__, "data", "minilm", "docs", limit=60, output=RESULTS)
    names = list(arms(4, 1))
    parser.add_argument("--tasks", nargs="+", choices=names, default=names)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=400, help="of 8 examples")
    parser.add_argument("--size", type=int, default=256, help="width of what starts from scratch")
    parser.add_argument("--max-length", type=int, default=4096, help="tokens that are read")
    parser.add_argument("--processes", type=int, default=1, help="runs at the same time")
    return parser.parse_args()


def prepare(options: Any) -> None:
    """Write the examples, and MiniLM's weights as a RoBERTa's."""
    for part, published in (("train", "train"), ("dev", "val")):
        path = options.data / "qmsum" / f"{published}.jsonl.gz"
        with gzip.open(path, "rt", encoding="utf-8") as file:
            meetings = [beginning(json.loads(line), options.max_length) for line in file]
        for task, records in (("qmsum", meetings), ("vcc", questions(options.data, part))):
            text = "".join(json.dumps(record) + "\n" for record in records)
            (options.folder / f"{task}-{part}.jsonl").write_text(text, encoding="utf-8")
    save_minilm(options.minilm or minilm_path(), options.folder / "minilm")


def beginning(meeting: dict[str, Any], words: int) -> dict[str, Any]:
    """Keep the turns of a meeting up to a number of words, and the topics that begin in them."""
    lengths = accumulate(len(turn["text"].split()) for turn in meeting["turns"])
    last = max(0, sum(length <= words for length in lengths) - 1)
    topics = []
    for topic in meeting["topics"]:
        spans = [(int(a), min(int(b), last)) for a, b in topic["relevant_text_span"]]
        if kept := [[str(a), str(b)] for a, b in spans if a <= b]:
            topics.append(topic | {"relevant_text_span": kept})
    return meeting | {"turns": meeting["turns"][: last + 1], "topics": topics}


def questions(data: Path, part: str) -> list[dict[str, Any]]:
    """Cut an answer and what stands around it out of every fourth article (dev), or the others."""
    random, found = Random(0), []
    for name in ("squad", "covid"):
        with lzma.open(data / "qa" / f"{name}.json.xz", "rt", encoding="utf-8") as file:
            articles = json.load(file)["data"]
        for number, article in enumerate(articles):
            if (number % 4 == 3) != (part == "dev"):
                continue
            text = "\n\n".join(paragraph["context"] for paragraph in article["paragraphs"])
            start = 0  # of the paragraph
            for paragraph in article["paragraphs"]:
                for question in paragraph["qas"]:
                    if not question["answers"]:
                        continue
                    place = start + question["answers"][0]["answer_start"]
                    begin = max(0, place - random.randrange(CUT_OUT - 500))
                    begin = text.rfind(" ", 0, begin) + 1  # at the beginning of a word
                    answers = {answer["text"] for answer in question["answers"]}
                    cut_out = text[begin : begin + CUT_OUT]
                    found.append(
                        {
                            "sections": [{"heading": "", "text": cut_out}],
                            "query": question["question"],
                            "references": sorted(answers),
                        }
                    )
                start += len(paragraph["context"]) + 2
    random.shuffle(found)
    return found


def save_minilm(source: Path, folder: Path) -> None:
    """Save a BERT as a VCC RoBERTa, whose positions begin after that of padding, 0."""
    bert = BertModel.from_pretrained(source)
    state, name = bert.state_dict(), "embeddings.position_embeddings.weight"
    state[name] = torch.cat([torch.zeros(1, state[name].shape[1]), state[name]])
    own = bert.config.to_dict() | {"max_position_embeddings": len(state[name])}
    own = {field: value for field, value in own.items() if field != "model_type"}
    model = VccRobertaModel(VccRobertaConfig(**own))
    model.load_state_dict(state)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source).save_pretrained(folder)


def run(options: Any, task: str, arm: str, seed: int) -> None:
    """Train and score one arm, and write its result into the folder."""
    recipe = Recipe.from_dict(
        _recipe(options, task, arms(options.size, options.max_length)[task][arm], seed)
    )
    examples = list(load_examples(recipe.data, recipe.data.dev)[0])
    examples = examples[:: max(1, len(examples) // options.limit)][: options.limit]
    with TemporaryDirectory(dir=options.folder) as name:
        trainer = train(recipe, name)
        sample = build_dataset(
            examples,
            [1] * len(examples),
            recipe.objective,
            trainer.processing_class,
            recipe.batch,
            seed=0,
        )
        loss = trainer.evaluate(sample)["eval_loss"]
        model, processor = load_trained(recipe, name)
    found = predict(model, processor, recipe.objective, examples)
    references = [example.references for example in examples]
    scores = {"loss": loss}
    if task == "vcc":
        scores["exact match"] = exact_match(found, references)
        scores["F1"] = token_f1(found, references)
    else:
        scores |= rouge(found, references)
    result = {"task": task, "arm": arm, "seed": seed, "scores": scores}
    path = options.folder / f"{task} {arm} {seed}.result"
    path.write_text(json.dumps(result), encoding="utf-8")
    print(path.stem, {name: round(score, 2) for name, score in scores.items()}, flush=True)


def _recipe(options: Any, task: str, model: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return the recipe of a run."""
    model, processor = dict(model), {"max_length": options.max_length}
    if "num_keywords" in model:
        processor["num_keywords"] = model.pop("num_keywords")
    on_gpu = torch.cuda.is_available()
    training = {
        "max_steps": options.steps,
        "learning_rate": RATES[task],
        "lr_scheduler_type": "linear",
        "warmup_steps": 0.1,
        "weight_decay": 0.01,
        "bf16": on_gpu,
        "save_strategy": "no",
        "logging_steps": options.steps,
        "dataloader_num_workers": 2 if on_gpu else 0,
        "disable_tqdm": True,
        "seed": seed,
    }
    data = "vcc" if task == "vcc" else "qmsum"
    files = {part: str(options.folder / f"{data}-{part}.jsonl") for part in ("train", "dev")}
    recipe = {"processor": processor, "batch": {"documents": 8}, "training": training}
    if task == "vcc":
        start = {"checkpoint": str(options.folder / "minilm"), "max_position_embeddings": 4097}
        objective = {"name": "question_answering"}
        return recipe | {"model": start | model, "objective": objective, "data": files}
    return recipe | {
        "model": {"eos_token_id": SEP, **model},
        "tokenizer": str(default_model_path()),
        "objective": {"name": "sequence_to_sequence", "max_target_length": 96},
        "data": {**files, "benchmark": "qmsum"},
    }


def tables(found: Any) -> dict[str, str]:
    """Return the tables of the page: means and standard deviations over seeds."""
    rows: dict[str, dict[str, list[dict[str, float]]]]
    rows = {"answers written": {}, "answers found": {}}
    for one in found["runs"]:
        title = "answers found" if one["task"] == "vcc" else "answers written"
        rows[title].setdefault(one["arm"], []).append(one["scores"])
    written = {}
    for title, by_arm in rows.items():
        if by_arm:
            metrics = list(next(iter(by_arm.values()))[0])
            cells = [
                [arm, *(_spread([scores[name] for scores in seeds], name) for name in metrics)]
                for arm, seeds in by_arm.items()
            ]
            written[title] = report.table(["", *metrics], cells)
    return written


def _spread(values: list[float], metric: str) -> str:
    return report.mean_and_deviation(values, 3 if metric == "loss" else 1)


if __name__ == "__main__":
    main()
