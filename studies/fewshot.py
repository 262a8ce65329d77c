"""Few-shot summaries of meetings with keywords as global tokens: the protocol of EGAD, 3.1.

The meetings are read without fillers ("um"), marks of sounds and turns that say nothing, as
ConvoSumm prepares them, so that keywords are words of the matter. No published weights are used: a
small LED is pretrained first, on other summaries and on writing sentences removed from a text, but
never on the summary of a whole meeting; half of the texts that it summarizes begin with 10 to 100
keywords. Then it is fine-tuned on few meetings, with and without keywords. An interrupted run
continues when the command is repeated.

    python studies/fewshot.py --work /tmp/fewshot
    python studies/fewshot.py --docs            # write the saved results into the page
"""

import argparse
import json
import random
import tempfile
import time
from itertools import chain, count
from multiprocessing import Pool
from pathlib import Path
from statistics import fmean, variance
from typing import Any

import torch
from scipy.stats import nct, ttest_1samp
from scipy.stats import t as student_t
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

import arguments
import report
from egad_protocol import Method, Protocol, few_shot, plan, table
from finetune import Tuning
from foveate import Document
from foveate.data import Example
from foveate.detectors import tfidf
from foveate.evaluation.metrics import ROUGE
from foveate.models.speed_ups import speed_up
from foveate.preprocessing import LEDProcessor
from foveate.preprocessing.text import plain_text
from runs import run_in_parallel
from structured_documents import answers, meetings, papers, without_abstracts

PAGE = report.STUDIES / "keywords.md"
STATE = Path(tempfile.gettempdir()) / "foveate" / "fewshot"
SEED = 0
DOMAINS = ["product", "academic"]
MOST_KEYWORDS = 100
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
REMOVED_SHARE = 0.3
SENTENCES = 24  # of a piece from which some are removed
WHOLE_TEXT_SHARE = 0.25  # of the steps; fewer whole texts fit into a batch
WARMUP = 0.05
HELD_OUT = 20  # meetings of the train part for validation

Pair = tuple[str, str]


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


def texts(data: Path) -> list[list[str]]:
    """Sentences of meetings and papers, some of which are to be removed and predicted."""
    examples = chain(
        meetings(data / "qmsum" / "train.jsonl.gz"), papers(data / "scisummnet" / "train.jsonl.gz")
    )
    return [[sentence.text for sentence in example.document.sentences()] for example in examples]


def keywords_of(text: str) -> list[str]:
    """Find the keywords of a text, as many as any method uses."""
    found = tfidf(Document.from_text(text, language="en"), MOST_KEYWORDS)
    return [keyword.text for keyword in found]


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
            dropout=options.dropout,
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
        keywords: list[list[str]],
        sources: list[list[str]],
    ):
        self.options, self.tokenizer = options, tokenizer
        self.pairs, self.keywords, self.sources = pairs, keywords, sources
        self.processor = LEDProcessor(tokenizer)

    def __len__(self) -> int:
        return self.options.steps

    def __getitem__(self, step: int) -> BatchEncoding:
        generator = random.Random(f"{SEED} {step}")
        if generator.random() >= WHOLE_TEXT_SHARE:
            sources = generator.choices(self.sources, k=8 * self.options.batch)
            return self.processor.pad([self.features(gap(its, generator), []) for its in sources])
        picked = generator.choices(range(len(self.pairs)), k=self.options.batch)
        numbers = [generator.choice([0, generator.randint(10, MOST_KEYWORDS)]) for _ in picked]
        return self.processor.pad(
            [
                self.features(self.pairs[i], self.keywords[i][:number])
                for i, number in zip(picked, numbers, strict=True)
            ]
        )

    def features(self, pair: Pair, keywords: list[str]) -> dict[str, list[int]]:
        """Tokenize keywords, which are global like the first token, a text and its target."""
        text, target = pair
        prefix = " ".join(keywords)
        tokens = self.tokenizer(
            f"{prefix}\n{text}" if prefix else text,
            max_length=self.options.length,
            truncation=True,
            return_offsets_mapping=True,
        )
        labels = self.tokenizer(
            text_target=target, max_length=self.options.target_length, truncation=True
        )
        is_keyword = [0 < end <= len(prefix) for _, end in tokens["offset_mapping"]]
        return {
            "input_ids": tokens["input_ids"],
            "attention_mask": tokens["attention_mask"],
            "global_attention_mask": [1, *map(int, is_keyword[1:])],
            "labels": labels["input_ids"],
        }


