"""How well and how fast documents are read: PDFs, against other readers, and JATS articles.

    python -m benchmarks reading_corpus --folder pdfs
    python -m benchmarks reading --pdfs pdfs

The first command makes the PDFs and their ground truth, from Debian's documentation packages; see
its docstring. The second needs `pip install pypdf pdfplumber` and pdftotext of poppler-utils.

Every reader reads every file in a process of its own. Pages a second are measured around the call
that reads, without the import of libraries. Memory is the peak of the process, libraries included.

All comparisons are made on words, whatever stands between them; see reading_words.py.

- intact: the share of the source's sentences whose words stand in the reader's output one after
  the other, so neither hyphens at line ends, glued words, lines of the other column, footnotes nor
  running heads between them.
- exact: the share of the source's sentences that are, word by word, a sentence of the document;
  for foveate, the only one that splits sentences.
- order errors: among neighbours in the source that are both intact and stand once in the output,
  the share of those that changed their order.
- heads left in: the share of running heads and feet that are still in the output.
- recall and precision of headings: those in the outline or, for a PDF without outline, in the
  source are to be found; those in either, and titles of front and back matter such as "Contents",
  are no errors. Case and numbering are not compared. "foveate, no outline" reads copies whose
  outline was taken out, so that headings have to be found by their looks.
"""

import json
import re
import resource
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from multiprocessing import TimeoutError
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.processes import in_new_process
from benchmarks.reading_words import UNKNOWN, cut, masked, words
from benchmarks.registry import measurement

LIMIT = 600  # seconds for one file
MATTER = {
    *("abstract", "contents", "tableofcontents", "listoffigures", "listoftables", "references"),
    *("bibliography", "index", "acknowledgments", "acknowledgements", "keywords", "footnotes"),
    *("inhaltsverzeichnis", "literatur", "stichwortverzeichnis", "目录", "参考文献", "索引"),
}  # headings that outlines and sources often lack
APART = ("fig", "table-wrap", "boxed-text", "fn", "supplementary-material")  # from JATS' paragraphs
_NUMBERING = re.compile(
    r"\s*(?:第\s*\w+?\s*[章节部篇]\s*|(?:(?:chapter|kapitel|appendix|anhang|part|teil|附录)\s+\w+"
    r"|\d+(?:\.\d+)*|[a-z](?:\.\d+)*|[ivxlc]+)[.):]*\s+)+",
    re.IGNORECASE,
)


@measurement("reading.json", "pypdfium2", "pypdf", "pdfplumber")
def reading(pdfs: Path, data: Path = report.DATA) -> dict[str, Any]:
    """Read all files with all readers.

    Options:
        pdfs: folder that reading_corpus made
    """
    results = []
    for path in sorted(pdfs.glob("*.json")):
        truth = json.loads(path.read_text())
        for reader in READERS:
            print(truth["name"], reader, file=sys.stderr)
            results.append(run(reader, path, truth))
    header = [
        *("reader", "pages/s", "peak MiB", "intact", "exact", "order errors", "heads left in"),
        *("recall", "precision"),
    ]
    for sort in dict.fromkeys(result["sort"] for result in results):
        print(f"\n{sort}\n\n{report.table(header, rows(results, sort))}")
    articles = read_articles(data / "plos/dev.tar.xz")
    print(f"\nJATS\n\n{report.table(list(articles), [list(articles.values())])}")
    return {"pdf": results, "jats": articles}


def rows(results: list[dict[str, Any]], sort: str) -> list[list[Any]]:
    """Sum the counts of the files of a sort, and make shares of them."""
    table = []
    for reader in dict.fromkeys(result["reader"] for result in results):
        of_reader = [r for r in results if (r["sort"], r["reader"]) == (sort, reader)]
        read = [result for result in of_reader if "error" not in result]
        if not read:
            table.append([reader, *[None] * 8])
            continue

        def share(part: str, whole: str, read: list[dict[str, Any]] = read) -> str | None:
            if any(result[part] is None for result in read):
                return None
            return percent(sum(r[part] for r in read), sum(r[whole] for r in read))

        pages = sum(result["pages"] for result in read) / sum(result["seconds"] for result in read)
        failed = len(of_reader) - len(read)
        table.append(
            [
                f"{reader} ({failed} not read)" if failed else reader,
                pages,
                max(result["peak_mib"] for result in read),
                share("intact", "sentences"),
                share("exact", "sentences"),
                share("disordered", "neighbours"),
                share("heads_left", "heads"),
                share("headings_found", "headings"),
                share("headings_right", "headings_read"),
            ]
        )
    return table


