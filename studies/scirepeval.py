"""SciRepEval (Singh et al., 2023): an evaluation of the frozen vectors of papers.

An encoder turns each paper into one vector: of its title, its abstract and, if there is one, its
full text, as in the benchmark on which HDT was evaluated (HDT, 4.2 and A.2.2). Candidates are then
ranked by their distance to the query, and labels are predicted by linear support vector machines.

    export PYTHONPATH=.
    python studies/scirepeval.py tasks/ --model hdt-e-contrastive
    python studies/scirepeval.py scidocs_cite cite_count --model howey/HDT-E --dtype bfloat16
    python studies/scirepeval.py tasks/ --model malteos/scincl --flat

scirepeval.md describes the files of a task.
"""

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from scipy.stats import kendalltau
from sklearn.metrics import average_precision_score, f1_score, ndcg_score
from torch import Tensor

import arguments
from benchmarks import report
from foveate.data.records import LocatedRecords, Record, read_records
from foveate.evaluation import label_f1
from foveate.inference import Encoder
from linear import predict_class, predict_classes, predict_numbers
from paper_vectors import FirstTokens, PaperEncoder, WholePapers, check_gives_vectors, encode_papers
from scirepeval_data import (
    FULL_TEXT_PAPERS,
    SHARED_PAPERS,
    Label,
    parse_judgements,
    parse_labels,
    parse_papers,
)

Kind = Literal["proximity", "search", "regression", "classification"]

Distance = Literal["euclidean", "cosine"]

Vectors = Mapping[str, Tensor]
"""The vector `(dimension,)` of each paper and query, by its identifier."""

Open = Callable[[], LocatedRecords]
"""Opens a file, or a part of a data set on the hub."""


class Task(NamedTuple):
    """A task of SciRepEval.

    Attributes:
        kind: What is done with the vectors.
        metric: Name of the score that SciRepEval reports.
        multi_label: Whether papers have any number of classes instead of one.
    """

    kind: Kind
    metric: str
    multi_label: bool = False


TASKS: dict[str, Task] = {
    "scidocs_cite": Task("proximity", "MAP"),
    "scidocs_cocite": Task("proximity", "MAP"),
    "scidocs_view": Task("proximity", "MAP"),
    "scidocs_read": Task("proximity", "MAP"),
    "feeds_1": Task("proximity", "MAP"),
    "feeds_m": Task("proximity", "MAP"),
    "high_influence_cite": Task("proximity", "MAP"),
    "same_author": Task("proximity", "MAP"),
    "search": Task("search", "nDCG"),
    "feeds_title": Task("search", "MAP"),
    "trec_covid": Task("search", "nDCG"),
    "cite_count": Task("regression", "Kendall's τ"),
    "pub_year": Task("regression", "Kendall's τ"),
    "peer_review_score": Task("regression", "Kendall's τ"),
    "hIndex": Task("regression", "Kendall's τ"),
    "tweet_mentions": Task("regression", "Kendall's τ"),
    "biomimicry": Task("classification", "F1 of class 1"),
    "drsm": Task("classification", "macro F1"),
    "fos": Task("classification", "macro F1", multi_label=True),
    "mesh_descriptors": Task("classification", "macro F1"),
    "scidocs_mag": Task("classification", "macro F1"),
    "scidocs_mesh": Task("classification", "macro F1"),
}
"""The tasks by the names of their configurations on the hub."""


class TaskScores(NamedTuple):
    """The scores of an encoder on a task.

    Attributes:
        task: A name in `TASKS`.
        kind: What was done with the vectors.
        num_examples: The number of queries or, in regression and classification, of test papers.
        scores: The scores in percent; the one that SciRepEval reports comes first.
    """

    task: str
    kind: Kind
    num_examples: int
    scores: dict[str, float]

    @property
    def main_score(self) -> float:
        """The score that SciRepEval reports."""
        return next(iter(self.scores.values()))


