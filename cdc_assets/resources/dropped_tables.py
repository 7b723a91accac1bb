"""What the connector's schema history tells of each table: where in the binlog it was dropped or made, and its models.

MariaDB's catalogue has no number that survives ALTER and changes with DROP alone, but its binlog holds DDL, and Debezium keeps
that of captured tables, each statement with the place where its transaction begins: what lies below is of the old table.
Debezium writes a statement down before it sends a row behind it, so what bronze holds of the new table is told of here.
A CREATE is written down only where there was no such table (so after DROP DATABASE too, which is not), a RENAME as an ALTER.
https://debezium.io/documentation/reference/3.5/connectors/mariadb.html#mariadb-schema-history-topic
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cdc_assets.registry.identifiers import TableId
from cdc_assets.resources.databases.binlog_position import BinlogPosition
from cdc_assets.resources.databases.catalogue import CatalogueTable
from cdc_assets.resources.kafka import KafkaCluster
from cdc_assets.resources.table_models import models_in_order
from spark.delta.identifiers import double_quote

NEVER = "0"
"""The generation of a table that was not dropped since its connector looks at it."""
_ANOTHER = ("DROP", "CREATE")


def with_schema_history(
    cluster: KafkaCluster, topic: str, tables: Mapping[TableId, CatalogueTable]
) -> Mapping[TableId, CatalogueTable]:
    """The tables, each with the place where it was last dropped or made as its generation, and with its models.

    The topic is read behind the catalogue: a model that differs is a wrong one, or older than the table.
    """
    state = cluster.states([topic]).get(topic)
    if state is None:
        return tables
    records = [json.loads(record.value) for record in cluster.records(topic, state.ranges) if record.value]
    found, models = drops(records, list(tables)), models_in_order(records, tables)
    return {
        id_: replace(table, drops=(places := found[id_]), generation=(NEVER, *places)[-1], models=models.get(id_, ()))
        for id_, table in tables.items()
    }


def drops(records: Iterable[Mapping[str, Any]], tables: Sequence[TableId]) -> dict[TableId, tuple[str, ...]]:
    """Where each table was dropped or made, lowest first, by the records of a schema history."""
    found: dict[TableId, set[BinlogPosition]] = {table: set() for table in tables}
    for record in records:
        position = record.get("position") or {}
        if position.get("snapshot") or not position.get("file"):
            continue
        for table in tables:
            if _drops(record, table):
                found[table].add(BinlogPosition.of(position["file"], position["pos"]))
    return {table: tuple(at.in_positions for at in sorted(places)) for table, places in found.items()}


def _drops(record: Mapping[str, Any], table: TableId) -> bool:
    return any(change["type"] in _ANOTHER and change["id"] == double_quote(*table) for change in record.get("tableChanges") or ())
