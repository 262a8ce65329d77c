"""Small files that the examples of the documentation read."""

from pathlib import Path

BOOK = """THE VOYAGE OF THE PETREL

CHAPTER I

The Harbour

Captain Ames bought the brig Petrel in the spring, when nobody else would have her. He wanted to
hunt the white whale that had taken his brother. The owners asked for oil and for nothing else.

The crew came aboard at night. Most of them had never seen ice, and the mate told them so.

CHAPTER II

The Ice

The Petrel met the first ice in June. The captain kept to the north, though the mate warned him
that the ship was too old for it. On the fourth day they saw the white whale for the first time.

The whale swam under the ice and did not come back. The captain wrote in the log that he would wait
a month for it, whatever the owners said.

CHAPTER III

The Way Home

The ship was leaking and the crew asked to go home. The captain agreed at last, because the mate
said that the pumps would not last a week. They reached the harbour in October without any oil.
"""

MINUTES = """Anna: Good morning. Today we have to decide on the budget for the new remote control.
Ben: The budget is fifty thousand euros, and the casing alone takes ten thousand of that.
Anna: Then we should leave out the speech recognition, because it costs more than the casing.
Carla: I agree. Users told us that they want large buttons and a display that can be read at night.
Ben: Yeah, okay.
Anna: So we decide to spend the money on the display and on large buttons, and to drop the speech.
Carla: I will write the specification until Friday and send it to everybody in the team.
Ben: And I will ask the supplier what the display costs if we order a thousand of them.
"""

PAPER = """# Herring in Cold Seas

## Abstract

We count the herring of two cold seas over ten years. Their number falls where cod return.

## Methods

We counted fish with nets and with sonar in the same week of every June. Each count was repeated
three times by different crews, and the median was kept.

## Results

The number of herring fell by a third in the northern sea, where cod returned in the fifth year. It
did not change in the southern sea, which cod have not reached.

## Conclusion

Cod are the main reason why herring become rare. Nets alone underestimate the change.
"""

CONTRACT = """# Contract of Carriage

## Delivery

The carrier delivers the goods within ten days of the date of this contract. The buyer names the
place of delivery in writing.

## Delays

The carrier pays one percent of the price for each day of delay. Nothing is paid for a delay that is
caused by ice.
"""


def write_example_files(folder: Path) -> None:
    """Write `book.txt`, `minutes.txt`, `paper.md`, `contract.md`, and two PDFs in `reports/`."""
    files = {"book.txt": BOOK, "minutes.txt": MINUTES, "paper.md": PAPER, "contract.md": CONTRACT}
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    reports = folder / "reports"
    reports.mkdir()
    (reports / "bridge.pdf").write_bytes(pdf("The bridge was closed for repairs in March."))
    (reports / "harbour.pdf").write_bytes(pdf("The harbour was dredged in the autumn."))


def pdf(line: str) -> bytes:
    """Make a PDF of one page with one line of text."""
    stream = f"BT /F1 12 Tf 72 720 Td ({line}) Tj ET".encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R"
        b"/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%b\nendstream" % (len(stream), stream),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    content, offsets = b"%PDF-1.4\n", []
    for number, item in enumerate(objects, 1):
        offsets.append(len(content))
        content += b"%d 0 obj%b\nendobj\n" % (number, item)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return (
        content
        + b"xref\n0 6\n0000000000 65535 f \n"
        + table
        + b"trailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % len(content)
    )
