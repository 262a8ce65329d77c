"""A library that a Ray cluster builds is the one that one process builds."""

import importlib
import os
import socket
import warnings
from dataclasses import replace
from pathlib import PurePath
from threading import Event, Thread
from types import SimpleNamespace

import pytest
import torch

import foveate
from foveate import Document, Encoder, Index
from foveate.index import build, reading
from foveate.index.build import Part
from foveate.index.messages import received
from foveate.index.reading import File
from foveate.index.records import FileRecord
from foveate.index.store import Store
from foveate.models.tree_bert import TreeBertModel

pytest.importorskip("ray.data", reason="Ray is not installed")

import ray
import ray.data
from ray.cluster_utils import Cluster

from foveate.index import ray as on_ray
from foveate.index.ray import RayCluster
from tests.profiles import NIGHTLY

# Ray warns of its own calls.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.*")

QUERY = "Where do herring swim?"
SIZE = 300


@pytest.fixture(scope="module")
def cluster():
    """Two machines in one: each has room for one worker, and for nothing else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")  # an actor of its own
        with warnings.catch_warnings(), on_ray._without_stderr():
            warnings.simplefilter("ignore")  # of lancedb, which does not like to be forked
            head = {"num_cpus": 1, "include_log_monitor": False}
            cluster = Cluster(initialize_head=True, head_node_args=head)
            cluster.add_node(num_cpus=1, include_log_monitor=False)
            ray.init(cluster.address, log_to_driver=False, logging_level="CRITICAL")
        yield cluster
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture
def pretended(monkeypatch):
    """Pretend that there is such a cluster, whose data this process works on."""
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    node = {"Alive": True, "Resources": {"CPU": 1}}
    monkeypatch.setattr(ray, "nodes", lambda: [node, node])
    monkeypatch.setattr(ray, "available_resources", lambda: {"CPU": 2})
    monkeypatch.setattr(ray.data, "from_items", Pretended)


class Pretended:
    """A dataset that this process makes, of which a subclass may lose some."""

    def __init__(self, items, override_num_blocks):
        self.items = items
        self.context = SimpleNamespace(execution_options=SimpleNamespace())

    def map_batches(self, worker, *, fn_constructor_args, **options):
        self.worker = worker(*fn_constructor_args)
        return self

    def iter_rows(self):
        for item in self.items:
            for batch in self.lose(list(self.worker({k: [v] for k, v in item.items()})), **item):
                yield {name: column[0] for name, column in batch.items()}

    def lose(self, batches, number, unit):
        return batches


@pytest.fixture
def many(folder, monkeypatch):
    """A folder of several units of files, one of them in several parts."""
    monkeypatch.setattr(reading, "BATCH_CHARACTERS", SIZE)
    monkeypatch.setattr(build, "COMMIT_CHARACTERS", 2 * SIZE)
    herring = "".join(f'{{"text": "Herring {i} swims. It is small."}}\n' for i in range(33))
    (folder / "herring.jsonl").write_text(herring)
    for i in range(6):
        (folder / f"crab{i}.md").write_text(
            f"# Crab {i}\n\n## Food\n\n{'It eats. ' * 10 * i}It walks."
        )
    return folder


def worker(notes, kills=(), deaths=0):
    """Make a class of workers that end their processes in the middle of some files, a few times."""

    class Worker(on_ray._Worker):
        def __call__(self, batch):
            reading.BATCH_CHARACTERS = SIZE
            names = [PurePath(file.name).name for [unit] in [batch["unit"]] for file in unit]
            for row in super().__call__(batch):
                yield row
                for name in set(names) & set(kills):
                    with (notes / name).open("a") as file:
                        file.write(".")
                    if (notes / name).stat().st_size <= deaths:
                        os._exit(1)

    return Worker


def content(index):
    """Return everything that is in a library, but for times."""
    table = Store(index.path).open().to_table(filter="document >= 0").sort_by("key")
    return table.drop_columns(["indexed", "modified"])


@pytest.mark.skipif(not NIGHTLY, reason="Ray takes long to replace a worker")
def test_a_library_is_the_same_when_a_worker_dies(index, many, cluster, tmp_path, monkeypatch):
    (many / "bad.pdf").write_bytes(b"%PDF-1.4 broken")
    what = [many, Document.from_text("Gulls fly.", source="gulls")]
    index.add(what, on_error=lambda name, error: None)
    names = ("herring.jsonl",)
    monkeypatch.setattr(on_ray, "_Worker", worker(tmp_path, names, deaths=1))
    other = Index.create(tmp_path / "other", model=index.encoder)
    failures, num_done = {}, []
    changes = other.add(
        what,
        on_error=failures.__setitem__,
        on_file=num_done.append,
        cluster=RayCluster(workers=2),
    )
    assert all((tmp_path / name).stat().st_size > 1 for name in names)
    assert (changes.added, changes.num_documents, len(num_done)) == (12, 44, 13)
    assert changes.num_sentences == index.state.num_sentences
    assert "cannot be read as PDF" in str(failures.pop(str(many / "bad.pdf")))
    assert not failures
    assert content(other) == content(index)
    assert other.search(QUERY, top_k=999) == index.search(QUERY, top_k=999)
    (many / "bad.pdf").unlink()
    assert other.add(what, cluster=RayCluster("nowhere")).unchanged == 12  # without any worker


@pytest.mark.usefixtures("pretended")
def test_a_file_that_no_worker_survives_is_named(index, many, monkeypatch):
    """Ray leaves out what is left of a unit whose worker has died too often."""
    has_died = []

    def lose(self, batches, number, unit):
        names = [PurePath(file.name).name for file in unit]
        if "crab2.md" in names and not has_died:
            has_died.append(number)
            return []
        return batches[:1] if "herring.jsonl" in names else batches

    monkeypatch.setattr(Pretended, "lose", lose)
    failures = {}
    changes = index.add(many, on_error=failures.__setitem__, cluster=RayCluster())
    assert has_died
    assert list(failures) == [str(many / "herring.jsonl")]
    assert "ended every process that read" in str(failures[str(many / "herring.jsonl")])
    assert (changes.added, changes.num_documents, len(index)) == (10, 10, 10)
    assert index.verify() == []
    with pytest.raises(ValueError, match="ended every process that read"):
        index.add(many, cluster=RayCluster())
    assert index.add(many).num_documents == 33
    assert index.verify() == []


@pytest.mark.usefixtures("pretended")
@pytest.mark.parametrize("in_the_middle", [False, True])
def test_what_was_lost_is_encoded_again_in_its_place(
    index, many, tmp_path, monkeypatch, in_the_middle
):
    """With a machine, Ray loses units that were encoded there and not fetched yet."""
    monkeypatch.setattr(reading, "BATCH_CHARACTERS", SIZE // 3 if in_the_middle else SIZE)
    index.add(many)
    calls, done = [], set()

    def from_items(items, **options):
        calls.append([[file.name for file in item["unit"]] for item in items])
        return Pretended(items, **options)

    def lose(self, batches, number, unit):
        if len(calls) == 1 and number == 1:
            batches = batches[:1] if in_the_middle else []
            parts = [received(batch["result"][0]) for batch in batches]
            done.update(file.name for part in parts for file in part.done)
        return batches

    monkeypatch.setattr(ray.data, "from_items", from_items)
    monkeypatch.setattr(Pretended, "lose", lose)
    other = Index.create(tmp_path / "other", model=index.encoder)
    changes = other.add(many, cluster=RayCluster())
    first, second = calls
    assert second == [[name for name in first[1] if name not in done], *first[2:]]
    assert changes.num_sentences == index.state.num_sentences
    assert other.verify() == []
    found, expected = (one.search(QUERY, top_k=999) for one in (other, index))
    assert [hit.span for hit in found] == [hit.span for hit in expected]
    if not in_the_middle:
        assert content(other) == content(index)


@pytest.mark.usefixtures("pretended")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 3}, "has room for 2 workers of 1 CPUs, not for 3: ask for fewer or smaller"),
        ({"cpus_per_worker": 2}, "no machine .* room for a worker of 2 CPUs: the largest has 1"),
        ({"gpus_per_worker": 0.5}, r"a worker of 1 CPUs and 0\.5 GPUs: the largest .* and 0 GPUs"),
        ({"workers": 0}, "the number of workers must be at least 1, got 0"),
        ({"cpus_per_worker": 0}, "a worker needs more than 0 CPUs: give it 1"),
        ({"gpus_per_worker": -1}, "a worker cannot have -1 GPUs"),
    ],
)
def test_workers_that_do_not_fit_are_refused(index, folder, options, message):
    with pytest.raises(ValueError, match=message):
        index.add(folder, cluster=RayCluster(**options))


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:1", "no Ray cluster answers at 127.0.0.1:1: start one with `ray start --head`"),
        (
            "ray://head:10001",
            "is HOST:PORT, got ray://head:10001: use one that `ray start` printed",
        ),
        ("head", "is HOST:PORT, got head"),
    ],
)
def test_a_cluster_that_does_not_answer_is_said(index, folder, monkeypatch, address, message):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises((OSError, ValueError), match=message):
        index.add(folder, cluster=RayCluster(address))


def test_a_head_that_is_gone_is_said():
    with socket.create_server(("127.0.0.1", 0)) as server:
        head = f"127.0.0.1:{server.getsockname()[1]}"
        has_ended = Event()
        watcher = Thread(target=on_ray._watch, args=(head, has_ended, 0.01))
        watcher.start()
        server.accept()[0].close()
        has_ended.set()
        watcher.join()
    with pytest.warns(UserWarning, match="does not answer, and Ray ends this process if that"):
        on_ray._watch(head, Event(), 0.01)


def test_a_model_that_was_never_saved_is_refused(tmp_path, index, folder):
    known = index.encoder
    network = TreeBertModel.from_pretrained(known.model.config.name_or_path).eval()
    encoder = Encoder(network, known.processor, known.context)
    with pytest.raises(ValueError, match="was never saved: save it where"):
        Index.create(tmp_path / "other", model=encoder).add(folder, cluster=RayCluster())


def test_a_file_that_only_the_driver_sees_is_explained(folder):
    error = FileNotFoundError(2, "No such file or directory")
    here, gone = str(folder / "salt.txt"), str(folder / "pepper.txt")
    part = on_ray._explain_missing(Part(failures=[(here, error), (gone, error)]))
    assert f"{here} is not there on every machine" in str(part.failures[0][1])
    assert part.failures[1] == (gone, error)


def test_workers_have_the_same_model_and_version(index, small_model):
    record = index._identity()
    for options, message in (
        ({"version": "0"}, "install the same version on all machines"),
        (
            {"model": replace(record, sha256="")},
            "weights of .* that differ from .*: give all machines the",
        ),
    ):
        given = {"model": record, "version": foveate.__version__, **options}
        worker = on_ray._Worker(
            dtype=torch.float32, device="cpu", stops_at_error=False, options={}, **given
        )
        batch = {"number": [0], "unit": [[]]}
        [row] = list(worker(batch))
        with pytest.raises((RuntimeError, ValueError), match=message):
            raise row["result"][0][0]


def test_warnings_of_workers_come_back(index, monkeypatch):
    def encode(self, documents, **options):
        warnings.warn("this is German", stacklevel=1)
        return kept(index.encoder, documents, **options)

    kept = Encoder.encode
    monkeypatch.setattr(Encoder, "encode", encode)
    version = foveate.__version__
    worker = on_ray._Worker(index._identity(), torch.float32, "cpu", False, {}, version)
    document = Document.from_text("Fische schwimmen.", source="fish")
    file = File("fish", 9, [document], FileRecord("fish", "", 9, 1, 1))
    [row] = list(worker({"number": [3], "unit": [[file]]}))
    part, messages = row["result"][0]
    assert (row["number"].tolist(), part.num_documents, messages) == ([3], 1, ["this is German"])


def test_without_the_extra_it_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"run `pip install 'foveate\[cluster\]'`"):
        importlib.reload(on_ray)
