"""Few-shot summaries of meetings with keywords as global tokens: the protocol of EGAD, 3.1.

No published weights are used: a small LED is pretrained first, on other summaries and on writing
sentences removed from a text, but never on the summary of a whole meeting. Then it is fine-tuned on
few meetings, with and without keywords. An interrupted run continues when the command is repeated.

    python benchmarks/fewshot.py --data ../shared/data --work /tmp/fewshot
"""

import argparse
import gzip
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch.utils.data import DataLoader, Dataset
from transformers import (
    BatchEncoding,
    LEDConfig,
    LEDForConditionalGeneration,
    PreTrainedTokenizerFast,
    get_cosine_schedule_with_warmup,
)
from transformers.utils import logging

import report
import stages
from egad_protocol import Method, Protocol, few_shot, table
from finetune import Tuning
from foveate.data import Example, read_benchmark
from foveate.models.accelerate import speed_up
from foveate.preprocessing import LEDProcessor
from foveate.preprocessing.text import plain_text

HERE = Path(__file__).parent
SEED = 0
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
REMOVED_SHARE = 0.3
SENTENCES = 24  # of a piece from which some are removed
WHOLE_TEXT_SHARE = 0.25  # of the steps; fewer whole texts fit into a batch
WARMUP = 0.05
HELD_OUT = 20  # meetings of the train part for validation

Pair = tuple[str, str]


def read_lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def answers(data: Path) -> Iterator[Pair]:
    """What was said on a topic, and what an annotator answered to a question about it."""
    for meeting in read_lines(data / "qmsum" / "train.jsonl.gz"):
        turns = [turn["text"] for turn in meeting["turns"]]
        for query in meeting["queries"]:
            said = [
                line
                for first, last in query.get("spans", [])
                for line in turns[int(first) : int(last) + 1]
            ]
            if said:
                yield "\n".join([query["query"], *said]), query["answer"]


def abstracts(data: Path) -> Iterator[Pair]:
    for paper in read_lines(data / "scisummnet" / "train.jsonl.gz"):
        body = [" ".join(section["sentences"]) for section in paper["sections"]]
        yield "\n".join([paper["title"], *body]), " ".join(paper["abstract"])


def texts(data: Path) -> list[list[str]]:
    """Sentences of meetings and papers, some of which are to be removed and predicted."""
    meetings = [
        [turn["text"] for turn in meeting["turns"]]
        for meeting in read_lines(data / "qmsum" / "train.jsonl.gz")
    ]
    papers = [
        [sentence for section in paper["sections"] for sentence in section["sentences"]]
        for paper in read_lines(data / "scisummnet" / "train.jsonl.gz")
    ]
    return [text for text in meetings + papers if text]


def gap(text: list[str], generator: random.Random) -> Pair:
    """Draw a piece of a text with some long sentences removed, and these sentences."""
    start = generator.randrange(max(1, len(text) - SENTENCES))
    piece = text[start : start + SENTENCES]
    long = [i for i, sentence in enumerate(piece) if len(sentence.split()) > 5] or [0]
    gone = set(generator.sample(long, max(1, min(8, round(REMOVED_SHARE * len(long))))))
    shown = ["<mask>" if i in gone else sentence for i, sentence in enumerate(piece)]
    return " ".join(shown), " ".join(piece[i] for i in sorted(gone))


def make_tokenizer(corpus: list[str], size: int, length: int) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        corpus,
        trainers.BpeTrainer(
            vocab_size=size, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
        ),
    )
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    names = ("bos_token", "pad_token", "eos_token", "unk_token", "mask_token")
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        cls_token="<s>",
        sep_token="</s>",
        model_max_length=length,
        **dict(zip(names, SPECIAL, strict=True)),
    )


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
            max_encoder_position_embeddings=options.length,
            max_decoder_position_embeddings=options.target_length + 2,
            bos_token_id=0,
            pad_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=2,
        )
    )


class Batches(Dataset):
    """The batch of each step: pieces with removed sentences, or a few whole texts."""

    def __init__(
        self,
        options: argparse.Namespace,
        tokenizer: PreTrainedTokenizerFast,
        pairs: list[Pair],
        sources: list[list[str]],
    ):
        self.options, self.tokenizer = options, tokenizer
        self.pairs, self.sources = pairs, sources
        self.processor = LEDProcessor(tokenizer)

    def __len__(self) -> int:
        return self.options.steps

    def __getitem__(self, step: int) -> BatchEncoding:
        generator = random.Random(f"{SEED} {step}")
        if generator.random() < WHOLE_TEXT_SHARE:
            picked = generator.choices(self.pairs, k=self.options.batch)
        else:
            sources = generator.choices(self.sources, k=8 * self.options.batch)
            picked = [gap(source, generator) for source in sources]
        return self.processor.pad([self.features(pair) for pair in picked])

    def features(self, pair: Pair) -> dict[str, list[int]]:
        """Tokenize a text, whose first token is global, and its target."""
        text, target = pair
        tokens = self.tokenizer(text, max_length=self.options.length, truncation=True)
        labels = self.tokenizer(
            text_target=target, max_length=self.options.target_length, truncation=True
        )
        return {
            "input_ids": tokens["input_ids"],
            "attention_mask": tokens["attention_mask"],
            "global_attention_mask": [1] + [0] * (len(tokens["input_ids"]) - 1),
            "labels": labels["input_ids"],
        }


