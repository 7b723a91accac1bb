"""GCS through google-cloud-storage. Preconditions: https://cloud.google.com/storage/docs/request-preconditions"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import TypeVar

from cdc_assets.clients.object_store import MissingObjectError, ObjectStore, StoredObject
from cdc_assets.registry.backup_store import BackupStore
from cdc_assets.registry.errors import StoreError
from spark.table.lake_location import gcs_access, gcs_url, without_key

Answer = TypeVar("Answer")
_TYPE = "application/octet-stream"


class GcsStore(ObjectStore):
    """One bucket; credentials by Google's own chain, none for a plain http endpoint (an emulator)."""

    def __init__(self, config: BackupStore) -> None:
        super().__init__(config)
        from google.cloud.storage.retry import DEFAULT_RETRY

        self._client = self._call("connect", "", lambda: gcs_access(config.endpoint or "").client)
        self._bucket = self._client.bucket(config.bucket)
        # The client repeats an upload without a precondition only when told so; ours may be: same key, same bytes.
        self._retry = DEFAULT_RETRY

    def put(self, key: str, data: bytes) -> None:
        """Write an object, whether there is one or not."""
        blob = self._bucket.blob(self.full_key(key))
        self._call("write", key, lambda: blob.upload_from_string(data, content_type=_TYPE, checksum="md5", retry=self._retry))

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """`ifGenerationMatch=0`: the store answers 412 when there is one."""
        from google.api_core.exceptions import PreconditionFailed

        blob = self._bucket.blob(self.full_key(key))
        try:
            self._call(
                "write",
                key,
                lambda: blob.upload_from_string(
                    data, content_type=_TYPE, checksum="md5", if_generation_match=0, retry=self._retry
                ),
            )
        except StoreError as error:
            if not isinstance(error.__cause__, PreconditionFailed):
                raise
            return False
        return True

    def get(self, key: str) -> bytes:
        """The object's bytes; MissingObjectError where there is none."""
        blob = self._bucket.blob(self.full_key(key))
        return self._call("read", key, lambda: bytes(blob.download_as_bytes()))

    def list(self, prefix: str, *, after: str = "") -> Iterator[StoredObject]:
        """Objects below the prefix, page by page."""
        start = self.full_key(after) if after else None
        pages = iter(self._client.list_blobs(self.config.bucket, prefix=self.full_prefix(prefix), start_offset=start))
        while True:
            blob = self._call("list", prefix, lambda: next(pages, None))
            if blob is None:
                return
            if blob.name != start:
                md5 = base64.b64decode(blob.md5_hash).hex() if blob.md5_hash else None
                yield StoredObject(self.relative(blob.name), int(blob.size), md5)

    def delete(self, key: str) -> None:
        """Remove an object; one that is gone is no error."""
        blob = self._bucket.blob(self.full_key(key))
        try:
            self._call("delete", key, lambda: blob.delete(retry=self._retry))
        except MissingObjectError:
            return

    def create_bucket(self) -> None:
        """Make the bucket unless it exists."""
        from google.api_core.exceptions import Conflict

        try:
            self._call("create bucket", "", lambda: self._client.create_bucket(self.config.bucket))
        except StoreError as error:
            if not isinstance(error.__cause__, Conflict):
                raise

    def _call(self, what: str, key: str, action: Callable[[], Answer]) -> Answer:
        from google.api_core import exceptions as google
        from google.auth.exceptions import GoogleAuthError
        from requests.exceptions import RequestException

        try:
            return action()
        except (google.GoogleAPIError, GoogleAuthError, RequestException) as error:
            text = str(error)
            of_bucket = not key or key.endswith("/") or "bucket does not exist" in text
            kind = MissingObjectError if isinstance(error, google.NotFound) and not of_bucket else StoreError
            first = (text.splitlines() or [type(error).__name__])[0]
            shown = without_key(first, self.config.endpoint or gcs_url())
            raise kind(f"{what} {self.url}/{key}: {shown[:300]}") from error
