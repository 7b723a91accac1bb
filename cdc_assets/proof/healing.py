"""Keys that differ, put right: they are read again through the log, by signals in the source, or folded again. Nothing but
these keys is touched, and nothing is written past the log.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cdc_assets.capture.connectors.debezium_signals import collection, is_unsignallable, own_rows_condition, signals_of
from cdc_assets.capture.preflight.table_models import refuse_held
from cdc_assets.capture.source_columns import catalogue_of
from cdc_assets.chain.fold_specs import silver_spec
from cdc_assets.clients.databases.row_pages import RowReader, Values, parse_key
from cdc_assets.clients.kind_clients import open_reader
from cdc_assets.clients.source_chain import Chain
from cdc_assets.clients.table_concurrency import table_lock
from cdc_assets.proof.comparison_result import IN_SILVER, RowDifference, TableResult
from cdc_assets.registry import names
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import parse_table
from cdc_assets.registry.kinds import kind_of
from cdc_assets.registry.source_declaration import BaseSource, Source, UnaskedSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity
from spark.specs import Column, SilverSpec

DATA = 2048


def ask_for_keys(source: UnaskedSource, table: Table, spec: SilverSpec, keys: Sequence[str]) -> int:
    """Ask the connector to read the rows of these keys (texts) again; how many signals that took.

    Debezium's signal table in the documentation holds 2,048 characters of data, so keys are asked for in as many signals as
    that takes. Each is an incremental snapshot with a condition on the keys' values; its rows come behind everything streamed
    so far. https://debezium.io/documentation/reference/3.6/configuration/signalling.html

    Raises:
        DatabaseError: the source declares no table of signals, or a key cannot be written into a condition.
    """
    declared = names.signal_declaration(source)
    if declared is None:
        raise DatabaseError(
            f"source {source.name} declares no signal table, so its connector cannot be asked for {quantity(len(keys), 'key')}: "
            "make one "
            "with the columns id varchar(42) primary key, type varchar(32), data varchar(2048) (MongoDB: a collection), let the "
            "connector's role and ours write to it, declare it (reconciliation: {signals: schema.table}), and cdc apply"
        )
    reader = open_reader(source.database)
    by_name = {c.name: c for c in spec.columns}
    columns = [by_name[name] for name in spec.keys]
    rows = [parse_key(key, [c.source_type for c in columns]) for key in keys]
    signalled = SignalledTable(names.collection(source, table.id), collection(source, table.id))
    sent = list(signals(reader, signalled, columns, rows))
    ask_id = f"heal-{uuid.uuid4().hex[:12]}"
    for number, data in enumerate(sent):
        reader.signal(parse_table(declared), f"{ask_id}-{number}", "execute-snapshot", data)
    return len(sent)


class SignalledTable(NamedTuple):
    """A table as signals have it: its whole name, and what names it among the `data-collections`."""

    name: str
    pattern: str


def signals(reader: RowReader, wanted: SignalledTable, columns: Sequence[Column], rows: Sequence[Values]) -> Iterator[str]:
    """The data of each signal: as many keys as fit."""
    some: list[Values] = []
    for row in rows:
        if some and len(_data(reader, wanted, columns, [*some, row])) > DATA:
            yield _data(reader, wanted, columns, some)
            some = []
        some.append(row)
    if some:
        yield _data(reader, wanted, columns, some)


def _data(reader: RowReader, signalled: SignalledTable, columns: Sequence[Column], rows: Sequence[Values]) -> str:
    condition = {"data-collection": signalled.name, "filter": reader.condition(columns, rows)}
    return json.dumps({"data-collections": [signalled.pattern], "type": "incremental", "additional-conditions": [condition]})


def heal(chain: Chain[BaseSource], table: Table, result: TableResult) -> tuple[int, int]:
    """Keys folded again, and keys asked for from the source; the chain then carries those like any change.

    - Damage in silver alone (bronze has the source's row): the keys are folded again from bronze.
    - Damage in bronze or before it, or an event in quarantine: the source's rows of these keys are read again through the log,
      by an incremental snapshot with a condition, asked for by a row of the signal table. They come behind everything streamed
      so far, so later changes still win. Where the database writes no texts (MySQL, SQL Server, Oracle, MongoDB) the condition
      names the keys' values, and the signals go to the table that the source declares (`reconciliation: {signals:
      schema.table}`). Topics that others fill cannot be read again.
    - A row that the source no longer has and whose delete bronze never got leaves no event that could be read again: it stays,
      and is named.

    https://debezium.io/documentation/reference/3.7/configuration/signalling.html#debezium-signaling-ad-hoc-incremental-snapshots

    Raises:
        DatabaseError: the table is held, or has no key, its keys are shown as hashes only, or they cannot be read again.
    """
    if not result.differences:
        return 0, 0
    catalogued = catalogue_of(chain, [table])[table.id]
    refuse_held(chain, table, catalogued)
    spec = silver_spec(chain.platform.lake, chain.source, table, catalogued)
    if not spec.keys:
        raise DatabaseError(f"{result.table} has no key: rows cannot be healed one by one; take a new snapshot of the table")
    if set(spec.keys) & set(table.sensitive):
        raise DatabaseError(f"{result.table}: its key is sensitive, so results do not hold it; take a new snapshot of the table")
    again = [d for d in result.differences if d.where != IN_SILVER and d.source is not None]
    refolded = _refold(chain, table, spec, [d.key for d in result.differences if d.where == IN_SILVER])
    _read_again(chain.source, table, spec, again)
    return refolded, len(again)


def _refold(chain: Chain[BaseSource], table: Table, spec: SilverSpec, keys: Sequence[str]) -> int:
    from spark.proof import heal_from_bronze

    if not keys:
        return 0
    with table_lock("silver", chain.source.name, names.table_name(table)):
        return int(chain.platform.spark().run(heal_from_bronze.refold_keys, heal_from_bronze.Refold(spec, tuple(keys))))


def _read_again(source: BaseSource, table: Table, spec: SilverSpec, differences: Sequence[RowDifference]) -> None:
    from cdc_assets.proof.kind_proof import proof_of

    if not differences:
        return
    read_again = proof_of(source).read_again
    if read_again is None:
        raise DatabaseError(
            f"{source.name}/{spec.table}: {quantity(len(differences), 'key')} not in bronze as in the topic, and "
            "nobody can be asked to send them again; if the topic still holds their records, build the table anew from it"
        )
    read_again(source, table, spec, [d.key for d in differences])


def by_signals_of_ours(source: Source, table: Table, spec: SilverSpec, keys: Sequence[str]) -> None:
    """One signal with the database's own text of the rows, in the table that we make.

    Raises:
        DatabaseError: no signal can name the table, or its table cannot be made.
    """
    from spark.proof.row_text import RowText

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
    of_keys = RowText(spec).one_of_sql(keys)
    own = f"{own_rows_condition(table.id)} AND " if table.only else ""
    condition = {"data-collection": ".".join(table.id), "filter": own + of_keys}
    data = {"data-collections": [collection(source, table.id)], "type": "incremental", "additional-conditions": [condition]}
    database.send_signal(signals, f"heal-{uuid.uuid4().hex[:12]}", "execute-snapshot", json.dumps(data))
