"""Each measurement on the smallest input, and the tables of the documentation."""

import gzip
import io
import json
import lzma
import re
import shlex
import tarfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module

import pytest
from sentence_transformers.sentence_transformer.modules import Pooling

from benchmarks import forms, fovea, fusion, registry, report
from tests import sentence_transformer

SEA = ["Cod swim in the cold sea.", "They eat herring and small crabs.", "Eels cross the ocean."]
SALT = ["Salt comes out of mines.", "It is white and dry.", "Trawlers carry it in barrels."]
ENGLISH = " ".join([*SEA, *SALT])
PARTS = {"Life of the cod": SEA, "Where salt is from": SALT, "Prices of herring": [*SALT, *SEA]}


def write(path, records):
    path.parent.mkdir(exist_ok=True)
    content = "\n".join(map(json.dumps, records)).encode()
    path.write_bytes((lzma if path.suffix == ".xz" else gzip).compress(content))


def paper(number):
    sections = [
        {"heading": f"{name} {number}", "sentences": [*its, f"It is fish_{number}."]}
        for name, its in PARTS.items()
    ]
    return {
        "id": f"P{number}",
        "title": f"Fish {number}",
        "abstract": ["We study the price of fish."],
        "sections": sections,
        "summary": [SEA[0], SALT[1]],
    }


def proposal(number):
    abstract = "Fish get a new name."
    text = f"# Summary\n\n{abstract}\n\n"
    end = len(text)
    text += "".join(
        f"# {name} of {number}\n\n{' '.join(its)} It is `fish_{number}`.\n\n"
        for name, its in PARTS.items()
    )
    return {
        "id": f"{number}.md",
        "source": "fish/rfcs",
        "license": "MIT",
        "format": "markdown",
        "title": f"Fish {number}",
        "text": text,
        "abstract": abstract,
        "abstract_at": [0, end],
    }


def pep(number):
    text = f"PEP: {number}\nTitle: Cod\n\nAbstract\n========\n\nCod get a name.\n\n"
    for name, its in PARTS.items():
        heading = f"{name} {number}"
        text += f"{heading}\n{'=' * len(heading)}\n\n{' '.join(its)} It is fish_{number}.\n\n"
    return {"id": f"pep-{number:04}", "format": "rst", "text": text}


def meeting(number):
    turns = [{"speaker": "AB"[i % 2], "text": text} for i, text in enumerate([*SEA, *SALT] * 3)]
    specific = {"kind": "specific", "query": f"What do cod eat {number}?", "answer": SEA[1]}
    return {
        "id": f"M{number}",
        "domain": "product",
        "topics": [{"topic": "Fish", "relevant_text_span": [["0", "8"]]}],
        "turns": turns,
        "queries": [
            {"kind": "general", "query": "Summarize the meeting", "answer": "Fish and salt."},
            {**specific, "spans": [["1", "1"]]},
        ],
    }


def article(number):
    sections = "".join(
        f"<sec><title>{name} {number}</title><p>{' '.join(its)}</p></sec>"
        for name, its in PARTS.items()
    )
    return f"""<article><front><article-meta><title-group><article-title>Cod</article-title>
        </title-group><abstract><p>Cod swim.</p></abstract></article-meta></front>
        <body>{sections}</body></article>""".encode()


