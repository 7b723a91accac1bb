"""A bucket of Google Cloud Storage, by its JSON API.

Its conditional put is `ifGenerationMatch=0`: https://cloud.google.com/storage/docs/request-preconditions
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Any, TypeVar

from typing_extensions import override

from spark.errors import LakeStoreError
from spark.lake.bucket import AgedObject, Bucket, FoundObject, Page, client_of_process
from spark.lake.store_options import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    GOOGLE_VARIABLES,
    GcsAccess,
    gcs_access,
    gcs_url,
    without_key,
)

Answer = TypeVar("Answer")
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
        asked = {"prefix": prefix, "start_offset": after or None, "delimiter": "/", "fields": _LISTED}
        pages = self._answer("list", prefix, lambda: self._list(**asked).pages)
        while (page := self._answer("list", prefix, lambda: next(pages, None))) is not None:
            objects = [FoundObject(blob.name, int(blob.size), _whole_seconds(blob)) for blob in page]
            yield Page(objects, sorted(page.prefixes))

    @override
    def has(self, prefix: str) -> bool:
        return self._answer("list", prefix, lambda: next(iter(self._list(prefix=prefix, max_results=1)), None)) is not None

    @override
    def now(self) -> float:
        told = self._answer("list", "", self._ask_time)
        return parsedate_to_datetime(told).timestamp()

    @override
    def put(self, key: str, content: bytes) -> None:
        self._answer("write", key, lambda: self._put(key, content))

    @override
    def put_if_absent(self, key: str, content: bytes) -> bool:
        from google.api_core.exceptions import PreconditionFailed

        try:
            self._answer("write", key, lambda: self._put(key, content, if_generation_match=0))
        except LakeStoreError as error:
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
        found: GcsAccess = client_of_process(GOOGLE_VARIABLES, gcs_access)
        return found

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

        told: str = self._patience["retry"](ask)()
        return told

    def _answer(self, what: str, key: str, ask: Callable[[], Answer]) -> Answer:
        from google.api_core import exceptions as google
        from google.auth.exceptions import GoogleAuthError
        from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
        from requests.exceptions import RequestException

        place = f"{self.url}/{key}: {what}"
        try:
            return ask()
        except google.NotFound as error:
            # Of a bucket that is not there each request says the same: to list it, or to write, tells.
            if what in _OF_OBJECTS:
                raise FileNotFoundError(f"{place}: there is none") from error
            raise LakeStoreError(f"{place}: {_first_line(error)}") from error
        except GoogleAuthError as error:
            advice = "set GOOGLE_APPLICATION_CREDENTIALS (docs/how-to/object-store-lake.md)"
            raise LakeStoreError(f"{place}: {_first_line(error)}; {advice}") from error
        except (google.GoogleAPIError, RequestException, DataCorruption, InvalidResponse) as error:
            raise LakeStoreError(f"{place}: {_first_line(error)}") from error


def _whole_seconds(blob: Any) -> float:
    """When its content was written. Finer than the clock that is asked, it would be ahead of that."""
    return float(int(blob.time_created.timestamp()))


def _first_line(error: Exception) -> str:
    return without_key((str(error).splitlines() or [type(error).__name__])[0], gcs_url())[:300]
