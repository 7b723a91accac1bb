"""A table's folder in a bucket of an object store; PyArrow reads and writes its Parquet files."""

from __future__ import annotations

import io
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from typing_extensions import override

from spark.lake.bucket import AgedObject, Bucket, FoundObject, Page
from spark.lake.folder import FileFacts, LakeFolder, is_hidden
from spark.lake.place import StorePlace, store_place

Answer = TypeVar("Answer")
_AT_ONCE = 8


class ObjectFolder(LakeFolder):
    """A prefix in a bucket."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        place = store_place(path)
        self._prefix, self._bucket = place.prefix, open_bucket(place)

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
        return sorted(name for page in self._pages(below, after) for each in page.objects if (name := _last(each.key)) > after)

    @override
    def facts(self, below: str) -> list[FileFacts]:
        return [_facts(each) for page in self._pages(below) for each in page.objects]

    @override
    def tree(self) -> list[FileFacts]:
        found, folders = list[FileFacts](), [""]
        while folders:
            below = folders.pop()
            for page in self._pages(below):
                found += [facts._replace(name=f"{below}{facts.name}") for facts in map(_facts, page.objects)]
                names = [_last(prefix.rstrip("/")) for prefix in page.folders]
                folders += [f"{below}{name}/" for name in names if not is_hidden(name)]
        return found

    @override
    def remove_all(self) -> None:
        """By ourselves: PyArrow's GCS fails where no object stands for the folder itself."""
        prefixes = [self._key("")]
        while prefixes:
            for page in list(self._bucket.pages(prefixes.pop())):
                self.map(self._bucket.delete, [each.key for each in page.objects])
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
            yield page._replace(objects=[each for each in page.objects if each.key != folder])

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name


def open_bucket(place: StorePlace) -> Bucket:
    """The bucket at the place; nothing is asked."""
    if place.kind == "gcs":
        from spark.lake.gcs_bucket import GcsBucket

        return GcsBucket(place)
    from spark.lake.s3_bucket import S3Bucket

    return S3Bucket(place)


def _last(key: str) -> str:
    return key.rpartition("/")[2]


def _facts(found: FoundObject) -> FileFacts:
    return FileFacts(_last(found.key), found.size, found.at)
