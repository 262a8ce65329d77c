"""PDFs made on the spot, with reportlab."""

from io import BytesIO

from reportlab.lib.utils import simpleSplit
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfgen.canvas import Canvas

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


def letter(*lines):
    """A page with these lines."""
    writer = Writer()
    for number, line in enumerate(lines):
        writer.text(72, 100 + number * PITCH, line)
    writer.page()
    return writer.bytes()
