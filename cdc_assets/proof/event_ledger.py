"""The event ledger of a source: one run of its count, its windows read from the Delta files alone, and per hop whether
every window balances. What counts is the Spark side's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cdc_assets.capture.source_columns import catalogue_of
from cdc_assets.chain.fold_specs import silver_spec
from cdc_assets.clients.delta_log import ledger_counted, open_table, silver_committed
from cdc_assets.clients.delta_rows import open_dataset
from cdc_assets.clients.kafka import KafkaCluster, TopicState
from cdc_assets.clients.schema_ledger import last_known
from cdc_assets.clients.source_chain import Chain
from cdc_assets.clients.table_concurrency import table_lock
from cdc_assets.registry import names
from cdc_assets.registry.errors import ServiceError
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity
from spark.proof.ledger_contract import FATES, HOPS, LATE, LINKS, TOO_LATE, Counted
from spark.specs import JobResult, TopicRange

if TYPE_CHECKING:
    from spark.proof.ledger_contract import LedgerSpec

FEW_ROWS = 200_000
"""Of some 30 numbers each: 50 MB."""
WINDOWS = {"1m": timedelta(minutes=1), "1h": timedelta(hours=1), "1d": timedelta(days=1)}


@dataclass
class WindowCount:
    """One window and op. `topic` and `mirror` are None where they could not be counted.

    `late` and `too_late` are how many of the records came by a late pane; `late_by` is the greatest time (seconds) between
    the window's end and the record's arrival in Kafka. `lag` is mean and maximum (seconds) per hop.
    """

    start: datetime
    op: str
    counts: dict[str, int | None]
    late: int = 0
    too_late: int = 0
    late_by: float = 0.0
    lag: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def fates(self) -> int:
        """Records with a fate that we can name."""
        return sum(self.counts[name] or 0 for name in FATES if name != "unaccounted")

    def to_json(self) -> dict[str, Any]:
        """What `-o json` prints of one window and operation."""
        lag = {hop: {"mean_seconds": round(mean, 3), "max_seconds": top} for hop, (mean, top) in self.lag.items()}
        late = {"late": self.late, "too_late": self.too_late, "late_by_seconds": self.late_by}
        return {"window_start": self.start.isoformat(), "op": self.op, **self.counts, **late, "lag": lag}


class SourceLedger:
    """The ledger of a source as it is when it is first asked: its log is read once, and so are its rows while they are few."""

    def __init__(self, lake: str, source: BaseSource) -> None:
        self._path = names.ledger_path(lake, source)
        self.places = places(lake, source)

    def place(self, table: Table) -> Counted | None:
        """Up to where the table is counted; None where nothing is."""
        return self.places.get(names.table_name(table))

    def windows(self, table: Table, *, window: str = "1m", since: datetime | None = None) -> list[WindowCount]:
        """The table's windows in order; `window` is 1m, 1h or 1d (UTC)."""
        import pyarrow.dataset as ds

        if self._dataset is None:
            return []
        condition = ds.field("table") == names.table_name(table)
        if since is not None:
            condition &= ds.field("window_start") >= since
        panes = self._dataset.to_table(filter=condition) if self._rows is None else self._rows.filter(condition)
        counted = self.place(table)
        return windows(panes, WINDOWS[window], is_counted=counted is not None and not counted.uncounted)

    @cached_property
    def _dataset(self) -> Any:
        opened = open_table(self._path)
        return None if opened is None else open_dataset(opened, self._path)

    @cached_property
    def _rows(self) -> Any:
        """All of them, where that is less than to look through the files for each table."""
        return self._dataset.to_table() if self._dataset.count_rows() <= FEW_ROWS else None


def read_windows(
    lake: str, source: BaseSource, table: Table, *, window: str = "1m", since: datetime | None = None
) -> list[WindowCount]:
    """The windows of one table in order; `window` is 1m, 1h or 1d (UTC)."""
    return SourceLedger(lake, source).windows(table, window=window, since=since)


