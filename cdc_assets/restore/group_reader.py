"""Reads a group of a table's batches: its rows up to the point of the restore, and what bronze's commits say of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from cdc_assets.backup.manifest import BatchPlan, ManifestObject
from cdc_assets.errors import DamagedObjectError
from cdc_assets.quantity import quantity
from cdc_assets.resources.object_store import ObjectStore
from cdc_assets.restore.backed_up_table import READERS
from cdc_assets.restore.older_lines import CompleteRows, OlderLines
from cdc_assets.restore.restore_point import RestorePoint
from cdc_assets.restore.row_groups import Reached, RowGroup
from cdc_assets.restore.stored_rows import has_all_columns, read_object, read_rows
from spark.delta.topic_commits import CommittedTopic, TopicCommit

if TYPE_CHECKING:
    import pyarrow as pa

_ORDER = ("partition", "offset")


@dataclass(frozen=True)
class GroupReader:
    """Of one table. `broken`, by key, are objects that the listing shows to be damaged: they are not read."""

    store: ObjectStore
    point: RestorePoint
    older: OlderLines
    broken: Mapping[str, str] = field(default_factory=dict)

    def read(self, group: RowGroup, before: Reached) -> tuple[pa.Table, Reached]:
        """The rows in bronze's columns, those of a partition in their order, and the state behind them."""
        with ThreadPoolExecutor(READERS) as pool:
            parts = list(pool.map(partial(self._rows, group.plan), group.objects))
        damage = tuple(part for part in parts if isinstance(part, str))
        held = [part for part in parts if not isinstance(part, str)]
        rows, stopped = self._up_to_point(_in_order([part.rows for part in held]), group.plan.epoch, before.stopped)
        unknown = sum(part.unknown for part in held)
        reached = Reached(before.state, stopped, (*before.damage, *damage), before.unknown + unknown)
        if stopped and not rows.num_rows:
            return rows, reached  # an epoch whose records lie behind the point is not begun
        ranges = _ranges(group, rows, before.stopped, stopped)
        share = _share(group.plan, rows, ranges, [part.snapshots for part in held])
        return rows, replace(reached, state=share.after(before.state))

    def _rows(self, plan: BatchPlan, item: ManifestObject) -> CompleteRows | str:
        """An object's rows, or what is wrong with it."""
        try:
            if item.key in self.broken:
                raise DamagedObjectError(item.key, self.broken[item.key])
            lines = read_object(self.store, item)
            rows = _of_plan(read_rows(lines, item, plan.layout.values), plan)
            return self.older.complete(rows, known=has_all_columns(lines))
        except DamagedObjectError as error:
            held = f"{quantity(item.records, 'record')}, offsets {item.min_offset} to {item.max_offset}"
            return f"{error} ({held} of partition {item.partition})"

    def _up_to_point(self, rows: pa.Table, epoch: int, stopped: frozenset[int]) -> tuple[pa.Table, frozenset[int]]:
        """Of each partition what stands before the first record that lies behind the point, in this group or an earlier one."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        partitions = rows["partition"].to_numpy()
        beyond = pc.fill_null(self.point.beyond(rows, epoch), False).to_numpy()
        kept = ~np.isin(partitions, sorted(stopped))
        for partition in np.unique(partitions[beyond & kept]).tolist():
            stopped |= {partition}
            place = np.flatnonzero(partitions == partition)
            kept[place[np.flatnonzero(beyond[place])[0] :]] = False
        return (rows if kept.all() else rows.filter(pa.array(kept))), stopped


def _of_plan(rows: pa.Table, plan: BatchPlan) -> pa.Table:
    """The rows in bronze's columns."""
    import pyarrow as pa

    from spark.small_batches.commit import SCHEMA

    for name, value in (("table", plan.table), ("topic", plan.topic), ("epoch", plan.epoch)):
        rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
    return rows.select(SCHEMA.names).cast(SCHEMA)


def _in_order(parts: Sequence[pa.Table]) -> pa.Table:
    import pyarrow as pa

    from spark.envelopes.arrow_rows import sort_rows
    from spark.small_batches.commit import SCHEMA

    return sort_rows(pa.concat_tables(parts), _ORDER) if parts else SCHEMA.empty_table()


def _ranges(group: RowGroup, rows: pa.Table, before: frozenset[int], stopped: frozenset[int]) -> dict[int, tuple[int, int]]:
    """Those of the group; a partition that ends in it does so behind its last row, one that ended before has none."""
    last = rows.group_by("partition").aggregate([("offset", "max")]).to_pylist()
    ends = {each["partition"]: each["offset_max"] + 1 for each in last}
    found = {p: each for p, each in group.ranges.items() if p not in before}
    return {p: (start, ends.get(p, start) if p in stopped else end) for p, (start, end) in found.items()}


def _share(
    plan: BatchPlan, rows: pa.Table, ranges: dict[int, tuple[int, int]], snapshots: Sequence[Mapping[int, int]]
) -> TopicCommit:
    """What a commit of these rows says of their topic, as those that appended them first have said it."""
    import pyarrow.compute as pc

    facts = {"table": plan.table, "topic_id": plan.topic_id, "epoch": plan.epoch, "positions": {}, **plan.facts}
    told = CommittedTopic.from_dict(facts)
    kinds = pc.if_else(pc.is_null(rows["value"]), "tombstone", pc.coalesce(rows["op"], "unknown"))
    placed = rows.filter(pc.is_valid(rows["position"])).group_by("partition", use_threads=False)
    reach = placed.aggregate([("position", "max"), ("position", "last")]).to_pylist()
    highest = dict(told.snapshots)
    for partition, lsn in (pair for each in snapshots for pair in each.items()):
        highest[partition] = max(lsn, highest.get(partition, lsn))
    return TopicCommit(
        table=told.table,
        topic_id=told.topic_id,
        epoch=told.epoch,
        ranges=ranges,
        records=rows.num_rows,
        by_op={each["values"]: each["counts"] for each in pc.value_counts(kinds).to_pylist()},
        max_position={each["partition"]: each["position_max"] for each in reach},
        last_position={each["partition"]: each["position_last"] for each in reach},
        snapshots=highest,
        openings=told.openings,
        schema_ids=told.schema_ids,
    )
