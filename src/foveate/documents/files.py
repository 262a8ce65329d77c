"""Documents in files, folders, archives and mailboxes."""

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from foveate.cache import Cache
from foveate.documents.decoding import File, load, load_bytes, name_as_text
from foveate.documents.document import Document
from foveate.documents.formats import FORMATS
from foveate.documents.members import MAILDIR, ErrorHandler, expand, is_readable_file, walk
from foveate.documents.structure import DocumentError, NotADocumentError


def read_documents(
    paths: str | PathLike[str] | Iterable[str | PathLike[str]],
    *,
    format: str | None = None,
    language: str | None = None,
    encoding: str | None = None,
    on_error: ErrorHandler | None = None,
    cache: Cache | None = None,
    on_skip: Callable[[str], None] | None = None,
    **options: Any,
) -> Iterator[Document]:
    """Read all documents in files and folders, one after another.

    A folder is walked recursively, in the order of its files' names; hidden files, files in unknown
    formats and JSON that holds no text are left out. A ZIP or TAR archive is read like a folder. A
    mailbox (mbox or Maildir) yields a document for each thread; JSON Lines, a JSON array and CSV
    yield one for each record.

    Args:
        paths: A file or folder, or several.
        format: Name of a format in `foveate.documents.FORMATS`, for every file. By default each is
            recognized by its suffix and content.
        language: ISO 639 code of the language by whose rules sentences are split; detected by
            default.
        encoding: Encoding of the texts; detected by default.
        on_error: Called with the name of each file that cannot be read, and the error; by default
            the first error is raised.
        cache: Where documents that have been read are kept, to be read from there the next time.
        on_skip: Called with the name of each file that is left out.
        options: Options of readers, such as `ocr=True` for PDF. Readers of other formats ignore
            them.

    Returns:
        An iterator over the documents, which are read lazily.

    Raises:
        FileNotFoundError: A path does not exist.
        DocumentError: A file cannot be read, or a folder holds no file that can be.
        ImportError: A format needs an extra that is not installed.
        TypeError: No reader has one of the options.

    Example:
        >>> from foveate.documents import read_documents
        >>> folder = getfixture("tmp_path")
        >>> _ = (folder / "cod.txt").write_text("Cod swim.")
        >>> _ = (folder / "eels.jsonl").write_text('{"title": "Eels", "text": "Eels are long."}')
        >>> [document.title or document.text for document in read_documents(folder)]
        ['Cod swim.', 'Eels']
    """
    _check_options(options)
    several = [paths] if isinstance(paths, str | PathLike) else paths
    reader = _FileReader(
        format, language, encoding, on_error, cache, options, on_skip or (lambda name: None)
    )
    return (document for path in several for document in reader.read_path(path))


def read_data(
    data: bytes,
    name: str,
    *,
    format: str | None = None,
    language: str | None = None,
    encoding: str | None = None,
    on_error: ErrorHandler | None = None,
    cache: Cache | None = None,
    file_name: str = "",
    **options: Any,
) -> Iterator[Document]:
    """Read all documents in the content of a file, such as standard input.

    Args:
        data: The content.
        name: Its name, in messages and as the documents' source.
        format: As for `read_documents`, like the other arguments.
        language: Language of the documents.
        encoding: Encoding of the texts.
        on_error: Called with the name of what cannot be read, and the error.
        cache: Where documents are kept.
        file_name: The name of the file that they come from, by which the format is recognized.
        options: Options of readers.

    Raises:
        TypeError: No reader has one of the options.
    """
    _check_options(options)
    reader = _FileReader(format, language, encoding, on_error, cache, options)
    return reader.read_file(name, partial(load_bytes, data, name, format, encoding, file_name))


def _check_options(options: Mapping[str, Any]) -> None:
    """Raise a TypeError if no reader has one of the options."""
    known = {name for one in FORMATS.values() for name in one.options}
    if unknown := options.keys() - known:
        raise TypeError(
            f"no reader has an option {', '.join(sorted(unknown))}: the options are "
            f"{', '.join(sorted(known))}"
        )


