"""Made-up papers on two subjects, with tasks of every kind in SciRepEval's formats."""

import csv
import gzip
import json

SENTENCES = {
    "fish": [
        "Cod swim in cold seas.",
        "Trawlers catch herring with nets.",
        "Salmon return to the rivers.",
        "The stock of fish grows again.",
    ],
    "stars": [
        "The telescope saw a galaxy.",
        "A supernova is brighter than its galaxy.",
        "Planets orbit small stars.",
        "Spectra show how far quasars are.",
    ],
}


def subject(number):
    return "stars" if number % 2 else "fish"


def paper(number):
    """Make a paper, every third without its full text."""
    texts = [SENTENCES[subject(number)][(number // 2 + i) % 4] for i in range(4)]
    record = {"doc_id": str(number), "title": f"Study {number}", "abstract": texts[0]}
    if number % 3:
        record["full_text"] = [
            {"title": "Introduction", "sentences": texts[1:3]},
            {"title": "Results", "sentences": texts[3:]},
        ]
    return record


def write_lines(path, records):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(record) + "\n" for record in records)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def write_labels(folder, label):
    """Write the labels of 12 papers to learn from and 4 to score."""
    for part, numbers in (("train", range(12)), ("test", range(12, 16))):
        with (folder / f"{part}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["paper_id", "label"])
            writer.writerows([number, label(number)] for number in numbers)


def write_tasks(folder):
    """Write two tasks that share their papers, and one of every other kind."""
    papers = [paper(number) for number in range(16)]
    write_lines(folder / "scidocs_view_cite_read" / "meta.jsonl.gz", papers)
    for task, query in (("scidocs_cite", 0), ("scidocs_read", 1)):
        judged = [
            {"query_id": str(query), "cand_id": str(i), "score": int(i % 2 == query)}
            for i in range(2, 8)
        ]
        write_lines(folder / task / "test_qrel.jsonl", judged)
    queries = {"q0": "fish in the sea", "q1": "a galaxy of stars"}
    write_lines(
        folder / "search" / "meta.jsonl",
        [
            {"query": text, "doc_id": name, "candidates": papers[:6]}
            for name, text in queries.items()
        ],
    )
    judged = [
        {"query_id": name, "cand_id": str(i), "score": 3 * int(i % 2 == number)}
        for number, name in enumerate(queries)
        for i in range(6)
    ]
    write_lines(folder / "search" / "test_qrel.jsonl", judged)
    labels = {
        "cite_count": lambda number: 5.5 * (number % 2),
        "drsm": subject,
        "biomimicry": lambda number: number % 2,
    }
    for task, label in labels.items():
        write_lines(folder / task / "meta.jsonl", papers)
        write_labels(folder / task, label)
    write_lines(folder / "fos" / "meta.jsonl", papers)
    for part, numbers in (("train", range(12)), ("test", range(12, 16))):
        hot = [{"paper_id": str(i), "label": [1 - i % 2, i % 2, 1 - i % 2]} for i in numbers]
        write_lines(folder / "fos" / f"{part}.jsonl", hot)
    return folder
