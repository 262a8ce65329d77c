"""Do anchors carry content (HDT, Table 3)? Papers found by their abstracts, with frozen anchors.

    python studies/anchors.py --prepare FOLDER --corpus CORPUS   # tokenize the documents
    python studies/anchors.py --data FOLDER --minutes 7 --seeds 3
    python studies/anchors.py --docs            # write saved results into the page

A small HDT learns to predict masked words, on Python Enhancement Proposals, technical proposals,
meetings and manuals, as `training_corpus.py` writes them. Then it goes on, for equal minutes, with
one of four objectives:

- masked words: the same, which asks nothing of anchors;
- reconstruction: each section's anchor, and the document's, predicts which words stand below it;
- contrast: some sentences in a row are cut out of a section and read as a document of their own;
  their section anchor must find that section's among all in the batch, and their document anchor
  the document's;
- contrast of tokens: the same between means of tokens, the usual way without anchors.

Frozen, each encoder reads papers of ScisummNet, both splits, none of which it has seen; titles and
abstracts are removed. A query is the abstract, or one sentence of it, read as a document of its
own. Of all papers, the right one is to be found by the cosine of vectors, each less the mean of its
kind: document anchors; the mean of section anchors; the best section anchor; for each sentence of
the query the best sentence anchor; and, as a peer, the mean of the tokens. Further peers are
encoders with random weights and BM25 over the same tokens. Intervals are 95 % of a bootstrap over
papers, of the mean over seeds.

Each seed is a process; they share a GPU. A run that is interrupted continues when the command is
repeated; a seed that has not finished is named in the results and left out of the tables.
"""

import argparse
import copy
import json
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

import runs
import small_encoders
from benchmarks import report
from benchmarks.structured_documents import read_records, sections_beside_abstract
from document_nodes import DOCUMENT, SECTION, SENTENCE, TOKEN, Nodes, latest, pieces
from foveate import Document
from foveate.data import Corpus
from foveate.preprocessing import HDTProcessor
from foveate.training.tokenizer import train_tokenizer
from small_encoders import (
    Documents,
    SmallEncoder,
    epochs,
    mixed_precision,
    nodes_of,
    trees,
    write_documents,
)

RESULTS = report.STUDIES / "results" / "anchors.json"
PAGE = report.STUDIES / "anchors.md"
CORPORA = ("peps", "proposals", "meetings", "manuals")
VOCABULARY, TOKENIZED = 16384, 2000
MOST_TOKENS = 8_000_000  # to train on
SHARES = {"pretraining": 0.28, "arm": 0.18}  # of the minutes
ARMS = ("masked words", "reconstruction", "contrast", "contrast of tokens")
UNTRAINED, BM25 = "random weights", "BM25"
VECTORS = (
    "document anchor",
    "mean of section anchors",
    "best section anchor",
    "best sentence anchors",
    "mean of tokens",
)
QUERIES = ("abstract", "sentence")
TEMPERATURE = 0.05
CUT_FROM, MOST_CUT, CUTS = 4, 8, 4
"""Least sentences of a section that is cut, most sentences of a cut, most cuts of a piece."""
RESAMPLES = 10_000
MEASURES = ("R@1", "R@10", "MRR")
SMOKE = {
    "layers": 1,
    "width": 64,
    "tokens": 2048,
    "length": 512,
    "minutes": 0.05,
    "seeds": 2,
    "corpus": None,
    "limit": 8,
}


def main() -> None:
    parser = small_encoders.parser(__doc__.splitlines()[0], RESULTS, width=384)
    parser.add_argument("--corpus", type=Path, help="folder that training_corpus.py wrote")
    parser.add_argument("--documents", type=Path, default=report.DATA)
    parser.add_argument("--length", type=int, default=1024, help="tokens per piece of a document")
    parser.add_argument("--rate", type=float, default=1e-3, help="learning rate")
    parser.add_argument("--minutes", type=float, default=7, help="of training, for each seed")
    parser.add_argument("--seeds", type=int, default=3)
    small_encoders.run_script(parser, SMOKE, prepare, run_all, write_page)


def write_page(results: Path) -> None:
    """Write saved results into the page."""
    report.write_tables(PAGE, tables(report.load(results)))