@dataclass(frozen=True)
class TaskSource:
    """Where the records of a task are.

    Attributes:
        task: A name in `TASKS`.
        papers_from: The file or the data set of the papers; tasks with the same one share vectors.
        papers: Opens the papers, see `parse_papers`.
        test: Opens the judgements or labels to score, see `parse_judgements` and `parse_labels`.
        train: Opens the labels to learn from; None in proximity and search.
    """

    task: str
    papers_from: str
    papers: Open
    test: Open
    train: Open | None = None


def find_tasks(places: Iterable[str | PathLike[str]]) -> list[TaskSource]:
    """Find the tasks in folders, or on the hub.

    A task is a folder that has a name in `TASKS`. It holds `test_qrel.jsonl` for proximity and
    search, or `train.csv` and `test.csv` for regression and classification; and the papers in
    `meta.jsonl`, which may also be in a folder next to it, named in `SHARED_PAPERS`. Files may be
    gzipped; labels may also be JSON Lines.

    Args:
        places: Folders of tasks; folders that contain such folders; or, where there is no such
            folder, names of tasks on the hub, see `tasks_on_hub`.

    Raises:
        OSError: A file that a task needs does not exist.
        ValueError: A place is neither a folder nor the name of a task, or contains no task.
    """
    sources: list[TaskSource] = []
    for folder in map(Path, places):
        if not folder.exists():
            sources += tasks_on_hub([str(folder)])
        elif found := [path for path in (folder, *_folders_in(folder)) if _is_task(path)]:
            sources += map(_source_in_folder, found)
        else:
            raise ValueError(
                f"{folder} holds no task of SciRepEval: name a folder of folders such as "
                f"{', '.join(list(TASKS)[:3])}, which hold test_qrel.jsonl, or train.csv and "
                "test.csv"
            )
    return sources


def tasks_on_hub(tasks: Iterable[str], papers: str = FULL_TEXT_PAPERS) -> list[TaskSource]:
    """Name tasks on the Hugging Face hub, which are downloaded when they are evaluated.

    Args:
        tasks: Names in `TASKS`.
        papers: The repository of papers: `FULL_TEXT_PAPERS`, or
            "allenai/scirepeval" for abstracts.

    Raises:
        ValueError: A name is unknown.
    """
    sources = []
    for name in tasks:
        if name not in TASKS:
            raise ValueError(
                f"{name!r} is neither a folder nor a task of SciRepEval: name a folder or one of "
                f"{', '.join(TASKS)}"
            )
        config = SHARED_PAPERS.get(name, name)
        labels = partial(download_records, f"{papers}_test", name)
        sources.append(
            TaskSource(
                name,
                f"{papers}, {config}",
                partial(download_records, papers, config, "evaluation"),
                partial(labels, "test"),
                partial(labels, "train") if _has_labels(name) else None,
            )
        )
    return sources


def download_records(name: str, config: str, split: str) -> Iterator[tuple[str, Record]]:
    """Read a part of a data set on the hub, with the place of each record.

    Raises:
        ImportError: datasets is not installed.
    """
    try:
        import datasets
    except ImportError as error:
        raise ImportError(
            "reading from the hub needs datasets: run `pip install 'foveate[evaluation]'`"
        ) from error
    dataset = datasets.load_dataset(name, config, split=split)
    # The hub stores classes as indices into a list of names.
    class_names = {
        column: label.int2str
        for column, feature in dataset.features.items()
        if isinstance(label := getattr(feature, "feature", feature), datasets.ClassLabel)
    }
    for number, record in enumerate(dataset, 1):
        named = {column: name_of(record[column]) for column, name_of in class_names.items()}
        yield f"{name}, {split} record {number}", {**record, **named}