def answered(number):
    context = f"{ENGLISH} Number {number} is last."
    asked = [{"question": f"What do cod {number} eat?", "answers": [{"text": "herring"}]}]
    for one in asked:
        one["answers"][0]["answer_start"] = context.index("herring")
    asked.append({"question": "Where is gold from?", "answers": []})
    return {"title": f"Fish_{number}", "paragraphs": [{"context": context, "qas": asked}]}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with what README.md describes, of a few sentences each."""
    folder = tmp_path_factory.mktemp("data")
    for part in ("train", "dev"):
        write(folder / "scisummnet" / f"{part}.jsonl.gz", map(paper, range(3)))
        write(folder / "proposals" / f"{part}.jsonl.xz", map(proposal, range(3)))
    for part in ("train", "val", "test"):
        write(folder / "qmsum" / f"{part}.jsonl.gz", map(meeting, range(3)))
    write(folder / "peps" / "train.jsonl.gz", map(pep, range(17)))
    for name in ("squad", "covid", "policies", "xquad.en"):
        articles = [answered(f"{name} {i}") for i in range(8)]
        write(folder / "qa" / f"{name}.json.xz", [{"data": articles}])
    first = "We study the price of fish."
    made = {"kind": "papers", "title": "Fish 0", "first": first, "questions": []}
    write(folder / "qa" / "made.jsonl.xz", [made])
    (folder / "plos").mkdir()
    with tarfile.open(folder / "plos" / "dev.tar.xz", "w:xz") as archive:
        for number in range(3):
            member = tarfile.TarInfo(f"{number}.xml")
            member.size = len(article(number))
            archive.addfile(member, io.BytesIO(article(number)))
    (folder / "books").mkdir()
    for name in ("moby_dick", "war_and_peace"):
        text = f"CHAPTER 1. Loomings\n\nCall me Ishmael. {ENGLISH}\n".encode()
        (folder / "books" / f"{name}.txt.gz").write_bytes(gzip.compress(text))
    for name in ("Nguyen2007", "wiki20"):
        with zipfile.ZipFile(folder / f"{name}.zip", "w") as archive:
            for number in range(2):
                archive.writestr(f"{name}/docsutf8/{number}.txt", ENGLISH)
                archive.writestr(f"{name}/keys/{number}.key", "herring\ncod\n")
    return folder


@pytest.fixture(scope="module")
def bert(tmp_path_factory, tokenizer):
    """The folder of a random sentence transformer in place of MiniLM."""
    folder = tmp_path_factory.mktemp("bert")
    return sentence_transformer.save(folder, tokenizer, Pooling(32, "mean"))


class Threads(ThreadPoolExecutor):
    """Threads in place of the processes of a measurement."""

    def __init__(self, jobs, mp_context=None, initializer=None, initargs=()):
        super().__init__(1, initializer=initializer, initargs=initargs)


OPTIONS = {
    "context": "--limit 1",
    "encoding": "--texts 64 --seconds 0.01",
    "fovea": "--encoders Fovea --lengths 128 --forms eager --parts forward",
    "fovea-cpu": "--encoders Fovea --lengths 128 --turns 2",
    "fusion": "--limit 2 --queries 2",
    "likely": "--limit 2",
    "long_context": "--lengths 64",
    "questions": "--limit 1",
    "retrieval": "--task within --limit 1",
    "summarization": "--limit 1 --sets papers meetings",
    "summary_weights": "--limit 1 --sets papers",
    "training_corpus": "",
}
"""The smallest of each that takes a few seconds without a GPU, without what is downloaded, and
without processes that start others."""


class InProcess:
    """Measures encoders in this process."""

    def __init__(self, device):
        self.device = device

    def measure(self, wanted):
        row, _ = forms.Subject(wanted, self.device).measure(wanted.part, wanted.form)
        return {"failed": None, **row}

    def stop(self):
        pass


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Make what is measured small, and leave it in this process."""
    monkeypatch.setattr(forms, "Worker", InProcess)
    monkeypatch.setattr(fovea, "matmul_rate", lambda device: 1.0)
    monkeypatch.setattr(fusion, "QUESTIONS", tmp_path / "questions.jsonl")
    for name, size in {"num_layers": 1, "d_model": 16, "d_ff": 16, "num_heads": 2}.items():
        monkeypatch.setitem(fovea.SIZES, name, size)
    question = {"document": "papers/P0", "query": "Who eats?", "answers": SEA[:1]}
    lines = [json.dumps({"part": part, **question}) for part in ("train", "dev")]
    (tmp_path / "questions.jsonl").write_text("\n".join(lines))
    (tmp_path / "proposal.rst").write_text(pep(1)["text"])
    changes = {
        "in_new_process": lambda function, *its: function(*its),
        "ProcessPoolExecutor": Threads,
        "PROPOSAL": tmp_path / "proposal.rst",
        "DOCUMENTS": 4,
        "QUERIES": 2,
        "LIKE": 2,
        "GENERAL": ("Who bakes bread?",),
    }
    for module in {one.partition("-")[0] for one in OPTIONS} | {"forms_on_cpu"}:
        for name, value in changes.items():
            with suppress(ModuleNotFoundError):
                imported = import_module(f"benchmarks.{module}")
                monkeypatch.setattr(imported, name, value, raising=False)


@contextmanager
def skipping_without_packages():
    try:
        yield
    except ModuleNotFoundError as error:
        pytest.skip(f"{error.name} is not installed")


def import_or_skip(name):
    with skipping_without_packages():
        import_module(f"benchmarks.{name.partition('-')[0]}")


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::UserWarning")
def test_measurements_measure(name, data, bert, small_model, small, tmp_path):
    import_or_skip(name)
    parser = registry.parser_of(name, registry.MEASUREMENTS[name])
    given = {"data": data, "minilm": bert, "model": small_model, "output": tmp_path / "out.json"}
    if name == "likely":
        del given["model"]  # what is random tells nothing apart
    known = [option for option in given if f"--{option} " in parser.format_help()]
    arguments = [text for option in known for text in (f"--{option}", str(given[option]))]
    with skipping_without_packages():
        registry.run(name, [*arguments, *OPTIONS[name].split()])
    if registry.MEASUREMENTS[name].results:
        assert report.load(tmp_path / "out.json")


@pytest.mark.parametrize("name", registry.modules_with("measurement"))
def test_options_are_described(name):
    import_or_skip(name)
    its = [one for one in registry.MEASUREMENTS if one.partition("-")[0] == name]
    assert its
    for one in its:
        assert "--" in registry.parser_of(one, registry.MEASUREMENTS[one]).format_help()


def test_commands_of_the_pages_have_such_options():
    pages = [*report.ROOT.glob("docs/**/*.md"), *report.ROOT.glob("*/*.md")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in pages).replace("\\\n", " ")
    commands = re.findall(
        r"-m benchmarks ((?!NAME|tables|pictures)[a-z].*?)(?:[;`#]|$)", text, re.M
    )
    assert len(commands) > 30
    for command in commands:
        name, *arguments = shlex.split(command.replace("$task", "within"))
        with suppress(ModuleNotFoundError):  # of a peer
            import_module(f"benchmarks.{name.partition('-')[0]}")
            registry.parser_of(name, registry.MEASUREMENTS[name]).parse_args(arguments)


def test_the_tables_of_the_pages_are_those_of_the_results():
    registry.import_with("table")
    assert registry.TABLES
    for one in registry.TABLES:
        page = (report.ROOT / "docs" / one.page).read_text(encoding="utf-8")
        assert f"<!-- table: {one.name} -->\n\n{registry.text_of(one)}\n" in page, one


def test_tables_replace_those_of_the_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("A\n\n<!-- table: a b -->\n\nB\n\n<!-- table: c -->\n\n| old |\n| 1 |\n\nC\n")
    report.write_tables(page, {"c": "| new |", "a b": "| \\1 |"})
    expected = "A\n\n<!-- table: a b -->\n\n| \\1 |\n\nB\n\n<!-- table: c -->\n\n| new |\n\nC\n"
    assert page.read_text() == expected
    with pytest.raises(ValueError, match="no place for the table 'd'"):
        report.write_tables(page, {"d": "| x |"})
