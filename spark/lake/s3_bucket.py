"""A bucket of S3, by boto3."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Any, TypeVar

from typing_extensions import override

from spark.errors import LakeStoreError
from spark.lake.bucket import AgedObject, Bucket, FoundObject, Page, client_of_process
from spark.lake.conditional_put import put_unless_there
from spark.lake.store_options import AWS_VARIABLES, s3_client

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
            found = self._client.get_object(Bucket=self.name, Key=key)
            age = _time_told(found) - found["LastModified"].timestamp()
            return AgedObject(bytes(found["Body"].read()), max(0.0, age))

        return self._answer("read", key, ask)

    @override
    def pages(self, prefix: str, after: str = "") -> Iterator[Page]:
        asked: dict[str, Any] = {"Bucket": self.name, "Prefix": prefix, "Delimiter": "/"}
        asked |= {"StartAfter": after} if after else {}
        while True:
            page = self._answer("list", prefix, lambda: self._client.list_objects_v2(**asked))
            folders = [each["Prefix"] for each in page.get("CommonPrefixes", ())]
            yield Page([_object_of(item) for item in page.get("Contents", ())], folders)
            if not page.get("IsTruncated"):
                return
            asked["ContinuationToken"] = page["NextContinuationToken"]

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
        return put_unless_there(lambda: self._put(key, content, IfNoneMatch="*"), LakeStoreError)

    @override
    def delete(self, key: str) -> None:
        self._answer("delete", key, lambda: self._client.delete_object(Bucket=self.name, Key=key))

    @cached_property
    def _client(self) -> Any:
        return client_of_process(AWS_VARIABLES, s3_client)

    def _put(self, key: str, content: bytes, **condition: str) -> None:
        asked = {"Bucket": self.name, "Key": key, "Body": content, **condition}
        self._answer("write", key, lambda: self._client.put_object(**asked))

    def _list_one(self, prefix: str) -> Any:
        return self._answer("list", prefix, lambda: self._client.list_objects_v2(Bucket=self.name, Prefix=prefix, MaxKeys=1))

    def _answer(self, what: str, key: str, ask: Callable[[], Answer]) -> Answer:
        from botocore.exceptions import BotoCoreError, ClientError

        place = f"{self.url}/{key}: {what}"
        try:
            return ask()
        except ClientError as error:
            detail = error.response.get("Error", {})
            if detail.get("Code") in _ABSENT:
                raise FileNotFoundError(f"{place}: there is none") from error
            raise LakeStoreError(f"{place}: {detail.get('Code')}: {detail.get('Message', '')}") from error
        except BotoCoreError as error:
            raise LakeStoreError(f"{place}: {error}; set AWS_… (docs/how-to/object-store-lake.md)") from error


def _object_of(item: Mapping[str, Any]) -> FoundObject:
    return FoundObject(item["Key"], int(item["Size"]), item["LastModified"].timestamp())


def _time_told(answer: Mapping[str, Any]) -> float:
    told = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
    return parsedate_to_datetime(told).timestamp() if told else time.time()
