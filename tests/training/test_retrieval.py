"""Losses against plain loops in float64, batches by their texts, and short training runs."""

import json
import math
import re

import pytest
import torch
import torch.nn.functional as F
import transformers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import TrainingArguments

from foveate import Document
from foveate.data import Example, Query
from foveate.preprocessing import HDTProcessor, TextProcessor, TreeBertProcessor
from foveate.preprocessing.tree import NODE_TYPES
from foveate.training import Recipe, build_trainer
from foveate.training.objectives.retrieval import (
    Retrieval,
    RetrievalTrainer,
    contrastive_loss,
    distillation_loss,
    late_interaction,
    salience_loss,
)
from tests.conftest import WORDS, random_record
from tests.numerics import relative_error
from tests.training.conftest import losses, whole_and_resumed
from tests.tree_bert import save_bert, tree_bert


@pytest.fixture(scope="module")
def processor(bert_tokenizer):
    return TreeBertProcessor(bert_tokenizer, max_sentence_tokens=12)


def example(name, references=True):
    """Three sections; every sentence has words of its own."""

    def sentence(i):
        return " ".join(f"{name}{i}{letter}" for letter in "abcdef") + "."

    sections = [
        ("Abstract", [sentence(0)]),
        ("Alpha", [sentence(i) for i in range(1, 5)], [("Beta", [sentence(5), sentence(6)])]),
        ("Gamma", [sentence(7), "It is."]),
    ]
    return Example(
        document=Document.from_sections(f"Title {name}", sections),
        references=(sentence(0) + " " + sentence(3),) if references else (),
        queries=(Query(f"Question {name}", (2, 7)),),
    )


def features_of(objective, processor, seed=0, names=("cod", "eel", "ray")):
    generator = torch.Generator().manual_seed(seed)
    examples = [example(name, name != "ray") for name in names]
    return [objective.features(processor, one, generator)[0] for one in examples]


def unit(generator, *shape):
    return F.normalize(torch.randn(*shape, generator=generator, dtype=torch.double), dim=-1)


# Losses


def loop_contrastive(scores, pairs, is_negative):
    losses = []
    for query in range(len(scores)):
        positives = [column for row, column in pairs if row == query]
        negatives = [
            j for j in range(scores.shape[1]) if is_negative[query, j] and j not in positives
        ]
        other = sum(math.exp(scores[query, j]) for j in negatives)
        each = [math.exp(scores[query, j]) for j in positives]
        mean = sum(-math.log(p / (p + other)) for p in each) / len(each)
        losses.append((mean - math.log(sum(each) / (sum(each) + other))) / 2)
    return sum(losses) / len(losses)


@st.composite
def contrasts(draw):
    queries, candidates = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    scores = 4 * torch.randn(queries, candidates, generator=generator, dtype=torch.double)
    is_negative = torch.rand(queries, candidates, generator=generator) < draw(
        st.sampled_from([0.0, 0.5, 1.0])
    )
    pairs = [
        (query, column)
        for query in range(queries)
        for column in draw(st.sets(st.integers(0, candidates - 1), min_size=1))
    ]
    return scores, draw(st.permutations(pairs)), is_negative


@given(contrasts())
def test_contrastive_loss(drawn):
    scores, pairs, is_negative = drawn
    columns = tuple(torch.tensor(pairs).T)
    found = contrastive_loss(scores.requires_grad_(), columns, is_negative)
    assert float(found.detach()) == pytest.approx(
        loop_contrastive(scores.detach(), pairs, is_negative), rel=1e-9, abs=1e-12
    )
    found.backward()
    assert torch.isfinite(scores.grad).all()
    is_used = is_negative.index_put(columns, torch.tensor(True))
    assert (scores.grad[~is_used] == 0).all()


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.lists(st.integers(1, 5), min_size=1, max_size=5),
)
def test_late_interaction(queries, sentences):
    generator = torch.Generator().manual_seed(len(queries))
    asked, said = unit(generator, sum(queries), 4), unit(generator, sum(sentences), 4)
    owners = [torch.arange(len(x)).repeat_interleave(torch.tensor(x)) for x in (queries, sentences)]
    order = torch.randperm(len(said), generator=generator)
    found = late_interaction(asked, owners[0], said[order], owners[1][order])
    expected = [
        [(a @ s.T).amax(1).mean() for s in said.split(sentences)] for a in asked.split(queries)
    ]
    assert relative_error(found, torch.tensor(expected)) < 1e-12


