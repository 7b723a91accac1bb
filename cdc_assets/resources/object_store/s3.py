"""S3 through boto3. Conditional writes: https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cdc_assets.errors import StoreError
from cdc_assets.registry.backup_store import BackupStore
from cdc_assets.resources.object_store.base import ObjectStore, StoredObject


class S3Store(ObjectStore):
    """One bucket; endpoint and credentials from the standard chain unless the registry names an endpoint."""

    scheme = "s3"

    def __init__(self, config: BackupStore) -> None:
        super().__init__(config)
        import boto3
        from botocore.config import Config

        self._client: Any = boto3.client(
            "s3",
            endpoint_url=config.endpoint,
            config=Config(s3={"addressing_style": "path"}, retries={"mode": "standard", "max_attempts": 5}),
        )

    def put(self, key: str, data: bytes) -> None:
        """Write an object, whether there is one or not."""
        self._call("put_object", key, Key=self.full_key(key), Body=data)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """`If-None-Match: *`: the store answers 412 when there is one, 409 when another writer is at it."""
        try:
            self._call("put_object", key, Key=self.full_key(key), Body=data, IfNoneMatch="*")
        except StoreError as error:
            if _code_of(error) in {"PreconditionFailed", "412", "ConditionalRequestConflict"}:
                return False
            raise
        return True

    def get(self, key: str) -> bytes:
        """The object's bytes."""
        data: bytes = self._call("get_object", key, Key=self.full_key(key))["Body"].read()
        return data

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Objects below the prefix, page by page. An ETag without a dash is the MD5 of a plain upload."""
        arguments: dict[str, Any] = {"Prefix": self.full_prefix(prefix)}
        while True:
            page = self._call("list_objects_v2", prefix, **arguments)
            for item in page.get("Contents", ()):
                tag = item["ETag"].strip('"')
                yield StoredObject(self.relative(item["Key"]), item["Size"], tag if "-" not in tag else None)
            if not page.get("IsTruncated"):
                return
            arguments["ContinuationToken"] = page["NextContinuationToken"]

    def delete(self, key: str) -> None:
        """Remove an object."""
        self._call("delete_object", key, Key=self.full_key(key))

    def _call(self, operation: str, key: str, **arguments: Any) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return getattr(self._client, operation)(Bucket=self.config.bucket, **arguments)
        except ClientError as error:
            detail = error.response.get("Error", {})
            message = f"{operation} {self.url}/{key}: {detail.get('Code', '?')}: {detail.get('Message', '')}"
            raise StoreError(message) from error
        except BotoCoreError as error:
            raise StoreError(f"{operation} {self.url}/{key}: {error}") from error


def _code_of(error: StoreError) -> str:
    response = getattr(error.__cause__, "response", {})
    return str(response.get("Error", {}).get("Code", ""))
