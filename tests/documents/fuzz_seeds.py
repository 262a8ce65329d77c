"""Small whole files of every format, which fuzz_cases.py changes."""

import gzip
import io
import json
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable

PLAIN = """CHAPTER I. Of Cod

Cod swim in cold water, e.g. near Iceland. They eat herring; "it is so", said Dr. Smith.

1. They were caught by hand.
2. They are caught by trawlers (see p. 5).

  a) first
  b) second

CHAPTER II. Of Eels

Eels are long. 鳗鱼很长。它们生活在河里。 Aale sind lang, ca. 1 m.
"""
MARKDOWN = """# Cod

Cod *swim*. They eat [herring](http://a.b "t") and `code`.[^1]

## Food

- herring
    - small
1. one

| item | price |
|------|-------|
| cod  | 3     |

> They swim.

```python
x = 1  # not a heading
```

[^1]: A note.
"""
RST = """====
Cod
====

:Author: Ann

Abstract
========

Cod *swim*. They eat `herring <http://a.b>`_ and ``code`` |x|.  [#n]_

.. note:: They swim.

.. |x| replace:: fish

Food
----

* herring

  * small

=====  =====
item   price
=====  =====
cod    3
=====  =====

::

    code

.. [#n] A note.
"""
HTML = """<!DOCTYPE html><html lang="en"><head><title>Cod</title><meta charset="utf-8"></head><body>
<nav><ul><li><a href="#a">Home</a></li></ul></nav><main><article><h1>Cod &amp; eels</h1>
<p>Cod <em>swim</em>. They eat herring.<br>Eels are long.</p><h2>Food</h2>
<ul><li>herring</li><li>krill<ol><li>small</li></ol></li></ul><blockquote>So it is.</blockquote>
<table><tr><th>item</th><th>price</th></tr><tr><td rowspan="2">cod</td><td>3</td></tr></table>
<pre><code>x = 1</code></pre><aside role="note">Not this.</aside></article></main></body></html>"""
JATS = """<?xml version="1.0" encoding="utf-8"?><article><front><article-meta><title-group>
<article-title>Cod</article-title></title-group><abstract><p>Cod swim.</p></abstract>
</article-meta></front><body><sec><title>Food</title><p>They eat <italic>herring</italic>
<xref>[1]</xref>.</p><sec><title>Small</title><p>Krill is small.</p><table-wrap><table><thead>
<tr><th>item</th></tr></thead><tbody><tr><td>cod</td></tr></tbody></table></table-wrap></sec>
</sec></body><back><ref-list><ref>A. B.</ref></ref-list></back></article>"""
TEI = """<?xml version="1.0"?><TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader><fileDesc>
<titleStmt><title>Cod</title></titleStmt></fileDesc></teiHeader><text><front><div><p>Before.</p>
</div></front><body><div><head>Food</head><p>They eat <hi>herring</hi>.<note>No.</note></p><div>
<head>Small</head><lg><l>Krill</l></lg><list><item>one</item></list></div></div></body></text>
</TEI>"""
TRANSCRIPT = """[00:00:01] Ann: Hello, um, everybody. Let us begin.
[00:00:05] Bob Lee: Yes. {vocalsound} Uh-huh.
ANN: Good. So the cod.
Bob Lee: Cod swim. They eat herring.
"""
MEETING = json.dumps(
    {
        "title": "Cod",
        "turns": [{"speaker": "Ann", "text": "Cod swim. They eat."}, {"speaker": "", "text": "So"}],
        "topics": [{"topic": "Food", "relevant_text_span": [["0", "1"]]}],
    }
)
VTT = """WEBVTT - Cod

NOTE not this

STYLE
::cue { color: red }

1
00:00:01.000 --> 00:00:04.000 align:start
<v Ann>Cod <i>swim</i>.</v>

00:00:05.000 --> 00:00:06.500
- They eat
herring.
"""
SRT = """1
00:00:01,000 --> 00:00:04,000
<i>Cod</i> swim.

2
00:00:05,000 --> 00:00:06,500
{\\an8}They eat
herring.
"""
LATEX = r"""\documentclass{article}
\newcommand{\fish}[1]{\emph{#1}}
\title{Cod}\author{Ann}
\begin{document}\maketitle
\begin{abstract}Cod \fish{swim}. % not this
\end{abstract}
\section{Food}\label{s}
They eat herring~\cite{a}, see \ref{s} and $x^2$.\footnote{A note.}
\begin{itemize}\item krill \item \textbf{small} \end{itemize}
\begin{tabular}{ll} item & price \\ cod & 3 \end{tabular}
\[ E = m c^2 \]
\subsection*{Small \& more}
\verb|x| \input{other} ``So''---it is.
\bibliographystyle{plain}\bibliography{a}
\end{document}
"""
NOTEBOOK = json.dumps(
    {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": {"language": "python", "name": "python3"}},
        "cells": [
            {"cell_type": "markdown", "metadata": {}, "source": ["# Cod\n", "\n", "Cod swim."]},
            {
                "cell_type": "code",
                "metadata": {},
                "source": "x = 1",
                "execution_count": 1,
                "outputs": [{"output_type": "stream", "name": "stdout", "text": ["They eat."]}],
            },
            {"cell_type": "raw", "metadata": {}, "source": "So it is."},
        ],
    }
)
EMAIL = """From: Ann <ann@a.b>
To: Bob <bob@a.b>
Subject: =?utf-8?q?C=C3=B6d?=
Date: Mon, 20 Nov 2023 10:00:00 +0000
Message-ID: <1@a.b>
MIME-Version: 1.0
Content-Type: multipart/alternative; boundary="x"

--x
Content-Type: text/plain; charset="utf-8"
Content-Transfer-Encoding: quoted-printable

C=C3=B6d swim. They eat.

On Sunday, Bob wrote:
> Do they eat?
--=20
Ann
--x
Content-Type: text/html; charset="utf-8"
Content-Transfer-Encoding: base64

PHA+Q29kIHN3aW0uPC9wPg==
--x--
"""
RTF = r"""{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0\fswiss Arial;}}{\colortbl;\red0\green0\blue0;}
{\info{\title Cod}}{\stylesheet{\s1 heading 1;}}\pard\s1\b Food\b0\par
\pard Cod swim. They eat \'e9 \u8211? herring.\par{\*\generator x}{\footnote A note.}
\trowd\cellx100 item\cell\row{\field{\*\fldinst HYPERLINK "a"}{\fldrslt link}}\bin3 abc}"""