# Documents


def prepare(options: argparse.Namespace, folder: Path) -> None:
    """Write what the encoders learn from, and the papers with their abstracts."""
    documents = training_documents(options)
    order = np.random.default_rng(0).permutation(len(documents))
    processor = HDTProcessor(train_tokenizer((documents[i] for i in order[:TOKENIZED]), VOCABULARY))
    training: list[Nodes] = []
    room = MOST_TOKENS
    for i in order:
        training.append(nodes_of(documents[i], processor))
        room -= len(training[-1][0])
        if room < 0:
            break
    write_documents(folder / "anchors-training.xz", processor, {"training": training})
    papers, abstracts, sentences = [], [], []
    rng = np.random.default_rng(0)
    for sections, abstract in without_abstracts(options):
        body = Document.from_sections("", sections, language="en")
        papers.append(nodes_of(body, processor))
        one = abstract[rng.integers(len(abstract))]
        for query, into in ((abstract, abstracts), ([one], sentences)):
            said = Document.from_sections("", [("", query)], language="en")
            into.append(nodes_of(said, processor))
    parts = {"papers": papers, "abstract": abstracts, "sentence": sentences}
    write_documents(folder / "anchors-papers.xz", processor, parts)


def training_documents(options: argparse.Namespace) -> list[Document]:
    """Read what the encoders learn from; without a corpus, papers, for a trial of the script."""
    if options.corpus is None:
        found = without_abstracts(options)
        return [Document.from_sections("", sections, language="en") for sections, _ in found]
    files = [options.corpus / f"{name}.jsonl" for name in CORPORA]
    return [example.document for example in Corpus(files)][: options.limit]


def without_abstracts(
    options: argparse.Namespace,
) -> Iterator[tuple[list[tuple[str, list[str]]], list[str]]]:
    """Yield sections and abstracts of papers without sections that repeat the abstract."""
    for split in ("train", "dev"):
        records = read_records(options.documents / "scisummnet" / f"{split}.jsonl.gz")
        for paper in islice(records, options.limit):
            abstract = [sentence for sentence in paper["abstract"] if len(sentence.split()) > 3]
            sections = sections_beside_abstract(paper)
            if sections and abstract:
                yield sections, abstract


# Objectives


class Objectives:
    """The losses of all arms on random pieces of documents."""

    def __init__(self, options: argparse.Namespace, data: Documents, seed: int) -> None:
        self.pieces = [
            piece for nodes in data.part("training") for piece in all_pieces(nodes, options.length)
        ]
        self.mask, self.seed, self.total = data.mask, seed, options.tokens
        rarity = np.bincount(np.concatenate([np.unique(ids) for ids, _ in self.pieces]))
        missing = data.vocabulary - len(rarity)
        documents = 1 + np.concatenate([rarity, np.zeros(missing)])
        self.rarity = torch.from_numpy(np.log((1 + len(self.pieces)) / documents)).float()

    def losses(self, arm: str, model: SmallEncoder, step: int) -> Iterator[Tensor]:
        """Yield losses for ever, from a step on."""
        sizes = [len(ids) for ids, _ in self.pieces]
        for chosen in epochs(sizes, self.total, self.seed, step):
            rng = np.random.default_rng([self.seed, step])
            documents = [self.pieces[i] for i in chosen]
            step += 1
            if arm == "masked words":
                yield model.masked_loss(documents, self.mask, rng)
            elif arm == "reconstruction":
                yield self.reconstruction(model, documents)
            else:
                yield contrast(model, documents, rng, of_tokens=arm == "contrast of tokens")

    def reconstruction(self, model: SmallEncoder, documents: Sequence[Nodes]) -> Tensor:
        """Loss of the words below each section's anchor and the document's, rare ones first."""
        device = model.embeddings.weight.device.type
        batch = trees(documents, device)
        hidden = model(batch.ids, batch.structure)
        tokens = batch.nodes(TOKEN)
        truth = batch.ids[batch.places[tokens]]
        weights = self.rarity.to(device)[truth]
        losses = []
        for kind in (SECTION, DOCUMENT):
            anchors = hidden[batch.places[batch.nodes(kind)]]
            with mixed_precision(device):
                logits = model.predictions(anchors)
            found = logits.float().log_softmax(-1)[batch.anchors(kind)[tokens], truth]
            losses.append(-(weights * found).sum() / weights.sum())
        return torch.stack(losses).mean()