def evaluate_scirepeval(
    encoder: Encoder | PaperEncoder,
    sources: Sequence[TaskSource],
    *,
    distance: Distance = "euclidean",
    limit: int | None = None,
) -> list[TaskScores]:
    """Score an encoder on tasks of SciRepEval.

    Papers that several tasks share are encoded once.

    Args:
        encoder: An encoder of documents, or anything else that encodes papers, such as
            `FirstTokens`.
        sources: What `find_tasks` or `tasks_on_hub` returns.
        distance: What candidates are ranked by. SciRepEval's evaluation uses the Euclidean
            distance, and so does HDT's, though its paper says cosine; vectors of unit length have
            the same ranking by both.
        limit: Number of queries or test papers of each task, None for all.

    Returns:
        The scores in the order of `sources`.

    Raises:
        ImportError: For tasks on the hub, datasets is not installed.
        OSError: A file does not exist, or a data set could not be downloaded.
        ValueError: A record is not in the expected format, or a task has nothing to score.

    Warns:
        UserWarning: Papers that a task names are not among its papers; they are left out.
    """
    by_papers: dict[str, list[TaskSource]] = {}
    for source in sources:
        by_papers.setdefault(source.papers_from, []).append(source)
    results: dict[TaskSource, TaskScores] = {}
    for group in by_papers.values():
        answers = {source: _read_answers(source, limit) for source in group}
        wanted = set().union(*(known.paper_ids for known in answers.values()))
        vectors = encode_papers(
            WholePapers(encoder) if isinstance(encoder, Encoder) else encoder,
            parse_papers(group[0].papers(), only=wanted),
            queries=set().union(*(known.query_ids for known in answers.values())),
            total=len(wanted),
        )
        for source, known in answers.items():
            results[source] = _score(source, known, vectors, distance)
    return [results[source] for source in sources]


def score_rankings(
    vectors: Vectors,
    judgements: Mapping[str, Mapping[str, float]],
    distance: Distance = "euclidean",
) -> dict[str, float]:
    """Rank the candidates of each query by their distance to it.

    Args:
        vectors: The vectors of queries and candidates.
        judgements: For each query, the relevance of its candidates; see `parse_judgements`.
        distance: "euclidean" or "cosine".

    Returns:
        "MAP" and "nDCG", means over all queries; a query without a relevant candidate counts as 0,
        as in trec_eval.

    Raises:
        ValueError: No query has a relevant candidate, or the distance is unknown.
    """
    if distance not in ("euclidean", "cosine"):
        raise ValueError(f"distance must be 'euclidean' or 'cosine', got {distance!r}")
    rankings = [
        (
            _similarity(
                vectors[query], torch.stack([vectors[name] for name in relevance]), distance
            ).numpy(),
            np.array([*relevance.values()]),
        )
        for query, relevance in judgements.items()
        if any(score > 0 for score in relevance.values())
    ]
    if not rankings:
        raise ValueError("no query has a relevant candidate: there is nothing to score")
    precision = sum(average_precision_score(relevant > 0, scores) for scores, relevant in rankings)
    # A single candidate has only one order, the ideal one.
    gain = sum(
        ndcg_score(relevant[None], scores[None]) if len(relevant) > 1 else 1.0
        for scores, relevant in rankings
    )
    return {"MAP": 100 * precision / len(judgements), "nDCG": 100 * gain / len(judgements)}


def score_regression(
    vectors: Vectors, train: Sequence[Label], test: Sequence[Label]
) -> dict[str, float]:
    """Predict the numbers of papers, with a linear support vector machine.

    Args:
        vectors: The vectors of all papers.
        train: The labels to learn from.
        test: The labels to score.

    Returns:
        "Kendall's τ".

    Raises:
        ValueError: A label is not a number, there are too few papers to learn from, or all
            predictions or labels are equal.
    """
    for label in (*train, *test):
        if label.number is None:
            raise ValueError(f"the label of the paper {label.paper_id} is not a number: correct it")
    y_train, y_test = (
        torch.tensor([label.number for label in part], dtype=torch.float64)
        for part in (train, test)
    )
    predictions = predict_numbers(_stack(vectors, train), y_train, _stack(vectors, test))
    if min(len(set(values.tolist())) for values in (predictions, y_test)) < 2:
        raise ValueError("all predictions or all labels are equal: there is no order to compare")
    return {"Kendall's τ": 100 * float(kendalltau(predictions, y_test).statistic)}


