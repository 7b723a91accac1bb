"""delta-rs in this process: librdkafka reads, PyArrow parses and takes the newest of each key, delta-rs merges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from benchmarks.bench.errors import BenchError
from benchmarks.bench.peers.peer import NewRecords, Peer, PeerTable
from benchmarks.bench.totals import read_totals
from cdc_assets.clients.kafka import KafkaCluster

if TYPE_CHECKING:
    import pyarrow as pa

_THREADS = 4
_AT_A_TIME = 100_000
_POLL_SECONDS = 10.0


class DeltaRs(Peer):
    """No Spark; its tables lie below `folder`."""

    name = "delta-rs, PyArrow"

    def __init__(self, kafka: KafkaCluster, folder: Path) -> None:
        super().__init__(kafka)
        self._folder = folder

    @override
    def merge(self, wanted: Sequence[NewRecords]) -> None:
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(self._merge_one, wanted))

    def _merge_one(self, records: NewRecords) -> None:
        from deltalake import DeltaTable, write_deltalake

        path, changes = str(self._folder / records.table.name), newest(self._read_values(records))
        if changes.num_rows == 0:
            return
        if not DeltaTable.is_deltatable(path):
            write_deltalake(path, _surviving(changes))
            return
        into = DeltaTable(path).merge(changes, "t.aid = s.aid", source_alias="s", target_alias="t", streamed_exec=False)
        columns = {name: f"s.{name}" for name in changes.column_names if name != "op"}
        (
            into.when_matched_delete("s.op = 'd'")
            .when_matched_update(columns)
            .when_not_matched_insert(columns, predicate="s.op <> 'd'")
            .execute()
        )

    def _read_values(self, records: NewRecords) -> Iterator[list[bytes]]:
        """The values of the records, as they lie in their partitions, many at a time."""
        from confluent_kafka import TopicPartition

        for partition, (start, end) in records.ranges.items():
            with self.kafka.clients.lend_reader() as consumer:
                consumer.assign([TopicPartition(records.table.topic, partition, start)])
                at = start
                while at < end:
                    messages = consumer.consume(min(end - at, _AT_A_TIME), _POLL_SECONDS)
                    if not messages or messages[0].error():
                        why = messages[0].error() if messages else f"nothing within {_POLL_SECONDS:.0f} s"
                        raise BenchError(f"{self.name}: {records.table.topic} at offset {at}, of {end}: {why}")
                    at = messages[-1].offset() + 1
                    # Behind the last record a reader of ours is told that there is none.
                    yield [message.value() for message in messages if not message.error()]

    @override
    def totals(self, table: PeerTable) -> tuple[int, int]:
        return read_totals(str(self._folder / table.name))


def newest(batches: Iterator[list[bytes]]) -> pa.Table:
    """Of each key its last event, of all batches: the row's columns, and the op."""

    return _last([_last([_parse(batch)]) for batch in batches if batch] or [_parse([])])


def _parse(values: list[bytes]) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.json

    row = pa.struct([("aid", pa.int32()), ("bid", pa.int32()), ("abalance", pa.int32()), ("filler", pa.string())])
    schema = pa.schema([("op", pa.string()), ("before", pa.struct([("aid", pa.int32())])), ("after", row)])
    if not values:
        events = schema.empty_table()
    else:
        options = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        events = pyarrow.json.read_json(pa.BufferReader(b"\n".join(values)), parse_options=options)
    after, before = events["after"].combine_chunks(), events["before"].combine_chunks()
    columns: dict[str, Any] = {field.name: pc.struct_field(after, field.name) for field in row}
    columns["aid"] = pc.coalesce(columns["aid"], pc.struct_field(before, "aid"))
    return pa.table({**columns, "op": events["op"].combine_chunks()})


def _last(tables: Sequence[pa.Table]) -> pa.Table:
    """Of each key the last row; the tables are in the order of their events."""
    import numpy as np
    import pyarrow as pa

    events = pa.concat_tables(tables)
    numbered = events.select(["aid"]).append_column("number", pa.array(np.arange(events.num_rows)))
    return events.take(numbered.group_by("aid").aggregate([("number", "max")])["number_max"])


def _surviving(changes: pa.Table) -> pa.Table:
    """The rows that are there after their last event."""
    import pyarrow.compute as pc

    kept = changes.filter(pc.not_equal(changes["op"], "d"))
    return kept.drop_columns(["op"])
