"""Questions that a language model makes from passages of a file of the corpus, on a GPU.

    python -m benchmarks make_questions --model MODEL --corpus corpus/manuals.jsonl \
        --output manuals_made.jsonl

MODEL is a folder or a name on the hub; `--gguf FILE` names a file in it in GGUF's format.

Documents that have queries are left out, and copies of documents. At most `--passages` passages of
a document are drawn at random: a few sentences of one section. The model is asked for three
questions about each, in the words of someone who has not read it. The prompt has no example: the
words of one would leak into questions. Those questions are kept that are clear, as
made_questions.py says, and by which BM25 finds the passage among the best twenty of its document.

Every batch is saved when it is done, and a run that is started again goes on where the last one
ended. A line holds one passage: the `kind`, `id`, `title` and `first` characters of its document,
its first sentence and its end (`passage`), the `questions` that are kept, as made_questions.py
reads them, how many were `made`, the `model` and its `settings`.
"""

import json
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from time import monotonic
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed

from benchmarks.made_questions import FIRST, Documents, Question, read_lines
from benchmarks.registry import measurement

PROMPT = (
    "You help to test a search engine. You get a passage of a longer document. Write three "
    "questions that someone might type who has not read the passage, and to whom what it says is "
    "the answer. Ask about facts, reasons, numbers and names, and how to do things. Use words of "
    "your own rather than those of the passage. Name the subject in full: never say 'this' or 'the "
    "passage'. Write one question a line and nothing else."
)
SETTINGS: dict[str, Any] = {"do_sample": True, "temperature": 0.7, "top_p": 0.9}
"""Of the model's `generate`."""

QUESTIONS = 3  # of a passage
NEW_TOKENS = 96  # for all of them
MIN_PASSAGE, FULL_PASSAGE, MAX_PASSAGE = 45, 110, 260  # words; a full passage takes no more
MAX_CHARACTERS = 1600  # of a passage that the model reads
MIN_WORDS, MAX_WORDS = 5, 24  # of a question
MAX_RANK = 20  # of the passage among those of its document
SORTED_BATCHES = 8  # whose passages are sorted by length, so that a batch has little padding
SORTED_DOCUMENTS = 256  # about as many documents are these passages from

_NUMBER = re.compile(r"^\W*(?:(?:question\s*)?\d+\s*[.):]\s*)?", re.IGNORECASE)

Ask = Callable[[Sequence[str]], list[str]]
"""Returns what the model says about each passage."""


@measurement(None)
def make_questions(
    model: str,
    corpus: Path,
    output: Path,
    gguf: str | None = None,
    passages: int = 20,
    batch: int = 256,
    seconds: float = math.inf,
    device: str | None = None,
    seed: int = 0,
) -> None:
    """Make questions about all passages that have none.

    Options:
        model: folder or name of a causal language model
        corpus: JSON Lines that training_corpus wrote
        output: where to write questions
        gguf: file of the model in GGUF's format
        passages: at most of a document
        batch: passages that are read at once
        seconds: when to stop
        seed: of what is drawn
    """
    end = monotonic() + seconds
    set_seed(seed)
    records = without_queries(read_lines(corpus))
    labels = {
        "kind": corpus.name.partition(".")[0],
        "model": Path(model).name,
        "settings": SETTINGS | {"gguf": gguf},
    }
    writer = Writer(output, records, passages, seed, labels)
    print(f"{len(records):,} documents, {len(writer.waiting):,} passages to do", flush=True)
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    writer.run(language_model(model, gguf, device), batch, end)


