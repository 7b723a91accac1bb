"""The slices of many small tables counted together: bronze's rows by one query of Spark's, the rest by Arrow, here.

    bronze, one read ──▶ rows by table ──▶ window, kind, hops, fate ─┐
    both clusters, one reading each ─────▶ window, kind ─────────────┴─▶ panes

It counts what spark.ledger.spark_slices counts, of tables and records that are plain; a table that is not is left to that, with
nothing booked of it. A test counts the same histories in both ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.bronze.held import all_floors, row_epoch
from spark.delta import plans
from spark.envelopes.envelope import TOMBSTONE, UNKNOWN
from spark.errors import LeftToSparkError
from spark.ledger import panes, small_links
from spark.ledger.appends import Append, append_times, oldest_record
from spark.ledger.booked import Booked, place_behind
from spark.ledger.counts import has_rows_of
from spark.ledger.folds import ends, epochs
from spark.ledger.small_fates import is_plain, plain_fates
from spark.ledger.small_links import SmallTransport, is_read_here, window_of
from spark.ledger.spec import LedgerSpec
from spark.ledger.table_slice import TableSlice
from spark.ledger.terms import FATES, WINDOW

SMALL = 250_000
"""Records that are counted together, of one table or of many: they are held in memory, from both clusters."""


def count_small(
    session: SparkSession, spec: LedgerSpec, parts: Sequence[TableSlice], appended: Callable[[], list[Append]]
) -> dict[str, Booked]:
    """What the small and plain ones of these slices add to the ledger; the others are not in it."""
    if spec.again:
        return {}
    found: dict[str, Booked] = {}
    small = [part for part in parts if _is_small(part)]
    for group in _groups(_whole_in_bronze(session, spec, small) if small else []):
        try:
            links = small_links.count_links(spec, group)
        except LeftToSparkError:
            continue
        rows = _bronze_rows(session, spec, group, appended())
        for part in group:
            try:
                found[part.name] = _count(part, links[part.name], rows, appended())
            except LeftToSparkError:
                continue
    return found


def _is_small(part: TableSlice) -> bool:
    table = part.table
    one_epoch = all(len(numbers) == 1 for numbers in epochs(part.cut).values())
    return part.records <= SMALL and one_epoch and is_plain(part) and is_read_here(table.mirror) and is_read_here(table.topic)


def _whole_in_bronze(session: SparkSession, spec: LedgerSpec, parts: Sequence[TableSlice]) -> list[TableSlice]:
    """Those of which bronze has given nothing to the backup that is to be counted."""
    floors = all_floors(session, spec.bronze_path)
    return [part for part in parts if has_rows_of({t: f for t, f in floors.items() if f.table == part.name}, part.cut)]


def _groups(parts: Sequence[TableSlice]) -> Iterator[list[TableSlice]]:
    group: list[TableSlice] = []
    records = 0
    for part in parts:
        if group and records + part.records > SMALL:
            yield group
            group, records = [], 0
        group.append(part)
        records += part.records
    if group:
        yield group


def _bronze_rows(session: SparkSession, spec: LedgerSpec, parts: Sequence[TableSlice], found: list[Append]) -> pa.Table:
    """The rows of these slices, and others beside them, which no fold of theirs took. Bronze is appended to only, so that the
    newest version that one of them has folded holds what all have."""
    plans.suit(session, events=sum(part.records for part in parts))
    version = max(part.cut.last.bronze_version for part in parts)
    bronze: DataFrame = session.read.format("delta").option("versionAsOf", version).load(spec.bronze_path)
    wanted = sf.col("table").isin([part.name for part in parts])
    if (oldest := _oldest(parts, found)) is not None:
        wanted &= sf.col("timestamp") >= sf.timestamp_micros(sf.lit(oldest))
    times = [sf.unix_micros(name).alias(name) for name in ("timestamp", "source_ts")]
    told = (row_epoch(bronze).alias("epoch"), sf.col("value").isNull().alias("is_tombstone"))
    columns = ("table", "topic", "partition", "offset", "key", "op", "position")
    return bronze.where(wanted).select(*columns, *times, *told).toArrow()


def _oldest(parts: Sequence[TableSlice], found: list[Append]) -> int | None:
    """Kafka's lowest time of what was appended since the ledger's place, which spares Spark older files: in microseconds; None
    where it is not known of all."""
    lowest = [oldest_record(found, part.name, part.cut) for part in parts if part.records]
    return None if None in lowest else min(filter(None, lowest), default=None)


def _count(part: TableSlice, links: SmallTransport, rows: pa.Table, found: list[Append]) -> Booked:
    records = _of_slice(part, rows.filter(pc.equal(rows["table"], part.name)).combine_chunks())
    told = _with_links(_sums(part, records, found), links)
    return Booked(told, place_behind(part, links.reached, pc.max(told["newest"]).as_py() or 0), part.cut.left)


def _of_slice(part: TableSlice, rows: pa.Table) -> pa.Table:
    """The rows that the folds took, with their `place` (as folds.place) and the number of their `fold`."""
    epoch = {topic: numbers[0] for topic, numbers in epochs(part.cut).items()}
    offsets = rows["offset"].to_numpy()
    topics, partitions = rows["topic"].to_pylist(), rows["partition"].to_pylist()
    places = np.array([f"{t}/{epoch.get(t)}/{p}" for t, p in zip(topics, partitions, strict=True)], object)
    folds = np.full(rows.num_rows, -1)
    for place, taken in ends(part.cut).items():
        own = np.flatnonzero(places == place)
        passed = sum((offsets[own] >= end).astype(np.int64) for end in taken)
        folds[own] = np.where(passed <= len(part.cut.folds), passed - 1, -1)
    # A row of another incarnation of the topic says so itself.
    own_epoch = [e is None or e == epoch.get(t) for e, t in zip(rows["epoch"].to_pylist(), topics, strict=True)]
    rows = rows.append_column("place", pa.array(places, pa.string())).append_column("fold", pa.array(folds))
    return rows.filter(pa.array((folds >= 0) & np.array(own_epoch, bool)))


def _sums(part: TableSlice, records: pa.Table, found: list[Append]) -> pa.Table:
    """By window and kind: records, fates, and how long each hop took; as counts.count_windows and panes.wide."""
    fates = plain_fates(part, records)
    happened = pc.coalesce(records["source_ts"], records["timestamp"]).to_numpy()
    windows = window_of(happened)
    arrived = _millis(records["timestamp"])
    kinds = pc.if_else(records["is_tombstone"], TOMBSTONE, pc.coalesce(records["op"], pa.scalar(UNKNOWN)))
    has_time = pc.invert(pc.is_in(kinds, value_set=pa.array([TOMBSTONE, UNKNOWN])))
    appended = _append_millis(part, records, found)
    folded = pa.array([_epoch_millis(fold.at) for fold in part.cut.folds], pa.int64()).take(records["fold"])
    hops = {
        "capture": pc.subtract(arrived, _millis(records["source_ts"])),
        "bronze": pc.subtract(appended, arrived),
        "silver": pc.subtract(folded, appended),
    }
    after_end = pc.subtract(arrived, pa.array((windows + WINDOW) * 1000))
    measures = {
        "bronze": pa.array(np.ones(records.num_rows, np.int64)),
        **{name: pa.array([int(fate == name) for fate in fates], pa.int64()) for name in FATES},
        "newest": pc.if_else(has_time, pa.array(happened), None),
        "late_by_ms_max": pc.max_element_wise(after_end, 0),
    }
    for hop, ms in hops.items():
        measures |= {f"{hop}_n": pc.is_valid(ms).cast(pa.int64()), f"{hop}_ms_sum": ms, f"{hop}_ms_max": ms}
    return _sum_windows(pa.table({"window": pa.array(windows), "kind": kinds, **measures}))


def _millis(micros: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whole milliseconds below: as unix_millis."""
    return pc.floor(pc.divide(micros.cast(pa.float64()), 1000.0)).cast(pa.int64())