@st.composite
def documents(draw):
    """The document of each anchor, which anchors are candidates, and which of these salient."""
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    document = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
    flags = st.lists(st.booleans(), min_size=len(document), max_size=len(document))
    is_candidate = torch.tensor(draw(flags))
    return document, is_candidate, torch.tensor(draw(flags)) & is_candidate


@given(documents(), st.integers(0, 99))
def test_salience_loss(drawn, seed):
    document, is_candidate, is_salient = drawn
    generator = torch.Generator().manual_seed(seed)
    salience = 5 * torch.randn(len(document), generator=generator, dtype=torch.double)
    losses = []
    for one in range(int(document[-1]) + 1):
        candidates = [i for i in range(len(document)) if document[i] == one and is_candidate[i]]
        total = sum(math.exp(salience[i]) for i in candidates)
        own = [-math.log(math.exp(salience[i]) / total) for i in candidates if is_salient[i]]
        losses += [sum(own) / len(own)] if own else []
    expected = sum(losses) / max(1, len(losses))
    targets = {"document": document, "is_candidate": is_candidate, "is_salient": is_salient}
    found = salience_loss(salience.requires_grad_(), targets)
    assert float(found.detach()) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    found.backward()
    assert torch.isfinite(salience.grad).all()
    assert (salience.grad[~is_candidate] == 0).all()


def test_distillation_loss():
    generator = torch.Generator().manual_seed(0)
    vectors, teacher = unit(generator, 5, 8), unit(generator, 5, 8)
    cosines = [[[x @ y for y in own] for x in own] for own in (vectors, teacher)]
    squares = [(cosines[0][i][j] - cosines[1][i][j]) ** 2 for i in range(5) for j in range(5)]
    apart = [1 - vectors[i] @ teacher[i] for i in range(5)]
    expected = sum(apart) / 5 + 10 * sum(squares) / 25
    assert relative_error(distillation_loss(vectors, teacher), expected) < 1e-12
    assert abs(float(distillation_loss(teacher, teacher))) < 1e-12


def loop_loss(objective, queries, vectors, salience, targets):
    """The whole loss, pair by pair."""
    own = {name: column.tolist() for name, column in targets.items() if name != "teacher"}
    total = objective.salience * salience_loss(salience, targets)
    total += objective.distillation * distillation_loss(queries, targets["teacher"])
    scores = queries @ vectors.T / objective.temperature
    for kind in ("sentence", "section", "document"):
        pairs = [
            (query, anchor)
            for query, anchor, target_kind in zip(
                own["query"], own["anchor"], own["target_kind"], strict=True
            )
            if target_kind == NODE_TYPES[kind]
        ]
        candidates = [
            i
            for i in range(len(vectors))
            if (
                own["is_candidate"][i] if kind == "sentence" else own["kind"][i] == NODE_TYPES[kind]
            )
        ]
        rows = sorted({query for query, _ in pairs})
        numbered = [(rows.index(query), candidates.index(anchor)) for query, anchor in pairs]
        is_own = torch.tensor(
            [[own["query_document"][q] == own["document"][c] for c in candidates] for q in rows]
        )
        is_other = torch.tensor(
            [[own["is_other"][q][own["document"][c]] for c in candidates] for q in rows]
        )
        block = scores[rows][:, candidates]
        across = loop_contrastive(block, numbered, is_other)
        if kind == "document":
            total += objective.documents * across
        else:
            within = loop_contrastive(block, numbered, is_own)
            total += objective.in_document * within + objective.across_documents * across
    best = []
    for query, target_kind in zip(own["query"], own["target_kind"], strict=True):
        if target_kind == NODE_TYPES["document"]:
            nearest = [
                max(
                    scores[query, i]
                    for i in range(len(vectors))
                    if own["document"][i] == document and own["is_candidate"][i]
                )
                for document in range(max(own["document"]) + 1)
                if own["is_other"][query][document] or own["query_document"][query] == document
            ]
            closest = max(
                scores[query, i]
                for i in range(len(vectors))
                if own["document"][i] == own["query_document"][query] and own["is_candidate"][i]
            )
            best.append(torch.stack(nearest).logsumexp(0) - closest)
    return total + objective.documents * sum(best) / len(best)


