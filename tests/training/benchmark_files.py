"""Made-up files in the forms in which benchmarks are published, and a recipe that reads some."""

import json

from foveate.training import Recipe
from tests.conftest import random_record
from tests.training.conftest import QUICK, checkpoint


def section(part):
    """A section in the form of GovReport."""
    text = " ".join(part["sentences"])
    return {"section_title": part["heading"], "paragraphs": [text], "subsections": []}


def benchmark_record(benchmark, number):
    """A made-up record in the form in which the benchmark is published."""
    document = random_record(number)
    titles = [part["heading"] for part in document["sections"]]
    texts = [part["sentences"] for part in document["sections"]]
    text = "\n\n".join(" ".join(sentences) for sentences in texts)
    facets = ["Purpose", "Design/methodology/approach", "Findings", "Originality/value"]
    question = {"question": "Does the ship swim?", "question_unique_id": f"q{number}"}
    return {
        "": {**document, "references": ["the whale"]},
        "arxiv": {
            "article_id": str(number),
            "section_names": titles,
            "sections": texts,
            "abstract_text": ["<S> the whale </S>"],
        },
        "ecthr": {"case_id": str(number), "facts": texts[0], "violated_articles": ["3"]},
        "ecthr_arg": {
            "case_id": str(number),
            "paragraphs": [" ".join(sentences) for sentences in texts],
            "labels": [["Subsumtion", "Overruling"] for _ in texts],
        },
        "facetsum_sections": {
            "id": str(number),
            "title": document["title"],
            "section_names": titles,
            "sections": texts,
            "abstract_sections_names": facets,
            "abstract_sections": [["the whale"]] * 4,
        },
        "govreport": {
            "id": str(number),
            "title": document["title"],
            "summary": ["the whale"],
            "reports": section(document["sections"][0]),
        },
        "hotpotqa": {
            "_id": str(number),
            "question": "What swims?",
            "answer": "the whale",
            "context": [[title, own] for title, own in zip(titles, texts, strict=True)],
            "supporting_facts": [[titles[0], 0]],
        },
        "quality": {
            "article": text,
            "questions": [{**question, "options": ["the whale", "the ship"], "gold_label": 1}],
        },
        "wikihop": {
            "id": str(number),
            "query": "swims_with ship",
            "supports": [text],
            "candidates": ["the whale", "the ship"],
            "answer": "the whale",
        },
    }[benchmark]


def write_benchmark(benchmark, folder):
    """Write made-up files in the form in which the benchmark is published; return the path."""
    if benchmark == "multi_news":
        (folder / "train.tgt").write_text("the whale\n" * 12)
        text = "the whale swims ||||| a ship follows home again\n"
        (folder / "train.src.cleaned").write_text(text * 12)
        return folder / "train.src.cleaned"
    records = [benchmark_record(benchmark, i) for i in range(12)]
    if benchmark in ("hotpotqa", "wikihop"):
        (folder / "train.json").write_text(json.dumps(records))
        return folder / "train.json"
    (folder / "train.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    return folder / "train.jsonl"


def egad(folder, tokenizer, processor, **training):
    """The recipe `egad`, with a small model, small data and other keywords."""
    checkpoint("led", folder / "model", tokenizer)
    entries = {"data.train": write_benchmark("", folder), "data.dev": "[]"}
    entries |= {"model.checkpoint": folder / "model", "batch": "{documents: 2}"}
    training = {**QUICK, "gradient_accumulation_steps": 1, "save_strategy": "no", **training}
    entries |= {f"training.{entry}": value for entry, value in training.items()}
    entries |= {f"processor.{entry}": value for entry, value in processor.items()}
    return Recipe.load("egad", [f"{entry}={value}" for entry, value in entries.items()])
