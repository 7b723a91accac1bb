"""The schema ledgers of a table's silver and history, in the backup: a column that the source has dropped stands in no catalogue.

Each is an object of its own, written where older events have other columns than the source has now. A restore begins both of
them so.
A history's ledger is another one than silver's: it may have begun later, and then lacks what was dropped before.

Most tables never change, and are backed up once a minute: the store is asked of them in their first week alone. What stands
there by then is of a table that this one has replaced.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from cdc_assets.backup.object_layout import columns_key, history_columns_key
from cdc_assets.chain.fold_specs import history_spec, silver_spec
from cdc_assets.clients.databases.catalogue import CatalogueTable
from cdc_assets.clients.delta_log import open_table
from cdc_assets.clients.object_store import MissingObjectError, ObjectStore
from cdc_assets.clients.platform import Platform
from cdc_assets.registry import names
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import TableStopError
from spark.silver.column_ledger import PROPERTY, TRACKED, ColumnLedger, ledger_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark.specs import SilverSpec

_REPLACES_FOR = timedelta(days=7)


def back_up_columns(store: ObjectStore, lake: str, source: BaseSource, table: Table) -> bool:
    """Whether there was something to write. Raises StoreError: the store cannot be asked."""
    silver = _properties(names.silver_path(lake, source, table))
    history = _properties(names.history_path(lake, source, table)) if table.history == "scd2" else {}
    name, changed = names.table_name(table), _has_past(silver)
    written = False
    if changed or _is_young(silver):
        written = _keep(store, columns_key(source.name, name), silver[PROPERTY], begin=changed)
    changed = changed or _has_past(history)
    if PROPERTY in history and (changed or _is_young(history)):
        written = _keep(store, history_columns_key(source.name, name), json.dumps(history), begin=changed) or written
    return written


def begin_silver(platform: Platform, store: ObjectStore, source: BaseSource, table: Table, found: CatalogueTable) -> bool:
    """An empty silver with the columns that the backup knows of; False where it knows of none, or there is a silver.

    Raises:
        RefusalError: what is in the backup is no ledger.
    """
    from spark.silver import silver_table

    ledger = _silver_ledger(store, source, table)
    if ledger is None:
        return False

    def begin(session: SparkSession, spec: SilverSpec) -> bool:
        return silver_table.seed_silver(session, spec, ledger)

    return platform.spark().run(begin, silver_spec(platform.lake, source, table, found))


def begin_history(platform: Platform, store: ObjectStore, source: BaseSource, table: Table, found: CatalogueTable) -> bool:
    """The same for the table's history, where it has one; with silver's columns where the backup has none of the history's.

    Raises:
        RefusalError: what is in the backup is no ledger.
    """
    from spark.silver import history_versions

    silver = silver_spec(platform.lake, source, table, found)
    if table.history != "scd2" or not silver.keys:
        return False
    properties = _history_properties(store, source, table)
    if not properties:
        return False

    def begin(session: SparkSession, spec: SilverSpec) -> bool:
        return history_versions.seed_history(session, spec, properties)

    return platform.spark().run(begin, history_spec(platform.lake, source, table, silver))


def _properties(path: str) -> dict[str, str]:
    table = open_table(path)
    configuration = {} if table is None else table.metadata().configuration
    return {name: configuration[name] for name in (PROPERTY, TRACKED) if name in configuration}


def _has_past(properties: Mapping[str, str]) -> bool:
    ledger = ledger_in(properties)
    return ledger is not None and ledger.has_past()


def _is_young(properties: Mapping[str, str]) -> bool:
    # A ledger that does not tell when the table began counts as young: then the store is asked once more.
    ledger = ledger_in(properties)
    if ledger is None:
        return False
    try:
        began = datetime.strptime(ledger.history[0].at, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    except (IndexError, ValueError):
        return True
    return datetime.now(timezone.utc) - began < _REPLACES_FOR


def _keep(store: ObjectStore, key: str, text: str, *, begin: bool) -> bool:
    """Whether it was written: what the store has differs, or it has nothing and there is a reason to `begin`."""
    there = _read(store, key)
    if there == text.encode() or (there is None and not begin):
        return False
    store.put(key, text.encode())
    return True


def _silver_ledger(store: ObjectStore, source: BaseSource, table: Table) -> str | None:
    key = columns_key(source.name, names.table_name(table))
    text = _read(store, key)
    return None if text is None else _ledger_text(store, key, text)


def _history_properties(store: ObjectStore, source: BaseSource, table: Table) -> dict[str, str]:
    key = history_columns_key(source.name, names.table_name(table))
    text = _read(store, key)
    if text is None:
        ledger = _silver_ledger(store, source, table)
        return {} if ledger is None else {PROPERTY: ledger}
    try:
        properties_json = json.loads(text)
        properties = {name: str(properties_json[name]) for name in (PROPERTY, TRACKED) if name in properties_json}
        _ledger_text(store, key, properties[PROPERTY].encode())
    except (ValueError, KeyError, TypeError) as error:
        raise _no_ledger(store, key, error) from error
    return properties


def _ledger_text(store: ObjectStore, key: str, text: bytes) -> str:
    try:
        return ColumnLedger.from_text(text.decode()).to_text()
    except (TableStopError, UnicodeDecodeError) as error:
        raise _no_ledger(store, key, error) from error


def _no_ledger(store: ObjectStore, key: str, error: Exception) -> RefusalError:
    return RefusalError(f"{store.url}/{key} is no schema ledger: {str(error)[:200]}; bring it back, or remove it")


def _read(store: ObjectStore, key: str) -> bytes | None:
    try:
        return store.get(key)
    except MissingObjectError:
        return None
