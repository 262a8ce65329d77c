"""A library that a Ray cluster builds is the one that one process builds."""

import importlib
import os
import warnings
from dataclasses import replace
from pathlib import PurePath

import pytest

import foveate
from foveate import Document, Encoder, Index
from foveate.index import build, sources, units
from foveate.index.lance import Store
from foveate.index.sources import FileRecord
from foveate.index.units import NewFile
from tests.index.library_check import problems

pytest.importorskip("ray", reason="Ray is not installed")

import ray
from ray.cluster_utils import Cluster

from foveate.index import ray as on_ray
from foveate.index.ray import RayCluster
from tests.profiles import NIGHTLY
from tests.tree_bert import save_tree_bert

# Ray warns of its own calls.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.*")

QUERY = "Where do herring swim?"
SIZE = 300


@pytest.fixture(scope="module")
def cluster():
    """Two machines in one, each with room for one worker."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")  # an actor of its own
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Lance, which does not like to be forked
            head = {"num_cpus": 1, "include_log_monitor": False}
            cluster = Cluster(initialize_head=True, head_node_args=head)
            cluster.add_node(num_cpus=1, include_log_monitor=False)
            ray.init(cluster.address, log_to_driver=False, logging_level="CRITICAL")
        yield cluster
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture
def pretended(monkeypatch):
    """Pretend that there is such a cluster, as far as its size is asked for."""
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 2})


@pytest.fixture
def many(folder, monkeypatch):
    """A folder of several units of files, one of them in several parts."""
    monkeypatch.setattr(units, "BATCH_CHARACTERS", SIZE)
    monkeypatch.setattr(build, "COMMIT_SECONDS", 0)
    herring = "".join(f'{{"text": "Herring {i} swims. It is small."}}\n' for i in range(33))
    (folder / "herring.jsonl").write_text(herring)
    for i in range(6):
        (folder / f"crab{i}.md").write_text(
            f"# Crab {i}\n\n## Food\n\n{'It eats. ' * 10 * i}It walks."
        )
    return folder


def worker(notes, deadly, deaths):
    """Make a class of workers that end their processes at a file, a few times."""

    class Worker(on_ray._Worker):
        def add(self, unit):
            units.BATCH_CHARACTERS = SIZE
            if deadly in [PurePath(file.record.name).name for file in unit]:
                with (notes / deadly).open("a") as file:
                    file.write(".")
                if (notes / deadly).stat().st_size <= deaths:
                    os._exit(1)
            return super().add(unit)

    return Worker


def content(index):
    """Return everything that is in a library, but for times and the numbers of documents."""
    table = Store(index.path).open().to_table(filter="document >= 0")
    order = [(name, "ascending") for name in ("file", "member", "level", "position")]
    return table.sort_by(order).drop_columns(["indexed", "modified", "key", "document"])


def test_workers_write_the_rows_that_one_process_writes(
    index, many, cluster, tmp_path, monkeypatch
):
    (many / "bad.pdf").write_bytes(b"%PDF-1.4 broken")
    what = [many, Document.from_text("Gulls fly.", source="gulls")]
    index.add(what, on_error=lambda name, error: None)
    monkeypatch.setattr(on_ray, "_Worker", worker(tmp_path, "crab2.md", deaths=1))
    other = Index.create(tmp_path / "other", model=index.encoder)
    monkeypatch.setattr(sources, "_CLOCK", -(10**12))  # their times say that they are unchanged
    failures, done = {}, []
    changes = other.add(
        what,
        on_error=failures.__setitem__,
        on_file=lambda *numbers: done.append(numbers),
        cluster=RayCluster(workers=2),
    )
    assert (tmp_path / "crab2.md").stat().st_size == 2
    assert (changes.added, changes.num_documents, done[-1]) == (12, 44, (13, 13, 44))
    assert changes.num_sentences == index.state.num_sentences
    assert "cannot be read as PDF" in str(failures.pop(str(many / "bad.pdf")))
    assert not failures
    assert content(other) == content(index)
    assert problems(other) == []
    found, expected = (one.search(QUERY, top_k=999) for one in (other, index))
    assert [replace(hit, document_idx=0) for hit in found] == [
        replace(hit, document_idx=0) for hit in expected
    ]
    monkeypatch.setattr(Encoder, "from_pretrained", None)  # by which only workers load the model
    with pytest.raises(ValueError, match="cannot be read as PDF"):
        Index.open(other.path).add(what, cluster=RayCluster(workers=1))
    (many / "bad.pdf").unlink()
    assert other.add(what, cluster=RayCluster("nowhere")).unchanged == 12  # without any worker
    other.add(Document.from_text("Terns dive.", source="terns"))
    assert len({one.number for one in other.documents()}) == len(other) == 45


@pytest.mark.skipif(not NIGHTLY, reason="Ray takes long to replace a worker")
def test_files_that_no_worker_survives_are_named(index, many, cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(on_ray, "_Worker", worker(tmp_path, "herring.jsonl", deaths=99))
    monkeypatch.setattr(units, "FILES_PER_UNIT", 1)
    with pytest.raises(ValueError, match="ended every process that did so"):
        index.add(many, cluster=RayCluster())
    index.add(many)
    assert len(index) == 43
    assert problems(index) == []


@pytest.mark.usefixtures("pretended")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 3}, "has room for 2 workers of 1 CPUs and 0 GPUs, not for 3: ask for fewer"),
        ({"cpus_per_worker": 3}, "has room for 0 workers of 3 CPUs and 0 GPUs, not for 1"),
        ({"gpus_per_worker": 0.5}, r"for 0 workers of 1 CPUs and 0\.5 GPUs, not for 1"),
    ],
)
def test_workers_that_do_not_fit_are_refused(index, folder, options, message):
    with pytest.raises(ValueError, match=message):
        index.add(folder, cluster=RayCluster(**options))


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://head:10001", "head"])
def test_a_cluster_that_does_not_answer_is_said(index, folder, monkeypatch, address):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    message = f"no Ray cluster answers at {address}: give HOST:PORT as `ray start --head` prints"
    with pytest.raises(ConnectionError, match=message):
        index.add(folder, cluster=RayCluster(address))


def test_workers_have_the_same_model_and_version(tmp_path, folder, tokenizer):
    model, library = tmp_path / "model", tmp_path / "library"
    save_tree_bert(model, tokenizer)
    Index.create(library, model=model).add(folder)
    fish = Document.from_text("Fish swim.", source="fish")
    unit = [NewFile(FileRecord("fish", "", 9, 1, 1), [fish])]
    message = "has foveate .*, and the machine that commits has 0: install the same on all"
    with pytest.raises(RuntimeError, match=message):
        on_ray._Worker(None, Store(library), {}, {}, "0").add(unit)
    save_tree_bert(model, tokenizer, intermediate_size=20)
    message = f"library was made by {model} .*, and its vectors cannot be compared with those of"
    with pytest.raises(ValueError, match=message):
        on_ray._Worker(None, Store(library), {}, {}, foveate.__version__).add(unit)


def test_without_the_extra_it_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"run `pip install 'foveate\[cluster\]'`"):
        importlib.reload(on_ray)
