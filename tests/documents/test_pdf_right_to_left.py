"""Hebrew and Arabic are read as they are written, however a file stores them."""

import re

import pytest

from tests.documents.pdfs import check_places, document_of, handmade, stream

HEBREW = (
    "המשאבה נמצאת במרתף של הטחנה הישנה.",
    "היא נבנתה בשנת 1987 ועובדת (היטב) עם Windows 11 עד היום.",
    "המחיר הוא 3.50 שקלים, כלומר 25% פחות.",
    "בשנים הבאות ניבנה כאן תנור חדש.",
)
ARABIC = (
    "المضخة في قبو الطاحونة القديمة.",
    "بنيت سنة 1987 وتعمل جيدا حتى اليوم.",
    "السعر هو 250 دينارا فقط.",
    "نخبز الخبز كل يوم خميس.",
)
RIGHT = 380


def font(letters):
    """A font whose codes from 128 stand for these letters."""
    pairs = "".join(
        f"<{128 + n:02x}> <{ord(letter):04x}>\n" for n, letter in enumerate(sorted(letters))
    )
    cmap = (
        f"begincmap 1 begincodespacerange <00> <ff> endcodespacerange\n{len(letters)} beginbfchar\n"
    )
    latin = "".join(f"<{code:02x}> <{code:04x}>\n" for code in range(32, 127))
    more = f"endbfchar 95 beginbfchar\n{latin}"
    widths = " ".join("500" for _ in range(32, 256))
    return (
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding/ToUnicode 9 0 R"
        f"/FirstChar 32/LastChar 255/Widths[{widths}]>>",
        stream(cmap + pairs + more + "endbfchar endcmap"),
    )


def codes(text, letters):
    order = sorted(letters)
    shown = "".join(chr(128 + order.index(c)) if c in order else c for c in text)
    return re.sub(r"([()\\])", r"\\\1", shown)


def visual(line):
    """The line as it is seen, from left to right: numbers and Latin words are not turned."""
    turned = line[::-1].translate(str.maketrans("()", ")("))
    return re.sub(r"[A-Za-z\d.%]*[A-Za-z\d%](?: \d+)?", lambda run: run[0][::-1], turned).replace(
        "11 Windows", "Windows 11"
    )


def page(lines, stored):
    letters = {c for line in lines for c in line if c > "\u0590"}
    content = ""
    for number, line in enumerate(lines):
        y = 250 - 14 * number
        left = RIGHT - 5 * len(line)
        seen = visual(line)
        if stored == "as seen":
            content += f"BT /F1 10 Tf {left} {y} Td ({codes(seen, letters)}) Tj ET\n"
        else:  # word by word, from right to left
            for word in reversed(list(re.finditer(r"\S+", seen))):
                x = left + 5 * word.start()
                content += f"BT /F1 10 Tf {x} {y} Td ({codes(word[0], letters)}) Tj ET\n"
    described, cmap = font(letters)
    return handmade(content, _5=described, _9=cmap)


@pytest.mark.parametrize("lines", [HEBREW, ARABIC])
@pytest.mark.parametrize("stored", ["as seen", "by words"])
def test_lines_from_right_to_left(lines, stored):
    document = document_of(page(lines, stored))
    assert " ".join(sentence.text for sentence in document.sentences()) == " ".join(lines)
    check_places(document)
    first = document.spans()[0].boxes[0]
    assert first.right == pytest.approx(RIGHT, abs=2)


def test_hebrew_words_in_english():
    line = "The word םולש רקוב means good morning, and everybody in the mill says it."
    seen = handmade(
        f"BT /F1 10 Tf 20 250 Td ({codes(line, set('םולשרקב'))}) Tj ET",
        **dict(zip(("_5", "_9"), font(set("םולשרקב")), strict=True)),
    )
    text = "The word בוקר שלום means good morning, and everybody in the mill says it."
    assert [sentence.text for sentence in document_of(seen).sentences()] == [text]
