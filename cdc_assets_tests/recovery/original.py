"""A change log of several tables with all that bronze's rows and commits may hold, and its reading by delta-rs alone."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from cdc_assets.backup.backup_copy import BatchForm, backup_table
from cdc_assets.clients.delta_log import bronze_committed
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets_tests.backup.bronze_tables import topic_of
from spark.events.arrow_records import BRONZE_ARROW
from spark.table.commit_metadata import Committed, TopicCommit, bronze_metadata, fold
from spark.table.delta_rs import open_delta
from spark.table.topic_commits import CommittedTopic

TABLES = ("customers", "orders")
NOON = 1_795_262_400_000_000
HOUR = 3_600_000_000
ODD: tuple[dict[str, Any], ...] = (
    {"key": None, "value": None, "op": None, "position": None, "tx_id": None, "source_ts": None, "snapshot": None},
    {"key": b"\xff\x00", "value": b"\x80not utf-8"},
    {"key": b"", "value": b"", "op": None, "position": None},
    {"value": '{"name":"Zürich \\u0000 line\nsep \u2028"}'.encode(), "snapshot": "first"},
    {"headers": [{"key": "a", "value": b"1"}, {"key": "a", "value": b"\xfe"}, {"key": "ü", "value": None}]},
    {"timestamp": -1000, "source_ts": -1, "op": "r", "snapshot": "true"},
    {"timestamp": NOON + HOUR, "value": b'"null"', "tx_id": 'a"b'},
)


def row(partition: int, offset: int, **facts: Any) -> dict[str, Any]:
    """A record as an ordinary append writes it."""
    return {
        "partition": partition,
        "offset": offset,
        "timestamp": NOON + 1000 * offset,
        "headers": None,
        "key": b'{"id":%d}' % (offset % 7),
        "value": b'{"op":"c","n":%d}' % offset,
        "op": "c",
        "position": f"0000.{offset:016x}.1.{offset:016x}.{offset:016x}",
        "tx_id": str(offset // 3),
        "source_ts": NOON - 5 + offset,
        "snapshot": "false",
        **facts,
    }


def rows(start: int, count: int, *, partition: int = 0, **facts: Any) -> list[dict[str, Any]]:
    return [row(partition, start + n, **facts) for n in range(count)]


@dataclass
class Original:
    """Bronze of a source called shop; `topic_id` is that of the topics of now."""

    path: str
    topic_id: str = "topic-id-1"

    def append(
        self, table: str, records: Sequence[dict[str, Any]], *, ends: dict[int, int] | None = None, epoch: int = 0, **facts: Any
    ) -> None:
        """One commit with these records; `ends` where a range ends behind its last record (markers)."""
        committed, topic = self.committed(), topic_of(table)
        known = committed.topics.get(topic)
        at = known.positions if known is not None and known.topic_id == self.topic_id else {}
        ranges = dict(facts.pop("ranges", {}))
        for partition in sorted({*(each["partition"] for each in records), *(ends or {})} - set(ranges)):
            last = max((each["offset"] + 1 for each in records if each["partition"] == partition), default=0)
            ranges[partition] = (at.get(partition, 0), (ends or {}).get(partition, last))
        placed = [each for each in records if each["position"] is not None]
        share = TopicCommit(
            table=table,
            topic_id=self.topic_id,
            epoch=epoch,
            ranges=ranges,
            records=len(records),
            by_op=dict(Counter("tombstone" if r["value"] is None else r["op"] or "unknown" for r in records)),
            max_position={p: max(r["position"] for r in placed if r["partition"] == p) for p in {r["partition"] for r in placed}},
            last_position={r["partition"]: r["position"] for r in sorted(placed, key=lambda r: r["offset"])},
            min_timestamp=min((r["timestamp"] for r in records), default=None),
            **facts,
        )
        whole = [{**each, "table": table, "topic": topic, "epoch": epoch} for each in records]
        told = CommitProperties(custom_metadata={"userMetadata": bronze_metadata(str(uuid.uuid4()), committed, {topic: share})})
        write_deltalake(self.path, pa.Table.from_pylist(whole, schema=BRONZE_ARROW), mode="append", commit_properties=told)

    def committed(self) -> Committed:
        return committed_of(self.path)

    def back_up(self, store: ObjectStore, *tables: str, max_records: int = 500) -> None:
        for table in tables:
            backup_table(store, source="shop", table=table, bronze_path=self.path, form=BatchForm(max_records=max_records))


def committed_of(path: str) -> Committed:
    if not DeltaTable.is_deltatable(path):
        return fold([])
    return fold([(int(each["version"]), each.get("userMetadata")) for each in DeltaTable(path).history()])


def states(path: str) -> dict[str, CommittedTopic]:
    """What the commits of a log say, as the product reads them."""
    found = bronze_committed(path)
    return {topic: without_sums(state) for topic, state in found.topics.items()} if found else {}


def without_sums(state: CommittedTopic) -> CommittedTopic:
    """A count of none is none."""
    return replace(state, by_op={op: count for op, count in state.by_op.items() if count})


def held(path: str, *tables: str) -> list[dict[str, Any]]:
    """All rows of these tables, read by delta-rs."""
    found = open_delta(path).to_pyarrow_table(filters=[("table", "in", list(tables))])
    return (
        found.select(BRONZE_ARROW.names)
        .sort_by([(n, "ascending") for n in ("table", "epoch", "partition", "offset")])
        .to_pylist()
    )


def quietly(_: str) -> None:
    """For who does not listen."""


def fill(original: Original) -> None:
    """Two tables, two partitions, markers, odd bytes, and snapshots with what was opened behind them."""
    original.append("orders", [row(0, n, **facts) for n, facts in enumerate(ODD)], ends={0: 9, 1: 0}, snapshots={0: 77})
    original.append("orders", [*rows(9, 900), *rows(0, 700, partition=1)], ends={1: 702}, openings={0: {"8": 77}})
    original.append("customers", rows(0, 1200), ends={0: 1201})
    original.append("orders", rows(702, 5, partition=1, op="u"))


def assert_same(original: Original, path: str, *tables: str) -> None:
    assert held(path, *tables) == held(original.path, *tables)
    assert states(path) == {topic: state for topic, state in states(original.path).items() if state.table in tables}
