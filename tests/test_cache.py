"""The cache of documents and vectors."""

import os

import pytest

from foveate.cache import Cache
from foveate.documents import read_documents


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache", max_bytes=100)


def test_keys_tell_parts_apart():
    keys = [Cache.key("ab", "c"), Cache.key("a", "bc"), Cache.key("abc"), Cache.key(b"abc")]
    assert len({*keys, Cache.key("ab", "c", None)}) == 5
    assert Cache.key("ab", "c") == keys[0]


def test_what_was_used_longest_ago_is_removed(cache):
    for i, name in enumerate("abc"):
        cache.put("documents", name, b"x" * 40 if name != "c" else b"x" * 10)
        os.utime(cache.folder / "documents" / name, (i, i))
    assert cache.get("documents", "a") is not None  # now used last
    cache.put("vectors", "d", b"x" * 40)
    assert cache.get("documents", "b") is None
    assert cache.get("documents", "a")
    assert cache.get("documents", "c")
    assert cache.get("vectors", "d")


def test_clear_removes_everything(cache):
    cache.put("documents", "a", b"x" * 7)
    assert cache.clear() == 7
    assert not cache.files()
    assert cache.get("documents", "a") is None


def test_nothing_is_kept_where_nothing_can_be_written(tmp_path):
    (tmp_path / "file").touch()
    cache = Cache(tmp_path / "file" / "cache")
    cache.put("documents", "a", b"x")
    assert cache.get("documents", "a") is None
    assert not cache.files()


def test_documents_are_read_again_only_if_they_or_the_options_changed(cache, tmp_path):
    cache.max_bytes = 10**6
    file = tmp_path / "fish.md"
    file.write_text("# Cod\n\nCod swim. They eat.\n")

    def read(**options):
        [document] = read_documents(file, cache=cache, **options)
        return document

    document = read()
    assert read() == document == next(read_documents(file))
    assert len(cache.files()) == 1
    read(language="de")
    file.write_text("# Cod\n\nCod sleep.\n")
    assert read().text != document.text
    assert len(cache.files()) == 3