def pretrain(options: argparse.Namespace, device: str) -> dict[str, Any]:
    """Train tokenizer and model into the work folder."""
    pairs = pairs_of(options.data)
    with Pool() as pool:
        keywords = pool.map(keywords_of, [text for text, _ in pairs], chunksize=16)
    sources = texts(options.data)
    corpus = [line for pair in pairs for line in pair] + [" ".join(text) for text in sources]
    tokenizer = make_tokenizer(corpus, options.vocabulary, options.length)
    model = speed_up(make_model(options, len(tokenizer)).to(device).train())
    batches = Batches(options, tokenizer, pairs, keywords, sources)
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


def split(
    domain: str, options: argparse.Namespace
) -> tuple[list[Example], list[Example], list[Example]]:
    """Return meetings to draw from for training and for validation, and those to summarize."""
    train, test = (
        [
            example
            for example in meetings(options.data / "qmsum" / f"{part}.jsonl.gz")
            if example.labels == (domain,) and example.references
        ]
        for part in ("train", "val")
    )
    number = min(HELD_OUT, len(train) // 3)
    held_out = random.Random(SEED).sample(range(len(train)), number)
    rest = [example for i, example in enumerate(train) if i not in held_out]
    return rest, [train[i] for i in held_out], test


def results_of(domain: str, method: Method, options: argparse.Namespace) -> Path:
    return Path(options.work / f"{domain}-{method.detector}-{method.keywords}.json")


def protocol_of(options: argparse.Namespace) -> Protocol:
    """Return the protocol that all methods are compared by."""
    tuning = Tuning(
        learning_rate=options.tuning_rate,
        max_target_length=options.target_length,
        beams=options.beams,
        bf16=torch.cuda.is_available(),
    )
    return Protocol(tuple(options.examples), options.runs, options.length, tuning)


def tune(domain: str, method: Method, options: argparse.Namespace) -> None:
    """Run the protocol with one method."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    few_shot(
        options.work / "led",
        *split(domain, options),
        results_of(domain, method, options),
        methods=[method],
        protocol=protocol_of(options),
        prepare=speed_up,
    )


def compared(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compare every method with none, run by run with the same seed and so the same examples.

    Returns:
        For each number of examples, method and ROUGE: the mean difference, and the p-value of a
        paired t-test that it is 0.
    """
    by_key = {(r["examples"], r["seed"], r["detector"], r["keywords"]): r for r in runs}
    rows = []
    for examples, detector, keywords in dict.fromkeys(
        (r["examples"], r["detector"], r["keywords"]) for r in runs if r["keywords"]
    ):
        seeds = sorted({seed for count, seed, *_ in by_key if count == examples})
        row: dict[str, Any] = {"examples": examples, "detector": detector, "keywords": keywords}
        for measure in ROUGE:
            differences = [
                by_key[examples, seed, detector, keywords][measure]
                - by_key[examples, seed, "tfidf", 0][measure]
                for seed in seeds
                if (examples, seed, detector, keywords) in by_key
                and (examples, seed, "tfidf", 0) in by_key
            ]
            row[measure] = fmean(differences)
            differ = len({*differences}) > 1  # or there is nothing to test
            row[f"{measure}_p"] = float(ttest_1samp(differences, 0).pvalue) if differ else None
        rows.append(row)
    return rows


def main() -> None:
    parser = arguments.parser(
        __doc__, "data", "docs", output=report.STUDIES / "results" / "fewshot.json"
    )
    parser.add_argument(
        "--work", type=Path, default=STATE, help="folder for the model and the runs"
    )
    parser.add_argument(
        "--domains", nargs="+", default=DOMAINS, choices=["product", "academic", "committee"]
    )
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--window", type=int, default=256)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--length", type=int, default=8192)
    parser.add_argument("--target-length", type=int, default=192)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument(
        "--batch", type=int, default=8, help="whole texts per step, or 8 times as many pieces"
    )
    parser.add_argument(
        "--workers", type=int, default=8, help="data loading workers in pretraining"
    )
    parser.add_argument("--rate", type=float, default=6e-4)
    parser.add_argument("--tuning-rate", type=float, default=2e-4)
    parser.add_argument("--examples", type=int, nargs="+", default=[0, 10, 100])
    parser.add_argument("--keywords", type=int, nargs="+", default=[0, 10, 50, MOST_KEYWORDS])
    parser.add_argument(
        "--controls", type=int, default=10, help="keywords of the two controls; 0 leaves them out"
    )
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--beams", type=int, default=4)
    options = parser.parse_args()
    if options.docs:
        report.write_tables(PAGE, tables(report.load(options.output)))
        return

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
    try:
        run_in_parallel(
            tune, [(domain, method, options) for domain in options.domains for method in methods]
        )
    finally:
        gather(methods, options)


