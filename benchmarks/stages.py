"""What benchmarks that train by recipes share: data in one file, and stages of training."""

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

from foveate import Document, train
from foveate.training import Recipe

Record = dict[str, Any]
"""A line that `foveate.data.Corpus` reads."""


# Data: a zip file with a tokenizer and files of JSON lines, made where the documents are


def documents(folder: Path, limit: int | None) -> list[Document]:
    """Read what there is to learn language from: so many documents of each kind, None for all."""
    import convergence

    kinds = convergence.records(folder)
    texts = chain.from_iterable(((kind, text) for text in own[:limit]) for kind, own in kinds)
    with Pool() as pool:
        return [found for found in pool.imap(convergence.read, texts, chunksize=8) if found]


def pieces(document: Document, words: int) -> Iterator[Record]:
    """Cut a document into pieces of whole sentences, so many words long at most."""
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
    """Write the data that all else needs."""
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
    """Lay the data where recipes find it."""
    with zipfile.ZipFile(file) as archive:
        archive.extractall(folder)


def as_lines(records: Iterable[Record]) -> str:
    """JSON lines, each with its end."""
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def lines(file: Path) -> list[Record]:
    """Read a file of JSON lines."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


# Training


def stage(recipe: Mapping[str, Any], folder: Path) -> Record:
    """Train by a recipe unless that is done; give its curve."""
    disable_progress_bar()
    set_verbosity_error()
    state = folder / "trainer_state.json"  # the last that is written
    if not state.exists():
        train(Recipe.from_dict(recipe), folder)
    history = json.loads(state.read_text())["log_history"]
    curve = [{"step": e["step"], "loss": round(e["loss"], 4)} for e in history if "loss" in e]
    return {"curve": curve, "seconds": round(history[-1]["train_runtime"], 1)}


def training(steps: int, rate: float, workers: int, seed: int) -> Record:
    """Arguments that all stages share; the rate rises in the first tenth and stays."""
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


def together(work: Callable[..., None], calls: Iterable[tuple[Any, ...]]) -> None:
    """Call in processes side by side, on the GPUs in turns, since small models do not fill one."""
    context = multiprocessing.get_context("spawn")  # CUDA, once it is asked for, outlives no fork
    numbered = enumerate(calls)
    processes = [context.Process(target=_alone, args=(n, work, call)) for n, call in numbered]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        sys.exit("a run failed")


def _alone(number: int, work: Callable[..., None], call: tuple[Any, ...]) -> None:
    """Call, seeing one GPU."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = visible.split(",") if visible else [str(n) for n in range(torch.cuda.device_count())]
    if gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[number % len(gpus)]
    # Workers that read do without CUDA, and spawned would each import all anew.
    multiprocessing.set_start_method("fork", force=True)
    work(*call)
