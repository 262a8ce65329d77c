import copy
import os
import pickle
import shutil
import subprocess
import sys
from contextlib import contextmanager
from threading import Event
from time import sleep
from weakref import ref

import pytest
import torch
from torch.nn.functional import normalize

from foveate import Document, Encoder
from foveate.cache import Cache
from foveate.inference import tree_runner
from foveate.inference.tree_runner import TreeRunner, _one_ahead
from foveate.models.hdt import HDTConfig, HDTModel
from foveate.models.tree_bert import TreeBertModel
from foveate.preprocessing import HDTProcessor, TreeBertProcessor
from foveate.preprocessing.tree import outline
from tests.numerics import relative_error
from tests.tree_bert import save_bert, save_tree_bert

TEXTS = [
    "Call me Ishmael.",
    "Some years ago—never mind how long precisely—having little or no money in my purse, "
    "I thought I would sail about a little and see the watery part of the world.",
    "It is a way I have.",
    "x",
    "",
]
WHALE = Document.from_sections(
    "The Whale",
    [
        ("Loomings", TEXTS[:3]),
        ("The Carpet-Bag", ["I stuffed a shirt.", "I started."], [("Inn", "Stop!")]),
    ],
)


LONG = "whale " * 600 + "and a very small shark"
RAGGED = Document.from_sections(
    "",
    [
        ("Long", ["It dives.", LONG, "It rises."], [("", [], [("Deep", ["Dark."])])]),
        ("", ["Nothing is said."]),
    ],
)


@pytest.fixture(scope="module")
def default():
    return Encoder.from_pretrained(device="cpu")


@pytest.fixture(scope="module")
def fresh(tmp_path_factory, tokenizer):
    """A random BERT, and a TreeBert that was initialized with it."""
    folder = tmp_path_factory.mktemp("fresh")
    bert = save_bert(folder / "bert", tokenizer)
    TreeBertModel.from_pretrained(folder / "bert").save_pretrained(folder / "tree")
    TreeBertProcessor(tokenizer).save_pretrained(folder / "tree")
    return bert, Encoder.from_pretrained(folder / "tree", device="cpu")


@pytest.fixture(scope="module")
def small_tree_bert(tmp_path_factory, tokenizer):
    """A TreeBert whose heads are random."""
    folder = tmp_path_factory.mktemp("small")
    save_tree_bert(folder, tokenizer)
    return Encoder.from_pretrained(folder, device="cpu")


def afresh(encoder):
    """Return an encoder that has kept nothing."""
    return Encoder(encoder.runner)