def score_classification(
    vectors: Vectors, train: Sequence[Label], test: Sequence[Label], *, multi_label: bool = False
) -> dict[str, float]:
    """Predict the classes of papers, with linear support vector machines.

    Args:
        vectors: The vectors of all papers.
        train: The labels to learn from.
        test: The labels to score.
        multi_label: Whether papers have any number of classes instead of one.

    Returns:
        "macro F1", "micro F1" and, if the classes are "0" and "1", "F1 of class 1".

    Raises:
        ValueError: There are too few papers to learn from, all have the same class, or a paper has
            several classes without `multi_label`.
    """
    x_train, x_test = _stack(vectors, train), _stack(vectors, test)
    y_train, y_test = [label.names for label in train], [label.names for label in test]
    if multi_label:
        predicted = predict_classes(x_train, y_train, x_test)
    elif any(len(names) != 1 for names in (*y_train, *y_test)):
        raise ValueError("a paper has several classes or none: give each one, or set multi_label")
    else:
        names = predict_class(x_train, [name for [name] in y_train], x_test)
        predicted = [(name,) for name in names]
    f1 = label_f1(predicted, y_test)
    scores = {f"{average} F1": f1[average] for average in ("macro", "micro")}
    if {*chain.from_iterable((*y_train, *y_test))} == {"0", "1"} and not multi_label:
        is_one = ([names == ("1",) for names in labels] for labels in (y_test, predicted))
        scores["F1 of class 1"] = 100 * float(f1_score(*is_one, zero_division=0))
    return scores


@dataclass(frozen=True)
class _Answers:
    """What is known of a task's papers.

    Attributes:
        judgements: The relevance of each query's candidates, in proximity and search.
        train: The labels to learn from, in regression and classification.
        test: The labels to score.
        query_ids: The queries that are a few words.
    """

    judgements: dict[str, dict[str, float]]
    train: list[Label]
    test: list[Label]
    query_ids: set[str]

    @property
    def paper_ids(self) -> set[str]:
        """Return the identifiers of all papers and queries."""
        labelled = {label.paper_id for label in (*self.train, *self.test)}
        return labelled.union(self.judgements, *self.judgements.values())

    def only(self, known: Collection[str]) -> "_Answers":
        """Drop labels and judgements of unknown papers."""
        judgements = {
            query: {name: score for name, score in relevance.items() if name in known}
            for query, relevance in self.judgements.items()
            if query in known
        }
        train, test = (
            [label for label in part if label.paper_id in known] for part in (self.train, self.test)
        )
        return _Answers(judgements, train, test, self.query_ids)


def _read_answers(source: TaskSource, limit: int | None) -> _Answers:
    if source.train is None:
        judgements = dict(islice(parse_judgements(source.test()).items(), limit))
        queries = set(judgements) if TASKS[source.task].kind == "search" else set()
        return _Answers(judgements, [], [], queries)
    train, test = parse_labels(source.train()), parse_labels(source.test())
    return _Answers({}, list(train), list(islice(test, limit)), set())


def _score(
    source: TaskSource, answers: _Answers, vectors: Vectors, distance: Distance
) -> TaskScores:
    """Score the vectors of papers on one task."""
    if missing := answers.paper_ids - vectors.keys():
        warnings.warn(
            f"{source.task}: {len(missing):,} of {len(answers.paper_ids):,} papers are not in "
            f"{source.papers_from}, such as {min(missing)}: they are left out",
            stacklevel=3,
        )
        answers = answers.only(vectors.keys())
    task = TASKS[source.task]
    try:
        match task.kind:
            case "regression":
                scores = score_regression(vectors, answers.train, answers.test)
            case "classification":
                scores = score_classification(
                    vectors, answers.train, answers.test, multi_label=task.multi_label
                )
            case _:
                scores = score_rankings(vectors, answers.judgements, distance)
    except ValueError as error:
        raise ValueError(f"{source.task}: {error}") from error
    if task.metric not in scores:
        raise ValueError(f"{source.task}: the classes should be 0 and 1, for the {task.metric}")
    scores = {task.metric: scores[task.metric], **scores}  # the one that is reported comes first
    num_examples = len(answers.judgements) + len(answers.test)
    return TaskScores(source.task, task.kind, num_examples, scores)