def run(reader: str, path: Path, truth: dict[str, Any]) -> dict[str, Any]:
    """Read a file in a process of its own, and compare what was read with the truth."""
    suffix = ".no-outline.pdf" if reader == "foveate, no outline" else ".pdf"
    result = {"file": truth["name"], "sort": truth["sort"], "reader": reader}
    try:
        measured = in_new_process(measure, reader, path.with_suffix(suffix), seconds=LIMIT)
    except TimeoutError:
        return result | {"error": f"more than {LIMIT} s"}
    except Exception as error:  # whatever a reader cannot do is a result, too
        return result | {"error": f"{type(error).__name__}: {error}"}
    output = measured.pop("output")
    return result | measured | score_text(output, truth) | score_headings(output["headings"], truth)


def score_text(output: dict[str, Any], truth: dict[str, Any]) -> dict[str, Any]:
    """Count intact sentences, changes of order, and running heads."""
    text = f" {' '.join(words(output['text']))} "
    files = [[f" {' '.join(words(sentence))} " for sentence in file] for file in truth["sentences"]]
    everything = [sentence for file in files for sentence in file]
    neighbours = disordered = 0
    for file in files:
        starts = [text.find(one) if text.count(one) == 1 else -1 for one in file]
        pairs = [(one, other) for one, other in pairwise(starts) if one >= 0 and other >= 0]
        neighbours += len(pairs)
        disordered += sum(other < one for one, other in pairs)
    own = {f" {' '.join(words(sentence))} " for sentence in output["sentences"] or ()}
    plain = f" {masked(output['text'])} "
    heads = truth["running_heads"]
    left = (plain.count(f" {head['words']} ") - head["elsewhere"] for head in heads)
    return {
        "sentences": len(everything),
        "intact": sum(sentence in text for sentence in everything),
        "exact": sum(one in own for one in everything) if output["sentences"] else None,
        "neighbours": neighbours,
        "disordered": disordered,
        "heads": sum(head["pages"] for head in heads),
        "heads_left": sum(
            min(max(count, 0), head["pages"]) for count, head in zip(left, heads, strict=True)
        ),
    }


def score_headings(found: list[str] | None, truth: dict[str, Any]) -> dict[str, Any]:
    """Count the headings of the truth that were found, and those found that are in the truth."""
    wanted = keys(truth["outline"] or truth["headings"])
    if found is None:
        return {"headings_found": None, "headings_right": None, "headings": 0, "headings_read": 0}
    read = keys(found)
    right = keys(truth["outline"]) | keys(truth["headings"])
    judged = Counter(
        {key: count for key, count in read.items() if key in right or key not in MATTER}
    )
    return {
        "headings": wanted.total(),
        "headings_found": (wanted & read).total(),
        "headings_read": judged.total(),
        "headings_right": (judged & right).total(),
    }


def keys(headings: Sequence[str]) -> Counter[str]:
    """Reduce headings to what is compared: without numbering, case, spaces and punctuation."""
    numbers = (_NUMBERING.match(text) for text in headings)
    pairs = zip(headings, numbers, strict=True)
    bare = (text[number.end() :] if number else text for text, number in pairs)
    return Counter(key for text in bare if (key := "".join(words(text)).casefold()))


def measure(reader: str, path: Path) -> dict[str, Any]:
    """Read a file, and measure time and memory."""
    import pypdfium2

    with pypdfium2.PdfDocument(path) as pdf:
        pages = len(pdf)
    read = READERS[reader]()
    begun = time.perf_counter()
    output = read(path)
    seconds = time.perf_counter() - begun
    who = resource.RUSAGE_CHILDREN if reader == "pdftotext" else resource.RUSAGE_SELF
    peak = resource.getrusage(who).ru_maxrss / 1024
    return {"pages": pages, "seconds": seconds, "peak_mib": peak, "output": output}


