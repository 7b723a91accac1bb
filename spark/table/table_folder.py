"""A table's folder, wherever the lake lies: a local one, or a prefix in a bucket, whose Parquet files PyArrow reads and writes.

Files are read, listed, written, made where there is none, and removed. Names are relative to the folder, with slashes. What a
local disk does stays plain file IO.
"""

from __future__ import annotations

import io
import os
import shutil
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from typing_extensions import override

from spark.table.buckets import AgedObject, Bucket, FoundObject, Page
from spark.table.lake_location import StorePlace, arrow_filesystem, is_local, store_place

Answer = TypeVar("Answer")


class FileFacts(NamedTuple):
    """A file's name below the folder that was asked; its bytes; when it was written, in seconds since 1970 by the clock of
    `LakeFolder.now`."""

    name: str
    size: int
    at: float


class LakeFolder(ABC):
    """The folder at `path`. A file that is not there is FileNotFoundError; a store that does not answer EndpointError."""

    def __init__(self, path: str) -> None:
        self.path = path

    @abstractmethod
    def read(self, name: str) -> bytes:
        """The bytes of a file."""

    @abstractmethod
    def lines(self, name: str) -> Generator[str, None, None]:
        """The lines of a text."""

    @abstractmethod
    def names(self, below: str, *, after: str = "") -> list[str]:
        """Names of the files right below the folder `below`, in their order, those up to `after` left out; none: no folder."""

    @abstractmethod
    def has_files(self, below: str) -> bool:
        """Whether there is any file below the folder `below`."""

    @abstractmethod
    def facts(self, below: str) -> list[FileFacts]:
        """The files right below the folder `below`, in no order; none: no folder."""

    @abstractmethod
    def tree(self) -> list[FileFacts]:
        """All files below this folder, in no order; those below a folder whose name begins with `_` or a dot left out."""

    @abstractmethod
    def now(self) -> float:
        """Seconds since 1970, by the clock that tells when files were written."""

    @abstractmethod
    def put(self, name: str, content: bytes) -> None:
        """Write a file, whether there is one or not."""

    @abstractmethod
    def put_if_absent(self, name: str, content: bytes) -> bool:
        """Write a file unless there is one; False where there is. Of two writers one loses.

        A store's client repeats what was not answered: False may then mean that this call has written it.
        """

    @abstractmethod
    def delete(self, name: str) -> None:
        """Remove a file; one that is gone is no error."""

    @abstractmethod
    def remove_all(self) -> None:
        """Remove the folder with all that is in it; none is no error."""

    @abstractmethod
    def make(self) -> None:
        """Make the folder where there are folders."""

    def map(self, look: Callable[[str], Answer], names: Iterable[str]) -> list[Answer]:
        """What `look` says of each, in their order."""
        return [look(name) for name in names]

    @cached_property
    def filesystem(self) -> Any:
        """PyArrow's, whose root is this folder."""
        return arrow_filesystem(self.path)

    def size(self, name: str) -> int:
        """Bytes of a file."""
        return int(self.filesystem.get_file_info(name).size)


def is_hidden(name: str) -> bool:
    """Whether a file or folder of that name is none of a table's data, as Delta's VACUUM has it."""
    return name.startswith(("_", "."))


def open_folder(path: str) -> LakeFolder:
    """The folder at the path; nothing is looked at. Raises JobRefusedError: no lake can lie there."""
    if is_local(path):
        return LocalFolder(path)

    return ObjectFolder(path)


class LocalFolder(LakeFolder):
    """On this machine's disk."""

    @override
    def read(self, name: str) -> bytes:
        return self._file(name).read_bytes()

    @override
    def lines(self, name: str) -> Generator[str, None, None]:
        with self._file(name).open(encoding="utf-8") as file:
            yield from file

    @override
    def names(self, below: str, *, after: str = "") -> list[str]:
        try:
            listed: Sequence[str] = os.listdir(self._file(below))  # noqa: PTH208 (twice as fast)
        except FileNotFoundError:
            return []
        return sorted(name for name in listed if name > after)

    @override
    def has_files(self, below: str) -> bool:
        try:
            with os.scandir(self._file(below)) as entries:
                return any(True for _ in entries)
        except FileNotFoundError:
            return False

    @override
    def facts(self, below: str) -> list[FileFacts]:
        try:
            with os.scandir(self._file(below)) as entries:
                return [facts for entry in entries if (facts := _facts_of_entry(entry)) is not None]
        except FileNotFoundError:
            return []

    @override
    def tree(self) -> list[FileFacts]:
        files: list[FileFacts] = []
        for folder, folders, _ in os.walk(self.path):
            folders[:] = [name for name in folders if not is_hidden(name)]
            below = str(Path(folder).relative_to(self.path))
            files += [file._replace(name=f"{below}/{file.name}" if below != "." else file.name) for file in self.facts(below)]
        return files

    @override
    def now(self) -> float:
        return time.time()

    @override
    def put(self, name: str, content: bytes) -> None:
        self._file(name).write_bytes(content)

    @override
    def put_if_absent(self, name: str, content: bytes) -> bool:
        """A link is refused where the name is taken: the file is there whole, or not at all."""
        file = self._file(name)
        file.parent.mkdir(exist_ok=True)
        draft = file.with_name(f".{uuid.uuid4().hex}.tmp")
        draft.write_bytes(content)
        try:
            os.link(draft, file)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        return True

    @override
    def delete(self, name: str) -> None:
        self._file(name).unlink(missing_ok=True)

    @override
    def remove_all(self) -> None:
        with suppress(FileNotFoundError):
            shutil.rmtree(self.path)

    @override
    def make(self) -> None:
        make_folder(Path(self.path))

    @override
    def size(self, name: str) -> int:
        return self._file(name).stat().st_size

    def _file(self, name: str) -> Path:
        return Path(self.path, name)