def _similarity(query: Tensor, candidates: Tensor, distance: Distance) -> Tensor:
    """Compute how close candidates `(candidates, dimension)` are to a query `(dimension,)`."""
    query, candidates = query.double(), candidates.double()
    if distance == "cosine":
        return F.cosine_similarity(query, candidates, dim=-1)
    closeness: Tensor = -torch.linalg.vector_norm(candidates - query, dim=-1)
    return closeness


def _stack(vectors: Vectors, labels: Sequence[Label]) -> Tensor:
    if not labels:
        raise ValueError("there are no labelled papers: nothing can be learned or scored")
    return torch.stack([vectors[label.paper_id] for label in labels])


def _has_labels(task: str) -> bool:
    return TASKS[task].kind in ("regression", "classification")


def _folders_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def _is_task(folder: Path) -> bool:
    names = _test_files(folder.name) if folder.name in TASKS else ()
    return any((folder / f"{name}{suffix}").is_file() for name in names for suffix in ("", ".gz"))


def _test_files(task: str) -> tuple[str, ...]:
    return ("test.csv", "test.jsonl") if _has_labels(task) else ("test_qrel.jsonl",)


def _source_in_folder(folder: Path) -> TaskSource:
    task = folder.name
    shared = folder.parent / SHARED_PAPERS.get(task, task)
    papers = _require_file(dict.fromkeys((folder, shared)), "meta.jsonl")
    train = _require_file([folder], "train.csv", "train.jsonl") if _has_labels(task) else None
    return TaskSource(
        task,
        str(papers),
        partial(read_records, papers),
        partial(read_records, _require_file([folder], *_test_files(task))),
        None if train is None else partial(read_records, train),
    )


def _require_file(folders: Iterable[Path], *names: str) -> Path:
    """Find the first of these files, gzipped or not.

    Raises:
        FileNotFoundError: There is none.
    """
    paths = [folder / name for folder in folders for name in names]
    for path in paths:
        for candidate in (path, path.with_name(f"{path.name}.gz")):
            if candidate.is_file():
                return candidate
    raise FileNotFoundError(f"there is no {' or '.join(map(str, paths))}, which the task needs")


def main() -> None:
    parser = arguments.parser(__doc__, "model", "limit", "device", "dtype", "output")
    parser.add_argument("tasks", nargs="+", help="folders of tasks, or names of tasks on the hub")
    parser.add_argument("--distance", choices=["euclidean", "cosine"], default="euclidean")
    parser.add_argument(
        "--flat", action="store_true", help="read a paper as one text, and take its first token"
    )
    options = parser.parse_args()
    sources = find_tasks(options.tasks)
    placed = {"device": options.device, "dtype": options.dtype}
    if options.model is not None:
        check_gives_vectors(options.model)
    encoder = (
        FirstTokens.from_pretrained(options.model, **placed)
        if options.flat
        else Encoder.from_pretrained(options.model, **placed)
    )
    found = evaluate_scirepeval(encoder, sources, distance=options.distance, limit=options.limit)
    rows = [
        [task.task, task.kind, task.num_examples, *next(iter(task.scores.items()))]
        for task in found
    ]
    average = sum(task.main_score for task in found) / len(found)
    rows.append(["average", "", "", "", average])
    print(report.table(["task", "kind", "examples", "", "%"], rows))
    if options.output is not None:
        scores = {task.task: task.scores for task in found}
        report.save(options.output, {"average": average, "tasks": scores}, "scikit-learn")


if __name__ == "__main__":
    main()
