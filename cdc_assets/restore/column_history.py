"""The schema ledger of a silver table, in the backup: a column that the source has dropped stands in no catalogue.

It is an object of its own, and is written where a table's columns have changed since its birth. A restore begins silver with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdc_assets import names
from cdc_assets.backup.layout import columns_key
from cdc_assets.errors import RestoreError
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.databases.catalogue import CatalogueTable
from cdc_assets.resources.object_store import ObjectStore
from cdc_assets.resources.object_store.errors import MissingObjectError
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.schema_ledger import ledger_of
from cdc_assets.tables.fold_specs import silver_spec
from spark.errors import CommitMetadataError
from spark.schema.column_ledger import ColumnLedger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark.specs import SilverSpec


def back_up_columns(store: ObjectStore, lake: str, source: BaseSource, table: Table) -> bool:
    """Whether there was something to write.

    Raises:
        StoreError: the store cannot be asked.
    """
    ledger = ledger_of(names.silver_path(lake, source, table))
    if ledger is None or not any(change.kind != "create" for entry in ledger.history for change in entry.changes):
        return False
    key, text = columns_key(source.name, names.table_name(table)), ledger.to_text().encode()
    if _read(store, key) == text:
        return False
    store.put(key, text)
    return True


def begin_silver(platform: Platform, store: ObjectStore, source: BaseSource, table: Table, found: CatalogueTable) -> bool:
    """An empty silver with the columns that the backup knows of; False where it knows of none, or there is a silver.

    Raises:
        RestoreError: what is in the backup is no ledger.
    """
    from spark.silver import seed

    key = columns_key(source.name, names.table_name(table))
    text = _read(store, key)
    if text is None:
        return False
    try:
        ledger = ColumnLedger.from_text(text.decode())
    except (CommitMetadataError, UnicodeDecodeError) as error:
        raise RestoreError(f"{store.url}/{key} is no schema ledger: {str(error)[:200]}; bring it back, or remove it") from error

    def begin(session: SparkSession, spec: SilverSpec) -> bool:
        return seed.run(session, spec, ledger.to_text())

    return platform.spark().run(begin, silver_spec(platform.lake, source, table, found))


def _read(store: ObjectStore, key: str) -> bytes | None:
    try:
        return store.get(key)
    except MissingObjectError:
        return None