def windows(panes: Any, size: timedelta, *, is_counted: bool = True) -> list[WindowCount]:
    """Panes (an Arrow table of the ledger's columns) summed to windows of this size.

    `is_counted`: the topics are, by now; a pane that does not tell them is of before, and a later one has told its window.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    micros = int(size.total_seconds() * 1_000_000)
    started = pc.cast(panes["window_start"], pa.timestamp("us", "UTC")).cast(pa.int64())
    window = pc.multiply(pc.divide(started, micros), micros)
    for kind in (LATE, TOO_LATE):
        panes = panes.append_column(f"{kind}_records", pc.if_else(pc.equal(panes["pane"], kind), panes["bronze"], 0))
    panes = panes.append_column("window", window)
    sums = [*FATES, *LINKS, f"{LATE}_records", f"{TOO_LATE}_records", *[f"{h}_{p}" for h in HOPS for p in ("n", "ms_sum")]]
    maxima = ["late_by_ms_max", *[f"{h}_ms_max" for h in HOPS]]
    keep_null = pc.ScalarAggregateOptions(skip_nulls=is_counted, min_count=1)
    aggregates = [(n, "sum", keep_null if n in LINKS else None) for n in sums] + [(n, "max", None) for n in maxima]
    grouped = panes.group_by(["window", "op"]).aggregate(aggregates)
    return sorted((_window(row) for row in grouped.to_pylist()), key=lambda w: (w.start, w.op))


def _window(row: Mapping[str, Any]) -> WindowCount:
    lag = {}
    for hop in HOPS:
        if row[f"{hop}_n_sum"]:
            lag[hop] = (row[f"{hop}_ms_sum_sum"] / row[f"{hop}_n_sum"] / 1000, (row[f"{hop}_ms_max_max"] or 0) / 1000)
    return WindowCount(
        start=datetime.fromtimestamp(row["window"] / 1_000_000, timezone.utc),
        op=row["op"],
        counts={name: row[f"{name}_sum"] for name in (*LINKS, *FATES)},
        late=row[f"{LATE}_records_sum"],
        too_late=row[f"{TOO_LATE}_records_sum"],
        late_by=(row["late_by_ms_max_max"] or 0) / 1000,
        lag=lag,
    )


def windows_before_watermark(found: Sequence[WindowCount], place: Counted, window: str) -> list[WindowCount]:
    """The windows that the table's watermark has passed."""
    passed = datetime.fromtimestamp(place.watermark / 1_000_000, timezone.utc)
    return [w for w in found if w.start + WINDOWS[window] <= passed]


def total(found: Sequence[WindowCount]) -> dict[str, int | None]:
    """All windows as one."""
    sums: dict[str, int | None] = {}
    for name in (*LINKS, *FATES):
        values = [w.counts[name] for w in found]
        sums[name] = None if None in values else sum(v or 0 for v in values)
    return sums


def places(lake: str, source: BaseSource) -> dict[str, Counted]:
    """Each table's place in the ledger, by short name; a table of which nothing has been counted is left out."""
    return ledger_counted(names.ledger_path(lake, source))


BALANCED_HOPS = ("topic_mirror", "mirror_bronze", "bronze_fates")
SHOWN = 20


@dataclass(frozen=True)
class Hop:
    """One hop: both sums, the windows that differ, and what stood in the way of counting (empty: nothing)."""

    name: str
    left: int | None
    right: int | None
    differing: tuple[WindowCount, ...]
    uncounted: str = ""

    @property
    def balanced(self) -> bool:
        """Every window is equal on both sides, and all of them could be counted."""
        return not self.differing and not self.uncounted

    def sentence(self) -> str:
        """The balance in one sentence, with the first window that differs."""
        here, there = self.name.split("_")
        if self.differing:
            first = self.differing[0]
            values = f"{_side(first, here)} in {here}, {_side(first, there)} in {there}"
            window = f"{first.start:%Y-%m-%d %H:%M} {first.op}"
            return f"{quantity(len(self.differing), 'window')} out of balance; the first is {window}: {values}"
        if self.uncounted:
            return f"not counted: {self.uncounted}"
        return f"{quantity(self.left or 0, 'event')} in {here} and in {there}, equal in every window"


def hops(windows: Sequence[WindowCount], counted: Counted, *, mirrored: bool = True) -> list[Hop]:
    """The hops of one table's ledger; a topic that is not mirrored has no hop of its own to the mirror."""
    sums = total(windows)
    hops_of = []
    for name in BALANCED_HOPS if mirrored else BALANCED_HOPS[1:]:
        here, there = name.split("_")
        sides = [(w, _side(w, here), _side(w, there)) for w in windows]
        differing = [w for w, left, right in sides if left is not None and right is not None and left != right]
        counts = (sums[here], sum(sums[f] or 0 for f in FATES if f != "unaccounted") if there == "fates" else sums[there])
        why = counted.uncounted if name != "bronze_fates" else ""
        if not why and None in counts:
            why = "a run of the ledger could not reach the topics"
        hops_of.append(Hop(name, *counts, tuple(differing), why))
    return hops_of


