"""Definitions of tables in a connector's schema history topic: read from one, and written into another at a place of the log.

A connector goes on from its offset with the definitions that its history holds at or before it; one of a table that it did not
capture is not among them (`store.only.captured.tables.ddl`). Debezium has no way to add one to a connector that keeps its
offset, so a record is written as Debezium writes those of a snapshot. Read back by AbstractSchemaHistory.recover (3.5.0).
https://debezium.io/documentation/reference/3.5/connectors/mariadb.html#mariadb-schema-history-topic
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from cdc_assets.errors import KafkaError
from cdc_assets.quantity import quantity
from cdc_assets.registry.identifiers import TableId
from cdc_assets.resources.kafka import KafkaCluster
from spark.delta.identifiers import double_quote

# The rest of an offset is not about a place: what is skipped of a transaction, an incremental snapshot's state.
_PLACE = ("ts_sec", "file", "pos", "gtids", "server_id")


def definitions(cluster: KafkaCluster, topic: str, tables: Sequence[TableId]) -> dict[TableId, dict[str, Any]]:
    """The last record of each table in which it is made; one without such a record is left out."""
    state = cluster.states([topic]).get(topic)
    if state is None:
        return {}
    ids, found = {double_quote(*table): table for table in tables}, {}
    for read in cluster.records(topic, state.ranges):
        record = json.loads(read.value or b"{}")
        for change in record.get("tableChanges") or ():
            if change["type"] == "CREATE" and change["id"] in ids:
                found[ids[change["id"]]] = {**record, "tableChanges": [change]}
    return found


def define(cluster: KafkaCluster, topic: str, records: Sequence[Mapping[str, Any]], at: Mapping[str, Any]) -> None:
    """Write definitions into a stopped connector's history, valid from its stored offset on.

    `at` is the offset as Connect tells it, `{"partition": …, "offset": …}`. Marked as a snapshot's: no table was made there
    (cdc_assets.resources.dropped_tables).

    Raises:
        KafkaError: when one did not arrive.
    """
    from confluent_kafka import Producer

    place = {name: value for name, value in at["offset"].items() if name in _PLACE}
    failed: list[str] = []
    producer = cluster.clients.make(Producer, **{"enable.idempotence": True})
    for record in records:
        written = {
            "source": at["partition"],
            "position": {**place, "snapshot": True},
            "ts_ms": int(time.time() * 1000),
            **{name: record[name] for name in ("databaseName", "ddl", "tableChanges") if name in record},
        }
        value = json.dumps(written).encode()
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _: failed.append(str(error)) if error else None)
    left = producer.flush(30.0)
    cluster.clients.refuse()
    if failed or left:
        raise KafkaError(
            f"topic {topic} at {cluster.bootstrap}: {'; '.join(failed) or quantity(left, 'record') + ' not acknowledged'}"
        )