@dataclass(frozen=True, slots=True)
class _FileReader:
    """How files are read; see `read_documents`."""

    format: str | None
    language: str | None
    encoding: str | None
    on_error: ErrorHandler | None
    cache: Cache | None
    options: Mapping[str, Any]
    on_skip: Callable[[str], None] = lambda name: None

    def read_path(self, path: str | PathLike[str]) -> Iterator[Document]:
        """Read a file or a folder."""
        if fspath(path) and Path(path).is_dir():
            yield from self.read_folder(Path(path))
        else:
            load_path = partial(load, path, self.format, self.encoding)
            yield from self.read_file(name_as_text(path), load_path)

    def read_folder(self, folder: Path) -> Iterator[Document]:
        """Read the files in a folder and in the folders in it."""
        is_empty = True

        def note(error: OSError) -> None:
            nonlocal is_empty
            is_empty = False
            self.fail(str(error.filename), error)

        for path in walk(folder, note):
            if path.is_dir():
                is_empty = False
                yield from self.read_maildir(path)
            elif is_readable_file(path):
                load_path = partial(load, path, self.format, self.encoding)
                has_read = yield from self.read_file(name_as_text(path), load_path, is_found=True)
                is_empty = is_empty and not has_read
            else:
                self.on_skip(name_as_text(path))
        if is_empty:
            error = DocumentError(f"{folder} holds no file in a format that can be read.")
            self.fail(str(folder), error)

    def read_maildir(self, folder: Path) -> Iterator[Document]:
        """Read the threads of a Maildir."""
        paths = sorted(
            path
            for name in MAILDIR
            for path in (folder / name).iterdir()
            if path.is_file() and not path.name.startswith(".")
        )
        messages = [path.read_bytes() for path in paths]
        # Imported late: they take a moment, and most files are no mail.
        from foveate.documents.readers.mail.mailbox import threads
        from foveate.documents.readers.mail.message import join_messages

        for numbers in threads(messages):
            thread = join_messages([messages[number] for number in numbers])
            first = name_as_text(paths[min(numbers)])
            yield from self.read_file(first, partial(File, first, thread, FORMATS["email"]))

    def read_file(
        self, name: str, load_file: Callable[[], File], *, is_found: bool = False
    ) -> Generator[Document, None, bool]:
        """Read a file and, if it is a collection, what it holds.

        Args:
            name: Its name.
            load_file: Loads it.
            is_found: Whether it was found in a folder. Files that are not documents are then left
                out, as in archives.

        Returns:
            Whether there was anything to read.
        """
        has_read = False
        try:
            for file in expand(load_file(), self.encoding, self.on_error):
                try:
                    yield self.read_content(file)
                except NotADocumentError as error:
                    if is_found or file.name.startswith(f"{name}/"):
                        continue
                    self.fail(file.name, error)
                except (DocumentError, ImportError) as error:
                    self.fail(file.name, error)
                has_read = True
            if not has_read and not is_found:
                raise DocumentError(f"{name} holds nothing that can be read.")
            if not has_read:
                self.on_skip(name)
        except (DocumentError, ImportError, OSError) as error:
            self.fail(name, error)
            return True
        return has_read

    def read_content(self, file: File) -> Document:
        """Read a document that has been loaded, or find it in the cache."""
        options = {name: self.options[name] for name in file.format.options if name in self.options}
        options["language"] = self.language
        if self.cache is None:
            return Document.from_content(file, source=file.name, **options)
        key = Cache.key(file.content, file.name, file.format.name, file.place, options)
        if saved := self.cache.get("documents", key):
            return Document.from_dict(json.loads(saved))
        document = Document.from_content(file, source=file.name, **options)
        self.cache.put("documents", key, json.dumps(document.to_dict()).encode())
        return document

    def fail(self, name: str, error: Exception) -> None:
        """Pass an error on, or raise it."""
        if self.on_error is None:
            raise error
        self.on_error(name, error)