def test_the_whole_loss_is_that_of_plain_loops(processor):
    objective = Retrieval(
        in_document=0.7, across_documents=1.3, documents=0.6, salience=0.4, distillation=2.0
    )
    features = features_of(objective, processor, names=("cod", "eel", "ray", "cod"))
    batch = objective.collate(processor, features)
    targets, generator = batch["targets"], torch.Generator().manual_seed(0)
    num_queries, num_anchors = len(targets["query_document"]), len(targets["document"])
    queries, vectors = unit(generator, num_queries, 8), unit(generator, num_anchors, 8)
    targets["teacher"] = unit(generator, num_queries, 8)
    salience = torch.randn(num_anchors, generator=generator, dtype=torch.double)
    expected = loop_loss(objective, queries, vectors, salience, targets)
    halves = [(queries[:3],), (queries[3:],)]
    trees = [(vectors[:9], salience[:9]), (vectors[9:], salience[9:])]
    assert relative_error(objective.loss(halves, trees, targets), expected) < 1e-9


def test_a_document_without_candidates_is_the_farthest():
    targets = {
        "document": torch.tensor([0, 0, 1]),
        "is_candidate": torch.tensor([False, True, False]),
        "query": torch.tensor([0]),
        "query_document": torch.tensor([0]),
        "target_kind": torch.tensor([NODE_TYPES["document"]]),
        "is_other": torch.tensor([[False, True]]),
    }
    query, vectors = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0], [0.6, 0.8], [1.0, 0.0]])
    loss = Retrieval(temperature=0.5)._best_sentence_loss(query, vectors, targets)
    assert float(loss) == pytest.approx(math.log(1 + math.exp(-2 - 1.2)))


# Features and batches


def test_copies_and_documents_that_ask_the_same_are_no_negatives(processor):
    features = features_of(Retrieval(), processor, names=("cod", "eel", "cod"))
    for i, one in enumerate(features):  # the first queries of cod and eel are the same
        one["query_keys"] = torch.arange(len(one["query_keys"])) + 100 * i
    features[1]["query_keys"][0] = 0
    targets = Retrieval().collate(processor, features)["targets"]
    owners, is_other = targets["query_document"].tolist(), targets["is_other"].tolist()
    first = [owners.index(i) for i in range(3)]
    assert [is_other[i] for i in first[:2]] == [[False] * 3] * 2
    assert is_other[first[1] + 1] == [True, False, True]
    assert is_other[first[0] + 1] == is_other[first[2] + 1] == [False, True, False]


def texts_of(tokenizer, columns, prefix=""):
    """The words of each sentence, and nothing for each section and document."""
    ids, anchors = columns[f"{prefix}input_ids"], columns[f"{prefix}anchor_ids"]
    return [
        tokenizer.decode(ids[anchors == i], skip_special_tokens=True)
        for i in range(columns[f"{prefix}anchor_kinds"].numel())
    ]


def pairs_of(tokenizer, features):
    documents, queries = (texts_of(tokenizer, features, x) for x in ("", "query_"))
    return [(queries[q], documents[a], kind) for q, a, kind in features["targets"].T.tolist()]


