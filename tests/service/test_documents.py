"""Sending documents, and what is said of them."""

import io
import os
from pathlib import Path

import pytest

from foveate import Document
from foveate.service.view import DocumentView
from tests.service.conftest import FISH, write_pdf


def test_a_text(served):
    answer = served.client.post(
        "/documents", json={"text": FISH, "format": "markdown", "title": "Sea"}
    )
    assert answer.status_code == 201
    sent = answer.json()
    assert sent["title"] == sent["name"] == "Sea"
    assert (sent["num_sentences"], sent["num_sections"]) == (7, 4)
    assert sent["num_words"] == len(" ".join(s.text for s in _fish().sentences()).split())
    assert (sent["num_pages"], sent["format"], sent["language"]) == (None, "markdown", "en")
    assert served.client.get(f"/documents/{sent['id']}").json() == sent


def test_outline_and_sentences_are_those_of_the_document(served):
    document = _fish()
    document_id = served.upload()
    sections = served.client.get(f"/documents/{document_id}/outline").json()
    assert [one["title"] for one in sections] == [s.title for _, s in document.walk()]
    assert [one["parent_idx"] for one in sections] == [None, None, 1, None]
    assert [one["level"] for one in sections] == [1, 1, 2, 1]
    assert [one["start_sentence"] for one in sections] == [0, 1, 4, 5]
    assert [one["num_sentences"] for one in sections] == [1, 4, 1, 2]
    texts = [sentence.text for sentence in document.sentences()]
    assert sections[1]["num_words"] == len(" ".join(texts[1:5]).split())
    sentences = served.client.get(f"/documents/{document_id}/sentences").json()
    assert [one["text"] for one in sentences] == [s.text for s in document.sentences()]
    assert [one["section_idx"] for one in sentences] == [0, 1, 1, 1, 2, 3, 3]
    assert [one["place"] for one in sentences] == [span.place for span in document.spans()]
    part = served.client.get(f"/documents/{document_id}/sentences?start=2&end=4").json()
    assert part == sentences[2:4]
    assert served.client.get(f"/documents/{document_id}/sentences?start=99").json() == []
    assert served.client.get(f"/documents/{document_id}/pages").json() == []


def test_at_most_so_many_sentences_at_once(served):
    document_id = served.upload("Cod swim. " * 2500)
    url = f"/documents/{document_id}/sentences"
    assert len(served.client.get(url).json()) == 2000
    rest = served.client.get(f"{url}?start=2000&end=9999").json()
    assert [one["sentence_idx"] for one in rest] == list(range(2000, 2500))


def test_a_pdf_and_its_pages(served, tmp_path):
    path = tmp_path / "herring.pdf"
    write_pdf(path, num_pages=3)
    sent = served.client.post("/documents", files={"file": (path.name, path.read_bytes())}).json()
    assert (sent["name"], sent["num_pages"], sent["format"]) == ("herring.pdf", 3, "pdf")
    url = f"/documents/{sent['id']}"
    pages = served.client.get(f"{url}/pages").json()
    assert pages[2] == {"number": 3, "width": 400, "height": 300}
    sentences = served.client.get(f"{url}/sentences").json()
    document = Document.from_file(path)
    expected = [[list(box) for box in span.boxes] for span in document.spans()]
    assert [one["boxes"] for one in sentences] == expected
    assert all(one["boxes"] for one in sentences)
    picture = served.client.get(f"{url}/pages/2.png?scale=2")
    assert picture.headers["content-type"] == "image/png"
    size, pixels = _decode_png(picture.content)
    assert size == (800, 600)
    box = next(one for one in sentences if one["page"] == 2)["boxes"][0]
    inside = _rows(pixels, size, box, scale=2)
    assert min(inside) < 100  # the words are dark there
    assert set(pixels[: 3 * 800 * 20]) == {255}  # the margin is white
    assert served.client.get(f"{url}/pages/4.png").status_code == 404
    assert served.client.get(f"{url}/pages/1.png?scale=9").status_code == 422


