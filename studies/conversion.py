"""VCC with the weights of a published encoder, untrained: what does a user of it lose?

    python studies/conversion.py                     # a quarter of an hour on a CPU core
    python studies/conversion.py --docs              # the saved results into the page
    python studies/conversion.py --limit 2 --lengths 128 256 --output /tmp/conversion.json

all-MiniLM-L6-v2, a BERT of six layers, reads a question and then text of a given number of tokens,
in which one sentence answers it: `questions.jsonl` of the benchmarks, with the eight documents that
the questions are about joined end to end, and the answer anywhere in what is cut out of them. The
sentences are ranked by the cosine of their vectors, the means of their tokens' states, with that of
the question read alone. Positions start again after 512, with dense attention, too.

VCC's VIP tokens are the question's; a control has the question of another document in front. A
sentence's vector is also compared with the one that dense attention gives it.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.random import default_rng
from torch import Tensor
from transformers import AutoTokenizer

import arguments
from benchmarks import report
from benchmarks.fusion import QUESTIONS, questions
from benchmarks.retrieval_measures import SEED, interval, rank, reciprocal_rank
from benchmarks.retrieval_systems import minilm_path, sentence_texts
from foveate.models.vcc import VccBertModel
from foveate.tasks.centrality import unit

PAGE = report.STUDIES / "vcc.md"
RESULTS = report.STUDIES / "results" / "conversion.json"
BLOCK = 16  # tokens
SEGMENT = 512
EVERYTHING = 10**6  # blocks or tokens


class Arm(NamedTuple):
    """How the text is read.

    Attributes:
        segment: Tokens that attend to each other in the first layers.
        layers: How many layers those are.
        count: Blocks that later layers see token by token.
        is_control: Whether another question stands in front.
    """

    segment: int = SEGMENT
    layers: int = 2
    count: int = EVERYTHING
    is_control: bool = False


DENSE = "dense"
ALONE = "each sentence by itself"
ARMS = {
    DENSE: Arm(segment=EVERYTHING, layers=6),
    "segments of 512 in all layers": Arm(layers=6),
    "segments of 512 in two layers, all blocks": Arm(),
    **{f"VCC, {count} of {BLOCK}": Arm(count=count) for count in (90, 32, 8)},
    f"VCC, 8 of {BLOCK}, another question": Arm(count=8, is_control=True),
}


class Case(NamedTuple):
    """A question, and the text that answers it.

    Attributes:
        question: Its ids, with CLS and SEP.
        other: Those of a question about another document.
        sentences: The ids of the sentences of the text.
        numbers: Which of all sentences these are.
        answers: `(sentences,)` bool.
        document: Number of the document that is asked about.
    """

    question: list[int]
    other: list[int]
    sentences: list[list[int]]
    numbers: list[int]
    answers: Tensor
    document: int


class Asked(NamedTuple):
    """A question about one of the documents: its ids, and the numbers of the answers."""

    ids: list[int]
    answers: set[int]
    document: int


def main() -> None:
    lengths = [512, 1024, 2048, 4096]
    parser = arguments.parser(
        __doc__, "data", "minilm", "docs", limit=None, lengths=lengths, output=RESULTS
    )
    options = parser.parse_args()
    if options.docs:
        report.write_tables(PAGE, {"conversion": table(report.load(options.output))})
        return
    path = options.minilm or minilm_path()
    model, tokenizer = (
        VccBertModel.from_pretrained(path).eval(),
        AutoTokenizer.from_pretrained(path),
    )
    asked, sentences = read(options.data, tokenizer)
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    alone = [mean_states(model, [cls, *ids[: SEGMENT - 2], sep]) for ids in sentences]
    order = default_rng(SEED).permutation(len(asked)).tolist()[: options.limit]
    results: dict[str, Any] = {str(length): {} for length in options.lengths}
    missing = [f"question {number}" for number in order]
    for number in order:
        for length in options.lengths:
            found = judge(model, cut(asked, number, sentences, length), alone)
            for name, values in found.items():
                results[str(length)].setdefault(name, []).append(values)
        missing.remove(f"question {number}")
        documents = [asked[i].document for i in order[: len(order) - len(missing)]]
        setting = {"block": BLOCK, "segment": SEGMENT, "seed": SEED, "documents": documents}
        results_so_far = {"setting": setting, "lengths": results}
        report.save(options.output, results_so_far, "transformers", missing=missing)
    print(table(results_so_far))


def read(data: Any, tokenizer: Any) -> tuple[list[Asked], list[list[int]]]:
    """Read the questions, and the sentences of all their documents, one after the other."""
    asked: list[Asked] = []
    sentences: list[list[int]] = []
    tasks = [task for part in ("train", "dev") for task in questions(QUESTIONS, part, data)]
    for document, (its, queries) in enumerate(tasks):
        asked += [
            Asked(
                tokenizer(query.text)["input_ids"],
                {len(sentences) + i for i in query.sentence_ids},
                document,
            )
            for query in queries
        ]
        sentences += tokenizer(sentence_texts(its), add_special_tokens=False)["input_ids"]
    return asked, sentences


def cut(asked: Sequence[Asked], number: int, sentences: list[list[int]], length: int) -> Case:
    """Cut up to `length` tokens, those of the question included, with an answer anywhere in them.

    The documents form a ring. Sentences are whole, and all of one length get the same draws.
    """
    random = default_rng((SEED, number))
    question = asked[number]
    others = [another.ids for another in asked if another.document != question.document]
    other = others[random.integers(len(others))]
    room = length - max(len(question.ids), len(other))
    answer = min(question.answers)
    before = int(random.random() * (room - len(sentences[answer])))
    first = answer
    while (size := len(sentences[(first - 1) % len(sentences)])) <= before:
        first, before, room = first - 1, before - size, room - size
    numbers = list(range(first, answer))
    last = answer
    while (size := len(sentences[last % len(sentences)])) <= room:
        numbers, last, room = [*numbers, last], last + 1, room - size
    numbers = [i % len(sentences) for i in numbers]
    return Case(
        question.ids,
        other,
        [sentences[i] for i in numbers],
        numbers,
        torch.tensor([i in question.answers for i in numbers]),
        question.document,
    )


def judge(model: Any, case: Case, alone: Sequence[Tensor]) -> dict[str, list[float]]:
    """Rank the sentences with every arm: the answer's reciprocal rank, and the mean cosine."""
    wanted = mean_states(model, case.question)
    vectors = {ALONE: torch.stack([alone[i] for i in case.numbers])}
    vectors |= {name: sentence_vectors(model, arm, case) for name, arm in ARMS.items()}
    return {
        name: [
            round(reciprocal_rank(rank(its @ wanted, case.answers)), 4),
            round(float((its * vectors[DENSE]).sum(1).mean()), 4),
        ]
        for name, its in vectors.items()
    }


