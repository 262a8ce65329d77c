"""Sentences per second and peak memory on the CPU, against sentence-transformers.

    python benchmarks/encoding_cpu.py --data ../shared/data

Every measurement runs in a separate process, on the same sentences in the same order, with model
and sentences loaded beforehand. The encoders alternate, so that changes in the machine's load
affect all of them. The error is the relative norm of the difference from sentence-transformers'
vectors, on the first quarter of the book, without sentences that sentence-transformers truncates.
Memory is the peak beyond what the process held when encoding began, and includes the vectors
themselves.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import report

RUNS = (("moby_dick", 0.25), ("moby_dick", 1.0), ("war_and_peace", 1.0))  # book, share of it
ENCODERS = ("sentence-transformers", "foveate float32", "foveate bfloat16")
MODEL_LIMIT = 254  # tokens of a sentence, beyond which sentence-transformers truncates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument(
        "--rounds", type=int, default=2, help="measurements of each encoder, whose median is kept"
    )
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        encoder, book, share = options.worker
        print(json.dumps(measure(encoder, options.data / f"books/{book}.txt.gz", float(share))))
        return

    results = []
    for book, share in RUNS:
        runs: dict[str, list[dict]] = {encoder: [] for encoder in ENCODERS}
        for _ in range(options.rounds):
            for encoder in ENCODERS:
                runs[encoder].append(run(encoder, book, share, options.data))
        results += [summarize(book, encoder, runs) for encoder in ENCODERS]
    header = list(results[0])
    print(report.table(header, [list(result.values()) for result in results]))
    report.save(
        report.RESULTS / "encoding_cpu.json",
        results,
        "foveate",
        "sentence-transformers",
        "transformers",
    )


def run(encoder: str, book: str, share: float, data: Path) -> dict:
    command = [sys.executable, __file__, "--data", str(data), "--worker", encoder, book, str(share)]
    print(f"{book} {share:.0%} {encoder}", file=sys.stderr)
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(output.splitlines()[-1])


def summarize(book: str, encoder: str, runs: dict[str, list[dict]]) -> dict:
    baseline = median(run["seconds"] for run in runs["sentence-transformers"])
    seconds = median(run["seconds"] for run in runs[encoder])
    first = runs[encoder][0]
    return {
        "book": book,
        "sentences": first["sentences"],
        "encoder": encoder,
        "sentences/s": first["sentences"] / seconds,
        "speed-up": baseline / seconds,
        "error": first["error"],
        "vectors MiB": first["vectors_mib"],
        "peak MiB": max(run["peak_mib"] for run in runs[encoder]),
        "seconds": [run["seconds"] for run in runs[encoder]],
    }


def measure(name: str, book: Path, share: float) -> dict:
    from foveate import Document, Encoder
    from foveate.inference import default_model_path

    sentences = [sentence.text for sentence in Document.from_file(book).sentences()]
    sentences = sentences[: int(len(sentences) * share)]
    if name == "sentence-transformers":
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer(str(default_model_path()), device="cpu")

        def encode(texts):
            return model.encode(texts, convert_to_tensor=True)
    else:
        encode = Encoder.from_pretrained(device="cpu", dtype=name.split()[1]).encode_texts

    encode(sentences[:100])  # warm up
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.perf_counter()
    vectors = encode(sentences)
    seconds = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {
        "sentences": len(sentences),
        "seconds": seconds,
        "peak_mib": peak / 1024,
        "vectors_mib": vectors.nbytes / 2**20,
        "error": error(vectors, sentences) if share < 1 else None,
    }


def error(vectors, sentences) -> float:
    """Relative norm of the difference from sentence-transformers, without truncated sentences."""
    import torch
    from sentence_transformers import SentenceTransformer

    from foveate.inference import default_model_path

    model = SentenceTransformer(str(default_model_path()), device="cpu")
    lengths = [
        len(ids) for ids in model.tokenizer(sentences, add_special_tokens=False)["input_ids"]
    ]
    untruncated = [i for i, length in enumerate(lengths) if length <= MODEL_LIMIT]
    expected = model.encode([sentences[i] for i in untruncated], convert_to_tensor=True)
    assert torch.isfinite(vectors).all()
    return float((vectors[untruncated] - expected).norm() / expected.norm())


if __name__ == "__main__":
    main()
