"""Damaged and hostile files of every format, for fuzz_readers.py and the tests.

`cases` changes the files of fuzz_seeds.py. It

- cuts them off; flips bits; deletes, doubles and swaps stretches; puts a stretch of one file into
  another, of any format;
- repeats a token, such as an opening bracket or tag, up to 20,000 times, which nests lists,
  sections, arrays and groups deeply;
- does the same to the files inside of ZIP and TAR archives, and to the decompressed content of
  gzip files, so that checksums do not shield the readers;
- joins tokens of the seed and text made by hypothesis.

`HOSTILE` has XML entities that multiply, archives that decompress to far more than they hold or
hold each other many levels deep, macros that call themselves, and PDFs whose pages and outline run
in circles.
"""

import gzip
import io
import json
import math
import re
import zipfile
from collections.abc import Callable, Iterator
from random import Random

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.documents.fuzz_seeds import (
    PLAIN,
    SEEDS,
    pack_tar,
    pack_zip,
    unpack_tar,
    unpack_zip,
    write_page,
    write_pdf,
)

MAX_BYTES = 2**20  # of a changed file
_TOKEN = re.compile(rb"</?\w[^<>]{0,60}>|\\\w+\{?|\w+|[^\w\s]{1,3}|\s+|.", re.DOTALL)


def _entities(root: str) -> bytes:
    levels = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 12))
    return f'<!DOCTYPE {root} [<!ENTITY a0 "cod">{levels}]><{root}><p>&a11;</p></{root}>'.encode()


def _outside(root: str) -> bytes:
    declared = '<!ENTITY x SYSTEM "file:///etc/passwd">'
    return f"<!DOCTYPE {root} [{declared}]><{root}><p>Cod &x;.</p></{root}>".encode()


def _bomb(name: str) -> bytes:
    return pack_zip({name: b" " * 2**25})


def _compress(data: bytes) -> bytes:
    """Compress many megabytes quickly."""
    return gzip.compress(data, 1)


def _nested_archives(pack: Callable[[dict[str, bytes]], bytes], suffix: str) -> bytes:
    data = pack({"a.txt": PLAIN.encode()})
    for i in range(40):
        data = pack({f"{i}.{suffix}": data, "a.txt": b"Cod swim."})
    return data


def _circular_pdfs() -> list[bytes]:
    page = write_page(1)
    again = "<</Title(Food)/Parent 4 0 R/Next 5 0 R/First 5 0 R/Dest[6 0 R/Fit]>>"
    return [
        write_pdf([page], kids="2 0 R 2 0 R 6 0 R"),
        write_pdf([page], outline=again),
        write_pdf([b"/X Do " + page]),
        write_pdf([page], kids="6 0 R " * 20_000),
        write_pdf([b"q " * 100_000 + page]),
        write_pdf([b"BT/F 10 Tf 72 700 Td" + b"(a)Tj 1 0 Td" * 50_000 + b" ET"]),
        write_pdf([page]).replace(b"[0 0 612 792]", b"[0 0 1e9 1e9]"),
    ]


def _multipart() -> bytes:
    text = "From: a@b.c\nDate: Mon, 20 Nov 2023 10:00:00 +0000\n"
    for i in range(300):
        text += f'Content-Type: multipart/mixed; boundary="{i}"\n\n--{i}\n'
    return (text + "\nCod swim.\n").encode()


def _meeting(num_turns: int, spans: list[list[float]]) -> bytes:
    """A meeting whose topic has these spans, of which JSON may have infinite ones."""
    turns = [{"speaker": "A", "text": "Cod."}] * num_turns
    topics = [{"topic": "Cod", "relevant_text_span": spans}]
    return json.dumps({"turns": turns, "topics": topics}).encode()


HOSTILE: dict[str, Callable[[], list[bytes]]] = {
    "html": lambda: [_entities("html"), _outside("html")],
    "jats": lambda: [_entities("article"), _outside("article")],
    "tei": lambda: [_entities("TEI"), _outside("TEI")],
    "text": lambda: [
        _compress(b" " * (2**28 + 1)),
        b"a" * 2**20,
        b"(" * 2**18,
        b"1. " * 2**14,
        b"Fish\n\nA." + b"1" * 60 + b"x\n\nCod swim in the sea. They eat.\n",
        b"\n\n".join(b"10:00 From A%d%s : Hi, Bob." % (i, b" ()" * 18) for i in range(2**11)),
    ],
    "markdown": lambda: [b"---\ntitle: a" + b" " * 2**18 + b"b\n---\nCod swim.\n"],
    "json": lambda: [
        b"[" * 2**18,
        b'{"a":' * 2**16,
        b'{"turns": [' * 2**16,
        b"9" * 2**16,
        _meeting(1, [[0, math.inf]]),
        _meeting(2**14, [[0, 2**14]] * 2**14),
    ],
    "jsonl": lambda: [b"[" * 2**18, b'{"a":' * 2**16, b"{}\n" * 2**16],
    "notebook": lambda: [b'{"cells": [' * 2**16],
    "csv": lambda: [b'"' * 2**18, b"text\n" + b"a" * 2**20, b"text," * 2**16],
    "email": lambda: [_multipart(), b"Subject: " + b"=?utf-8?q?=41?= " * 2**12],
    "rtf": lambda: [
        b"{\\rtf1" + b"{" * 2**18,
        b"{\\rtf1\\bin999999999 a}",
        b"{\\rtf1\\u" * 2**14,
        b"{\\rtf1 " + b"." * 2**18 + b"\\par Cod swim.\\par}",
    ],
    "latex": lambda: [
        b"\\def\\a{\\a\\a}\\a Cod swim.",
        b"\\newcommand{\\a}{\\b\\b}\\newcommand{\\b}{\\a\\a}\\a",
        b"{" * 2**17 + b"Cod swim.",
        b"\\begin{itemize}\\item " * 2**14 + b"Cod swim.",
        b"Cod swim.\n\\newcommand\\a" + b"\n" * 2**18 + b"x",
        b"Cod swim.\n\\def\\a" + b"#1" * 2**17 + b" " * 2**17 + b"x",
    ],
    "pdf": _circular_pdfs,
    "docx": lambda: [_bomb("word/document.xml")],
    "odt": lambda: [_bomb("content.xml")],
    "epub": lambda: [_bomb("META-INF/container.xml")],
    "zip": lambda: [
        _bomb("a.txt"),
        _nested_archives(pack_zip, "zip"),
        pack_zip({"../../a.txt": b"Cod swim.", "/etc/a.txt": b"Eels are long."}),
        pack_zip({f"{i}.txt": b"Cod swim." for i in range(3_000)}),
    ],
    "tar": lambda: [
        _nested_archives(pack_tar, "tar"),
        _compress(pack_tar({"a.txt": b" " * 2**28})),
    ],
}


