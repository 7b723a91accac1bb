"""A bucket of an object store: the few requests that a lake needs of it, for S3 by boto3 and for GCS by its JSON API.

Keys are whole, and a prefix is empty or ends with a slash. An object that is not there is FileNotFoundError; a store that does
not answer, or refuses, EndpointError with its own words. Times are whole seconds since 1970 by the store's own clock.

An object is written only where there is none: in S3 by `If-None-Match: *`
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html), in GCS by `ifGenerationMatch=0`
(https://cloud.google.com/storage/docs/request-preconditions). The clients are imported when a bucket is first asked.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from typing_extensions import override

from spark.errors import EndpointError
from spark.table.lake_location import (
    ANSWER_SECONDS,
    AWS_VARIABLES,
    CONNECT_SECONDS,
    GOOGLE_VARIABLES,
    GcsAccess,
    StorePlace,
    gcs_access,
    gcs_url,
    s3_client,
    without_key,
)

_CLIENTS: dict[tuple[str | None, ...], Any] = {}


class FoundObject(NamedTuple):
    """An object as a list tells it: its key, its bytes, and when it was written."""

    key: str
    size: int
    at: float


class AgedObject(NamedTuple):
    """What an object holds, and for how many seconds, both by the store's own clock."""

    content: bytes
    seconds: float


class Page(NamedTuple):
    """A part of what is right below a prefix: its objects, and the prefixes of its folders."""

    objects: Sequence[FoundObject]
    folders: Sequence[str]


class Bucket(ABC):
    """The bucket of that place, which is there already."""

    def __init__(self, place: StorePlace) -> None:
        self.name, self.url = place.bucket, f"{place.scheme}://{place.bucket}"

    @abstractmethod
    def get(self, key: str) -> bytes:
        """What the object holds."""

    @abstractmethod
    def get_aged(self, key: str) -> AgedObject:
        """The object, and how long ago it was written."""

    @abstractmethod
    def pages(self, prefix: str, after: str = "") -> Iterator[Page]:
        """What is right below the prefix, in the order of its keys. What is before the key `after` may be left out."""

    @abstractmethod
    def has(self, prefix: str) -> bool:
        """Whether there is any object below the prefix."""

    @abstractmethod
    def now(self) -> float:
        """What the store's clock says."""

    @abstractmethod
    def put(self, key: str, content: bytes) -> None:
        """Write the object, whether there is one or not."""

    @abstractmethod
    def put_if_absent(self, key: str, content: bytes) -> bool:
        """Write the object unless there is one; False where there is, which may be by this very call: its client repeats what was
        not answered."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove the object; one that is gone is no error."""


def client_of_process(variables: Sequence[str], make: Callable[[], Any]) -> Any:
    """The store's client, one per process and for each value of the variables that say how the store is reached: to make one
    costs as much as twenty requests."""
    key = (*(os.environ.get(name) for name in variables), make.__qualname__, str(os.getpid()))
    if key not in _CLIENTS:
        _CLIENTS[key] = make()
    return _CLIENTS[key]


_TAKEN = frozenset({"PreconditionFailed", "412"})
# 409: another write of the same key is on its way.
_BUSY = "ConditionalRequestConflict"
_TRIES, _SECONDS = 5, 0.2


def put_unless_there(put: Callable[[], object], failure: type[Exception]) -> bool:
    """Whether `put` has written the object; False: there is one. Its `failure` has botocore's ClientError as its cause.

    Raises:
        failure: the write was refused for another reason, or others were writing the key at each try.
    """
    for left in reversed(range(_TRIES)):
        try:
            put()
            return True
        except failure as error:
            code = s3_code(error)
            if code in _TAKEN:
                return False
            if code != _BUSY or not left:
                raise
            time.sleep(_SECONDS)
    raise AssertionError("unreachable")


def s3_code(error: Exception) -> str:
    """The store's own word for what was wrong, from the cause of our error; empty where it said none."""
    # Of a connection that was closed it is None.
    response = getattr(error.__cause__, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))


Answer = TypeVar("Answer")
_ABSENT = frozenset({"NoSuchKey", "404"})