def mean_of_bert(bert, tokenizer, text):
    with torch.no_grad():
        states = bert(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
    return normalize(states.mean(0), dim=0)


def test_a_fresh_tree_bert_gives_sentences_alone_what_bert_gives(fresh, tokenizer):
    bert, encoder = fresh
    assert encoder.context == "tree"
    vectors = encoder.encode_texts(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        assert relative_error(vector, mean_of_bert(bert, tokenizer, text)) < 1e-5
    assert torch.equal(encoder.encode_queries(TEXTS), vectors)
    in_document = encoder.encode(WHALE).sentences[:3]
    assert relative_error(in_document, vectors[:3]) > 1e-2  # a passage is read as a whole


def test_a_fresh_tree_bert_splits_long_texts(fresh, tokenizer):
    bert, encoder = fresh
    ids = tokenizer(LONG, add_special_tokens=False, verbose=False)["input_ids"]
    pieces = [tokenizer.decode(ids[i : i + 254]) for i in range(0, len(ids), 254)]
    assert len(pieces) == 3
    expected = sum(mean_of_bert(bert, tokenizer, piece) for piece in pieces)
    vector = encoder.encode_texts(LONG)
    assert relative_error(vector, normalize(expected, dim=0)) < 1e-5


def test_sentence_context_gives_means_of_sentences_alone(fresh):
    _, encoder = fresh
    alone = Encoder(TreeRunner(encoder.model, encoder.processor, "sentence"))
    vectors = alone.encode(WHALE)
    anchors = outline(WHALE)
    texts = encoder.encode_texts([anchor.text for anchor in anchors if anchor.text])
    assert relative_error(vectors.sentences[:3], texts[2:5]) < 1e-5
    assert relative_error(vectors.document, normalize(texts.mean(0), dim=0)) < 1e-5
    carpet_bag = normalize(texts[5:].mean(0), dim=0)  # with its subsection
    assert relative_error(vectors.sections[1], carpet_bag) < 1e-5
    assert vectors.salience is None


def test_vectors_of_the_default_encoder(default):
    vectors = default.encode(WHALE)
    assert default.context == "tree"
    assert vectors.document.shape == (384,)
    assert vectors.sections.shape == (3, 384)
    assert vectors.sentences.shape == (6, 384)
    assert vectors.salience.shape == (6,)
    assert vectors.salience.std() > 1e-3
    for x in (vectors.document[None], vectors.sections, vectors.sentences):
        assert x.dtype == torch.float32
        assert relative_error(x.norm(dim=1), torch.ones(len(x))) < 1e-5
    texts = default.encode_texts(TEXTS)
    assert relative_error(texts.norm(dim=1), torch.ones(5)) < 1e-5
    assert torch.equal(default.encode_queries(TEXTS), texts)


def all_of(vectors):
    return torch.cat([vectors.document[None], vectors.sections, vectors.sentences])


@pytest.mark.parametrize("batch_tokens", [1, 60, 100_000])
def test_documents_do_not_depend_on_batch_mates(batch_tokens, small_tree_bert, monkeypatch):
    encoder = small_tree_bert
    documents = [WHALE, RAGGED, Document.from_sections("Eels", [("", "Eels are long.")])]
    alone = [encoder.encode(document) for document in documents]
    monkeypatch.setattr(encoder.runner, "_batch_tokens", batch_tokens)
    for order in ((0, 1, 2), (2, 0, 1), (1, 2, 0)):
        together = afresh(encoder).encode([documents[i] for i in order])
        for i, vectors in zip(order, together, strict=True):
            assert relative_error(all_of(vectors), all_of(alone[i])) < 1e-5
            assert relative_error(vectors.salience, alone[i].salience) < 1e-5
    assert encoder.encode([]) == []


def test_texts_do_not_depend_on_batch_mates(default):
    together = default.encode_texts(TEXTS)
    reversed_order = default.encode_texts(TEXTS[::-1]).flip(0)
    alone = torch.stack([default.encode_texts(text) for text in TEXTS])
    assert (together - alone).norm(dim=1).max() < 1e-5
    assert (together - reversed_order).norm(dim=1).max() < 1e-5


def test_what_a_thread_prepares_arrives_in_order():
    assert list(_one_ahead(str, range(5))) == list("01234")
    assert list(_one_ahead(str, [])) == []
    begun = {item: Event() for item in (4, 2, 0, 1)}

    def prepare(item):
        begun[item].set()
        return 1 / item

    prepared = _one_ahead(prepare, begun)
    assert next(prepared) == 0.25
    assert begun[2].wait(60)  # before it is wanted
    assert next(prepared) == 0.5
    with pytest.raises(ZeroDivisionError):
        next(prepared)


def test_preparing_ahead_changes_nothing(small_tree_bert, monkeypatch):
    encoder, documents = small_tree_bert, [WHALE, RAGGED, WHALE, RAGGED]
    monkeypatch.setattr(encoder.runner, "_batch_tokens", 60)
    monkeypatch.setattr(tree_runner, "TEXTS_PER_CHUNK", 2)
    texts, vectors = encoder.encode_texts(TEXTS), afresh(encoder).encode(documents)
    monkeypatch.setattr(encoder.runner, "_prepare", _one_ahead)
    assert torch.equal(encoder.encode_texts(TEXTS), texts)
    for one, other in zip(afresh(encoder).encode(documents), vectors, strict=True):
        assert torch.equal(all_of(one), all_of(other))
    assert encoder.encode([]) == []
    assert encoder.encode_texts([]).shape == (0, encoder.dimension)
    monkeypatch.setattr(encoder.processor, "tree", lambda *outlines: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        afresh(encoder).encode(documents)


def test_what_is_prepared_is_not_kept_when_the_model_fails(small_tree_bert, monkeypatch):
    encoder, prepared, both = small_tree_bert, [], Event()
    tree = encoder.processor.tree

    def prepare(*outlines):
        nodes, owners = tree(*outlines)
        prepared.append(ref(nodes["input_ids"]))
        if len(prepared) == 2:
            both.set()
        return nodes, owners

    def fail(*arguments, **options):
        assert both.wait(60)
        raise RuntimeError("out of memory")

    monkeypatch.setattr(encoder.runner, "_batch_tokens", 60)
    monkeypatch.setattr(encoder.runner, "_prepare", _one_ahead)
    monkeypatch.setattr(encoder.processor, "tree", prepare)
    monkeypatch.setattr(encoder.model, "forward", fail)
    with pytest.raises(RuntimeError) as error:
        afresh(encoder).encode([WHALE, RAGGED, WHALE, RAGGED])
    for _ in range(500):  # until the thread has ended
        if prepared[1]() is None:
            break
        sleep(0.01)
    assert prepared[0]() is not None  # the traceback keeps what the model failed at
    assert prepared[1]() is None
    assert error.match("out of memory")


def test_sections_of_subsections_and_long_sentences(default):
    vectors = default.encode(RAGGED)
    assert vectors.sections.shape == (4, 384)
    assert vectors.sentences.shape == (5, 384)
    assert vectors.salience.shape == (5,)
    for x in (vectors.document, *vectors.sections, *vectors.sentences):
        assert float(x.norm()) == pytest.approx(1, abs=1e-5)
    assert torch.isfinite(vectors.salience).all()
    # Every sentence stands in its own row: the long one, whose pieces are averaged, is the second.
    texts = default.encode_texts([sentence.text for sentence in RAGGED.sentences()])
    assert (vectors.sentences @ texts.T).argmax(1).tolist() == [0, 1, 2, 3, 4]


def test_nothing_of_a_long_sentence_is_lost(small_tree_bert):
    encoder = small_tree_bert
    longer, shorter = (
        Document.from_sections("", [("", [text])]) for text in (LONG, LONG.rpartition(" ")[0])
    )
    assert (encoder.encode_texts(LONG) - encoder.encode_texts(LONG[:-20])).norm() > 1e-3
    assert (encoder.encode(longer).sentences - encoder.encode(shorter).sentences).norm() > 1e-3


@pytest.mark.parametrize("dtype", ["bfloat16", torch.float16])
def test_reduced_precision_stays_close(default, dtype):
    reduced = Encoder.from_pretrained(device="cpu", dtype=dtype)
    texts, vectors = reduced.encode_texts(TEXTS), reduced.encode(WHALE)
    assert texts.dtype == vectors.document.dtype == vectors.salience.dtype == torch.float32
    assert relative_error(texts, default.encode_texts(TEXTS)) < 1e-2
    assert relative_error(all_of(vectors), all_of(default.encode(WHALE))) < 1e-2


def test_hdt_gives_the_hidden_states_of_its_anchors(tmp_path, tokenizer):
    torch.manual_seed(0)
    config = HDTConfig(vocab_size=30522, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
    model = HDTModel(config).eval()
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    encoder = Encoder.from_pretrained(tmp_path, device="cpu")
    assert encoder.context == "tree"
    vectors = encoder.encode(WHALE)
    processor = HDTProcessor(tokenizer, levels=3)
    types = processor.features(WHALE)["node_types"]
    with torch.no_grad():
        hidden_states = model(**processor(WHALE)).last_hidden_state[0]
    assert relative_error(vectors.document, hidden_states[0]) < 1e-5
    assert relative_error(vectors.sections, hidden_states[types == 2]) < 1e-5


def test_sentences_of_a_passage_share_the_vector_of_its_anchor_in_hdt(tmp_path, tokenizer):
    torch.manual_seed(0)
    config = HDTConfig(vocab_size=30522, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
    model = HDTModel(config).eval()
    model.save_pretrained(tmp_path)
    processor = HDTProcessor(tokenizer, passage_tokens=256)
    processor.save_pretrained(tmp_path)
    fish = Document.from_sections("", [("", ["Cod swim.", "They eat."]), ("", ["Eels are long."])])
    vectors = Encoder.from_pretrained(tmp_path, device="cpu").encode(fish)
    with torch.no_grad():
        hidden_states = model(**processor(fish)).last_hidden_state[0]
    first, second = hidden_states[processor.features(fish)["node_types"] == 4]
    assert relative_error(vectors.sentences, torch.stack([first, first, second])) < 1e-5


def test_passages_that_are_longer_than_the_model_takes_are_refused(tmp_path, tokenizer):
    save_tree_bert(tmp_path, tokenizer, passage_tokens=256, max_position_embeddings=256)
    with pytest.raises(ValueError, match="passages of 256 tokens are too long for a model of 256"):
        Encoder.from_pretrained(tmp_path)


def test_hdt_reads_with_the_processor_that_was_saved_with_it(tmp_path, tokenizer):
    torch.manual_seed(0)
    config = HDTConfig(vocab_size=30522, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
    model = HDTModel(config).eval()
    model.save_pretrained(tmp_path)
    processor = HDTProcessor(tokenizer, levels=None, doc_token="[MASK]", sec_token="[SEP]")
    processor.save_pretrained(tmp_path)
    vectors = Encoder.from_pretrained(tmp_path, device="cpu").encode(WHALE)
    types = processor.features(WHALE)["node_types"]
    with torch.no_grad():
        hidden_states = model(**processor(WHALE)).last_hidden_state[0]
    assert relative_error(vectors.document, hidden_states[0]) < 1e-5
    assert relative_error(vectors.sections, hidden_states[types == 2]) < 1e-5


def test_a_folder_without_weights_is_refused(small_model, tmp_path):
    shutil.copytree(small_model, tmp_path, dirs_exist_ok=True)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(OSError, match=r"model\.safetensors"):
        Encoder.from_pretrained(tmp_path)


def test_a_string_is_one_text_and_no_document(default):
    assert torch.equal(default.encode_texts(TEXTS[0]), default.encode_texts(TEXTS[:1])[0])
    assert torch.equal(default.encode_queries(TEXTS[0]), default.encode_texts(TEXTS[0]))
    with pytest.raises(TypeError, match=r"expected a Document, got str: make one with Document\."):
        default.encode("whale.txt")


def test_documents_from_a_generator(default):
    documents = [Document.from_text(text) for text in TEXTS[:2]]
    several = default.encode(document for document in documents)
    assert [one.sentences.shape for one in several] == [
        default.encode(document).sentences.shape for document in documents
    ]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_give_the_same_vectors(default, copied):
    assert torch.equal(copied(default).encode_texts(TEXTS), default.encode_texts(TEXTS))


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="there is no device meta here: use cpu"):
        Encoder.from_pretrained(device="meta")
    with pytest.raises(ValueError, match="there is no device gpu here"):
        Encoder.from_pretrained(device="gpu")


def test_an_unknown_context_or_dtype_is_refused():
    with pytest.raises(ValueError, match="context must be 'sentence' or 'tree'"):
        Encoder.from_pretrained(context="paragraph")
    with pytest.raises(ValueError, match="dtype must be float32, bfloat16 or float16, got int8"):
        Encoder.from_pretrained(dtype="int8")


@pytest.mark.parametrize("arguments", [(), ("sentence-transformers/all-MiniLM-L6-v2",)])
def test_constructor_without_a_model_names_from_pretrained(arguments):
    with pytest.raises(TypeError, match=r"Encoder\.from_pretrained\(\)"):
        Encoder(*arguments)


def test_a_document_is_encoded_once(small_tree_bert, monkeypatch):
    encoder, read = afresh(small_tree_bert), []
    encode = encoder.runner.encode_outlines

    def note(outlines, *rest):
        read.extend(anchors[-1].text for anchors in outlines)
        return encode(outlines, *rest)

    monkeypatch.setattr(encoder.runner, "encode_outlines", note)
    cod, eel, ray = map(Document.from_text, ("Cod swim.", "Eels eat.", "Rays sleep."))
    first = encoder.encode(cod)
    second, again = encoder.encode([eel, cod])
    assert again is first
    expected = all_of(afresh(small_tree_bert).encode(eel))
    assert torch.equal(all_of(second), expected)
    assert read == ["Cod swim.", "Eels eat.", "Eels eat."]
    encoder.encode(cod)
    encoder.kept.max_bytes = 2 * first.num_bytes
    encoder.encode(ray)  # in place of what was used longest ago
    assert encoder.encode(cod) is first
    assert encoder.encode(eel) is not second
    encoder.forget(eel)
    encoder.encode(eel)
    assert read[3:] == ["Rays sleep.", "Eels eat.", "Eels eat."]


def test_progress_in_a_long_document_is_by_passages(small_tree_bert, monkeypatch):
    steps = []

    @contextmanager
    def progress(description, total, shown):
        yield steps.append
        assert sum(steps) == total

    monkeypatch.setattr(tree_runner, "progress", progress)
    afresh(small_tree_bert).encode(Document.from_text("The whale swims. " * 2000))
    assert len(steps) > 2
    assert max(steps) < sum(steps) / 2


def test_cache_keeps_vectors_of_the_same_text(small_model, tmp_path):
    cache = Cache(tmp_path)
    encoder = Encoder.from_pretrained(small_model, device="cpu")
    fish, moved = (Document.from_text("Cod swim. Eels are long.", source=name) for name in "ab")
    expected = encoder.encode(fish)
    encoder.cache = cache
    first, second = encoder.encode(fish), encoder.encode([moved, fish])[0]
    for vectors in (first, second):
        for name, value in vars(expected).items():
            assert value is None or torch.equal(getattr(vectors, name), value)
    assert len(cache.files()) == 1
    encoder.encode(Document.from_text("Cod sleep."))
    assert len(cache.files()) == 2


def test_cache_tells_models_apart(small_model, tmp_path):
    fish = Document.from_text("Cod swim.")
    for options in ({}, {"context": "sentence"}, {"dtype": "bfloat16"}):
        encoder = Encoder.from_pretrained(small_model, device="cpu", **options)
        encoder.cache = Cache(tmp_path)
        encoder.encode(fish)
    assert len(encoder.cache.files()) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_process_encodes(small_model):
    """With several threads, which are not there after a fork."""
    script = (
        "import os, sys, torch; from foveate import Encoder\n"
        "torch.set_num_threads(2)\n"
        "encoder = Encoder.from_pretrained(sys.argv[1], device='cpu')\n"
        "encoder.encode_texts(['Cod swim.'] * 99)\n"
        "child = os.fork()\n"
        "encoder.encode_texts(['Cod swim.'] * 99)\n"
        "if child: assert os.waitpid(child, 0)[1] == 0\n"
    )
    subprocess.run([sys.executable, "-c", script, str(small_model)], check=True, timeout=120)
