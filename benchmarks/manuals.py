"""Manuals from the documentation packages of Debian, as documents with sections.

`read_packages` downloads the packages of manuals.toml with `apt-get download`, and unpacks them
with `dpkg -x` without installing them, unless that is done. It needs Debian 12 or a relative of it.

A large page of a manual becomes a document. Smaller pages that follow each other in the manual
become the sections of one document. These are left out: pages of other languages, indexes,
changelogs, licenses, and references that are generated from source code; sections with hardly any
prose; sentences that a manual often repeats; pages of which most sentences were on earlier pages;
documents with few headings, or with the same headings over and over.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from benchmarks.debian import unpack
from benchmarks.structured_documents import count_words, section_records
from foveate import Document
from foveate.documents import DocumentError
from foveate.documents.language import detect_language

MIN_SECTIONS = 3  # with a heading, of a document
MIN_WORDS, MAX_WORDS = 300, 60_000  # of a document
LARGE_PAGE = 1_500  # words of a page that is a document of its own
SPLIT_PAGE = 30_000  # words of a page that is split into its sections
MERGED = 12_000  # words at most of a document of smaller pages
PACKAGE_WORDS = 1_500_000  # at most of a package
TOTAL_WORDS = 12_000_000
MAX_BYTES = 6_000_000  # of a page
MAX_REPEATED = 8  # times that a manual may say a sentence
MIN_DISTINCT = 0.5  # of the headings of a document
LONG_SENTENCE = 6  # words of a sentence that tells whether a page is a copy
WORKERS = 2

PACKAGES: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("manuals.toml").read_text(encoding="utf-8")
)

_PAGE = re.compile(r"\.(?:x?html?(?:\.en)?|md)(?:\.gz)?$")
_LANGUAGES = (
    "ar bg bs ca cs da de el eo es et eu fa fi fr gl gu he hi hr hu id it ja kn ko lt lv ml mr nb "
    "nl nn pa pl pt ro ru sk sl sq sr sv ta te th tr uk vi zh"
)
_SKIPPED = re.compile(
    rf"(?:^|[/.])(?:{'|'.join(_LANGUAGES.split())})(?:[-_](?:\w\w|latn|nynorsk))?[/.]|nb-no|"
    r"/(?:_sources|_modules|_static|_images|_downloads|generated|autosummary|_autosummary|api|"
    r"apidocs?|api_reference|classref|source_code|common_content|images|icons|"
    r"releases|relnotes|releaselog|release_?notes|release|whats_?new|changelog|announce|news|"
    r"templates|gitwash|tests)/|"
    r"(?:gfdl|fdl|gpl|licen[cs]e|legal|copying|genindex|modindex|search|glossary|changelog|changes|release-?notes|release-\d|relnotes|"
    r"copyright|authors|bookindex|sitemap|func_index|idx|news)[^/]*$",
    re.IGNORECASE,
)
_LINK = re.compile(r"""href\s*=\s*["']?([^"'#?> ]+)""", re.IGNORECASE)
_LINK_TAG = re.compile(r"<link\b[^>]*>", re.IGNORECASE)
_NEXT = re.compile(r"""rel\s*=\s*["']?next\b""", re.IGNORECASE)
_INDEXES = ("index.html", "index.en.html", "index.html.en", "toc.html", "contents.html")
_LICENSE = re.compile(r".*\blicen[cs]es?\b.*|.*\bcopying\b.*|copyright.*", re.IGNORECASE)
_CHAPTER = re.compile(r"(?:chapter|part|appendix)\s+\w+", re.IGNORECASE)
_ASIDE = re.compile(
    r"(?:note|tip|warning|important|caution|example|hint|attention|danger|see also|seealso)s?:?",
    re.IGNORECASE,
)
_TITLE_END = re.compile(
    r"\s+(?:[—–|·:-]+)\s+[^—–|]*\b(?:documentation|manual|guide|reference|v?\d+(?:\.\d+)+)\b.*$"
    r"|\s+\([^)]*\((?:version )?[\d.]+\)\)$",
    re.IGNORECASE,
)
_NAVIGATION = re.compile(
    r"(?:Next|Previous|Up|Prev): ?,|(?:Next|Previous|Up): .*\[(?:Contents|Index)\]"
)
_PERMALINK = re.compile(r"\s*[¶§]+$")
_WORD = re.compile(r"[(\"'“‘]*[A-Za-z][A-Za-z'’/-]*[)\"'”’.,;:!?]*")


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a manual, or a section of a very large page.

    Attributes:
        path: The file.
        title: The title of the page.
        sections: What `section_records` returns.
    """

    path: Path
    title: str
    sections: list[dict[str, Any]]

    @property
    def num_words(self) -> int:
        return count_words(self.sections)


@dataclass(frozen=True, slots=True)
class Package:
    """The documents of a package.

    Attributes:
        name: The name of the package.
        version: Its version.
        license: The license that its copyright file states.
        documents: Documents as a corpus has them.
    """

    name: str
    version: str
    license: str
    documents: list[dict[str, Any]]

    @property
    def num_words(self) -> int:
        return sum(count_words(document["sections"]) for document in self.documents)


def read_packages(folder: Path) -> list[Package]:
    """Read all packages, and take a sample of the larger ones.

    Args:
        folder: Where the packages are, or are downloaded to.
    """
    seen: set[int] = set()
    packages = []
    with ProcessPoolExecutor(WORKERS) as pool:
        for name, known in PACKAGES.items():
            root = unpack(name, folder)
            (archive,) = folder.glob(f"{name}_*.deb")
            version = archive.name.split("_")[1].replace("%3a", ":")
            pages = read_pages(in_reading_order(page_paths(root, known.get("pages", ""))), pool)
            pages = [page for page in without_repeated(pages) if is_new(page, seen)]
            license = known.get("license") or stated_license(root, name)
            documents = [
                {
                    "id": f"{name}/{page.path.relative_to(root)}#{number}",
                    "title": page.title,
                    "sections": page.sections,
                    "references": [],
                    "queries": [],
                    "language": "en",
                    "source": f"Debian package {name} {version}",
                    "license": license,
                }
                for number, page in enumerate(assembled(pages))
                if MIN_WORDS <= page.num_words <= MAX_WORDS and has_structure(page.sections)
            ]
            packages.append(Package(name, version, license, documents))
            package = packages[-1]
            print(
                f"{name}: {len(pages)} pages, {len(documents)} documents, "
                f"{package.num_words:,} words, {license}",
                flush=True,
            )
    limit = min(PACKAGE_WORDS, fair_limit([one.num_words for one in packages], TOTAL_WORDS))
    return [
        replace(package, documents=sample(package.documents, limit))
        for package in packages
        if package.documents
    ]


def read_pages(paths: Iterable[Path], pool: ProcessPoolExecutor) -> list[Page]:
    """Read the pages that are in English."""
    return [page for page in pool.map(read_page, paths, chunksize=8) if page]


def page_paths(root: Path, pattern: str) -> list[Path]:
    """Return the pages of a package: those in HTML or, if there are none, in Markdown."""
    paths = [
        path
        for path in root.rglob("*")
        if path.is_file()
        and not path.is_symlink()
        and path.stat().st_size <= MAX_BYTES
        and _PAGE.search(path.name)
        and not _SKIPPED.search(str(path.relative_to(root)))
        and re.search(pattern, str(path.relative_to(root)))
    ]
    pages = [path for path in paths if ".md" not in path.suffixes]
    return pages if len(pages) > 1 else paths


def in_reading_order(paths: Iterable[Path]) -> Iterator[Path]:
    """Sort pages by folder; there, by their links to the next page, then by the contents."""
    for folder, group in groupby(sorted(paths, key=natural_order), key=lambda path: path.parent):
        left = {path.name: path for path in group}
        places: dict[str, int] = {}
        for index in filter(Path.is_file, (folder / name for name in _INDEXES)):
            for link in _LINK.findall(index.read_text(errors="replace")):
                places.setdefault(link.removeprefix("./"), len(places))
        following = {name: next_page(path) for name, path in left.items()}
        followers = set(following.values())
        starts = sorted(
            left,
            key=lambda name: (
                name not in _INDEXES,
                name in followers,
                places.get(name, len(places)),
            ),
        )
        for start in starts:
            name: str | None = start
            while name in left:
                yield left.pop(name)
                name = following.get(name)


def next_page(path: Path) -> str | None:
    """Return the name of the page that a page in HTML declares as the next one."""
    with path.open("rb") as file:
        head = file.read(20_000).decode(errors="replace")
    tag = next((tag for tag in _LINK_TAG.findall(head) if _NEXT.search(tag)), "")
    link = _LINK.search(tag)
    return link[1].removeprefix("./") if link else None


def natural_order(path: Path) -> list[Any]:
    """Return a key that puts section9 before section10."""
    parts = re.split(r"(\d+)", path.name)
    return [path.parent, [(int(p), "") if p.isdigit() else (0, p.lower()) for p in parts]]


def read_page(path: Path) -> Page | None:
    """Read a page in English, or return None."""
    format = "markdown" if ".md" in path.suffixes else "html"
    try:
        document = Document.from_file(path, format=format, language="en")
    except DocumentError:
        return None
    if detect_language(" ".join(sentence.text for sentence in document.sentences())) != "en":
        return None
    records = with_prose(without_asides(section_records(document.sections)))
    page = Page(path, cleaned_title(document.title), records)
    while len(page.sections) == 1 and page.sections[0]["sections"]:
        page = of_section(path, page.sections[0])
    return page if page.sections else None


def cleaned_title(title: str) -> str:
    """Remove the name of the manual from the title of a page, and signs of links."""
    return _TITLE_END.sub("", _PERMALINK.sub("", title))


def of_section(path: Path, section: dict[str, Any]) -> Page:
    """Return a section as a page."""
    own = {"title": "", "sentences": section["sentences"], "sections": []}
    return Page(path, section["title"], [own][: len(own["sentences"])] + section["sections"])


def without_asides(sections: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join notes, tips and the like, whose headings say nothing, with the text before them."""
    joined: list[dict[str, Any]] = []
    for section in sections:
        below = without_asides(section["sections"])
        own = list(section["sentences"])
        while below and _ASIDE.fullmatch(below[0]["title"]):
            aside = below.pop(0)
            own += aside["sentences"]
            below = aside["sections"] + below
        if joined and _ASIDE.fullmatch(section["title"]) and not joined[-1]["sections"]:
            joined[-1]["sentences"] += own
            joined[-1]["sections"] += below
        else:
            title = _PERMALINK.sub("", section["title"])
            joined.append({"title": title, "sentences": own, "sections": below})
    return joined


def with_prose(sections: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out the sentences of sections of which less than half are prose."""
    kept = []
    for section in sections:
        own = [one for one in section["sentences"] if not _NAVIGATION.match(one)]
        below = with_prose(section["sections"])
        num_words = sum(len(sentence.split()) for sentence in own)
        num_prose = sum(len(sentence.split()) for sentence in own if is_prose(sentence))
        if 2 * num_prose < num_words:
            own = []
        if own or below:
            kept.append({"title": section["title"], "sentences": own, "sections": below})
    return kept


def is_prose(sentence: str) -> bool:
    """Return whether a sentence has at least five words, three quarters of them without symbols."""
    parts = sentence.split()
    return len(parts) >= 5 and 4 * sum(map(bool, map(_WORD.fullmatch, parts))) >= 3 * len(parts)


def without_repeated(pages: Sequence[Page]) -> Iterator[Page]:
    """Leave out licenses, and sentences that are often repeated, such as those of headers."""
    counts = Counter(one for page in pages for one in sentences(page.sections))

    def keep(sections: list[dict[str, Any]]) -> list[dict[str, Any]]:
        kept = []
        for section in sections:
            if _LICENSE.fullmatch(section["title"]):
                continue
            own = [one for one in section["sentences"] if counts[one] <= MAX_REPEATED]
            below = keep(section["sections"])
            if own or below:
                kept.append({"title": section["title"], "sentences": own, "sections": below})
        return kept

    for page in pages:
        sections = [] if _LICENSE.fullmatch(page.title) else keep(page.sections)
        if sections:
            yield replace(page, sections=sections)


def is_new(page: Page, seen: set[int]) -> bool:
    """Return whether most of a page's longer sentences are new, and remember them."""
    long = {hash(one) for one in sentences(page.sections) if one.count(" ") >= LONG_SENTENCE - 1}
    if not long or 2 * len(long & seen) > len(long):
        return False
    seen |= long
    return True


def sentences(sections: Iterable[dict[str, Any]]) -> Iterator[str]:
    for section in sections:
        yield from section["sentences"]
        yield from sentences(section["sections"])


def assembled(pages: Iterable[Page]) -> Iterator[Page]:
    """Split very large pages, and join small ones that follow each other in a folder."""
    for _, group in groupby(pages, key=lambda page: page.path.parent):
        heading, small, num_words = "", [], 0
        for page in chain.from_iterable(map(split, group)):
            starts_chapter = bool(_CHAPTER.match(page.title)) or page.path.name in _INDEXES
            is_large = page.num_words >= LARGE_PAGE and has_structure(page.sections)
            if is_large or starts_chapter or num_words + page.num_words > MERGED:
                if small:
                    yield joined(heading, small)
                small, num_words = [], 0
                heading = heading if _CHAPTER.match(heading) else ""  # that of an index
            if starts_chapter:
                heading = page.title
            if is_large:
                yield page
            else:
                small.append(page)
                num_words += page.num_words
        if small:
            yield joined(heading, small)


def split(page: Page) -> Iterator[Page]:
    """Yield the sections of a very large page, or else the page itself."""
    if page.num_words <= SPLIT_PAGE or len(page.sections) == 1:
        yield page
    else:
        for section in page.sections:
            yield from split(of_section(page.path, section))


def joined(heading: str, pages: Sequence[Page]) -> Page:
    """Return pages as the sections of one document, which has no title if there is no heading."""
    if len(pages) == 1:
        return pages[0]
    sections = []
    for page in pages:
        first, *others = page.sections
        if first["title"]:
            first, others = {"sentences": [], "sections": []}, page.sections
        below = first["sections"] + others
        sections.append({"title": page.title, "sentences": first["sentences"], "sections": below})
    return Page(pages[0].path, heading, sections)


def has_structure(sections: Iterable[dict[str, Any]]) -> bool:
    """Return whether there are enough headings, and most of them are different."""
    found = list(filter(None, titles(sections)))
    return len(found) >= MIN_SECTIONS and len(set(found)) >= MIN_DISTINCT * len(found)


def titles(sections: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield the headings of sections at any depth."""
    for section in sections:
        yield section["title"]
        yield from titles(section["sections"])


def fair_limit(sizes: Sequence[int], total: int) -> int:
    """Return the limit of each size that keeps the sum of all within the total."""
    left = total
    for index, size in enumerate(sorted(sizes)):
        count = len(sizes) - index
        if size * count > left:
            return left // count
        left -= size
    return max(sizes, default=0)


def sample(documents: Sequence[dict[str, Any]], limit: int) -> list[dict[str, Any]]:
    """Choose documents, always the same ones, with no more words than the limit."""
    order = sorted(documents, key=lambda one: sha256(one["id"].encode()).digest())
    chosen, num_words = [], 0
    for document in order:
        size = count_words(document["sections"])
        if num_words + size <= limit:
            chosen.append(document)
            num_words += size
    return chosen


def stated_license(root: Path, package: str) -> str:
    """Return the license of most files, as the package's copyright file states it."""
    path = root / "usr/share/doc" / package / "copyright"
    text = path.read_text(errors="replace") if path.is_file() else ""
    stanzas = re.split(r"\n\s*\n", text)
    for stanza in stanzas:
        fields = dict(re.findall(r"^([\w-]+):\s*(\S.*)$", stanza, re.MULTILINE))
        if fields.get("Files", "").split()[:1] == ["*"] and "License" in fields:
            return fields["License"]
    return "unknown"
