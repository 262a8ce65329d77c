"""A recipe on 10 and 100 examples, five draws each, as EGAD was tested (EGAD, 3.1).

    python studies/few_shot.py egad train.jsonl dev.jsonl test.jsonl --set processor.num_keywords=10

Prints the mean and the standard deviation of each score over the draws. A draw has the same
examples whatever is set. The files are JSON Lines, or of the benchmark that `--set data.benchmark`
names; where they have fewer examples, all are used.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import mean, stdev
from tempfile import TemporaryDirectory

from benchmarks import report
from foveate.data import Example
from foveate.evaluation.benchmark import evaluate
from foveate.training import Recipe, train
from foveate.training.building import load_examples


def draw_examples(examples: Sequence[Example], number: int, seed: int, path: Path) -> Path:
    """Write up to `number` examples, drawn by the seed, as JSON Lines."""
    chosen = Random(seed).sample(range(len(examples)), min(number, len(examples)))
    lines = []
    for example in (examples[i] for i in sorted(chosen)):
        task = {"id": example.id, "query": example.query, "references": example.references}
        lines.append(json.dumps(example.document.to_dict() | task) + "\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


def main() -> None:
    """Train and score every draw."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("recipe")
    parser.add_argument("train")
    parser.add_argument("dev")
    parser.add_argument("test")
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    parser.add_argument("--numbers", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--beams", type=int, default=4)
    options = parser.parse_args()
    files = [f"data.{part}={json.dumps(getattr(options, part))}" for part in ("train", "dev")]
    recipe = Recipe.load(options.recipe, [*options.overrides, *files])
    examples = {
        part: load_examples(recipe.data, getattr(recipe.data, part))[0] for part in ("train", "dev")
    }
    rows = []
    for number in options.numbers:
        scores = []
        for seed in range(options.draws):
            with TemporaryDirectory() as name:
                folder = Path(name)
                drawn = [
                    f"data.{part}={draw_examples(some, number, seed, folder / f'{part}.jsonl')}"
                    for part, some in examples.items()
                ]
                own = ["data.benchmark=''", f"training.seed={seed}"]
                train(
                    Recipe.load(options.recipe, [*options.overrides, *drawn, *own]),
                    folder / "model",
                )
                found = evaluate(recipe, folder / "model", [options.test], num_beams=options.beams)
            scores.append(found.scores)
        for metric in scores[0]:
            values = [score[metric] for score in scores]
            spread = stdev(values) if len(values) > 1 else 0.0
            rows.append([number, metric, f"{mean(values):.1f} ± {spread:.1f}"])
    print(report.table(["examples", "score", "mean ± standard deviation"], rows))


if __name__ == "__main__":
    main()
