"""The table of object stores: a row per kind that a backup can go to (docs/how-to/add-an-object-store.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cdc_assets.kinds.kind import Part


@dataclass(frozen=True)
class StoreRow:
    """`store` is `(config) -> ObjectStore`. `scheme` begins an object's address. `icon` is Dagster's kind, with its picture."""

    name: str
    store: Part
    scheme: str
    icon: str


ROWS: tuple[StoreRow, ...] = (
    StoreRow("s3", Part("cdc_assets.resources.object_store.s3:S3Store"), scheme="s3", icon="s3"),
    StoreRow("gcs", Part("cdc_assets.resources.object_store.gcs:GcsStore"), scheme="gs", icon="gcs"),
    StoreRow("local", Part("cdc_assets.resources.object_store.local:LocalStore"), scheme="file", icon="files"),
)
STORES: Mapping[str, StoreRow] = {row.name: row for row in ROWS}