class S3Bucket(Bucket):
    """Its conditional put is `If-None-Match: *`."""

    @override
    def get(self, key: str) -> bytes:
        return self.get_aged(key).content

    @override
    def get_aged(self, key: str) -> AgedObject:
        def ask() -> AgedObject:
            answer = self._client.get_object(Bucket=self.name, Key=key)
            age = _time_told(answer) - answer["LastModified"].timestamp()
            return AgedObject(bytes(answer["Body"].read()), max(0.0, age))

        return self._answer("read", key, ask)

    @override
    def pages(self, prefix: str, after: str = "") -> Iterator[Page]:
        request: dict[str, Any] = {"Bucket": self.name, "Prefix": prefix, "Delimiter": "/"}
        request |= {"StartAfter": after} if after else {}
        while True:
            page = self._answer("list", prefix, lambda: self._client.list_objects_v2(**request))
            folders = [folder["Prefix"] for folder in page.get("CommonPrefixes", ())]
            items = page.get("Contents", ())
            yield Page([FoundObject(i["Key"], int(i["Size"]), i["LastModified"].timestamp()) for i in items], folders)
            if not page.get("IsTruncated"):
                return
            request["ContinuationToken"] = page["NextContinuationToken"]

    @override
    def has(self, prefix: str) -> bool:
        return bool(self._list_one(prefix).get("Contents"))

    @override
    def now(self) -> float:
        return _time_told(self._list_one(""))

    @override
    def put(self, key: str, content: bytes) -> None:
        self._put(key, content)

    @override
    def put_if_absent(self, key: str, content: bytes) -> bool:
        return put_unless_there(lambda: self._put(key, content, IfNoneMatch="*"), EndpointError)

    @override
    def delete(self, key: str) -> None:
        self._answer("delete", key, lambda: self._client.delete_object(Bucket=self.name, Key=key))

    @cached_property
    def _client(self) -> Any:
        return client_of_process(AWS_VARIABLES, s3_client)

    def _put(self, key: str, content: bytes, **condition: str) -> None:
        request = {"Bucket": self.name, "Key": key, "Body": content, **condition}
        self._answer("write", key, lambda: self._client.put_object(**request))

    def _list_one(self, prefix: str) -> Any:
        return self._answer("list", prefix, lambda: self._client.list_objects_v2(Bucket=self.name, Prefix=prefix, MaxKeys=1))

    def _answer(self, what: str, key: str, ask: Callable[[], Answer]) -> Answer:
        from botocore.exceptions import BotoCoreError, ClientError

        request = f"{self.url}/{key}: {what}"
        try:
            return ask()
        except ClientError as error:
            detail = error.response.get("Error", {})
            if detail.get("Code") in _ABSENT:
                raise FileNotFoundError(f"{request}: there is none") from error
            raise EndpointError(f"{request}: {detail.get('Code')}: {detail.get('Message', '')}") from error
        except BotoCoreError as error:
            raise EndpointError(f"{request}: {error}; set AWS_… (docs/how-to/object-store-lake.md)") from error


def _time_told(answer: Mapping[str, Any]) -> float:
    date = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
    return parsedate_to_datetime(date).timestamp() if date else time.time()


_OF_OBJECTS = frozenset({"read", "delete"})
_TYPE = "application/octet-stream"
_LISTED = "items(name,size,timeCreated),prefixes,nextPageToken"
_REPEAT_SECONDS = 30.0
"""So long after its first try a request that failed is begun once more."""


