"""Where backups go: a bucket and a prefix, credentials only from the provider's standard chain."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from cdc_assets.kinds.stores import STORES

if TYPE_CHECKING:
    StoreName = str
else:
    StoreName = Literal[tuple(STORES)]


class BackupStore(BaseModel):
    """One bucket (for `local`: a folder) and a prefix in it.

    `endpoint` replaces the provider's own address. Credentials come from where the provider's SDK looks for them
    (environment, profile, instance role), never from here.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: StoreName
    bucket: str = Field(min_length=1)
    prefix: str = "cdc"
    endpoint: str | None = None

    @field_validator("prefix")
    @classmethod
    def _is_a_relative_path(cls, value: str) -> str:
        parts = value.split("/")
        if any(part in ("", ".", "..") or not re.fullmatch(r"[A-Za-z0-9_.=+-]+", part) for part in parts):
            raise ValueError("a prefix is folders separated by single slashes, without a leading or trailing one")
        return value


def parse_store(address: str, *, prefix: str | None = None, endpoint: str | None = None) -> BackupStore:
    """The store at an address: `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, or `file:///FOLDER` with the prefix apart.

    Raises:
        ValueError: it is none.
    """
    scheme, found, rest = address.partition("://")
    row = next((row for row in STORES.values() if row.scheme == scheme), None)
    if row is None or not found or not rest.strip("/"):
        known = ", ".join(f"{each.scheme}://…" for each in STORES.values())
        raise ValueError(f"{address} is no address of a store: {known}")
    # A folder's name tells nothing of where the prefix begins.
    bucket, _, within = (rest, "", "") if row.name == "local" else rest.partition("/")
    said = {"prefix": prefix or within.strip("/"), "endpoint": endpoint}
    return BackupStore.model_validate({"kind": row.name, "bucket": bucket, **{k: v for k, v in said.items() if v}})