def gather(methods: list[Method], options: argparse.Namespace) -> None:
    """Save and print the results of all domains, and name methods with runs that are missing."""
    results: dict[str, Any] = {}
    missing = []
    for domain in options.domains:
        runs = []
        for method in methods:
            file = results_of(domain, method, options)
            done = json.loads(file.read_text())["runs"] if file.exists() else []
            if len(done) < len(plan([method], protocol_of(options))):
                missing.append(f"{domain}, {method.keywords} {method.detector}")
            runs += done
        train, held_out, test = split(domain, options)
        words = [len(plain_text(example.document).split()) for example in test]
        results[domain] = {
            "train": len(train),
            "validation": len(held_out),
            "test": len(test),
            "words": round(fmean(words)),
            "table": table(runs),
            "against none": compared(runs),
            "runs": runs,
        }
    for found in tables({"domains": results}).values():
        print(f"\n{found}")
    setting = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in vars(options).items()
        if name not in ("data", "work", "output", "docs")
    }
    pretraining = json.loads((options.work / "pretraining.json").read_text())
    report.save(
        options.output,
        {"setting": setting | {"seed": SEED}, "pretraining": pretraining, "domains": results},
        "transformers",
        "rouge-score",
        "scipy",
        missing=missing,
    )


def tables(results: dict[str, Any]) -> dict[str, str]:
    """Return a table for each domain: means over seeds, and ROUGE-1 against no keywords."""
    found = {}
    for domain, its in results["domains"].items():
        against = {(r["examples"], r["detector"], r["keywords"]): r for r in its["against none"]}
        rows = []
        for row in its["table"]:
            difference = against.get((row["examples"], row["detector"], row["keywords"]))
            rows.append(
                [
                    row["examples"],
                    f"{row['keywords']} {row['detector']}" if row["keywords"] else "none",
                    row["runs"],
                    f"{row['rouge1']:.1f} ± {row['rouge1_spread']:.1f}",
                    f"{row['rouge2']:.1f}",
                    f"{row['rougeL']:.1f}",
                    difference and f"{difference['rouge1']:+.1f}",
                    difference and difference["rouge1_p"] and f"{difference['rouge1_p']:.3f}",
                ]
            )
        header = ["examples", "keywords", "runs", "ROUGE-1", "2", "L", "ROUGE-1 against none", "p"]
        found[domain] = report.table(header, rows)
    found["power"] = power_table(results)
    return found


PUBLISHED_GAINS = (0.5, 2.4)
"""Of ROUGE-1, by 10 and 50 keywords (EGAD, Table 4)."""


def power_table(results: dict[str, Any]) -> str:
    """Return the table of how often the comparisons of each domain would find a gain."""
    rows = []
    for domain, its in results["domains"].items():
        by_key: dict[Any, dict[int, float]] = {}
        for run in its["runs"]:
            key = run["examples"], run["detector"], run["keywords"]
            by_key.setdefault(key, {})[run["seed"]] = run["rouge1"]
        variances = []
        for (examples, _, keywords), scores in by_key.items():
            if examples and keywords:
                none = by_key[examples, "tfidf", 0]
                variances.append(variance([score - none[seed] for seed, score in scores.items()]))
                runs = len(scores)
        spread = fmean(variances) ** 0.5
        found = [f"{100 * power(gain, spread, runs):.0f} %" for gain in PUBLISHED_GAINS]
        least = next(gain / 10 for gain in count(1) if power(gain / 10, spread, runs) >= 0.8)
        rows.append([domain, runs, f"{spread:.1f}", *found, f"{least:.1f}"])
    gains = [f"finds {gain}" for gain in PUBLISHED_GAINS]
    return report.table(
        ["meetings", "seeds", "spread of the difference", *gains, "gain found by 80 %"], rows
    )


def power(gain: float, spread: float, runs: int) -> float:
    """Return how often a two-sided paired t-test at 5 % finds a gain with such a spread."""
    critical, offset = student_t.ppf(0.975, runs - 1), gain / spread * runs**0.5
    return float(nct.sf(critical, runs - 1, offset) + nct.cdf(-critical, runs - 1, offset))


if __name__ == "__main__":
    main()
