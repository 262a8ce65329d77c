"""Shared by benchmarks that train with recipes: data in one file, and stages of training."""

import gzip
import json
import multiprocessing
import os
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from multiprocessing import Pool
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar, set_verbosity_error

from foveate import Document, DocumentError, train
from foveate.training import Recipe

Record = dict[str, Any]
"""A line of JSON that `foveate.data.Corpus` reads."""


# Data: a zip file with a tokenizer and JSON Lines files, made on the machine with the documents


def documents(folder: Path, limit: int | None) -> list[Document]:
    """Read the documents for pretraining, at most `limit` of each kind."""
    kinds_and_texts = chain.from_iterable(
        ((kind, text) for text in texts[:limit]) for kind, texts in records(folder)
    )
    with Pool() as pool:
        parsed = pool.imap(read, kinds_and_texts, chunksize=8)
        return [document for document in parsed if document]


def records(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield each kind of document with its lines or files."""
    for kind in ("scisummnet", "peps", "qmsum"):
        with gzip.open(folder / kind / "train.jsonl.gz", "rt", encoding="utf-8") as lines:
            yield kind, list(lines)
    yield "books", [str(path) for path in sorted((folder / "books").glob("*.txt.gz"))]


def read(kind_and_text: tuple[str, str]) -> Document | None:
    kind, text = kind_and_text
    if kind == "books":
        return Document.from_file(text)
    record = json.loads(text)
    if kind == "qmsum":
        return Document.from_text(text, format="json")
    if kind == "peps":
        try:
            return Document.from_text(record["text"], format=record["format"])
        except DocumentError:  # some are withdrawn and empty
            return None
    sections = [(section["heading"], section["sentences"]) for section in record["sections"]]
    return Document.from_sections(record["title"], [("Abstract", record["abstract"]), *sections])


def pieces(document: Document, words: int) -> Iterator[Record]:
    """Cut a document into pieces of whole sentences, of at most `words` words."""
    piece: list[Record] = []
    room = words
    for _, section in document.walk():
        piece.append({"heading": section.title, "sentences": []})
        for paragraph in section.paragraphs:
            for sentence in paragraph.sentences:
                length = len(sentence.text.split())
                if room < length and room < words:
                    yield {"sections": [part for part in piece if part["sentences"]]}
                    piece, room = [{"heading": "", "sentences": []}], words
                piece[-1]["sentences"].append(sentence.text)
                room -= length
    if room < words:
        yield {"sections": [part for part in piece if part["sentences"]]}


def pack(file: Path, tokenizer: PreTrainedTokenizerBase, **parts: Iterable[Record]) -> None:
    """Write the tokenizer and the records of each part into one file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_LZMA) as archive:
        with TemporaryDirectory() as folder:
            tokenizer.save_pretrained(folder)
            for saved in Path(folder).iterdir():
                archive.write(saved, f"tokenizer/{saved.name}")
        for name, records in parts.items():
            archive.writestr(f"{name}.jsonl", text := as_lines(records))
            print(name, text.count("\n"), flush=True)
    print(f"{file}: {file.stat().st_size / 1e6:.1f} MB", flush=True)


def unpack(file: Path, folder: Path) -> None:
    """Extract the data into a folder, where recipes find it."""
    with zipfile.ZipFile(file) as archive:
        archive.extractall(folder)


def as_lines(records: Iterable[Record]) -> str:
    """Format records as JSON Lines."""
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def lines(file: Path) -> list[Record]:
    """Read a JSON Lines file."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


# Training


def stage(recipe: Mapping[str, Any], folder: Path) -> Record:
    """Train with a recipe unless that is done, and return the learning curve."""
    disable_progress_bar()
    set_verbosity_error()
    state = folder / "trainer_state.json"  # written last
    if not state.exists():
        train(Recipe.from_dict(recipe), folder)
    history = json.loads(state.read_text())["log_history"]
    curve = [{"step": e["step"], "loss": round(e["loss"], 4)} for e in history if "loss" in e]
    return {"curve": curve, "seconds": round(history[-1]["train_runtime"], 1)}


def training(steps: int, rate: float, workers: int, seed: int) -> Record:
    """Return a stage's arguments: the rate rises in the first tenth of the steps and stays."""
    return {
        "max_steps": steps,
        "learning_rate": rate,
        "lr_scheduler_type": "constant_with_warmup",
        "warmup_steps": max(1, steps // 10),
        "weight_decay": 0.01,
        "bf16": torch.cuda.is_available(),
        "dataloader_num_workers": workers,
        "dataloader_pin_memory": torch.cuda.is_available(),
        "logging_steps": max(1, steps // 20),
        "save_strategy": "no",
        "disable_tqdm": True,
        "seed": seed,
    }


def run_in_parallel(work: Callable[..., None], calls: Iterable[tuple[Any, ...]]) -> None:
    """Run the calls in parallel processes, spread over the GPUs; small models can share one."""
    context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    numbered = enumerate(calls)
    processes = [
        context.Process(target=_run_on_one_gpu, args=(n, work, call)) for n, call in numbered
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        sys.exit("a run failed")


def _run_on_one_gpu(number: int, work: Callable[..., None], call: tuple[Any, ...]) -> None:
    """Call with a single GPU visible."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = visible.split(",") if visible else [str(n) for n in range(torch.cuda.device_count())]
    if gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[number % len(gpus)]
    # Data loading workers need no CUDA, and spawned ones would import everything again.
    multiprocessing.set_start_method("fork", force=True)
    work(*call)
