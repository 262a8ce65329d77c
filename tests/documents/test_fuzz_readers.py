import os
import time

import pytest

from foveate.documents import DocumentError
from tests.documents import fuzz_readers
from tests.documents.fuzz_cases import cases
from tests.documents.fuzz_readers import Outcome, outcomes


def kinds(files):
    return [outcome.kind for _, outcome in outcomes("text", iter(files))]


def test_cases_are_the_same_for_the_same_seed():
    first, again, other = (list(cases("markdown", 9, seed)) for seed in (0, 0, 1))
    assert first == again != other
    assert len(first) == 9


def test_documents_and_explained_errors_pass():
    assert kinds([b"Cod swim.", b""]) == ["read", "rejected"]


def read_failing(format, data, *, names_format):
    if data == b"loops":
        time.sleep(10)
    if data == b"dies":
        os._exit(3)
    if data == b"large":
        bytearray(2 * fuzz_readers.MEMORY)
    return Outcome("read")


@pytest.mark.parametrize("failing", [b"loops", b"dies", b"large"])
def test_failures_are_told_and_do_not_end_the_run(monkeypatch, failing):
    monkeypatch.setattr(fuzz_readers, "read", read_failing)
    monkeypatch.setattr(fuzz_readers, "SECONDS", 1)
    assert kinds([b"a", failing, b"b"]) == ["read", "failed", "read"]


def raising(*arguments, **options):
    raise KeyError("cod")


def test_other_errors_fail(monkeypatch):
    monkeypatch.setattr("foveate.documents.read_documents", raising, raising=False)
    outcome = fuzz_readers.read("text", b"Cod swim.")
    assert outcome.kind == "failed"
    assert outcome.reason.startswith("KeyError")


def test_messages_have_to_be_sentences(monkeypatch):
    def read_documents(*arguments, **options):
        raise DocumentError("no good\nat all")

    monkeypatch.setattr("foveate.documents.read_documents", read_documents, raising=False)
    assert fuzz_readers.read("text", b"Cod swim.").kind == "failed"