def all_pieces(nodes: Nodes, length: int) -> Iterator[Nodes]:
    """Cut a document into pieces of a number of tokens; the last is shorter."""
    ids, types = nodes
    yield from pieces(ids, types, length)
    tokens = np.flatnonzero(types == TOKEN)
    rest = tokens[len(tokens) // length * length :]
    if len(rest) >= length // 8:
        kinds = (SENTENCE, SECTION, DOCUMENT)
        anchors = [latest(types, kind)[rest] for kind in kinds]
        kept = np.unique(np.concatenate([rest, *anchors]))
        yield ids[kept], types[kept]


def cut(nodes: Nodes, rng: np.random.Generator) -> tuple[Nodes, list[tuple[int, Nodes]]]:
    """Cut sentences out of some sections.

    Returns:
        What is left, and for each cut the section's number and the sentences as a document.
    """
    ids, types = nodes
    section = np.cumsum(types == SECTION) - 1
    sentence = np.where(types <= SENTENCE, np.cumsum(types == SENTENCE) - 1, -1)
    of_section = section[types == SENTENCE]  # of each sentence
    numbers, counts = np.unique(of_section, return_counts=True)
    long = numbers[counts >= CUT_FROM]
    kept = np.ones(len(ids), bool)
    found = []
    for number in rng.permutation(long)[:CUTS]:
        sentences = np.flatnonzero(of_section == number)
        size = int(rng.integers(1, 1 + min(MOST_CUT, len(sentences) // 2)))
        start = rng.integers(len(sentences) - size + 1)
        inside = np.isin(sentence, sentences[start : start + size])
        kept &= ~inside
        anchors = [0, np.flatnonzero((types == SECTION) & (section == number))[0]]
        query = np.concatenate([anchors, np.flatnonzero(inside)])
        found.append((int(number), (ids[query], types[query])))
    return (ids[kept], types[kept]), found


def contrast(
    model: SmallEncoder, documents: Sequence[Nodes], rng: np.random.Generator, *, of_tokens: bool
) -> Tensor:
    """Loss of finding where sentences were cut out, by section anchors and document anchors.

    In place of an anchor, it can be the mean of the tokens below it.
    """
    device = model.embeddings.weight.device.type
    left, queries, sections, owners = [], [], [], []
    before = 0
    for number, nodes in enumerate(documents):
        rest, cuts = cut(nodes, rng)
        left.append(rest)
        queries += [query for _, query in cuts]
        sections += [before + section for section, _ in cuts]
        owners += [number] * len(cuts)
        before += int((rest[1] == SECTION).sum())
    batch = trees([*left, *queries], device)
    hidden = model(batch.ids, batch.structure)
    losses = []
    for kind, candidates, own in ((SECTION, before, sections), (DOCUMENT, len(left), owners)):
        anchors = batch.nodes(kind)
        if of_tokens:
            tokens = batch.nodes(TOKEN)
            owner = batch.anchors(kind)[tokens]
            vectors, _ = mean_by(hidden[batch.places[tokens]].float(), owner, len(anchors))
        else:
            vectors = hidden[batch.places[anchors]].float()
        theirs, ours = (centred(part) for part in vectors.tensor_split([candidates]))
        found = ours @ theirs.T / TEMPERATURE
        losses.append(F.cross_entropy(found, torch.tensor(own, device=device)))
    return torch.stack(losses).mean()


def centred(vectors: Tensor) -> Tensor:
    """Return unit vectors less their mean, which all anchors have in common."""
    return F.normalize(vectors - vectors.mean(0), dim=-1)


# Runs


def run_all(options: argparse.Namespace) -> None:
    """Train and evaluate all seeds, and save the results of those that finished."""
    try:
        runs.run_in_parallel(run, [(seed, options) for seed in range(options.seeds)])
    finally:
        gather(options)


def run(seed: int, options: argparse.Namespace) -> None:
    """Train one seed's encoders one after the other, and rank the papers with each."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_num_threads(1)
    data = Documents(options.data / "anchors-training.xz")
    papers = Documents(options.data / "anchors-papers.xz")
    objectives = Objectives(options, data, seed)
    torch.manual_seed(seed)
    model = SmallEncoder(
        data.vocabulary,
        options.layers,
        options.width,
        position_embedding_type="hierarchical",  # as published
    ).to(device)
    folder = options.state / f"seed_{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    save_ranks(folder, UNTRAINED, model, papers, options)
    log = small_encoders.train(
        small_encoders.minutes(SHARES["pretraining"] * options.minutes),
        model,
        lambda step: objectives.losses("masked words", model, step),
        folder / "pretraining",
        options.rate,
        falls=False,
        name=f"seed {seed} pretraining",
    )
    logs = {"pretraining": log}
    for arm in ARMS:
        encoder = copy.deepcopy(model)
        if arm.startswith("contrast"):  # does without the head; its decoder is the embeddings
            for part in (encoder.predictions.LayerNorm, encoder.predictions.transform):
                part.requires_grad_(False)
            encoder.predictions.bias.requires_grad_(False)
        logs[arm] = small_encoders.train(
            small_encoders.minutes(SHARES["arm"] * options.minutes),
            encoder,
            lambda step, arm=arm, encoder=encoder: objectives.losses(arm, encoder, step),
            runs.run_folder(folder, arm),
            options.rate,
            falls=True,
            name=f"seed {seed} {arm}",
        )
        save_ranks(folder, arm, encoder, papers, options)
    if seed == 0:
        save_bm25(folder, papers)
    parameters = sum(p.numel() for p in model.parameters() if p.requires_grad)
    (folder / "logs.json").write_text(json.dumps({"parameters": parameters, "logs": logs}))


def save_ranks(
    folder: Path, name: str, model: SmallEncoder, papers: Documents, options: argparse.Namespace
) -> None:
    """Save the rank of the right paper by each kind of vector, `(vectors, queries, papers)`."""
    file = runs.run_folder(folder, name).with_suffix(".npy")
    if file.exists():
        return
    vectors = {part: embed(model, papers.part(part), options) for part in ("papers", *QUERIES)}
    ranks = [
        [ranks_of(scores(vectors["papers"], vectors[query], kind)) for query in QUERIES]
        for kind in VECTORS
    ]
    np.save(file, np.array(ranks))
    best = (np.array(ranks)[VECTORS.index("document anchor"), 0] == 1).mean()
    print(f"{folder.name} {name}: R@1 by document anchor {best:.3f}", flush=True)


@torch.no_grad()
def embed(
    model: SmallEncoder, documents: Sequence[Nodes], options: argparse.Namespace
) -> dict[str, tuple[Tensor, Tensor]]:
    """Return the vectors of all nodes of a kind, with the document of each.

    Those of tokens are their mean in each document.
    """
    model.eval()
    device = model.embeddings.weight.device.type
    found: dict[str, list[tuple[Tensor, Tensor]]] = {
        name: [] for name in ("document", "section", "sentence", "token")
    }
    kinds = {"document": DOCUMENT, "section": SECTION, "sentence": SENTENCE}
    start = 0
    while start < len(documents):
        sizes = np.cumsum([len(ids) for ids, _ in documents[start:]])
        number = max(1, int((sizes <= options.tokens).sum()))
        batch = trees(documents[start : start + number], device)
        hidden = model(batch.ids, batch.structure).float()
        owner = torch.arange(number).repeat_interleave(torch.tensor(batch.sizes)).to(device)
        for name, kind in kinds.items():
            chosen = batch.nodes(kind)
            found[name].append((hidden[batch.places[chosen]], start + owner[chosen]))
        tokens = batch.nodes(TOKEN)
        found["token"].append(mean_by(hidden[batch.places[tokens]], owner[tokens], number, start))
        start += number
    return {
        name: (torch.cat([v for v, _ in its]), torch.cat([o for _, o in its]))
        for name, its in found.items()
    }


def mean_by(vectors: Tensor, owner: Tensor, number: int, start: int = 0) -> tuple[Tensor, Tensor]:
    """Return the mean of each owner's vectors, and the owners counted from `start`."""
    sums = vectors.new_zeros(number, vectors.shape[1]).index_add_(0, owner, vectors)
    counts = owner.bincount(minlength=number).clamp(min=1)[:, None]
    return sums / counts, start + torch.arange(number, device=owner.device)


def scores(
    papers: dict[str, tuple[Tensor, Tensor]], queries: dict[str, tuple[Tensor, Tensor]], kind: str
) -> Tensor:
    """Score all papers for all queries, `(queries, papers)`, by a kind of vector."""
    name = {"mean of tokens": "token", "best sentence anchors": "sentence"}.get(kind)
    name = name or ("document" if kind == "document anchor" else "section")
    (theirs, paper), (ours, query) = papers[name], queries[name]
    ours, theirs = centred(ours), centred(theirs)
    number = int(paper.max()) + 1
    if kind == "mean of section anchors":
        theirs, _ = mean_by(theirs, paper, number)
        theirs = F.normalize(theirs, dim=-1)
    if not kind.startswith("best"):
        return ours @ theirs.T
    best = []
    for part in ours.split(256):
        all_scores = part @ theirs.T
        index = paper.expand(len(part), -1)
        least = all_scores.new_full((len(part), number), -2.0)
        best.append(least.scatter_reduce(1, index, all_scores, "amax"))
    found, _ = mean_by(torch.cat(best), query, int(query.max()) + 1)
    return found


def ranks_of(found: Tensor) -> np.ndarray:
    """Return the rank of each query's own paper, the lowest one of equal scores."""
    ranks = (found >= found.diagonal()[:, None]).sum(1)
    return np.asarray(ranks.cpu().numpy())


def save_bm25(folder: Path, papers: Documents) -> None:
    """Save the ranks that BM25 gives over the tokens, `(queries, papers)`."""
    from scipy.sparse import csr_matrix

    def counts(part: str) -> Any:
        tokens = [ids[types == TOKEN] for ids, types in papers.part(part)]
        sizes = np.array([len(ids) for ids in tokens])
        which, column = np.repeat(np.arange(len(sizes)), sizes), np.concatenate(tokens)
        shape = (len(sizes), papers.vocabulary)
        return csr_matrix((np.ones(len(column)), (which, column)), shape)

    theirs = counts("papers")
    theirs.sum_duplicates()
    lengths = np.asarray(theirs.sum(1)).ravel()
    present = np.bincount(theirs.indices, minlength=papers.vocabulary)
    idf = np.log(1 + (theirs.shape[0] - present + 0.5) / (present + 0.5))
    k1, b = 1.2, 0.75
    norm = k1 * (1 - b + b * lengths / lengths.mean())
    rows = np.repeat(np.arange(theirs.shape[0]), np.diff(theirs.indptr))
    theirs.data = idf[theirs.indices] * theirs.data * (k1 + 1) / (theirs.data + norm[rows])
    found = [(counts(query) @ theirs.T).toarray() for query in QUERIES]
    np.save(folder / "BM25.npy", np.array([ranks_of(torch.from_numpy(its)) for its in found]))


# Results


def measures(ranks: np.ndarray) -> np.ndarray:
    """Return `MEASURES` in percent for ranks `(..., papers)`: `(..., papers, 3)`."""
    return 100 * np.stack([ranks <= 1, ranks <= 10, 1 / ranks], axis=-1)


@cache
def resamples(number: int) -> np.ndarray:
    """Draw the share of each of a number of papers in each resample, `(resamples, papers)`."""
    rng = np.random.default_rng(0)
    return rng.multinomial(number, np.full(number, 1 / number), RESAMPLES) / number


def interval(values: np.ndarray, digits: int = 2) -> list[list[float]]:
    """Return 95 % of a bootstrap of the mean of `(papers, measures)`, for each measure."""
    weights = resamples(len(values))
    return np.percentile(weights @ values, [2.5, 97.5], axis=0).T.round(digits).tolist()


def gather(options: argparse.Namespace) -> None:
    """Save the measures of all seeds that finished, with intervals, and print the tables."""
    folders = [options.state / f"seed_{seed}" for seed in range(options.seeds)]
    done = [folder for folder in folders if (folder / "logs.json").exists()]
    missing = [folder.name.replace("_", " ") for folder in folders if folder not in done]
    keys = ("layers", "width", "tokens", "length", "rate", "minutes", "seeds")
    results: dict[str, Any] = {
        "recipe": {key: getattr(options, key) for key in keys}
        | {"shares": SHARES, "temperature": TEMPERATURE, "vocabulary": VOCABULARY},
        "runs": {folder.name: json.loads((folder / "logs.json").read_text()) for folder in done},
    }
    if done and (folders[0] / "BM25.npy").exists():
        results |= found_measures(done, folders[0] / "BM25.npy")
    report.save(options.results, results, "transformers", missing=missing)
    if "found" in results:
        for table in tables(results).values():
            print(f"\n{table}")


def found_measures(done: list[Path], bm25: Path) -> dict[str, Any]:
    """Return all measures, and the differences that the claim is about, with intervals."""
    ranks = {
        name: np.stack([np.load(runs.run_folder(seed, name).with_suffix(".npy")) for seed in done])
        for name in (UNTRAINED, *ARMS)
    }
    by_query = {  # (encoder, vector, query): (seeds, papers, measures)
        (name, vector, query): measures(ranks[name][:, i, j])
        for name in ranks
        for i, vector in enumerate(VECTORS)
        for j, query in enumerate(QUERIES)
    }
    by_query |= {
        (BM25, "words", query): measures(its)[None]
        for query, its in zip(QUERIES, np.load(bm25), strict=True)
    }
    found = [
        {
            "encoder": name,
            "vector": vector,
            "query": query,
            "mean": values.mean((0, 1)).round(2).tolist(),
            "each seed": values.mean(1).round(2).tolist(),
            "interval": interval(values.mean(0)),
        }
        for (name, vector, query), values in by_query.items()
    ]
    differences = []
    for query in QUERIES:
        for vector in VECTORS[:-1]:
            for arm in ("reconstruction", "contrast"):
                for other in (
                    ("masked words", vector),
                    ("masked words", "mean of tokens"),
                    ("contrast of tokens", "mean of tokens"),
                ):
                    ours, theirs = by_query[arm, vector, query], by_query[*other, query]
                    paired = ours.mean(0) - theirs.mean(0)
                    differences.append(
                        {
                            "query": query,
                            "of": [arm, vector],
                            "from": other,
                            "mean": paired.mean(0).round(2).tolist(),
                            "interval": interval(paired),
                        }
                    )
    papers = next(iter(by_query.values())).shape[1]
    return {"papers": papers, "measures": MEASURES, "found": found, "differences": differences}


def tables(results: dict[str, Any]) -> dict[str, str]:
    """Return a table of R@1 by each kind of query, and one of differences."""
    if "found" not in results:
        sys.exit("no seed has finished")
    by_query = {
        query: {
            (its["encoder"], its["vector"]): its
            for its in results["found"]
            if its["query"] == query
        }
        for query in QUERIES
    }
    first = by_query[QUERIES[0]]
    rows = [
        [
            encoder,
            vector,
            *(
                _with_interval(found[encoder, vector], ".1f", "{} ({}–{})")
                for found in by_query.values()
            ),
            ", ".join(f"{seed[0]:.1f}" for seed in its["each seed"]),
        ]
        for (encoder, vector), its in first.items()
        if encoder != "contrast of tokens" or vector == "mean of tokens"
    ]
    header = ["trained by", "compared by", *(f"R@1 by {query}" for query in QUERIES)]
    paired: dict[tuple[str, str], list[str]] = {}
    for its in results["differences"]:
        if its["of"][1] == VECTORS[0]:
            pair = ", ".join(its["of"]), ", ".join(its["from"])
            paired.setdefault(pair, []).append(_with_interval(its, "+.1f", "{} ({} to {})"))
    return {
        "found": report.table([*header, f"{QUERIES[0]}, each seed"], rows),
        "differences": report.table(
            ["anchors", "against", *header[2:]], [[*pair, *cells] for pair, cells in paired.items()]
        ),
    }


def _with_interval(its: dict[str, Any], digits: str, text: str) -> str:
    """Format R@1 and its interval."""
    return text.format(*(format(value, digits) for value in (its["mean"][0], *its["interval"][0])))


if __name__ == "__main__":
    main()
