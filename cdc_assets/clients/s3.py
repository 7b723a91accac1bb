"""S3 through boto3.

Plain PUTs: a backup object is at most a few MB, far below the 5 GB where S3 wants several parts. boto3 adds a CRC
that the store checks, and an ETag without a dash in a listing is the content's MD5 (unless a KMS key encrypts it).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cdc_assets.clients.object_store import MissingObjectError, ObjectStore, StoredObject
from cdc_assets.registry.backup_store import BackupStore
from cdc_assets.registry.errors import StoreError
from spark.table.buckets import put_unless_there, s3_code


class S3Store(ObjectStore):
    """One bucket; endpoint and credentials from the standard chain unless the registry names an endpoint."""

    def __init__(self, config: BackupStore) -> None:
        super().__init__(config)
        from boto3.session import Session
        from botocore.config import Config

        # A session of its own: boto3's default one must not be used by several threads at a time.
        self._client: Any = Session().client(
            "s3",
            endpoint_url=config.endpoint,
            config=Config(
                s3={"addressing_style": "path"},
                retries={"mode": "standard", "max_attempts": 5},
                connect_timeout=10,
                read_timeout=60,
            ),
        )

    def put(self, key: str, data: bytes) -> None:
        """Write an object, whether there is one or not."""
        self._call("put_object", key, Key=self.full_key(key), Body=data)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """`If-None-Match: *`: 412 when there is one, 409 when another write is on its way (asked again then)."""
        full = self.full_key(key)
        return put_unless_there(lambda: self._call("put_object", key, Key=full, Body=data, IfNoneMatch="*"), StoreError)

    def get(self, key: str) -> bytes:
        """The object's bytes; MissingObjectError where there is none."""
        full = self.full_key(key)
        return self._answer(
            "get_object", key, lambda: bytes(self._client.get_object(Bucket=self.config.bucket, Key=full)["Body"].read())
        )

    def list(self, prefix: str, *, after: str = "") -> Iterator[StoredObject]:
        """Objects below the prefix, page by page."""
        arguments: dict[str, Any] = {"Prefix": self.full_prefix(prefix)}
        if after:
            arguments["StartAfter"] = self.full_key(after)
        while True:
            page = self._call("list_objects_v2", prefix, **arguments)
            for item in page.get("Contents", ()):
                tag = item["ETag"].strip('"')
                yield StoredObject(self.relative(item["Key"]), item["Size"], tag if "-" not in tag else None)
            if not page.get("IsTruncated"):
                return
            arguments["ContinuationToken"] = page["NextContinuationToken"]

    def delete(self, key: str) -> None:
        """Remove an object; one that is gone is no error."""
        self._call("delete_object", key, Key=self.full_key(key))

    def create_bucket(self) -> None:
        """Make the bucket unless it is ours already."""
        try:
            self._call("create_bucket", "")
        except StoreError as error:
            if s3_code(error) not in {"BucketAlreadyOwnedByYou", "BucketAlreadyExists"}:
                raise

    def _call(self, operation: str, key: str, **arguments: Any) -> Any:
        return self._answer(operation, key, lambda: getattr(self._client, operation)(Bucket=self.config.bucket, **arguments))

    def _answer(self, operation: str, key: str, ask: Any) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

        call = f"{operation} {self.url}/{key}"
        try:
            return ask()
        except ClientError as error:
            detail = error.response.get("Error", {})
            code = str(detail.get("Code", "?"))
            kind = MissingObjectError if code == "NoSuchKey" else StoreError
            raise kind(f"{call}: {code}: {detail.get('Message', '')}") from error
        except (NoCredentialsError, PartialCredentialsError) as error:
            raise StoreError(f"{call}: {error}; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY") from error
        except BotoCoreError as error:
            raise StoreError(f"{call}: {error}") from error
