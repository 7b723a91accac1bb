"""Some keys of a MySQL, SQL Server, Oracle or MongoDB read again through the log: signals in a table that the source declares.

Debezium's signal table in the documentation holds 2,048 characters of data, so keys are asked for in as many signals as that
takes. Each is an incremental snapshot with a condition on the keys' values; its rows come behind everything streamed so far.
https://debezium.io/documentation/reference/3.6/configuration/signalling.html
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cdc_assets import names
from cdc_assets.connectors.signals import collection
from cdc_assets.errors import DatabaseError
from cdc_assets.quantity import quantity
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.identifiers import parse_table
from cdc_assets.registry.unasked_source import UnaskedSource
from cdc_assets.resources.rows.open import open_reader
from cdc_assets.resources.rows.paged import RowReader, Values
from cdc_assets.resources.rows.texts import parse_key
from spark.specs import Column, SilverSpec

DATA = 2048


def ask(source: UnaskedSource, table: Table, spec: SilverSpec, keys: Sequence[str]) -> int:
    """Ask the connector to read the rows of these keys (texts) again; how many signals that took.

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
    wanted = SignalledTable(names.collection(source, table.id), collection(source, table.id))
    sent = list(signals(reader, wanted, columns, rows))
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


def _data(reader: RowReader, wanted: SignalledTable, columns: Sequence[Column], rows: Sequence[Values]) -> str:
    condition = {"data-collection": wanted.name, "filter": reader.condition(columns, rows)}
    return json.dumps({"data-collections": [wanted.pattern], "type": "incremental", "additional-conditions": [condition]})