def test_targets_point_at_the_words_that_are_asked_for(processor, bert_tokenizer):
    objective = Retrieval()
    kinds = {number: kind for kind, number in NODE_TYPES.items()}
    found = set()
    for seed in range(12):
        for features in features_of(objective, processor, seed):
            for query, text, kind in pairs_of(bert_tokenizer, features):
                assert query
                # Sections and documents have no words of their own.
                assert bool(text) == (kinds[kind] == "sentence")
                found.add((query.split()[0], kinds[kind]))
                name = re.match(r"cod|eel|ray", query)
                if name and kinds[kind] == "sentence":
                    # Thinned words of a sentence that is split into pieces find the first.
                    assert text.split()[0][:4] == query.split()[0][:4]
                if query.startswith("question"):
                    assert re.match(r"(cod|eel|ray)[27]", text)
    assert {
        ("title", "document"),
        ("alpha", "section"),
        ("alpha", "sentence"),
        ("gamma", "section"),
        ("question", "sentence"),
    } <= found
    assert ("beta", "document") not in found


def test_salient_anchors_are_sentences_of_the_summary(processor, bert_tokenizer):
    for seed in range(6):
        features = features_of(Retrieval(), processor, seed)
        for one in features:
            texts = texts_of(bert_tokenizer, one)
            salient = [texts[i] for i in one["is_salient"].nonzero()[:, 0].tolist()]
            assert len(texts) == len(one["is_salient"]) == len(one["is_candidate"])
            assert {number for text in salient for number in re.findall(r"\d", text)} <= {"0", "3"}
            assert not (one["is_salient"] & ~one["is_candidate"]).any()
        assert not features[2]["is_salient"].any()  # it has no summary


@pytest.mark.parametrize("chunk_tokens", [1, 150, 10_000])
def test_a_batch_has_the_pairs_of_its_examples(chunk_tokens, processor, bert_tokenizer):
    objective = Retrieval(chunk_tokens=chunk_tokens)
    examples = features_of(objective, processor)
    batch = objective.collate(processor, examples)
    chunks = len(batch["documents"])
    assert {1: chunks == 3, 150: 1 < chunks <= 3, 10_000: chunks == 1}[chunk_tokens]

    def texts(chunks):
        return [text for chunk in chunks for text in texts_of(bert_tokenizer, chunk)]

    documents, queries, targets = (
        texts(batch["documents"]),
        texts(batch["queries"]),
        batch["targets"],
    )
    assert len(documents) == len(targets["document"])
    assert len(queries) == len(targets["query_document"])
    found = [
        (queries[query], documents[anchor], kind)
        for query, anchor, kind in zip(
            *(targets[x].tolist() for x in ("query", "anchor", "target_kind")), strict=True
        )
    ]
    assert found == [pair for one in examples for pair in pairs_of(bert_tokenizer, one)]
    assert torch.equal(targets["kind"][targets["anchor"]], targets["target_kind"])
    for chunks, owners, all_texts in (
        (batch["documents"], targets["token_anchor"], documents),
        (batch["queries"], targets["token_query"], queries),
    ):
        ids = torch.cat([chunk["input_ids"][chunk["anchor_ids"] >= 0] for chunk in chunks])
        for i, text in enumerate(all_texts):
            assert bert_tokenizer.decode(ids[owners == i], skip_special_tokens=True) == text
    same = targets["document"][targets["anchor"]] == targets["query_document"][targets["query"]]
    assert same.all()


def test_documents_without_queries(processor):
    bare = Example(document=Document.from_sections("", [("", ["It is.", "So."])]))
    objective = Retrieval(max_queries=1)
    features = objective.features(processor, bare, torch.Generator().manual_seed(0))
    assert features[0]["targets"].shape == (3, 0)
    batch = objective.collate(processor, features)
    assert batch["queries"] == []
    vectors = [(torch.eye(4), torch.zeros(4))]
    assert float(objective.loss([], vectors, batch["targets"])) == 0


