"""A backup of one table, run, and what it has left in its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cdc_assets.backup.backup_copy import BackupResult, BatchForm, backup_table
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets_tests.backup.bronze_tables import Bronze


def run(store: ObjectStore, bronze: Bronze, table: str = "orders", **options: Any) -> BackupResult:
    return backup_table(store, source="shop", table=table, bronze_path=bronze.path, form=BatchForm(**options))


def contents(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}