def pack_zip(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            method = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            member = zipfile.ZipInfo(name)  # without the time of day, unlike a name
            archive.writestr(member, content, method)
    return buffer.getvalue()


def pack_tar(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def unpack_zip(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {one.filename: archive.read(one) for one in archive.infolist()}


def unpack_tar(data: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        files = ((member.name, archive.extractfile(member)) for member in archive)
        return {name: file.read() for name, file in files if file}


def _docx() -> bytes:
    from docx import Document

    document = Document()
    document.add_heading("Cod", 0)
    document.add_heading("Food", 1)
    document.add_paragraph("Cod swim. They eat herring.")
    document.add_paragraph("krill", style="List Bullet")
    table = document.add_table(rows=2, cols=2)
    for i, text in enumerate(("item", "price", "cod", "3")):
        table.cell(i // 2, i % 2).text = text
    buffer = io.BytesIO()
    document.save(buffer)
    members = unpack_zip(buffer.getvalue())
    return pack_zip({name: content for name, content in members.items() if len(content) < 60_000})


def _odt() -> bytes:
    from odf.opendocument import OpenDocumentText
    from odf.table import Table, TableCell, TableRow
    from odf.text import H, List, ListItem, Note, NoteBody, P

    document = OpenDocumentText()
    document.text.addElement(H(outlinelevel=1, text="Food"))
    paragraph = P(text="Cod swim. They eat herring.")
    note = Note(noteclass="footnote")
    body = NoteBody()
    body.addElement(P(text="A note."))
    note.addElement(body)
    paragraph.addElement(note)
    document.text.addElement(paragraph)
    items = List()
    item = ListItem()
    item.addElement(P(text="krill"))
    items.addElement(item)
    document.text.addElement(items)
    table = Table()
    for texts in (("item", "price"), ("cod", "3")):
        row = TableRow()
        for text in texts:
            cell = TableCell()
            cell.addElement(P(text=text))
            row.addElement(cell)
        table.addElement(row)
    document.text.addElement(table)
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def _epub() -> bytes:
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile '
        'full-path="O/c.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
    )
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata '
        'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Cod</dc:title></metadata><manifest>'
        '<item id="n" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>'
        '<item id="t" href="toc.ncx" media-type="application/x-dtbncx+xml"/>'
        '<item id="a" href="a.xhtml" media-type="application/xhtml+xml"/></manifest>'
        '<spine toc="t"><itemref idref="n"/><itemref idref="a"/></spine></package>'
    )
    page = '<html xmlns="http://www.w3.org/1999/xhtml"><body>{}</body></html>'
    navigation = '<nav xmlns:epub="http://www.idpf.org/2007/ops" epub:type="toc"><ol><li>' + (
        '<a href="a.xhtml#f">Food</a></li></ol></nav>'
    )
    index = (
        '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap><navPoint id="1"><navLabel>'
        '<text>Food</text></navLabel><content src="a.xhtml"/></navPoint></navMap></ncx>'
    )
    chapter = '<h1 id="f">Food</h1><p>Cod swim. They eat herring.</p>'
    return pack_zip(
        {
            "mimetype": b"application/epub+zip",
            "META-INF/container.xml": container.encode(),
            "O/c.opf": package.encode(),
            "O/nav.xhtml": page.format(navigation).encode(),
            "O/toc.ncx": index.encode(),
            "O/a.xhtml": page.format(chapter).encode(),
        }
    )


def write_pdf(
    pages: list[bytes], kids: str = "", outline: str = "", compress: bool = False
) -> bytes:
    """Write a PDF of pages' content streams.

    Args:
        pages: The content streams.
        kids: Replaces the list of pages.
        outline: The first entry of the outline.
        compress: Whether the streams are compressed.
    """
    objects = {
        1: b"<</Type/Catalog/Pages 2 0 R/Outlines 4 0 R>>",
        3: b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        4: b"<</Type/Outlines/First 5 0 R/Last 5 0 R/Count 1>>",
        5: (outline or "<</Title(Food)/Parent 4 0 R/Dest[6 0 R/XYZ 0 720 0]>>").encode(),
    }
    for number, content in enumerate(pages):
        data = zlib.compress(content) if compress else content
        kind = b"/Filter/FlateDecode" if compress else b""
        objects[6 + 2 * number] = (
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents %d 0 R"
            b"/Resources<</Font<</F 3 0 R>>/XObject<</X %d 0 R>>>>>>"
        ) % (7 + 2 * number, 7 + 2 * number)
        objects[7 + 2 * number] = (
            b"<</Type/XObject/Subtype/Form/BBox[0 0 612 792]%s/Length %d>>stream\n%s\nendstream"
        ) % (kind, len(data), data)
    listed = kids or " ".join(f"{6 + 2 * number} 0 R" for number in range(len(pages)))
    objects[2] = f"<</Type/Pages/Kids[{listed}]/Count {len(pages)}>>".encode()
    data, starts = b"%PDF-1.4\n", {}
    for number in sorted(objects):
        starts[number] = len(data)
        data += b"%d 0 obj\n%s\nendobj\n" % (number, objects[number])
    table = b"".join(b"%010d 00000 n \n" % starts[number] for number in sorted(objects))
    size = len(objects) + 1
    trailer = b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (size, len(data))
    return data + b"xref\n0 %d\n0000000000 65535 f \n" % size + table + trailer


def write_page(number: int) -> bytes:
    left = [
        b"1 Food",
        b"Cod swim in cold water and they eat her-",
        b"ring. Eels are long.",
        b"krill",
    ]
    right = [b"They were caught by hand.", b"[1] A. Smith. Cod. 1990.", b"item   price", b"cod   3"]
    lines = [b"BT/F 9 Tf 72 760 Td(Of Cod   %d)Tj ET" % number]
    for x, texts in ((72, left), (320, right)):
        for i, text in enumerate(texts):
            size = 14 if text == b"1 Food" else 10
            lines.append(b"BT/F %d Tf %d %d Td(%s)Tj ET" % (size, x, 700 - 14 * i, text))
    return b"\n".join(lines)


def _pdfs() -> list[bytes]:
    pages = [write_page(number) for number in range(1, 4)]
    return [write_pdf(pages), write_pdf(pages[:1], compress=True)]


_JSON_LINES = '{"title": "Cod", "text": "Cod swim. They eat."}\n{"text": "Eels are long."}\n'
_CSV = 'title,text,price\nCod,"Cod swim. They ""eat"".",3\nEels,Eels are long.,4\n'
_MBOX = f"From ann@a.b Mon Nov 20 10:00:00 2023\n{EMAIL}\n" * 2
_FILES = {"notes/a.txt": PLAIN.encode(), "b.md": MARKDOWN.encode(), "c.html": HTML.encode()}

PACKAGE = "http://schemas.openxmlformats.org/package/2006"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
SLIDES = "http://schemas.openxmlformats.org/presentationml/2006/main"
SHEETS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def _relationships(**targets: tuple[str, str]) -> str:
    inner = "".join(
        f'<Relationship Id="{name}" Type="{OFFICE}/{kind}" Target="{target}"/>'
        for name, (kind, target) in targets.items()
    )
    return f'<Relationships xmlns="{PACKAGE}/relationships">{inner}</Relationships>'


def pptx(*slides: tuple[str, str]) -> bytes:
    """A presentation of slides, each with a title and a text."""

    def shape(kind: str, text: str) -> str:
        return (
            f'<p:sp><p:nvSpPr><p:cNvPr id="1" name="x"/><p:cNvSpPr/><p:nvPr><p:ph type="{kind}"/>'
            f"</p:nvPr></p:nvSpPr><p:spPr/><p:txBody><a:bodyPr/><a:p><a:r><a:t>{text}</a:t></a:r>"
            "</a:p></p:txBody></p:sp>"
        )

    spaces = f'xmlns:p="{SLIDES}" xmlns:a="{DRAWING}" xmlns:r="{OFFICE}"'
    ids = "".join(f'<p:sldId id="{255 + n}" r:id="s{n}"/>' for n in range(1, len(slides) + 1))
    names = {f"s{n}": ("slide", f"slides/slide{n}.xml") for n in range(1, len(slides) + 1)}
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types"/>',
        "_rels/.rels": _relationships(r=("officeDocument", "ppt/presentation.xml")),
        "ppt/presentation.xml": f"<p:presentation {spaces}><p:sldIdLst>{ids}</p:sldIdLst>"
        "</p:presentation>",
        "ppt/_rels/presentation.xml.rels": _relationships(**names),
    }
    for number, (title, text) in enumerate(slides, 1):
        parts[f"ppt/slides/slide{number}.xml"] = (
            f"<p:sld {spaces}><p:cSld><p:spTree>{shape('title', title)}{shape('body', text)}"
            "</p:spTree></p:cSld></p:sld>"
        )
    return pack_zip({name: part.encode() for name, part in parts.items()})


def xlsx(name: str, rows: list[list[str]]) -> bytes:
    """A workbook with a sheet."""
    written = "".join(
        "<row>" + "".join(f'<c t="inlineStr"><is><t>{cell}</t></is></c>' for cell in row) + "</row>"
        for row in rows
    )
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types"/>',
        "_rels/.rels": _relationships(r=("officeDocument", "xl/workbook.xml")),
        "xl/workbook.xml": f'<workbook xmlns="{SHEETS}" xmlns:r="{OFFICE}"><sheets>'
        f'<sheet name="{name}" sheetId="1" r:id="s1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": _relationships(s1=("worksheet", "worksheets/sheet1.xml")),
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{SHEETS}"><sheetData>{written}'
        "</sheetData></worksheet>",
    }
    return pack_zip({name: part.encode() for name, part in parts.items()})


def _ods() -> bytes:
    spaces = "".join(
        f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for name in ("office", "table", "text")
    )
    cells = "".join(
        f'<table:table-cell office:value-type="string"><text:p>{text}</text:p></table:table-cell>'
        for text in ("Cod swim.", "They eat.")
    )
    content = (
        f"<office:document-content{spaces}><office:body><office:spreadsheet><table:table "
        f'table:name="Fish"><table:table-row>{cells}</table:table-row></table:table>'
        "</office:spreadsheet></office:body></office:document-content>"
    )
    mimetype = b"application/vnd.oasis.opendocument.spreadsheet"
    manifest = (
        b'<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"/>'
    )
    parts = {"content.xml": content.encode(), "META-INF/manifest.xml": manifest}
    return pack_zip({"mimetype": mimetype, **parts})


def odp(*slides: tuple[str, str, str]) -> bytes:
    """An OpenDocument presentation of slides, each with a title, a text and a note."""
    oasis = "urn:oasis:names:tc:opendocument:xmlns"
    names = {"office": "office", "text": "text", "draw": "drawing", "presentation": "presentation"}
    spaces = "".join(f' xmlns:{name}="{oasis}:{path}:1.0"' for name, path in names.items())

    def frame(text: str, kind: str) -> str:
        box = f"<draw:text-box><text:p>{text}</text:p></draw:text-box>"
        return f'<draw:frame presentation:class="{kind}">{box}</draw:frame>'

    pages = "".join(
        f"<draw:page>{frame(title, 'title')}{frame(text, 'outline')}<presentation:notes>"
        f"{frame(note, 'notes')}</presentation:notes></draw:page>"
        for title, text, note in slides
    )
    content = (
        f"<office:document-content{spaces}><office:body><office:presentation>{pages}"
        "</office:presentation></office:body></office:document-content>"
    )
    kind = b"application/vnd.oasis.opendocument.presentation"
    return pack_zip({"mimetype": kind, "content.xml": content.encode()})


def msg(subject: str, text: str) -> bytes:
    """A message of Outlook: a compound file with a stream for each property."""
    streams = {
        "__substg1.0_0037001F": subject.ljust(2048).encode("utf-16-le"),
        "__substg1.0_1000001F": text.ljust(2048).encode("utf-16-le"),
        "__properties_version1.0": bytes(4096),
    }
    free, end, none = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFF
    header = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(16)
    header += struct.pack("<5H6x", 0x3E, 3, 0xFFFE, 9, 6)
    header += struct.pack("<9I", 0, 1, 1, 0, 4096, end, 0, end, 0)
    header += struct.pack("<109I", 0, *[free] * 108)
    table, entries = [0xFFFFFFFD, end], [_compound_entry("Root Entry", 5, (none, 1), end, 0)]
    for number, (name, data) in enumerate(streams.items(), 1):
        first, count = len(table), len(data) // 512
        table += [*range(first + 1, first + count), end]
        following = number + 1 if number < len(streams) else none
        entries.append(_compound_entry(name, 2, (following, none), first, len(data)))
    table += [free] * (128 - len(table))
    return b"".join([header, struct.pack("<128I", *table), *entries, *streams.values()])


def _compound_entry(name: str, kind: int, links: tuple[int, int], first: int, size: int) -> bytes:
    written = f"{name}\0".encode("utf-16-le")
    right, child = links
    head = struct.pack("<64sHBB3I36x", written, len(written), kind, 1, 0xFFFFFFFF, right, child)
    return head + struct.pack("<IQ", first, size)


SEEDS: dict[str, Callable[[], list[bytes]]] = {
    "text": lambda: [
        PLAIN.encode(),
        gzip.compress(PLAIN.encode(), mtime=0),
        PLAIN.encode("utf-16"),
    ],
    "markdown": lambda: [MARKDOWN.encode()],
    "rst": lambda: [RST.encode()],
    "html": lambda: [HTML.encode()],
    "jats": lambda: [JATS.encode()],
    "tei": lambda: [TEI.encode()],
    "transcript": lambda: [TRANSCRIPT.encode()],
    "json": lambda: [MEETING.encode(), _saved()],
    "vtt": lambda: [VTT.encode()],
    "srt": lambda: [SRT.encode()],
    "latex": lambda: [LATEX.encode()],
    "notebook": lambda: [NOTEBOOK.encode()],
    "email": lambda: [EMAIL.encode()],
    "mbox": lambda: [_MBOX.encode()],
    "jsonl": lambda: [_JSON_LINES.encode()],
    "csv": lambda: [_CSV.encode(), _CSV.replace(",", "\t").encode()],
    "rtf": lambda: [RTF.encode()],
    "pdf": _pdfs,
    "docx": lambda: [_docx()],
    "odt": lambda: [_odt()],
    "epub": lambda: [_epub()],
    "pptx": lambda: [pptx(("Cod", "Cod swim. They eat."), ("Eel", "Eels are long."))],
    "xlsx": lambda: [xlsx("Fish", [["name", "text"], ["Cod", "Cod swim."], ["Eel", "Eels hide."]])],
    "ods": lambda: [_ods()],
    "odp": lambda: [odp(("Cod", "Cod swim. They eat.", "Smile."), ("Eel", "Eels hide.", ""))],
    "msg": lambda: [msg("Cod", "Cod swim. They eat.")],
    "zip": lambda: [pack_zip(_FILES)],
    "tar": lambda: [pack_tar(_FILES), gzip.compress(pack_tar(_FILES), mtime=0)],
}


def _saved() -> bytes:
    from foveate.documents import Document

    document = Document.from_text(MARKDOWN, format="markdown")
    return json.dumps(document.to_dict()).encode()
