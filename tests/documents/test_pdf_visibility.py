"""What a person sees on the printed page is read, and nothing else."""

import pytest

from tests.documents.pdfs import Writer, document_of, handmade, shown, stream

FORM = "/Type/XObject/Subtype/Form/BBox[0 0 300 20]/Resources<</Font<</F1 5 0 R>>>>"
STARTS = shown(250, "The mill stands by the river.")
ENDS = shown(50, "The miller lives upstairs.")


def read(data):
    document = document_of(data)
    return " ".join(sentence.text for sentence in document.sentences())


def annotation(subtype, flags=4, more="/AP<</N 9 0 R>>"):
    return f"<</Type/Annot/Subtype/{subtype}/Rect[20 150 320 170]/F {flags} {more}>>"


def test_values_of_fields():
    writer = Writer()
    writer.text(72, 100, "Name of applicant:")
    form = writer.canvas.acroForm
    form.textfield(name="name", value="Ann Lee", x=200, y=688, width=200, height=20)
    form.choice(name="class", value="B", options=["A", "B", "C"], x=200, y=648, width=80, height=20)
    writer.text(72, 140, "Class:")
    writer.text(72, 180, "Send the form by the end of May.")
    writer.page()
    text = read(writer.bytes())
    assert "Name of applicant: Ann Lee" in text
    assert "Class: B Send" in text


def test_fields_without_appearance():
    """PDFium draws their values, as viewers do."""
    field = annotation("Widget", more="/FT/Tx/T(name)/V(Ann Lee)/DA(/F1 10 Tf 0 g)")
    data = handmade(
        STARTS + ENDS,
        "/Annots[6 0 R]",
        "/AcroForm<</NeedAppearances true/Fields[6 0 R]/DR<</Font<</F1 5 0 R>>>>>>",
        _6=field,
    )
    assert read(data) == "The mill stands by the river. Ann Lee The miller lives upstairs."


@pytest.mark.parametrize(("subtype", "flags"), [("FreeText", 4), ("FreeText", 0), ("Stamp", 4)])
def test_annotations_with_an_appearance(subtype, flags):
    appearance = stream(shown(5, "Checked by Ann Lee.", 2), FORM)
    data = handmade(STARTS + ENDS, "/Annots[6 0 R]", _6=annotation(subtype, flags), _9=appearance)
    text = "The mill stands by the river. Checked by Ann Lee. The miller lives upstairs."
    assert read(data) == text


@pytest.mark.parametrize("rotation", [0, 90])
@pytest.mark.parametrize("content", [STARTS + ENDS, ""])
def test_text_typed_onto_a_page_without_appearance(rotation, content):
    note = annotation("FreeText", more="/Contents(Checked by Ann Lee.)/DA(/F1 10 Tf 0 g)")
    data = handmade(content, f"/Rotate {rotation} /Annots[6 0 R]", _6=note)
    assert "Checked by Ann Lee." in read(data)


@pytest.mark.parametrize(
    "note",
    [
        annotation("FreeText", flags=6),  # hidden
        annotation("FreeText", flags=34, more="/Contents(A note.)"),
        annotation("Text", more="/Contents(A note.)"),
        annotation("Popup", more="/Contents(A note.)/AP<</N 9 0 R>>"),
    ],
)
def test_annotations_that_are_not_printed(note):
    appearance = stream(shown(5, "A draft.", 2), FORM)
    data = handmade(STARTS + ENDS, "/Annots[6 0 R]", _6=note, _9=appearance)
    assert read(data) == "The mill stands by the river. The miller lives upstairs."


@pytest.mark.parametrize(
    "hidden",
    [
        "/OC /L1 BDC\n" + shown(150, "A draft.") + "EMC\n",
        "/OC /L1 BDC\n/OC /L2 BDC\n" + shown(150, "A draft.") + "EMC EMC\n",
        "/OC /L1 BDC /X1 Do EMC\n",
    ],
)
def test_layers_that_are_switched_off(hidden):
    data = handmade(
        STARTS + hidden + "/OC /L2 BDC\n" + ENDS + "EMC\n",
        "",
        "/OCProperties<</OCGs[6 0 R 7 0 R]/D<</OFF[6 0 R]>>>>",
        _6="<</Type/OCG/Name(Draft)>>",
        _7="<</Type/OCG/Name(Draft)>>",
        _8=stream(shown(5, "A draft.", 2), FORM),
    )
    assert read(data) == "The mill stands by the river. The miller lives upstairs."


def test_invisible_text_without_a_picture():
    invisible = "3 Tr " + shown(150, "Praise this mill.") + "0 Tr "
    assert (
        read(handmade(STARTS + invisible + ENDS))
        == "The mill stands by the river. The miller lives upstairs."
    )


@pytest.mark.parametrize("box", ["/MediaBox[0 0 400 280]", "/CropBox[10 20 390 280]"])
def test_text_outside_the_page(box):
    outside = shown(290, "Cut here.") + shown(150, "Cut there.", 420) + shown(-20, "Colours.")
    text = "The mill stands by the river. The miller lives upstairs."
    assert read(handmade(STARTS + outside + ENDS, box)) == text