def test_the_text_of_a_page(served, tmp_path):
    """Where the sentences of the page are, in the order of reading."""
    path = tmp_path / "herring.pdf"
    write_pdf(path)
    sent = served.client.post("/documents", files={"file": (path.name, path.read_bytes())}).json()
    url = f"/documents/{sent['id']}"
    answer = served.client.get(f"{url}/pages/2/text")
    assert answer.headers["cache-control"] == "no-store"
    layer = answer.json()
    assert layer["quarter_turns"] == 0
    lines = [line for column in layer["columns"] for line in column]
    assert ["".join(word for word, _, _ in line["words"]) for line in lines] == [
        "2 Herring",
        "The herring swims in large shoals near the coast.",
        "Fishermen counted 2 hundred of them in May.",
    ]
    assert lines[1]["words"][0][0] == "The "
    sentences = served.client.get(f"{url}/sentences").json()
    boxes = [box[1:] for one in sentences for box in one["boxes"] if box[0] == 2]
    for line, box in zip(lines[1:], boxes, strict=True):
        first, last = line["words"][0], line["words"][-1]
        place = [first[1], line["top"], last[2], line["bottom"]]
        assert place == pytest.approx(box, abs=0.01)
    assert served.client.get(f"{url}/pages/3/text").status_code == 404
    assert served.client.get(f"{url}/pages/0/text").status_code == 422
    text_url = f"/documents/{served.upload()}"
    assert served.client.get(f"{text_url}/pages/1/text").status_code == 404


def test_the_library(served, library_folder):
    listed = served.client.get("/documents").json()
    assert listed["total"] == 3
    names = [Path(one["name"]).name for one in listed["documents"]]
    assert names == ["fish.md", "herring.pdf", "salt.txt"]
    assert served.client.get("/documents?offset=1&limit=1").json() == {
        "total": 3,
        "documents": listed["documents"][1:2],
    }
    found = served.client.get("/documents?query=SALT+txt").json()
    assert [one["id"] for one in found["documents"]] == [listed["documents"][2]["id"]]
    served.upload()
    assert served.client.get("/documents").json()["total"] == 3  # not what others uploaded
    document_id = listed["documents"][0]["id"]
    assert document_id.startswith("l-")
    whole = served.client.get(f"/documents/{document_id}").json()
    assert (whole["num_sentences"], whole["num_words"]) == (7, 37)
    assert served.client.delete(f"/documents/{document_id}").status_code == 403


def test_pages_of_the_library_are_drawn_while_the_file_is_unchanged(served):
    [entry] = served.client.get("/documents?query=herring").json()["documents"]
    url = f"/documents/{entry['id']}/pages/1.png"
    times = Path(entry["name"]).stat()
    try:
        os.utime(entry["name"], (0, 0))
        answer = served.client.get(url)
        assert (answer.status_code, "changed" in answer.json()["detail"]) == (404, True)
        words = served.client.get(url.replace(".png", "/text"))
        assert (words.status_code, words.json()) == (404, answer.json())
    finally:
        os.utime(entry["name"], ns=(times.st_atime_ns, times.st_mtime_ns))
    size, _ = _decode_png(served.client.get(f"{url}?scale=1").content)
    assert size == (400, 300)


def test_deleting(served):
    document_id = served.upload()
    assert served.client.delete(f"/documents/{document_id}").status_code == 204
    for path in ("", "/outline", "/sentences", "/pages"):
        answer = served.client.get(f"/documents/{document_id}{path}")
        assert answer.status_code == 404
        assert "id" in answer.json()["detail"]
    assert served.client.delete(f"/documents/{document_id}").status_code == 404


@pytest.mark.usefixtures("without_processes")
def test_uploads_make_room_and_expire(strict):
    one = DocumentView("u-1", _fish(), "markdown").num_bytes
    with strict(limits={"upload_bytes": int(2.5 * one)}) as served:
        first, second = served.upload(), served.upload()
        served.client.get(f"/documents/{first}")  # used last
        third = served.upload()
        there = [
            served.client.get(f"/documents/{one}").status_code for one in (first, second, third)
        ]
        assert there == [200, 404, 200]
        assert served.service.uploads.num_bytes == 2 * one
        too_large = served.client.post("/documents", json={"text": FISH * 9})
        assert too_large.status_code == 413
        for upload in served.service.uploads._uploads.values():
            upload.last_used -= 10_000
        served.service.uploads.remove_expired()
        assert served.client.get(f"/documents/{first}").status_code == 404
        assert served.service.uploads.num_bytes == 0


def test_ids_cannot_be_guessed(served):
    ids = {served.upload() for _ in range(3)}
    assert len(ids) == 3
    assert all(one.startswith("u-") and len(one) >= 24 for one in ids)


def _fish():
    return Document.from_text(FISH, format="markdown")


def _decode_png(data):
    """Return the size of a PNG, and its pixels as bytes of red, green and blue."""
    image = pytest.importorskip("PIL.Image").open(io.BytesIO(data))
    image.load()
    return image.size, image.convert("RGB").tobytes()


def _rows(pixels, size, box, scale):
    """Return the bytes within a box."""
    left, top, right, bottom = (int(scale * value) for value in box[1:])
    rows = [3 * size[0] * y for y in range(top, bottom)]
    return b"".join(pixels[row + 3 * left : row + 3 * right] for row in rows)
