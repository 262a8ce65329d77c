"""Damaged and hostile files are read, or rejected with a sentence that says why.

`benchmarks/fuzz_readers.py` reads thousands of each format.
"""

import pytest

from foveate.documents import FORMATS
from fuzz_cases import HOSTILE, cases
from fuzz_readers import outcomes, read
from fuzz_seeds import SEEDS

CASES = 200  # of all formats together


def test_every_format_has_seeds():
    assert set(FORMATS) <= set(SEEDS)


@pytest.mark.parametrize("format", FORMATS)
def test_seeds_are_read(format):
    for data in SEEDS[format]():
        outcome = read(format, data)
        assert outcome.kind == "read", outcome.reason


@pytest.mark.parametrize("format", FORMATS)
def test_damaged_files_are_read_or_rejected(format):
    files = cases(format, CASES // len(FORMATS))
    failures = [outcome for _, outcome in outcomes(format, files) if outcome.kind == "failed"]
    assert not failures


@pytest.mark.parametrize("format", sorted(set(HOSTILE) & set(FORMATS)))
def test_hostile_files_are_read_or_rejected(format):
    files = iter(HOSTILE[format]())
    failures = [outcome for _, outcome in outcomes(format, files) if outcome.kind == "failed"]
    assert not failures
