"""Where backups go: a bucket and a prefix, credentials only from the provider's standard chain."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class BackupStore(BaseModel):
    """One bucket (for `local`: a folder) and a prefix in it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["s3", "gcs", "local"]
    bucket: str = Field(min_length=1)
    prefix: str = "cdc"
    endpoint: str | None = None
    create_bucket: bool = False
