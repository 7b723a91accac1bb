"""Where backups go: the kinds of object stores, a bucket and a prefix, and the folders of an hour's objects.

A new kind of store is one row here and one in clients.opened_store (docs/how-to/add-an-object-store.md). Credentials come only
from the provider's standard chain. The fields of a pattern such as `{yyyy}-{MM}-{dd}/{HH}` stand in this order, so that a later
hour sorts behind an earlier one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import Field, field_validator

from cdc_assets.registry.field_types import Declared


@dataclass(frozen=True)
class StoreRow:
    """`scheme` begins an object's address. `icon` is Dagster's kind, with its picture."""

    name: str
    scheme: str
    icon: str


ROWS: tuple[StoreRow, ...] = (
    StoreRow("s3", scheme="s3", icon="s3"),
    StoreRow("gcs", scheme="gs", icon="gcs"),
    StoreRow("local", scheme="file", icon="files"),
)
STORES: Mapping[str, StoreRow] = {row.name: row for row in ROWS}


if TYPE_CHECKING:
    StoreName = str
else:
    StoreName = Literal[tuple(STORES)]


class BackupStore(Declared):
    """One bucket (for `local`: a folder) and a prefix in it.

    `endpoint` replaces the provider's own address. Credentials come from where the provider's SDK looks for them
    (environment, profile, instance role), never from here.
    """

    kind: StoreName
    bucket: str = Field(min_length=1)
    prefix: str = "cdc"
    endpoint: str | None = None

    @field_validator("prefix")
    @classmethod
    def _is_a_relative_path(cls, value: str) -> str:
        parts = value.split("/")
        if any(folder in ("", ".", "..") or not re.fullmatch(r"[A-Za-z0-9_.=+-]+", folder) for folder in parts):
            raise ValueError("a prefix is folders separated by single slashes, without a leading or trailing one")
        return value


def parse_store(address: str, *, prefix: str | None = None, endpoint: str | None = None) -> BackupStore:
    """The store at an address: `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, or `file:///FOLDER` with the prefix apart.
    Raises ValueError: it is none."""
    scheme, separator, rest = address.partition("://")
    row = next((row for row in STORES.values() if row.scheme == scheme), None)
    if row is None or not separator or not rest.strip("/"):
        forms = ", ".join(f"{store.scheme}://…" for store in STORES.values())
        raise ValueError(f"{address} is no address of a store: {forms}")
    # A folder's name tells nothing of where the prefix begins.
    bucket, _, within = (rest, "", "") if row.name == "local" else rest.partition("/")
    options = {"prefix": prefix or within.strip("/"), "endpoint": endpoint}
    return BackupStore.model_validate({"kind": row.name, "bucket": bucket, **{k: v for k, v in options.items() if v}})


DEFAULT_HOURS = "dt={yyyy}-{MM}-{dd}/hr={HH}"
_FIELDS = ("yyyy", "MM", "dd", "HH")
_MOST = 120
_TEXT = r"[A-Za-z0-9=._/-]*"
_PATTERN = re.compile(_TEXT + "".join(rf"\{{{name}\}}{_TEXT}" for name in _FIELDS))


def check_hours(pattern: str) -> str:
    """The pattern itself. Raises ValueError: says what is wrong with it, and what one may look like."""
    parts = pattern.split("/")
    if not _PATTERN.fullmatch(pattern) or len(pattern) > _MOST:
        fields = ", ".join(f"{{{name}}}" for name in _FIELDS)
        why = f"needs {fields} once each and in this order, and else letters, digits and = . _ - /"
    elif "" in parts or any(folder.startswith(("_", ".")) for folder in parts):
        why = "may have no empty folder, and none that begins with _ or a point: those are the backup's own"
    else:
        return pattern
    raise ValueError(f"{pattern!r} {why}; such as {{yyyy}}-{{MM}}-{{dd}}/{{HH}} or {DEFAULT_HOURS}")
