"""A table's folder in an S3 bucket, by boto3; PyArrow reads and writes its Parquet files."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from typing_extensions import override

from spark.errors import LakeStoreError
from spark.lake.conditional_put import put_unless_there
from spark.lake.folder import FileFacts, LakeFolder, is_hidden
from spark.lake.place import store_place
from spark.lake.store_options import s3_client

Answer = TypeVar("Answer")
_ABSENT = frozenset({"NoSuchKey", "404"})
_AT_ONCE = 8
_OF_CLIENT = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE")
_OF_LOGIN = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_CLIENTS: dict[tuple[str | None, ...], Any] = {}


class AgedObject(NamedTuple):
    """What an object holds, and for how many seconds, both by the store's own clock."""

    content: bytes
    seconds: float


class S3Folder(LakeFolder):
    """A prefix in a bucket."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._place = store_place(path)

    @override
    def read(self, name: str) -> bytes:
        return self.read_aged(name).content

    def read_aged(self, name: str) -> AgedObject:
        """The object, and how long ago it was written."""

        def ask() -> AgedObject:
            found = self._client.get_object(Bucket=self._place.bucket, Key=self._key(name))
            age = _time_told(found) - found["LastModified"].timestamp()
            return AgedObject(bytes(found["Body"].read()), max(0.0, age))

        return self._answer(f"read {name}", ask)

    @override
    def now(self) -> float:
        asked = {"Bucket": self._place.bucket, "Prefix": self._key(""), "MaxKeys": 1}
        found = self._answer("list", lambda: self._client.list_objects_v2(**asked))
        return _time_told(found)

    @override
    def lines(self, name: str) -> Generator[str, None, None]:
        yield from self.read(name).decode().splitlines()

    @override
    def names(self, below: str, *, after: str = "") -> list[str]:
        pages = self._pages(below, after)
        return sorted(name for page in pages for item in page["Contents"] if (name := _last(item["Key"])) > after)

    @override
    def facts(self, below: str) -> list[FileFacts]:
        return [_facts(item) for page in self._pages(below) for item in page["Contents"]]

    @override
    def tree(self) -> list[FileFacts]:
        found, folders = list[FileFacts](), [""]
        while folders:
            below = folders.pop()
            for page in self._pages(below):
                found += [facts._replace(name=f"{below}{facts.name}") for facts in map(_facts, page["Contents"])]
                names = [_last(each["Prefix"].rstrip("/")) for each in page["CommonPrefixes"]]
                folders += [f"{below}{name}/" for name in names if not is_hidden(name)]
        return found

    @override
    def has_files(self, below: str) -> bool:
        asked = {"Bucket": self._place.bucket, "Prefix": f"{self._key(below)}/", "MaxKeys": 1}
        return bool(self._answer(f"list {below}", lambda: self._client.list_objects_v2(**asked)).get("Contents"))

    @override
    def put(self, name: str, content: bytes) -> None:
        self._put(name, content)

    @override
    def put_if_absent(self, name: str, content: bytes) -> bool:
        return put_unless_there(lambda: self._put(name, content, IfNoneMatch="*"), LakeStoreError)

    @override
    def delete(self, name: str) -> None:
        self._answer(f"delete {name}", lambda: self._client.delete_object(Bucket=self._place.bucket, Key=self._key(name)))

    @override
    def make(self) -> None:
        """A bucket has no folders."""

    @override
    def map(self, look: Callable[[str], Answer], names: Iterable[str]) -> list[Answer]:
        """Several at a time: each waits for the store."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(look, names))

    @cached_property
    def _client(self) -> Any:
        return _client_of_process()

    def _put(self, name: str, content: bytes, **condition: str) -> None:
        asked = {"Bucket": self._place.bucket, "Key": self._key(name), "Body": content, **condition}
        self._answer(f"write {name}", lambda: self._client.put_object(**asked))

    def _pages(self, below: str, after: str = "") -> Iterator[dict[str, list[dict[str, Any]]]]:
        """What is right below: `Contents` are objects, `CommonPrefixes` folders."""
        folder = self._key(f"{below.rstrip('/')}/" if below else "")
        asked: dict[str, Any] = {"Bucket": self._place.bucket, "Prefix": folder, "Delimiter": "/"}
        asked |= {"StartAfter": folder + after} if after else {}
        while True:
            page = self._answer(f"list {below}", lambda: self._client.list_objects_v2(**asked))
            # The folder itself may be an object, which S3's console makes.
            objects = [item for item in page.get("Contents", ()) if item["Key"] != folder]
            yield {"Contents": objects, "CommonPrefixes": page.get("CommonPrefixes", [])}
            if not page.get("IsTruncated"):
                return
            asked["ContinuationToken"] = page["NextContinuationToken"]

    def _key(self, name: str) -> str:
        return f"{self._place.prefix}/{name}" if self._place.prefix else name

    def _answer(self, what: str, ask: Callable[[], Answer]) -> Answer:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return ask()
        except ClientError as error:
            detail = error.response.get("Error", {})
            if detail.get("Code") in _ABSENT:
                raise FileNotFoundError(f"{self.path}: {what}: there is none") from error
            raise LakeStoreError(f"{self.path}: {what}: {detail.get('Code')}: {detail.get('Message', '')}") from error
        except BotoCoreError as error:
            raise LakeStoreError(f"{self.path}: {what}: {error}; set AWS_… (docs/how-to/object-store-lake.md)") from error


def _last(key: str) -> str:
    return key.rpartition("/")[2]


def _facts(item: Mapping[str, Any]) -> FileFacts:
    return FileFacts(_last(item["Key"]), int(item["Size"]), item["LastModified"].timestamp())


def _time_told(answer: Mapping[str, Any]) -> float:
    told = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
    return parsedate_to_datetime(told).timestamp() if told else time.time()


def _client_of_process() -> Any:
    """One per process and login: to make one costs as much as twenty requests."""
    key = (*(os.environ.get(name) for name in (*_OF_CLIENT, *_OF_LOGIN)), str(os.getpid()))
    if key not in _CLIENTS:
        _CLIENTS[key] = s3_client()
    return _CLIENTS[key]
