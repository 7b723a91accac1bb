"""How many rows the connector says to have read of each table, and whether their records are in bronze.

A topic that lost its first records before anybody read it tells nothing of them where its offsets begin at 0 again: it was
deleted and made again, or the copy began late. But Debezium says how many rows a snapshot has read. Bronze counts its
records by op anyhow, so a comparison costs one look at the notification topic, until the first one could be made.

An incremental snapshot declares rows too, but leaves out those that change while it reads. Its rows are not counted here. But one
of a whole table, by `cdc snapshot`, has read again what was lost: what was declared before it is not asked for any more, as the
table may have fewer rows by then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cdc_assets.connectors.notifications import FINE, INITIAL, KeptNotifications
from cdc_assets.quantity import quantity
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.kafka import KafkaCluster
from cdc_assets.resources.kafka import TopicState as Topic
from cdc_assets.volumetry.transport import TransportCount
from spark.delta.commits import CommittedTopic


@dataclass(frozen=True)
class DeclaredRows:
    """Rows of a table that a whole snapshot has read; every record of them was sent before `until_ms`."""

    rows: int
    until_ms: int


@dataclass(frozen=True)
class Declarations:
    """By table (`schema.table`), the newest. `complete`: nothing is to be waited for."""

    of_tables: Mapping[str, DeclaredRows] = field(default_factory=dict)
    complete: bool = True

    def judge(
        self,
        count: TransportCount,
        core: KafkaCluster,
        topic: Topic,
        held: CommittedTopic | None,
        *,
        of: tuple[BaseSource, Table],
    ) -> TransportCount:
        """The count with what bronze (`held`) lacks of the snapshot; not `judged` while records may still be on their way.

        `topic` was looked at after the declarations were read. Bronze's later epochs begin with a reading of their own.
        """
        source, table = of
        declared = self.of_tables.get(".".join(table.id))
        if declared is None or held is None or held.epoch:
            return replace(count, judged=self.complete)
        if _are_on_their_way(count, core, topic, declared):
            return replace(count, judged=False)
        there = held.by_op.get("r", 0)
        if there >= declared.rows:
            return count
        told = (
            f"a snapshot has read {quantity(declared.rows, 'row')} of the table, and bronze has {quantity(there, 'record')} by "
            "a snapshot: the others were lost before the first read (a topic made again, a copy that began late); "
            f"to read them: cdc snapshot {source.name} {table.name}"
        )
        return replace(count, differences=(*count.differences, told))


def _are_on_their_way(count: TransportCount, core: KafkaCluster, topic: Topic, declared: DeclaredRows) -> bool:
    """Whether a record that bronze does not have may be of the snapshot: it was sent before the snapshot's end."""
    for partition, tally in count.topic.partitions.items():
        ahead = {partition: (tally.next_offset, topic.ends.get(partition, 0))}
        record = next(iter(core.records(topic.name, ahead)), None)
        if record is not None and record.timestamp <= declared.until_ms:
            return True
    return False


def declarations(notifications: KeptNotifications | None) -> Declarations:
    """From what the connector has said until now, if it says anything anywhere: of whole snapshots, and tables read again.

    Only a snapshot that has ended counts: its last rows are sent at its end.
    """
    if notifications is None:
        return Declarations()
    found: dict[str, DeclaredRows] = {}
    read: dict[str, int] = {}
    ended = False
    for each in notifications.said:
        if each.is_table_again:
            found[each.table] = DeclaredRows(0, each.at_ms)
        elif each.aggregate != INITIAL:
            continue
        elif each.table and each.tells_rows and each.data.get("status") in FINE:
            read[each.table] = each.rows
        elif each.type == "COMPLETED":
            found |= {table: DeclaredRows(rows, each.at_ms) for table, rows in read.items()}
            read, ended = {}, True
        elif each.type in ("STARTED", "ABORTED"):
            read = {}
    return Declarations(found, ended)