@pytest.mark.parametrize("kind", [TextProcessor, HDTProcessor])
def test_other_models_are_refused(kind, bert_tokenizer):
    with pytest.raises(ValueError, match="the retrieval objective trains TreeBert"):
        Retrieval().features(kind(bert_tokenizer), example("cod"), torch.Generator())


# Training


def loss_and_gradients(objective, model, batch, folder):
    arguments = TrainingArguments(folder, use_cpu=True, report_to="none")
    trainer = RetrievalTrainer(objective, model, arguments)
    with torch.no_grad():  # away from the teacher
        model.embeddings.word_embeddings.weight.mul_(1.3)
    model.zero_grad()
    loss = trainer.compute_loss(model, batch)
    loss.backward()
    return loss.detach(), {name: p.grad for name, p in model.named_parameters()}


@pytest.mark.parametrize("token_size", [None, 8])
def test_small_chunks_give_the_loss_and_gradients_of_large_ones(processor, tmp_path, token_size):
    found = []
    for chunk_tokens in (1, 100_000):
        objective = Retrieval(chunk_tokens=chunk_tokens)
        model = tree_bert(vocab_size=len(processor.tokenizer), token_size=token_size).double()
        batch = objective.collate(processor, features_of(objective, processor))
        found.append(loss_and_gradients(objective, model, batch, tmp_path))
    (loss, gradients), (expected, expected_gradients) = found
    assert relative_error(loss, expected) < 1e-9
    for name, gradient in expected_gradients.items():
        if gradient is not None and gradient.norm() > 1e-9:
            assert relative_error(gradients[name], gradient) < 1e-6, name


@pytest.fixture
def recipe(tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", ".", "part", "voyage", *map(str, range(6)), *WORDS]
    words = {word: i for i, word in enumerate(words)}
    words_of = Tokenizer(models.WordLevel(words, "[UNK]"))
    words_of.normalizer = normalizers.Lowercase()
    words_of.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    words_of.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]"}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words_of, sep_token="[SEP]", **special
    )
    save_bert(tmp_path / "bert", tokenizer, num_hidden_layers=1)
    data = tmp_path / "voyages.jsonl"
    data.write_text("".join(json.dumps(random_record(i)) + "\n" for i in range(6)))

    def make(documents, **training):
        quick = {"use_cpu": True, "disable_tqdm": True, "dataloader_pin_memory": False}
        quick |= {"logging_steps": 1, "learning_rate": 1e-2}
        return Recipe.from_dict(
            {
                "model": {"type": "tree_bert", "checkpoint": str(tmp_path / "bert")},
                "objective": {"name": "retrieval", "chunk_tokens": 200},
                "data": {"train": str(data), "dev": str(data)},
                "batch": {"documents": documents},
                "training": {**quick, **training},
            }
        )

    return make


def test_training_lowers_the_loss(recipe, tmp_path):
    trainer = build_trainer(recipe(6, max_steps=8, save_strategy="no"), tmp_path / "out")
    teacher = [p.clone() for p in trainer.teacher.parameters()]
    before, again = (trainer.evaluate()["eval_loss"] for _ in range(2))
    assert before == again
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < 0.9 * before
    # What is distilled stays as it was, and everything new has been learned.
    assert all(
        torch.equal(*both) for both in zip(teacher, trainer.teacher.parameters(), strict=True)
    )
    model = trainer.model
    for parameter in model.pooling.parameters():
        assert parameter.abs().max() > 0


def test_a_run_that_is_killed_goes_on_as_if_it_had_not_been(recipe, tmp_path):
    steps = recipe(2, max_steps=4, save_steps=2, gradient_accumulation_steps=2)
    whole, resumed = whole_and_resumed(steps, tmp_path, step=3)
    assert len(losses(whole)) == 4
    assert losses(whole) == losses(resumed)
    for model in ("model", "teacher"):
        both = (getattr(trainer, model).parameters() for trainer in (whole, resumed))
        assert all(torch.equal(*pair) for pair in zip(*both, strict=True))