def _epoch_millis(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _append_millis(part: TableSlice, records: pa.Table, found: list[Append]) -> pa.Array:
    """When bronze had each record, in milliseconds; null where that is no longer known."""
    times = append_times(found, part.name, part.cut)
    places, offsets = _texts(records["place"]), records["offset"].to_numpy()
    answer, is_known = np.zeros(len(offsets), np.int64), np.zeros(len(offsets), bool)
    for place, spans in times.spans.items():
        ended = np.array([end for end, _ in spans])
        came = np.array([_epoch_millis(at) for _, at in spans])
        own = np.flatnonzero((places == place) & (offsets >= times.first[place]))
        passed = np.searchsorted(ended, offsets[own], side="right")
        within = passed < len(spans)
        answer[own[within]] = came[passed[within]]
        is_known[own[within]] = True
    return pa.array(answer, mask=~is_known)


def _texts(values: pa.ChunkedArray) -> np.ndarray:
    return values.to_numpy(zero_copy_only=False)


def _sum_windows(rows: pa.Table) -> pa.Table:
    """Rows of measures by window and kind; a sum of nothing is 0, a maximum of nothing is null."""
    maxima = {*panes.MAXIMA, "newest"}
    names = [name for name in rows.column_names if name not in ("window", "kind")]
    asked = [(name, "max" if name in maxima else "sum") for name in names]
    found = rows.group_by(["window", "kind"], use_threads=False).aggregate(asked)
    columns = {"window": found["window"], "kind": found["kind"]}
    for name, how in asked:
        values = found[f"{name}_{how}"]
        columns[name] = values if how == "max" else pc.coalesce(values, pa.scalar(0, pa.int64()))
    return pa.table(columns)


def _with_links(lake: pa.Table, links: SmallTransport) -> pa.Table:
    """With `topic` and `mirror` too, where they could be counted, else null; in panes.ARROW."""
    told = {"mirror": links.mirror, "topic": links.topic}
    known = {name: counts for name, counts in told.items() if counts is not None}
    parts = [lake]
    for name, counts in known.items():
        windows, kinds = zip(*counts, strict=True) if counts else ((), ())
        values = (pa.array(windows, pa.int64()), pa.array(kinds, pa.string()), pa.array(list(counts.values()), pa.int64()))
        parts.append(pa.table(dict(zip(("window", "kind", name), values, strict=True))))
    empty = {name: pa.array([], pa.int64()) for name in known}
    parts.append(pa.table({"window": pa.array([], pa.int64()), "kind": pa.array([], pa.string()), **empty}))
    found = _sum_windows(pa.concat_tables(parts, promote_options="default"))
    columns = {
        name: found[name] if name in found.column_names else pa.nulls(found.num_rows, pa.int64()) for name in panes.ARROW.names
    }
    return pa.table(columns).cast(panes.ARROW)