def cases(format: str, count: int, seed: int = 0) -> Iterator[bytes]:
    """Make files of a format, the same ones for the same seed: a fifth made, the others changed.

    Args:
        format: Name of a format.
        count: Number of files.
        seed: Seed of the random choices.
    """
    random = Random(f"{format} {seed}")
    own = SEEDS[format]()
    others = [data for name in SEEDS if name != format for data in SEEDS[name]()]
    made = _made(own[0], count // 5)
    yield from made
    for _ in range(count - len(made)):
        yield _changed(random.choice(own), others, random)


def _made(seed: bytes, count: int) -> list[bytes]:
    """Let hypothesis join tokens of a seed and text of its own."""
    if not count:
        return []
    tokens = sorted(set(_TOKEN.findall(seed)))[:500]
    text = st.text(max_size=8).map(lambda one: one.encode("utf-8", "surrogatepass"))
    pieces = st.one_of(
        st.sampled_from(tokens), st.sampled_from(tokens), text, st.binary(max_size=4)
    )
    found: list[bytes] = []

    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(pieces, max_size=60))
    def collect(parts: list[bytes]) -> None:
        found.append(b"".join(parts))

    collect()
    return found[:count]


def _changed(data: bytes, others: list[bytes], random: Random) -> bytes:
    """Change a file, or a file inside of it, once to four times."""
    if random.random() < 0.6:
        if zipfile.is_zipfile(io.BytesIO(data)):
            return pack_zip(_change_member(unpack_zip(data), others, random))
        if data[257:262] == b"ustar":
            return pack_tar(_change_member(unpack_tar(data), others, random))
        if data[:2] == b"\x1f\x8b":
            return gzip.compress(_changed(gzip.decompress(data), others, random), mtime=0)
    for _ in range(random.randint(1, 4)):
        data = random.choice(CHANGES)(data, others, random) or data
    return data[:MAX_BYTES]


def _change_member(
    members: dict[str, bytes], others: list[bytes], random: Random
) -> dict[str, bytes]:
    name = random.choice(sorted(members))
    action = random.random()
    if action < 0.05:
        return {other: content for other, content in members.items() if other != name}
    if action < 0.1:
        return members | {name: random.choice(others)}
    return members | {name: _changed(members[name], others, random)}


def _stretch(data: bytes, random: Random, longest: int = 200) -> tuple[int, int]:
    start = random.randrange(len(data) + 1)
    return start, min(start + random.randint(1, longest), len(data))


def _truncate(data: bytes, others: list[bytes], random: Random) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def _flip(data: bytes, others: list[bytes], random: Random) -> bytes:
    flipped = bytearray(data)
    for _ in range(random.choice((1, 4, 30)) if data else 0):
        flipped[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(flipped)


def _delete(data: bytes, others: list[bytes], random: Random) -> bytes:
    start, end = _stretch(data, random)
    return data[:start] + data[end:]


def _double(data: bytes, others: list[bytes], random: Random) -> bytes:
    start, end = _stretch(data, random)
    return data[:end] + data[start:end] * random.choice((1, 2, 50)) + data[end:]


def _swap(data: bytes, others: list[bytes], random: Random) -> bytes:
    tokens = _TOKEN.findall(data[:100_000])
    if not tokens:
        return data
    one, other = random.randrange(len(tokens)), random.randrange(len(tokens))
    tokens[one], tokens[other] = tokens[other], tokens[one]
    return b"".join(tokens)


def _splice(data: bytes, others: list[bytes], random: Random) -> bytes:
    other = random.choice(others)
    start, end = _stretch(other, random, 2000)
    place = random.randrange(len(data) + 1)
    return data[:place] + other[start:end] + data[place:]


def _nest(data: bytes, others: list[bytes], random: Random) -> bytes:
    tokens = list(_TOKEN.finditer(data[:100_000]))
    if not tokens:
        return data
    token = random.choice(tokens)
    times = min(random.choice((10, 300, 3000, 20_000)), MAX_BYTES // len(token[0]))
    return data[: token.start()] + token[0] * times + data[token.end() :]


CHANGES = (_truncate, _flip, _delete, _double, _swap, _splice, _nest)