def _side(window: WindowCount, link: str) -> int | None:
    return window.fates if link == "fates" else window.counts[link]


def count_events(chain: Chain[BaseSource], tables: Sequence[Table], *, again: bool = False) -> JobResult:
    """Bring the ledger up to what silver has folded of these tables."""
    from spark.proof import ledger_job

    with table_lock("ledger", chain.source.name, "all"):
        return chain.platform.spark().run(ledger_job.run, ledger_spec(chain, tables, again=again))


def ledger_spec(chain: Chain[BaseSource], tables: Sequence[Table], *, again: bool = False) -> LedgerSpec:
    """What the job needs: first how far silver has folded, then what the topics hold, which so is as much or more."""
    from spark.proof.ledger_contract import LedgerSpec, LedgerTable

    folded = {table.id: silver_committed(chain.silver_path(table)) for table in tables}
    lake = chain.platform.lake_kafka()
    core = chain.platform.core_kafka(chain.source.cluster) if names.is_mirrored(chain.source) else None
    catalogue = dict(catalogue_of(chain, tables))
    for table in tables:
        # Of a table that the source has no more silver has folded the events all the same.
        path = chain.silver_path(table)
        if table.id not in catalogue and (gone := last_known(path, table.id, keyed=False)):
            catalogue[table.id] = gone
    here = lake.states([names.lake_topic(chain.source, table) for table in tables])
    there = core.states([names.topic(chain.source, table) for table in tables]) if core else {}
    thinned = (topics_with_compaction(lake, here), topics_with_compaction(core, there) if core else frozenset())
    parts = [
        LedgerTable(
            silver=silver_spec(chain.platform.lake, chain.source, table, catalogue[table.id]),
            topic=_range(chain.source, table, names.topic(chain.source, table), there) if core else None,
            mirror=_range(chain.source, table, names.lake_topic(chain.source, table), here),
            compacted=_of(thinned, names.lake_topic(chain.source, table), names.topic(chain.source, table)),
            upto=cut.version,
        )
        for table in tables
        if table.id in catalogue and (cut := folded[table.id]) is not None
    ]
    return LedgerSpec(
        source=chain.source.name,
        path=names.ledger_path(chain.platform.lake, chain.source),
        bronze_path=chain.bronze_path,
        tables=tuple(parts),
        core_bootstrap=core.bootstrap if core else "",
        core_login=core.login if core else "",
        lake_bootstrap=lake.bootstrap,
        lake_login=lake.login,
        allowed_lateness=int(chain.source.ledger.allowed_lateness.total_seconds()),
        again=again,
    )


def topics_with_compaction(cluster: KafkaCluster, topics: Collection[str]) -> frozenset[str]:
    """Those of these topics that compaction may take records out of."""
    return frozenset(name for name, config in cluster.topic_configs(topics).items() if "compact" in config["cleanup.policy"])


def _of(thinned: tuple[frozenset[str], frozenset[str]], mirrored: str, topic: str) -> str:
    """The one of a table's two topics that is compacted, else nothing."""
    return mirrored if mirrored in thinned[0] else topic if topic in thinned[1] else ""


def behind(lake: str, source: BaseSource, table: Table, place: Counted | None) -> int:
    """Records that silver has folded and the ledger, whose place for the table is `place`, has not counted."""
    folded = silver_committed(names.silver_path(lake, source, table))
    done = sum(state.topic_records for state in place.folded.values()) if place else 0
    return sum(state.topic_records for state in folded.topics.values()) - done if folded else 0


def _range(source: BaseSource, table: Table, topic: str, states: Mapping[str, TopicState]) -> TopicRange:
    if topic not in states:
        raise ServiceError(
            f"topic {topic} does not exist, and silver has folded records of it: the ledger cannot count it. Was it deleted? "
            f"Materialize the topic and mirror assets of {source.name}/{names.table_name(table)}"
        )
    state = states[topic]
    form = source.record_form(table)
    moved = state.moves_of(state.ranges)
    ranges = dict(state.ranges)
    return TopicRange(
        names.table_name(table), state.name, state.topic_id, 0, ranges, **form, event_time=table.time_field, moved=moved
    )