Read = Callable[[Path], dict[str, Any]]


def load_foveate() -> Read:
    from foveate.documents import Document

    return lambda path: as_output(Document.from_file(path))


def as_output(document: Any) -> dict[str, Any]:
    """Return the document's headings and sentences in their order, and both on their own."""
    sections = [section for _, section in document.walk()]
    lines: list[str] = []
    for section in sections:
        own = [sentence.text for part in section.paragraphs for sentence in part.sentences]
        lines += [section.title, *own]
    return {
        "text": "\n".join(lines),
        "headings": [section.title for section in sections if section.title],
        "sentences": [sentence.text for sentence in document.sentences()],
    }


def load_pdftotext() -> Read:
    def read(path: Path) -> dict[str, Any]:
        command = ["pdftotext", path, "-"]
        done = subprocess.run(command, check=True, capture_output=True, encoding="utf-8")
        return plain(done.stdout)

    return read


def load_pypdf() -> Read:
    from pypdf import PdfReader

    return lambda path: plain("\n".join(page.extract_text() for page in PdfReader(path).pages))


def load_pdfplumber() -> Read:
    import pdfplumber

    def read(path: Path) -> dict[str, Any]:
        with pdfplumber.open(path) as pdf:
            return plain("\n".join(page.extract_text() for page in pdf.pages))

    return read


def plain(text: str) -> dict[str, Any]:
    return {"text": text, "headings": None, "sentences": None}


READERS: dict[str, Callable[[], Read]] = {
    "foveate": load_foveate,
    "foveate, no outline": load_foveate,
    "pdftotext": load_pdftotext,
    "pypdf": load_pypdf,
    "pdfplumber": load_pdfplumber,
}


def read_articles(archive: Path) -> dict[str, Any]:
    """Compare JATS articles, read by foveate, with the section titles and paragraphs of their XML.

    Paragraphs are those of the body outside of figures, tables and boxes.
    """
    from lxml import etree

    from foveate.documents import Document

    counts: Counter[str] = Counter()
    seconds = 0.0
    with tarfile.open(archive) as files:
        for member in files:
            stream = files.extractfile(member)
            if stream is None or not member.name.endswith(".xml"):
                continue
            data = stream.read()
            begun = time.perf_counter()
            document = Document.from_bytes(data, format="jats")
            seconds += time.perf_counter() - begun
            article = etree.fromstring(data)
            truth = {
                "outline": [],
                "headings": [
                    "".join(title.itertext()) for title in article.iterfind(".//sec/title")
                ],
                "sentences": [[one for text in prose(article) for one in cut(text)]],
                "running_heads": [],
            }
            output = as_output(document)
            counts.update(articles=1, bytes=len(data))
            counts.update(score_text(output, truth) | score_headings(output["headings"], truth))
    return {
        "articles": counts["articles"],
        "MB/s": counts["bytes"] / 1e6 / seconds,
        "sentences": counts["sentences"],
        "intact": percent(counts["intact"], counts["sentences"]),
        "exact": percent(counts["exact"], counts["sentences"]),
        "order errors": percent(counts["disordered"], counts["neighbours"]),
        "headings": counts["headings"],
        "recall": percent(counts["headings_found"], counts["headings"]),
        "precision": percent(counts["headings_right"], counts["headings_read"]),
    }


def prose(article: Any) -> Iterator[str]:
    """Iterate over the paragraphs' texts, with a mark for each formula and raised or lowered text.

    Such text is written so that it keeps its meaning (10^3), or is the mark of a note.
    """
    apart = " or ".join(f"ancestor::{tag}" for tag in APART)
    for paragraph in article.xpath(f"//body//p[not({apart})]"):
        texts = paragraph.xpath(f".//text()[not({apart})]")
        tags = ("inline-formula", "disp-formula", "sup", "sub")
        unknown = " or ".join(f"ancestor-or-self::{tag}" for tag in tags)
        parts = (UNKNOWN if text.getparent().xpath(unknown) else text for text in texts)
        yield " ".join("".join(parts).split())


def percent(part: int, whole: int) -> str | None:
    return f"{100 * part / whole:.1f}%" if whole else None