def make_folder(folder: Path) -> None:
    """Make it and what is missing above it, open to nobody who may not enter the folder that is there: whoever runs a command
    has an umask of his own."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(mode=folder.parent.stat().st_mode & 0o777, exist_ok=True)


def _facts_of_entry(entry: os.DirEntry[str]) -> FileFacts | None:
    """None of what is no file, or gone meanwhile."""
    try:
        status = entry.stat() if entry.is_file() else None
    except FileNotFoundError:
        return None
    return FileFacts(entry.name, status.st_size, status.st_mtime) if status is not None else None


_AT_ONCE = 8


class ObjectFolder(LakeFolder):
    """A prefix in a bucket."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        location = store_place(path)
        self._prefix, self._bucket = location.prefix, open_bucket(location)

    @override
    def read(self, name: str) -> bytes:
        return self._bucket.get(self._key(name))

    def read_aged(self, name: str) -> AgedObject:
        """The object, and how long ago it was written."""
        return self._bucket.get_aged(self._key(name))

    @override
    def now(self) -> float:
        return self._bucket.now()

    @override
    def lines(self, name: str) -> Generator[str, None, None]:
        # As a file's. By splitlines a text in a commit could end a line: JSON may hold U+2028 as it is.
        yield from io.TextIOWrapper(io.BytesIO(self.read(name)), encoding="utf-8")

    @override
    def names(self, below: str, *, after: str = "") -> list[str]:
        return sorted(name for page in self._pages(below, after) for item in page.objects if (name := _last(item.key)) > after)

    @override
    def facts(self, below: str) -> list[FileFacts]:
        return [_facts_of_object(item) for page in self._pages(below) for item in page.objects]

    @override
    def tree(self) -> list[FileFacts]:
        files, folders = list[FileFacts](), [""]
        while folders:
            below = folders.pop()
            for page in self._pages(below):
                files += [facts._replace(name=f"{below}{facts.name}") for facts in map(_facts_of_object, page.objects)]
                names = [_last(prefix.rstrip("/")) for prefix in page.folders]
                folders += [f"{below}{name}/" for name in names if not is_hidden(name)]
        return files

    @override
    def remove_all(self) -> None:
        """By ourselves: PyArrow's GCS fails where no object stands for the folder itself."""
        prefixes = [self._key("")]
        while prefixes:
            for page in list(self._bucket.pages(prefixes.pop())):
                self.map(self._bucket.delete, [item.key for item in page.objects])
                prefixes += page.folders

    @override
    def has_files(self, below: str) -> bool:
        return self._bucket.has(f"{self._key(below)}/")

    @override
    def put(self, name: str, content: bytes) -> None:
        self._bucket.put(self._key(name), content)

    @override
    def put_if_absent(self, name: str, content: bytes) -> bool:
        return self._bucket.put_if_absent(self._key(name), content)

    @override
    def delete(self, name: str) -> None:
        self._bucket.delete(self._key(name))

    @override
    def make(self) -> None:
        """A bucket has no folders."""

    @override
    def map(self, look: Callable[[str], Answer], names: Iterable[str]) -> list[Answer]:
        """Several at a time: each waits for the store."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(look, names))

    def _pages(self, below: str, after: str = "") -> Iterator[Page]:
        folder = self._key(f"{below.rstrip('/')}/" if below else "")
        for page in self._bucket.pages(folder, folder + after if after else ""):
            # The folder itself may be an object: stores' own consoles make one, and PyArrow.
            yield page._replace(objects=[item for item in page.objects if item.key != folder])

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name


def open_bucket(place: StorePlace) -> Bucket:
    """The bucket at the place; nothing is asked."""
    if place.kind == "gcs":
        from spark.table.buckets import GcsBucket

        return GcsBucket(place)
    from spark.table.buckets import S3Bucket

    return S3Bucket(place)


def _last(key: str) -> str:
    return key.rpartition("/")[2]


def _facts_of_object(found: FoundObject) -> FileFacts:
    return FileFacts(_last(found.key), found.size, found.at)
