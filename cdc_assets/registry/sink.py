"""A sink connector that writes a source's topics to a bucket, where a team prefers one to the backup of bronze."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from cdc_assets.references import SecretRef
from cdc_assets.registry.declared import Declared


class Sink(Declared):
    """A sink connector that writes the source's topics to a bucket, for teams that prefer one to the backup of bronze.

    One bucket serves all tables of the source. Credentials are secrets of the worker. Without them, its own role is used.
    S3 takes `access_key_id` and `secret_access_key`, and `endpoint` for a store that is not Amazon's. GCS takes `credentials`
    (the service account's JSON).
    """

    kind: Literal["s3", "gcs"]
    bucket: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$")
    prefix: str = Field(default="cdc", pattern=r"^[A-Za-z0-9_.=+-]+(/[A-Za-z0-9_.=+-]+)*$")
    region: str = Field(default="us-east-1", pattern=r"^[a-z0-9-]+$")
    endpoint: str | None = Field(default=None, pattern=r"^https?://[^\s/@]+$")
    access_key_id: SecretRef | None = None
    secret_access_key: SecretRef | None = None
    credentials: SecretRef | None = None

    @model_validator(mode="after")
    def _has_whole_credentials(self) -> Sink:
        if (self.access_key_id is None) != (self.secret_access_key is None):
            raise ValueError("give access_key_id and secret_access_key, or neither")
        if self.credentials is not None and self.kind == "s3":
            raise ValueError("credentials are for gcs; s3 takes access_key_id and secret_access_key")
        if self.access_key_id is not None and self.kind == "gcs":
            raise ValueError("access_key_id is for s3; gcs takes credentials")
        if self.endpoint is not None and self.kind == "gcs":
            raise ValueError("endpoint is for s3")
        return self
