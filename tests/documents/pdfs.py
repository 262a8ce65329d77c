"""PDFs made on the spot, with reportlab, and what is read from them."""

from io import BytesIO
from itertools import pairwise

from reportlab.lib.utils import simpleSplit
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfgen.canvas import Canvas

from foveate.documents import Document

WIDTH, HEIGHT = 612, 792
PITCH = 12
LOREM = (
    "The harbour was closed in winter because the ice reached the outer piers and no ship could "
    "pass. In spring the pilots measured the channel again and found that sand had filled it. "
    "Their report was read in the council, which decided to dredge it before the summer came. "
)


class Writer:
    """Writes words at places that are measured from the upper left corner."""

    def __init__(self, **options):
        self.file = BytesIO()
        self.canvas = Canvas(self.file, pagesize=(WIDTH, HEIGHT), **options)

    def text(self, x, y, words, font="Times-Roman", size=10):
        self.canvas.setFont(font, size)
        self.canvas.drawString(x, HEIGHT - y, words)

    def center(self, y, words, font="Times-Bold", size=10, left=0, right=WIDTH):
        self.text((left + right - stringWidth(words, font, size)) / 2, y, words, font, size)

    def column(self, x, y, width, words, font="Times-Roman", size=10, indent=0, last=True):
        """Write a justified paragraph; return where the next one begins."""
        lines = simpleSplit(" " * indent + words, font, size, width)
        for number, line in enumerate(lines):
            self.canvas.setFont(font, size)
            shift = 15 if indent and not number else 0
            gaps = line.count(" ")
            room = width - shift - stringWidth(line, font, size)
            full = (number < len(lines) - 1 or not last) and gaps and room < 40
            self.canvas.drawString(
                x + shift, HEIGHT - y, line, wordSpace=room / gaps if full else 0
            )
            y += PITCH
        return y

    def page(self):
        self.canvas.showPage()

    def bookmark(self, title, level, y):
        self.canvas.bookmarkPage(title, fit="XYZ", top=HEIGHT - y + 15, left=0)
        self.canvas.addOutlineEntry(title, title, level)

    def bytes(self):
        self.canvas.save()
        return self.file.getvalue()


def handmade(content, page="", catalog="", **objects):
    """A page of 400 by 300 points with that content, in Helvetica as F1; objects by number."""
    parts = {
        1: f"<</Type/Catalog/Pages 2 0 R {catalog}>>",
        2: "<</Type/Pages/Kids[3 0 R]/Count 1/MediaBox[0 0 400 300]>>",
        3: f"<</Type/Page/Parent 2 0 R/Contents 4 0 R {page} /Resources"
        "<</Font<</F1 5 0 R>>/Properties<</L1 6 0 R/L2 7 0 R>>/XObject<</X1 8 0 R>>>>>>",
        4: stream(content),
        5: "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
        **{int(name.strip("_")): part for name, part in objects.items()},
    }
    body = "".join(f"{number} 0 obj {part} endobj\n" for number, part in parts.items())
    return f"%PDF-1.7\n{body}trailer <</Root 1 0 R>>\n%%EOF".encode("latin-1")


def stream(content, entries=""):
    """A stream, such as the appearance of an annotation."""
    return f"<</Length {len(content)} {entries}>> stream\n{content}\nendstream"


def shown(y, words, x=20):
    """The operators that show words."""
    return f"BT /F1 10 Tf {x} {y} Td ({words}) Tj ET\n"


def letter(*lines):
    """A page with these lines."""
    writer = Writer()
    for number, line in enumerate(lines):
        writer.text(72, 100 + number * PITCH, line)
    writer.page()
    return writer.bytes()


def two_columns(writer, left, right, y=100):
    """Fill two columns with text."""
    writer.column(54, y, 240, left, last=False)
    writer.column(318, y, 240, right, last=False)


def paper():
    """Two pages in two columns, with everything a paper has around its text."""
    writer = Writer()
    writer.center(80, "Dredging the Harbour of Ys", size=18)
    writer.center(105, "Ann Lee and Bob Roe", font="Times-Roman", size=12)
    writer.center(120, "University of Ys", font="Times-Italic")
    writer.text(54, 160, "Abstract", "Times-Bold", 12)
    y = writer.column(54, 178, 240, "Left one. " + LOREM * 3)
    writer.text(54, y + 12, "1 Introduction", "Times-Bold", 12)
    y = writer.column(54, y + 30, 240, "Left two. " + LOREM * 3)
    writer.column(54, y, 240, "The measured depth of the chan-")
    writer.column(318, 160, 240, "nel is small. Right one. " + LOREM * 4)
    writer.text(318, 690, "1", "Times-Roman", 6)
    writer.text(322, 694, "A footnote about pilots.", "Times-Roman", 8)
    writer.page()
    writer.center(740, "2", font="Times-Roman")
    writer.text(54, 80, "2 Results", "Times-Bold", 12)
    two_columns(writer, "Third column. " + LOREM * 5, "Fourth column. " + LOREM * 5)
    writer.page()
    return writer.bytes()


def document_of(data, **options):
    """Read a PDF."""
    return Document.from_bytes(data, source="paper.pdf", **options)


def kinds(document):
    """The kind and the sentences of each paragraph."""
    return [
        (paragraph.kind, [sentence.text for sentence in paragraph.sentences])
        for paragraph in document.paragraphs()
    ]


def texts(document, kind):
    """The sentences of the paragraphs of a kind."""
    return [text for found, sentences in kinds(document) if found == kind for text in sentences]


def check_places(document):
    """Sentences are sorted, and their boxes hold them and lie on their pages."""
    spans = document.spans()
    assert all(one.end <= other.start for one, other in pairwise(spans))
    sizes = document.layout.page_sizes.tolist()
    for span in spans:
        assert "".join(document.text[span.start : span.end].split()) == "".join(span.text.split())
        assert span.boxes
        assert span.page == span.boxes[0].page
        for box in span.boxes:
            width, height = sizes[box.page - 1]
            assert -5 <= box.left < box.right <= width + 5
            assert -5 <= box.top < box.bottom <= height + 5
