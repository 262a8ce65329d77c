"""One model for many threads: what waits is read together, and nothing is read twice."""

import copy
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from foveate import Document, Encoder, search
from foveate.service.encoder import SharedEncoder
from tests.service.conftest import until

TEXTS = [f"The whale number {i} swims {'again ' * (i % 5)}under the ice." for i in range(24)]


class Counting(Encoder):
    """An encoder that notes what it is asked to read, and waits until it may begin."""

    def __init__(self, encoder):
        super().__init__(encoder.runner)
        self.encoder = encoder
        self.calls = []
        self.is_asked = threading.Event()
        self.may_begin = threading.Event()

    def encode_texts(self, texts, **options):
        self.is_asked.set()
        assert self.may_begin.wait(20)
        self.calls.append(list(texts))
        return self.encoder.encode_texts(texts, **options)

    def encode_queries(self, queries):
        return self.encode_texts(queries)

    def encode(self, documents, **options):
        self.is_asked.set()
        assert self.may_begin.wait(20)
        self.calls.append(list(documents))
        return super().encode(documents, **options)


@pytest.fixture
def counting(small_encoder):
    return Counting(small_encoder)


@pytest.fixture
def share(counting):
    made = []

    def make(batch_tokens=8192, vector_bytes=2**20):
        made.append(SharedEncoder(counting, batch_tokens, vector_bytes))
        return made[-1]

    yield make
    counting.may_begin.set()
    for one in made:
        one.stop()


def documents(number):
    return [Document.from_sections(f"Voyage {i}", [("Ice", TEXTS[i])]) for i in range(number)]


def test_texts_of_many_threads_are_read_together(share, counting, small_encoder):
    shared = share()
    with ThreadPoolExecutor(len(TEXTS)) as threads:
        found = [threads.submit(shared.encode_texts, TEXTS[:1])]
        assert counting.is_asked.wait(20)
        found += [threads.submit(shared.encode_texts, [text]) for text in TEXTS[1:]]
        until(lambda: shared._short._waiting.qsize() == len(TEXTS) - 1)
        counting.may_begin.set()
        vectors = torch.cat([one.result() for one in found])
    assert len(counting.calls) == 2  # the first one, and those that came meanwhile
    assert sorted(text for call in counting.calls for text in call) == sorted(TEXTS)
    torch.testing.assert_close(vectors, small_encoder.encode_texts(TEXTS), rtol=0, atol=1e-5)


def test_batches_are_bounded(share, counting):
    shared = share(batch_tokens=40)
    counting.may_begin.set()
    shared.encode_texts(TEXTS)
    assert len(counting.calls) > 5
    sizes = [sum(map(len, call)) for call in counting.calls]
    assert max(sizes) <= 4 * 40
    assert [text for call in counting.calls for text in call] == TEXTS


def test_a_document_is_read_once(share, counting, small_encoder):
    shared = share()
    [document] = documents(1)
    with ThreadPoolExecutor(4) as threads:
        found = [threads.submit(shared.encode, document) for _ in range(4)]
        counting.may_begin.set()
        first, *others = [one.result() for one in found]
    assert all(other is first for other in others)
    assert shared.encode(document) is first
    assert counting.calls == [[document]]
    expected = small_encoder.encode(document)
    torch.testing.assert_close(first.sentences, expected.sentences, rtol=0, atol=1e-5)
    shared.forget(document)
    assert shared.encode(document) is not first


def test_vectors_that_were_not_used_for_long_are_dropped(share, counting):
    counting.may_begin.set()
    one, two, three = documents(3)
    size = counting.encoder.encode(one).num_bytes
    shared = share(vector_bytes=2 * size)
    kept = shared.encode(one)
    shared.encode(two)
    assert shared.encode(one) is kept
    shared.encode(three)  # in place of the second one
    assert shared.encode(one) is kept
    assert [len(call) for call in counting.calls] == [1, 1, 1]
    shared.encode(two)
    assert len(counting.calls) == 4


def test_a_question_does_not_wait_for_a_book(share, counting):
    shared = share(batch_tokens=100)
    book = Document.from_text("The whale swims. " * 200)
    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(shared.encode, book)
        assert counting.is_asked.wait(20)
        encode, counting.encode_texts = counting.encode_texts, counting.encoder.encode_texts
        assert shared.encode_texts(["Who swims?"]).shape == (1, 16)
        counting.encode_texts = encode
        assert not reading.done()
        counting.may_begin.set()
        reading.result()


def test_tasks_take_it_as_their_model(share, counting, small_encoder):
    counting.may_begin.set()
    [document] = documents(1)
    shared = share()
    [hit] = search("Who swims?", document, model=shared)
    [expected] = search("Who swims?", document, model=small_encoder)
    assert (hit.span, hit.score) == (expected.span, pytest.approx(expected.score, abs=1e-4))


def test_queries_keep_their_prompt(tmp_path, tokenizer):
    pytest.importorskip("sentence_transformers")
    from sentence_transformers.sentence_transformer.modules import Pooling

    from tests.sentence_transformer import save

    folder = save(tmp_path, tokenizer, Pooling(32), prompts={"query": "find: "})
    encoder = Encoder.from_pretrained(folder, device="cpu")
    shared = SharedEncoder(encoder, 100, 10**6)
    try:
        assert (shared.encode_queries(TEXTS) - encoder.encode_queries(TEXTS)).norm() < 1e-5
        assert (shared.encode_texts(TEXTS) - encoder.encode_texts(TEXTS)).norm() < 1e-5
        assert (shared.encode_texts(TEXTS) - encoder.encode_queries(TEXTS)).norm() > 1e-3
        assert shared.describe() == encoder.describe()
        assert copy.deepcopy(shared.processor).token_ids(TEXTS) == (
            encoder.processor.token_ids(TEXTS)
        )
    finally:
        shared.stop()
