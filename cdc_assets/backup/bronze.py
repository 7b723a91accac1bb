"""A table's slice of its source's change log at one version, read through delta-rs: no JVM, bounded memory.

Two passes over what is new: the first one measures (offset windows with their records and bytes, a few numbers per
thousand records), from which batches are cut; the second one reads one batch at a time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cdc_assets.backup.layout import Ranges
from cdc_assets.backup.line_runs import LineRun, line_runs
from cdc_assets.backup.lines import BronzeRow, Lines
from cdc_assets.backup.object_layout import ObjectLayout
from cdc_assets.errors import BackupError
from cdc_assets.resources.delta_dataset import open_dataset
from cdc_assets.resources.delta_log import of_epoch
from spark.delta.commits import Committed
from spark.delta.delta_rs import open_delta
from spark.delta.floor import Floor, floors_of

# Offsets per window of the first pass: batches end where a window ends.
_WINDOW = 500
# pyarrow's defaults hold 16 batches of 131,072 rows of several files at a time: gigabytes of change events.
_SCAN = {"batch_size": 8192, "batch_readahead": 2, "fragment_readahead": 1}
Windows = Mapping[int, Mapping[int, tuple[int, int]]]
"""Per partition, first offset of the window -> (records, bytes)."""


@dataclass(frozen=True)
class BronzeSlice:
    """The rows of one epoch of a topic; `since` (microseconds) lets files be skipped by the timestamps in their statistics.
    `id` is the table's own. `floor`: up to where only an earlier backup has the topic."""

    dataset: Any
    topic: str
    epoch: int = 0
    since: int | None = None
    id: str = ""
    floor: Floor | None = None

    def windows(self, ranges: Ranges) -> Windows:
        """First pass: where the records are, and how large."""
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.dataset as ds

        size = pc.add(_length(ds.field("key")), _length(ds.field("value")))
        columns = {"partition": ds.field("partition"), "window": pc.divide(ds.field("offset"), _WINDOW), "bytes": size}
        records: Counter[tuple[int, int]] = Counter()
        sizes: Counter[tuple[int, int]] = Counter()
        for batch in self.dataset.to_batches(columns=columns, filter=self._filter(ranges), **_SCAN):
            grouped = pa.Table.from_batches([batch]).group_by(["partition", "window"])
            for row in grouped.aggregate([("bytes", "sum"), ([], "count_all")]).to_pylist():
                records[row["partition"], row["window"]] += row["count_all"]
                sizes[row["partition"], row["window"]] += row["bytes_sum"]
        found: dict[int, dict[int, tuple[int, int]]] = defaultdict(dict)
        for partition, window in sorted(records):
            found[partition][window * _WINDOW] = (records[partition, window], sizes[partition, window])
        return found

    def runs(self, ranges: Ranges, layout: ObjectLayout | None = None) -> Iterator[LineRun]:
        """Second pass: the lines in order of partition and offset, by runs of one hour and partition.

        Raises:
            BackupError: when bronze holds an offset twice, or a record without a timestamp.
        """
        import pyarrow as pa

        table = self.dataset.to_table(columns=list(BronzeRow._fields), filter=self._filter(ranges), **_SCAN)
        if not _is_ordered(table):
            table = table.sort_by([("partition", "ascending"), ("offset", "ascending")])
        self._assert_sound(table)
        moments = table["timestamp"].cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
        table = table.set_column(table.column_names.index("timestamp"), "timestamp", moments)
        micros = table["source_ts"].cast(pa.timestamp("us", "UTC"), safe=False).cast(pa.int64())
        table = table.set_column(table.column_names.index("source_ts"), "source_ts", micros)
        lines = Lines(self.topic, layout)
        for batch in table.to_batches(max_chunksize=4096):
            if len(batch):
                yield from line_runs(batch, lines)
        del table
        pa.default_memory_pool().release_unused()

    def _assert_sound(self, table: Any) -> None:
        import numpy as np

        partitions, offsets = (table[name].to_numpy() for name in ("partition", "offset"))
        twice = np.flatnonzero((np.diff(partitions) == 0) & (np.diff(offsets) == 0))
        without = np.flatnonzero(table["timestamp"].is_null().to_numpy())
        for places, wrong in ((twice, "twice"), (without, "without a timestamp")):
            if len(places):
                at = f"offset {offsets[places[0]]} of {self.topic} partition {partitions[places[0]]}"
                raise BackupError(f"bronze has {at} {wrong}: repair bronze")

    def _filter(self, ranges: Ranges) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.dataset as ds

        offset = ds.field("offset")
        anywhere = pc.scalar(False)
        for partition, (first, end) in ranges.items():
            if end > first:
                anywhere |= (ds.field("partition") == partition) & (offset >= first) & (offset < end)
        epoch = of_epoch(self.dataset, self.epoch)
        if "epoch" in self.dataset.schema.names:
            # Of a log that was begun without the column: what the offsets alone tell.
            epoch |= ds.field("epoch").is_null()
        wanted = (ds.field("topic") == self.topic) & anywhere & epoch
        if self.since is not None:
            wanted &= ds.field("timestamp") >= pa.scalar(self.since, pa.timestamp("us", "UTC"))
        return wanted


def open_bronze(path: str, version: int, topic: str) -> BronzeSlice:
    """The slice of a topic at a version, of epoch 0."""
    table = open_delta(path, version=version)
    told = table.metadata()
    return BronzeSlice(open_dataset(table, path), topic, id=str(told.id), floor=floors_of(told.configuration).get(topic))


def oldest_timestamp(committed: Committed, topic: str, after_version: int | None) -> int | None:
    """Lowest Kafka timestamp (microseconds) among a topic's appends after a version; None when not all are known."""
    if after_version is None or committed.oldest_seen > after_version + 1:
        return None
    shares = [
        topics[topic]
        for version, topics in committed.appends
        if version > after_version and topic in topics and topics[topic].records
    ]
    if any(share.min_timestamp is None for share in shares):
        return None
    return min((share.min_timestamp for share in shares if share.min_timestamp is not None), default=None)


def cut(
    windows: Windows, *, start: Mapping[int, int], end: Mapping[int, int], max_records: int, max_bytes: int
) -> Iterator[dict[int, tuple[int, int]]]:
    """Consecutive batches from `start` to `end`, each within both bounds, or of one window.

    Every batch names every partition; one that it takes nothing of has an empty range. Without any record there is
    no batch: nothing would be in it.
    """
    at = {partition: start.get(partition, 0) for partition in end}
    batch, records, size = dict(at), 0, 0
    for partition in sorted(end):
        for window, (more_records, more_size) in sorted(windows.get(partition, {}).items()):
            if records and (records + more_records > max_records or size + more_size > max_bytes):
                yield {p: (at[p], batch[p]) for p in at}
                at, records, size = dict(batch), 0, 0
            batch[partition] = min(window + _WINDOW, end[partition])
            records, size = records + more_records, size + more_size
        if partition in windows:
            batch[partition] = end[partition]
    if records:
        yield {p: (at[p], end[p]) for p in at}


def _is_ordered(table: Any) -> bool:
    """As files of one partition are, mostly: a sort copies all of it into new memory."""
    import numpy as np

    partitions, offsets = (np.diff(table[name].to_numpy()) for name in ("partition", "offset"))
    return bool(np.all((partitions > 0) | ((partitions == 0) & (offsets >= 0))))


def _length(column: Any) -> Any:
    import pyarrow.compute as pc

    return pc.coalesce(pc.binary_length(column), pc.scalar(0))
