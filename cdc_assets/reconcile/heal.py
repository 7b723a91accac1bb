"""Keys that differ, put right: nothing but these keys is touched, and nothing is written past the log.

- Damage in silver alone (bronze has the source's row): the keys are folded again from bronze.
- Damage in bronze or before it, or an event in quarantine: the source's rows of these keys are read again through the log, by
  an incremental snapshot with a condition, asked for by a row of the signal table. They come behind everything streamed so
  far, so later changes still win.
  Where the database writes no texts (MySQL, SQL Server, Oracle, MongoDB) the condition names the keys' values, and the signals go
  to the table that the source declares (`reconciliation: {signals: schema.table}`). Topics that others fill cannot be read again.
- A row that the source no longer has and whose delete bronze never got leaves no event that could be read again: it stays,
  and is named.

https://debezium.io/documentation/reference/3.7/configuration/signalling.html#debezium-signaling-ad-hoc-incremental-snapshots
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import Any

from cdc_assets import names
from cdc_assets.connectors.signals import collection, is_unsignallable, own_rows_condition
from cdc_assets.errors import DatabaseError
from cdc_assets.kinds import kind_of
from cdc_assets.preflight.table_models import refuse_held
from cdc_assets.quantity import quantity
from cdc_assets.reconcile.result import IN_SILVER, RowDifference, TableResult
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource, CapturedSource, Source
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.table_lock import table_lock
from cdc_assets.tables.fold_specs import silver_spec
from cdc_assets.tables.source_catalogue import catalogue_of
from spark.specs import SilverSpec


def heal(platform: Platform, source: BaseSource, table: Table, result: TableResult) -> tuple[int, int]:
    """Keys folded again, and keys asked for from the source; the chain then carries those like any change.

    Raises:
        DatabaseError: the table is held, or has no key, its keys are shown as hashes only, or they cannot be read again.
    """
    if not result.differences:
        return 0, 0
    found = catalogue_of(platform, source, [table])[table.id]
    refuse_held(platform, source, table, found)
    spec = silver_spec(platform.lake, source, table, found)
    if not spec.keys:
        raise DatabaseError(f"{result.table} has no key: rows cannot be healed one by one; take a new snapshot of the table")
    if set(spec.keys) & set(table.sensitive):
        raise DatabaseError(f"{result.table}: its key is sensitive, so results do not hold it; take a new snapshot of the table")
    again = [d for d in result.differences if d.where != IN_SILVER and d.source is not None]
    refolded = _refold(platform, source, table, spec, [d.key for d in result.differences if d.where == IN_SILVER])
    _read_again(source, table, spec, again)
    return refolded, len(again)


def _refold(platform: Platform, source: BaseSource, table: Table, spec: SilverSpec, keys: Sequence[str]) -> int:
    from spark.reconcile import refold

    if not keys:
        return 0
    with table_lock("silver", source.name, names.table_name(table)):
        return int(platform.spark().run(refold.run, refold.Refold(spec, tuple(keys))))


def _read_again(source: BaseSource, table: Table, spec: SilverSpec, differences: Sequence[RowDifference]) -> None:
    if not differences:
        return
    part = kind_of(source).read_again
    if part is None:
        raise DatabaseError(
            f"{source.name}/{spec.table}: {quantity(len(differences), 'key')} not in bronze as in the topic, and "
            "nobody can be asked to send them again; if the topic still holds their records, build the table anew from it"
        )
    part.load()(source, table, spec, [d.key for d in differences])


def by_signals_of_ours(source: Source, table: Table, spec: SilverSpec, keys: Sequence[str]) -> None:
    """One signal with the database's own text of the rows, in the table that we make.

    Raises:
        DatabaseError: no signal can name the table, or its table cannot be made.
    """
    from spark.reconcile.row_text import RowText

    if is_unsignallable(table.id):
        raise DatabaseError(
            f"{source.name}/{spec.table}: no signal can name a table with a blank, quote or dot in its name; "
            f"cdc onboard {source.name} '{table.name}' --again --route temporary reads it again"
        )
    signals = names.signal_table(source)
    database = signals_of(source)
    database.ensure_signal_table(signals)
    if kind_of(source).has_slot:
        database.publish(names.publication_name(source), [signals])
    # In the connection's own settings: the key's text must not depend on them, which times would.
    wanted = RowText(spec).one_of_sql(keys)
    own = f"{own_rows_condition(table.id)} AND " if table.only else ""
    condition = {"data-collection": ".".join(table.id), "filter": own + wanted}
    data = {"data-collections": [collection(source, table.id)], "type": "incremental", "additional-conditions": [condition]}
    database.send_signal(signals, f"heal-{uuid.uuid4().hex[:12]}", "execute-snapshot", json.dumps(data))


def signals_of(source: CapturedSource) -> Any:
    """The source's database, as signals are written to it."""
    part = kind_of(source).signals
    assert part is not None, source.kind_name
    return part.load()(source.database)