def without_queries(records: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the documents without queries, each once."""
    return list({one["id"]: one for one in records if not one["queries"]}.values())


def language_model(name: str, gguf: str | None, device: str) -> Ask:
    """Load a model that is told the `PROMPT` and a passage."""
    options = {"gguf_file": gguf} if gguf else {}
    tokenizer = AutoTokenizer.from_pretrained(name, padding_side="left", **options)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    model = AutoModelForCausalLM.from_pretrained(name, **options).to(device, dtype).eval()

    def prompt(passage: str) -> str:
        messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": passage}]
        text: str = tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )
        return text

    @torch.inference_mode()
    def ask(passages: Sequence[str]) -> list[str]:
        prompts = [prompt(passage[:MAX_CHARACTERS]) for passage in passages]
        # The template has the special tokens already.
        inputs = tokenizer(prompts, add_special_tokens=False, padding=True, return_tensors="pt")
        inputs = inputs.to(device)
        found = model.generate(
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            max_new_tokens=NEW_TOKENS,
            pad_token_id=tokenizer.pad_token_id,
            **SETTINGS,
        )
        answers = found[:, inputs["input_ids"].shape[1] :]
        texts: list[str] = tokenizer.batch_decode(answers, skip_special_tokens=True)
        return texts

    return ask


class Writer:
    """Asks about passages and appends the questions that are kept to a file.

    Args:
        path: The file; its passages are done.
        records: The documents of a file of the corpus.
        num_passages: Passages at most of each document.
        seed: Seed of the order of documents and of the choice of passages.
        labels: What every line says.

    Attributes:
        waiting: The passages to ask about: the document, the first sentence and the end.
    """

    def __init__(
        self,
        path: Path,
        records: Sequence[dict[str, Any]],
        num_passages: int,
        seed: int,
        labels: dict[str, Any],
    ) -> None:
        self.path, self.records, self.labels = path, records, labels
        self.documents = Documents(records)
        lines = read_lines(path) if path.exists() else ()
        done = {(line["id"], *line["passage"]) for line in lines}
        generator = random.Random(seed)
        self.waiting = []
        for document in generator.sample(range(len(records)), len(records)):
            found = passages_of(records[document])
            for first, end in sorted(generator.sample(found, min(num_passages, len(found)))):
                if (records[document]["id"], first, end) not in done:
                    self.waiting.append((document, first, end))
        self._ranking_of = lru_cache(SORTED_DOCUMENTS)(self._ranking)

    def run(self, ask: Ask, batch: int, end: float = math.inf) -> None:
        """Ask about all passages, or until a time of `monotonic`."""
        num_made = num_kept = num_done = 0
        for start in range(0, len(self.waiting), batch * SORTED_BATCHES):
            part = self.waiting[start : start + batch * SORTED_BATCHES]
            part.sort(key=lambda passage: len(self._text(passage)))
            for begin in range(0, len(part), batch):
                if monotonic() > end:
                    return
                asked = part[begin : begin + batch]
                answers = ask([self._text(passage) for passage in asked])
                with self.path.open("a", encoding="utf-8") as file:
                    for passage, answer in sorted(zip(asked, answers, strict=True)):
                        line = self._line(passage, questions(answer))
                        file.write(json.dumps(line, ensure_ascii=False) + "\n")
                        num_made += line["made"]
                        num_kept += len(line["questions"])
                num_done += len(asked)
                print(
                    f"{num_done:,} passages, {num_made:,} questions, {num_kept:,} kept", flush=True
                )

    def _text(self, passage: tuple[int, int, int]) -> str:
        document, first, end = passage
        return " ".join(self.documents.sentences[document][first:end])

    def _line(self, passage: tuple[int, int, int], made: list[str]) -> dict[str, Any]:
        """Return what is written about a passage."""
        document, first, end = passage
        record = self.records[document]
        kept = []
        for text in made:
            if self.documents.is_clear(Question(document, text, first, end)):
                rank = self._ranking_of(document).rank(text, (first, end))
                if rank < MAX_RANK:
                    kept.append([text, first, end, rank])
        return self.labels | {
            "id": record["id"],
            "title": record["title"],
            "first": self.documents.sentences[document][0][:FIRST],
            "passage": [first, end],
            "made": len(made),
            "questions": kept,
        }

    def _ranking(self, document: int) -> "Ranking":
        sentences = self.documents.sentences[document]
        spans = passages_of(self.records[document])
        return Ranking({span: " ".join(sentences[slice(*span)]) for span in spans})


class Ranking:
    """BM25 over the passages of a document.

    Args:
        texts: The passages by the sentences that they are.
    """

    def __init__(self, texts: dict[tuple[int, int], str]) -> None:
        self.words = {span: Counter(_words(text)) for span, text in texts.items()}
        self.counts = Counter(word for words in self.words.values() for word in words)
        self.mean_length = fmean(words.total() for words in self.words.values())

    def rank(self, question: str, span: tuple[int, int]) -> int:
        """Return how many passages have a higher score for the question."""
        asked = set(_words(question))
        scores = {other: self._score(asked, words) for other, words in self.words.items()}
        return sum(score > scores[span] for score in scores.values())

    def _score(self, asked: set[str], words: Counter[str]) -> float:
        penalty = 1.2 * (0.25 + 0.75 * words.total() / self.mean_length)
        return sum(
            math.log(1 + (len(self.words) - self.counts[word] + 0.5) / (self.counts[word] + 0.5))
            * (2.2 * words[word] / (words[word] + penalty))
            for word in asked & words.keys()
        )


def passages_of(record: dict[str, Any]) -> list[tuple[int, int]]:
    """Return the passages of a document: the first sentence and the end of each.

    They are runs of sentences directly in one section, which end as soon as they are full.
    """
    found = []
    for start, sentences in _sections(record["sections"]):
        first, size = start, 0
        for number, sentence in enumerate(sentences, start + 1):
            size += len(sentence.split())
            if size > FULL_PASSAGE or number == start + len(sentences):
                if MIN_PASSAGE <= size <= MAX_PASSAGE:
                    found.append((first, number))
                first, size = number, 0
    return found


def questions(answer: str) -> list[str]:
    """Return the questions in what a model says: one a line, perhaps numbered."""
    lines = (_NUMBER.sub("", line).strip() for line in answer.split("\n"))
    found = [
        line for line in lines if line.endswith("?") and MIN_WORDS <= len(line.split()) <= MAX_WORDS
    ]
    return list(dict.fromkeys(found))[:QUESTIONS]


def _sections(
    sections: Sequence[dict[str, Any]], start: int = 0
) -> Iterator[tuple[int, list[str]]]:
    """Return the sentences directly in each section, and the number of sentences before them."""
    for section in sections:
        yield start, section["sentences"]
        start += len(section["sentences"])
        for first, sentences in _sections(section["sections"], start):
            yield first, sentences
            start = first + len(sentences)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())