class GcsBucket(Bucket):
    """What it is told twice it does once: each request may be repeated."""

    @override
    def get(self, key: str) -> bytes:
        return self._answer("read", key, lambda: bytes(self._blob(key).download_as_bytes(**self._patience)))

    @override
    def get_aged(self, key: str) -> AgedObject:
        def ask() -> float:
            blob = self._blob(key)
            blob.reload(**self._patience)
            return _whole_seconds(blob)

        at = self._answer("read", key, ask)
        return AgedObject(self.get(key), max(0.0, self.now() - at))

    @override
    def pages(self, prefix: str, after: str = "") -> Iterator[Page]:
        request = {"prefix": prefix, "start_offset": after or None, "delimiter": "/", "fields": _LISTED}
        pages = self._answer("list", prefix, lambda: self._list(**request).pages)
        while (page := self._answer("list", prefix, lambda: next(pages, None))) is not None:
            objects = [FoundObject(blob.name, int(blob.size), _whole_seconds(blob)) for blob in page]
            yield Page(objects, sorted(page.prefixes))

    @override
    def has(self, prefix: str) -> bool:
        return self._answer("list", prefix, lambda: next(iter(self._list(prefix=prefix, max_results=1)), None)) is not None

    @override
    def now(self) -> float:
        date = self._answer("list", "", self._ask_time)
        return parsedate_to_datetime(date).timestamp()

    @override
    def put(self, key: str, content: bytes) -> None:
        self._answer("write", key, lambda: self._put(key, content))

    @override
    def put_if_absent(self, key: str, content: bytes) -> bool:
        from google.api_core.exceptions import PreconditionFailed

        try:
            self._answer("write", key, lambda: self._put(key, content, if_generation_match=0))
        except EndpointError as error:
            if isinstance(error.__cause__, PreconditionFailed):
                return False
            raise
        return True

    @override
    def delete(self, key: str) -> None:
        try:
            self._answer("delete", key, lambda: self._blob(key).delete(**self._patience))
        except FileNotFoundError:
            return

    @cached_property
    def _access(self) -> GcsAccess:
        access: GcsAccess = client_of_process(GOOGLE_VARIABLES, gcs_access)
        return access

    @cached_property
    def _patience(self) -> dict[str, Any]:
        from google.cloud.storage.retry import DEFAULT_RETRY

        retry = DEFAULT_RETRY.with_delay(initial=0.2, maximum=10.0, multiplier=2.0).with_timeout(_REPEAT_SECONDS)
        return {"retry": retry, "timeout": (CONNECT_SECONDS, ANSWER_SECONDS)}

    def _list(self, **asked: Any) -> Any:
        return self._access.client.list_blobs(self.name, **asked, **self._patience)

    def _blob(self, key: str) -> Any:
        return self._access.client.bucket(self.name).blob(key)

    def _put(self, key: str, content: bytes, **condition: int) -> None:
        self._blob(key).upload_from_string(content, content_type=_TYPE, **condition, **self._patience)

    def _ask_time(self) -> str:
        """A listing's `Date`: the client itself tells no headers."""
        from google.api_core.exceptions import from_http_response

        def ask() -> str:
            url = f"{self._access.url}/storage/v1/b/{self.name}/o?maxResults=1&fields=kind"
            answer = self._access.session.get(url, timeout=self._patience["timeout"])
            if not answer.ok:
                raise from_http_response(answer)
            return str(answer.headers["Date"])

        date: str = self._patience["retry"](ask)()
        return date

    def _answer(self, what: str, key: str, ask: Callable[[], Answer]) -> Answer:
        from google.api_core import exceptions as google
        from google.auth.exceptions import GoogleAuthError
        from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
        from requests.exceptions import RequestException

        request = f"{self.url}/{key}: {what}"
        try:
            return ask()
        except google.NotFound as error:
            # Of a bucket that is not there each request says the same: to list it, or to write, tells.
            if what in _OF_OBJECTS:
                raise FileNotFoundError(f"{request}: there is none") from error
            raise EndpointError(f"{request}: {_first_line(error)}") from error
        except GoogleAuthError as error:
            advice = "set GOOGLE_APPLICATION_CREDENTIALS (docs/how-to/object-store-lake.md)"
            raise EndpointError(f"{request}: {_first_line(error)}; {advice}") from error
        except (google.GoogleAPIError, RequestException, DataCorruption, InvalidResponse) as error:
            raise EndpointError(f"{request}: {_first_line(error)}") from error


def _whole_seconds(blob: Any) -> float:
    """When its content was written. Finer than the clock that is asked, it would be ahead of that."""
    return float(int(blob.time_created.timestamp()))


def _first_line(error: Exception) -> str:
    return without_key((str(error).splitlines() or [type(error).__name__])[0], gcs_url())[:300]
