"""GCS through google-cloud-storage. Preconditions: https://cloud.google.com/storage/docs/request-preconditions"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from cdc_assets.errors import StoreError
from cdc_assets.registry.backup_store import BackupStore
from cdc_assets.resources.object_store.base import ObjectStore, StoredObject

Answer = TypeVar("Answer")


class GcsStore(ObjectStore):
    """One bucket; credentials by Google's own chain, none for an emulator (`STORAGE_EMULATOR_HOST`)."""

    scheme = "gs"

    def __init__(self, config: BackupStore) -> None:
        super().__init__(config)
        from google.auth.credentials import AnonymousCredentials
        from google.cloud import storage

        arguments: dict[str, Any] = {}
        if config.endpoint or os.environ.get("STORAGE_EMULATOR_HOST"):
            arguments = {"project": "cdc", "credentials": AnonymousCredentials()}
        if config.endpoint:
            arguments["client_options"] = {"api_endpoint": config.endpoint}
        self._client = self._call("connect", "", lambda: storage.Client(**arguments))
        self._bucket = self._client.bucket(config.bucket)

    def put(self, key: str, data: bytes) -> None:
        """Write an object, whether there is one or not."""
        blob = self._bucket.blob(self.full_key(key))
        self._call("write", key, lambda: blob.upload_from_string(data, content_type="application/octet-stream"))

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """`ifGenerationMatch=0`: the store answers 412 when there is one."""
        from google.api_core.exceptions import PreconditionFailed

        blob = self._bucket.blob(self.full_key(key))
        try:
            self._call(
                "write",
                key,
                lambda: blob.upload_from_string(data, content_type="application/octet-stream", if_generation_match=0),
            )
        except StoreError as error:
            if isinstance(error.__cause__, PreconditionFailed):
                return False
            raise
        return True

    def get(self, key: str) -> bytes:
        """The object's bytes."""
        return self._call("read", key, lambda: bytes(self._bucket.blob(self.full_key(key)).download_as_bytes()))

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Objects below the prefix, page by page."""
        pages = iter(self._client.list_blobs(self.config.bucket, prefix=self.full_prefix(prefix)))
        while True:
            blob = self._call("list", prefix, lambda: next(pages, None))
            if blob is None:
                return
            md5 = base64.b64decode(blob.md5_hash).hex() if blob.md5_hash else None
            yield StoredObject(self.relative(blob.name), int(blob.size), md5)

    def delete(self, key: str) -> None:
        """Remove an object."""
        from google.api_core.exceptions import NotFound

        try:
            self._call("delete", key, lambda: self._bucket.blob(self.full_key(key)).delete())
        except StoreError as error:
            if not isinstance(error.__cause__, NotFound):
                raise

    def _call(self, what: str, key: str, action: Callable[[], Answer]) -> Answer:
        from google.api_core.exceptions import GoogleAPIError
        from google.auth.exceptions import GoogleAuthError
        from requests.exceptions import RequestException

        try:
            return action()
        except (GoogleAPIError, GoogleAuthError, RequestException) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise StoreError(f"{what} {self.url}/{key}: {first[:300]}") from error