def pretrain(options: argparse.Namespace, device: str) -> dict[str, Any]:
    """Train tokenizer and model into the work folder."""
    pairs = [*answers(options.data), *abstracts(options.data)]
    sources = texts(options.data)
    corpus = [line for pair in pairs for line in pair] + [" ".join(text) for text in sources]
    tokenizer = make_tokenizer(corpus, options.vocabulary, options.length)
    model = speed_up(make_model(options, len(tokenizer)).to(device).train())
    batches = Batches(options, tokenizer, pairs, sources)
    optimizer = torch.optim.AdamW(model.parameters(), options.rate, weight_decay=0.01)
    schedule = get_cosine_schedule_with_warmup(
        optimizer, round(WARMUP * options.steps), options.steps
    )
    begun, losses = time.perf_counter(), []
    for step, features in enumerate(DataLoader(batches, None, num_workers=options.workers)):
        batch = {name: column.to(device) for name, column in features.items()}
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        if (step + 1) % 100 == 0:
            mean = float(torch.stack(losses[-100:]).mean())
            print(
                f"step {step + 1}: loss {mean:.3f}, {time.perf_counter() - begun:.0f} s", flush=True
            )
    model.generation_config.no_repeat_ngram_size = 3
    model.save_pretrained(options.work / "led")
    tokenizer.save_pretrained(options.work / "led")
    return {
        "steps": options.steps,
        "seconds": round(time.perf_counter() - begun, 1),
        "loss": round(float(torch.stack(losses[-100:]).mean()), 3),
        "parameters": model.num_parameters(),
    }


def meetings(options: argparse.Namespace) -> tuple[list[Example], list[Example], list[Example]]:
    """Meetings to draw from for training and for validation, and those to summarize."""
    parts = []
    for part in ("train", "val"):
        examples = read_benchmark("qmsum", options.data / "qmsum" / f"{part}.jsonl.gz")
        parts.append(
            [example for example in examples if example.labels == ("general", options.domain)]
        )
    train, test = parts
    held_out = random.Random(SEED).sample(range(len(train)), HELD_OUT)
    rest = [example for i, example in enumerate(train) if i not in held_out]
    return rest, [train[i] for i in held_out], test


def results_of(method: Method, options: argparse.Namespace) -> Path:
    name = f"{options.domain}-{method.detector}-{method.keywords}.json"
    return Path(options.work / name)


def tune(method: Method, options: argparse.Namespace) -> None:
    """Run the protocol with one method."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    tuning = Tuning(
        learning_rate=options.tuning_rate,
        max_target_length=options.target_length,
        beams=options.beams,
        bf16=torch.cuda.is_available(),
    )
    few_shot(
        options.work / "led",
        *meetings(options),
        results_of(method, options),
        methods=[method],
        protocol=Protocol(tuple(options.examples), options.runs, options.length, tuning),
        prepare=speed_up,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=HERE.parents[1] / "shared" / "data")
    parser.add_argument(
        "--work", type=Path, required=True, help="folder for the model and the runs"
    )
    parser.add_argument("--domain", default="product", choices=["product", "academic", "committee"])
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--window", type=int, default=256)
    parser.add_argument("--length", type=int, default=8192)
    parser.add_argument("--target-length", type=int, default=192)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument(
        "--batch", type=int, default=8, help="whole texts per step, or 8 times as many pieces"
    )
    parser.add_argument(
        "--workers", type=int, default=8, help="data loading workers in pretraining"
    )
    parser.add_argument("--rate", type=float, default=6e-4)
    parser.add_argument("--tuning-rate", type=float, default=2e-4)
    parser.add_argument("--examples", type=int, nargs="+", default=[0, 10, 100])
    parser.add_argument("--keywords", type=int, nargs="+", default=[0, 10, 20])
    parser.add_argument(
        "--controls", type=int, default=10, help="keywords of the two controls; 0 leaves them out"
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--beams", type=int, default=4)
    parser.add_argument("--output", type=Path, default=HERE / "results" / "fewshot.json")
    options = parser.parse_args()

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    options.work.mkdir(parents=True, exist_ok=True)
    notes = options.work / "pretraining.json"
    if not notes.exists():
        notes.write_text(json.dumps(pretrain(options, device)))

    methods = [Method("tfidf", k) for k in options.keywords]
    if options.controls:
        methods += [Method(name, options.controls) for name in ("random", "gibberish")]
    stages.run_in_parallel(tune, [(method, options) for method in methods])
    runs = [
        run
        for method in methods
        for run in json.loads(results_of(method, options).read_text())["runs"]
    ]
    summary = table(runs)
    header = ["examples", "keywords", "runs", "ROUGE-1", "ROUGE-2", "ROUGE-L"]
    cells = [
        [row["examples"], f"{row['keywords']} {row['detector']}", row["runs"]]
        + [
            f"{row[measure]:.1f} ± {row[measure + '_spread']:.1f}"
            for measure in ("rouge1", "rouge2", "rougeL")
        ]
        for row in summary
    ]
    print(report.table(header, cells))
    train, held_out, test = meetings(options)
    words = [len(plain_text(example.document).split()) for example in test]
    setting = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in vars(options).items()
        if name not in ("data", "work", "output")
    } | {
        "train": len(train),
        "validation": len(held_out),
        "test": len(test),
        "words": round(sum(words) / len(words)),
        "seed": SEED,
    }
    results = {"pretraining": json.loads(notes.read_text()), "table": summary, "runs": runs}
    report.save(options.output, {"setting": setting, **results}, "transformers", "rouge-score")


if __name__ == "__main__":
    main()
