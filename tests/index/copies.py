"""What holds for a copy of a library in any search engine."""

from foveate import Document, Index

QUERIES = ("Where do herring swim?", "nets", "salt from the sea", "Who eats krill?")


def hits(index, **options):
    return [
        index.search(query, by=by, top_k=top_k, **options)
        for query in QUERIES
        for by in ("passage", "section", "document")
        for top_k in (1, 9)
    ]


def check_hits(index, folder, small_encoder, place):
    index.add([folder, Document.from_text("Cod swim. They eat herring.", source="copy")])
    assert index.export(place) > 0
    other = Index.open(place, model=small_encoder)
    assert hits(other) == hits(index)
    assert list(other.documents()) == list(index.documents())
    assert other.state == index.state
    for one in index.documents():
        assert other.document(one.number) == index.document(one.number)
    assert other.summarize("herring", sentences=2) == index.summarize("herring", sentences=2)
    assert other.context("herring", tokens=200) == index.context("herring", tokens=200)


def check_changes(index, folder, small_encoder, place):
    index.add(folder)
    index.export(place)
    (folder / "salt.txt").write_text("Salt is grey. It is mined.")
    (folder / "talk.vtt").unlink()
    other = Index.open(place, model=small_encoder)
    index.add(folder, prune=True)
    assert hits(other) != hits(index)
    assert index.export(place) == 4  # a document, its section, and two sentences
    assert hits(other) == hits(index)
    assert index.export(place) == 0
