"""Damaged and hostile files are read, or rejected with a sentence that says why.

`fuzz_readers.py` reads thousands of each format.
"""

import pytest

from foveate.documents import FORMATS, Document, DocumentError
from tests.documents.fuzz_cases import HOSTILE, cases
from tests.documents.fuzz_readers import outcomes, read
from tests.documents.fuzz_seeds import SEEDS

CASES = 200  # of all formats together


INSTALLED = [name for name, format in FORMATS.items() if format.is_installed]


def test_every_format_has_seeds():
    assert set(FORMATS) <= set(SEEDS)


@pytest.mark.parametrize("format", INSTALLED)
def test_seeds_are_read(format):
    for data in SEEDS[format]():
        outcome = read(format, data)
        assert outcome.kind == "read", outcome.reason


@pytest.mark.parametrize("format", INSTALLED)
def test_damaged_files_are_read_or_rejected(format):
    files = cases(format, CASES // len(FORMATS))
    failures = [outcome for _, outcome in outcomes(format, files) if outcome.kind == "failed"]
    assert not failures


@pytest.mark.parametrize("format", sorted(set(HOSTILE) & set(INSTALLED)))
def test_hostile_files_are_read_or_rejected(format):
    files = iter(HOSTILE[format]())
    failures = [outcome for _, outcome in outcomes(format, files) if outcome.kind == "failed"]
    assert not failures


@pytest.mark.parametrize(
    ("format", "data"),
    [
        ("csv", b"\xc3\xa3\n\n"),
        ("markdown", b"- 1.\n  m||\n  -|-\n  d\n  > s"),
    ],
)
def test_files_that_once_failed(format, data):
    assert read(format, data).kind != "failed"


def test_saved_documents_whose_sentences_overlap_are_rejected():
    saved = Document.from_text("Cod swim. They eat.").to_dict()
    first, second = saved["sections"][0]["paragraphs"][0]["sentences"]
    second["start"] = first["end"] - 1
    with pytest.raises(DocumentError, match="before ends at 9"):
        Document.from_dict(saved)