@torch.inference_mode()
def sentence_vectors(model: Any, arm: Arm, case: Case) -> Tensor:
    """Return the means of the sentences' states, `(sentences, d)` of length 1."""
    model.config.segment_size = arm.segment
    model.config.num_segment_layers = arm.layers
    model.config.num_fine_blocks, model.config.block_size = arm.count, BLOCK
    question = case.other if arm.is_control else case.question
    ids = torch.tensor([[*question, *(i for s in case.sentences for i in s), question[-1]]])
    is_vip = torch.arange(ids.shape[1])[None] < len(question)
    states = model(input_ids=ids, vip_mask=is_vip).last_hidden_state[0, len(question) : -1]
    sizes = [*map(len, case.sentences)]
    return unit(torch.stack([part.mean(0) for part in states.split(sizes)]))


@torch.inference_mode()
def mean_states(model: Any, ids: list[int]) -> Tensor:
    """Return the vector of a text read alone, `(d,)` of length 1, as the model was trained."""
    model.config.num_segment_layers, model.config.segment_size = 6, EVERYTHING
    return unit(model(input_ids=torch.tensor([ids])).last_hidden_state[0].mean(0))


# Results


def table(results: dict[str, Any]) -> str:
    """List right answers and cosines by length, and what is lost against dense attention."""
    documents = results["setting"]["documents"]
    lengths = results["lengths"]
    headings = [f"{int(length):,}" for length in lengths]
    last = headings[-1]
    header = ["hit@1, MRR in %", *headings, f"cosine at {last}", f"MRR − dense at {last}"]
    return report.table(header, list(_rows(lengths, documents)))


def _rows(lengths: dict[str, Any], documents: Sequence[int]) -> Iterator[list[str]]:
    longest = list(lengths)[-1]
    for name in (ALONE, *ARMS):
        values = {length: np.array(its[name]) for length, its in lengths.items()}
        right = [
            f"{100 * (its[:, 0] == 1).mean():.0f}, {100 * its[:, 0].mean():.0f}"
            for its in values.values()
        ]
        lost = 100 * (values[longest][:, :1] - np.array(lengths[longest][DENSE])[:, :1])
        low, high = (float(x[0]) for x in interval(lost, documents))
        loss = "–" if name == DENSE else f"{lost.mean():+.0f} ({low:+.0f} to {high:+.0f})"
        yield [name, *right, f"{values[longest][:, 1].mean():.2f}", loss]


if __name__ == "__main__":
    main()
