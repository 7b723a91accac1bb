"""A table's backup as files of bronze: some batches each, in their order, read up to the point of the restore, with what
bronze's commits would say of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from cdc_assets.backup.manifest import BatchPlan, Manifest, ManifestObject
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.recovery.backed_up_table import READERS, BackedUpTable
from cdc_assets.recovery.restore_point import RestorePoint
from cdc_assets.recovery.stored_rows import parse_rows, read_object
from cdc_assets.registry.errors import BackupError
from spark.errors import quantity
from spark.table.topic_commits import CommittedTopic, TopicCommit

if TYPE_CHECKING:
    import pyarrow as pa

_RECORDS, _BYTES = 400_000, 16 << 20
"""Of a group, as objects: some 200 MiB of lines, which are in memory twice."""


@dataclass(frozen=True)
class RowGroup:
    """Batches of one epoch; `identity` tells two groups apart that do not follow the same.

    Every group is known by what it follows and what it is made of, so that a restore that was killed goes on behind its last
    group (cdc_assets.recovery.restored_bronze).
    """

    manifests: tuple[Manifest, ...]
    identity: str

    @property
    def plan(self) -> BatchPlan:
        """The plan of the last batch, which knows the most of the topic."""
        return self.manifests[-1].plan

    @property
    def ranges(self) -> dict[int, tuple[int, int]]:
        """Offsets by partition, from the first batch's begin to the last one's end (exclusive)."""
        first = self.manifests[0].plan.ranges
        return {p: (first.get(p, (start, end))[0], end) for p, (start, end) in self.plan.ranges.items()}

    @property
    def objects(self) -> list[ManifestObject]:
        """The data objects of all batches."""
        return [item for manifest in self.manifests for item in manifest.objects]


@dataclass(frozen=True)
class Reached:
    """A table's state behind a group: what is committed then, where it has ended for good, and what was damaged on the way."""

    state: CommittedTopic | None = None
    stopped: frozenset[int] = frozenset()
    damage: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As a JSON object."""
        state = self.state.to_dict() if self.state else None
        return {"state": state, "stopped": sorted(self.stopped), "damage": list(self.damage)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Reached:
        """From its JSON object."""
        state = CommittedTopic.from_dict(data["state"]) if data["state"] else None
        return cls(state, frozenset(data["stopped"]), tuple(data["damage"]))


def row_groups(found: BackedUpTable, point: RestorePoint) -> Iterator[RowGroup]:
    """The groups in the order of the batches; none spans two epochs, or two forms of values."""
    identity = f"{found.source}/{found.table} {point.text}"
    for _, manifests in groupby(found.manifests, lambda manifest: (manifest.plan.epoch, manifest.plan.layout.values)):
        for filled in _fill_groups(manifests):
            digest = hashlib.sha256(identity.encode())
            for manifest in filled:
                digest.update(manifest.to_bytes())
            identity = digest.hexdigest()
            yield RowGroup(tuple(filled), identity)


def _fill_groups(manifests: Iterable[Manifest]) -> Iterator[list[Manifest]]:
    group: list[Manifest] = []
    for manifest in manifests:
        if group and _is_full([*group, manifest]):
            yield group
            group = []
        group.append(manifest)
    yield group


def _is_full(manifests: list[Manifest]) -> bool:
    size = sum(item.size for manifest in manifests for item in manifest.objects)
    return sum(manifest.records for manifest in manifests) > _RECORDS or size > _BYTES


_ORDER = ("partition", "offset")


@dataclass(frozen=True)
class GroupReader:
    """Reads the groups of one table. `broken`, by key, are objects that the listing shows to be damaged: they are not read."""

    store: ObjectStore
    point: RestorePoint
    broken: Mapping[str, str] = field(default_factory=dict)

    def read(self, group: RowGroup, before: Reached) -> tuple[pa.Table, Reached]:
        """The rows in bronze's columns, those of a partition in their order, and the state behind them."""
        with ThreadPoolExecutor(READERS) as pool:
            objects = list(pool.map(partial(self._rows, group.plan), group.objects))
        damage = tuple(problem for problem in objects if isinstance(problem, str))
        stored = [rows for rows in objects if not isinstance(rows, str)]
        rows, stopped = self._up_to_point(_in_order(stored), group.plan.epoch, before.stopped)
        reached = Reached(before.state, stopped, (*before.damage, *damage))
        if stopped and not rows.num_rows:
            return rows, reached  # an epoch whose records lie behind the point is not begun
        ranges = _ranges(group, rows, before.stopped, stopped)
        return rows, replace(reached, state=_share(group.plan, rows, ranges).after(before.state))

    def _rows(self, plan: BatchPlan, item: ManifestObject) -> pa.Table | str:
        try:
            if item.key in self.broken:
                raise BackupError.of_object(item.key, self.broken[item.key])
            return _of_plan(parse_rows(read_object(self.store, item), item, plan.layout.values), plan)
        except BackupError as error:
            if not error.damaged:
                raise
            records_held = f"{quantity(item.records, 'record')}, offsets {item.min_offset} to {item.max_offset}"
            return f"{error} ({records_held} of partition {item.partition})"

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
            rows_of_partition = np.flatnonzero(partitions == partition)
            kept[rows_of_partition[np.flatnonzero(beyond[rows_of_partition])[0] :]] = False
        return (rows if kept.all() else rows.filter(pa.array(kept))), stopped


def _of_plan(rows: pa.Table, plan: BatchPlan) -> pa.Table:
    import pyarrow as pa

    from spark.events.arrow_records import BRONZE_ARROW

    for name, value in (("table", plan.table), ("topic", plan.topic), ("epoch", plan.epoch)):
        rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
    return rows.select(BRONZE_ARROW.names).cast(BRONZE_ARROW)


def _in_order(tables: Sequence[pa.Table]) -> pa.Table:
    import pyarrow as pa

    from spark.events.arrow_records import BRONZE_ARROW, sort_rows

    return sort_rows(pa.concat_tables(tables), _ORDER) if tables else BRONZE_ARROW.empty_table()


def _ranges(group: RowGroup, rows: pa.Table, before: frozenset[int], stopped: frozenset[int]) -> dict[int, tuple[int, int]]:
    """Those of the group; a partition that ends in it does so behind its last row, one that ended before has none."""
    last = rows.group_by("partition").aggregate([("offset", "max")]).to_pylist()
    ends = {partition_end["partition"]: partition_end["offset_max"] + 1 for partition_end in last}
    new_ranges = {p: offsets for p, offsets in group.ranges.items() if p not in before}
    return {p: (start, ends.get(p, start) if p in stopped else end) for p, (start, end) in new_ranges.items()}


def _share(plan: BatchPlan, rows: pa.Table, ranges: dict[int, tuple[int, int]]) -> TopicCommit:
    """What a commit of these rows says of their topic, as those that appended them first have said it."""
    import pyarrow.compute as pc

    state = CommittedTopic.from_dict({**CommittedTopic(plan.table, plan.topic_id, plan.epoch, {}).to_dict(), **plan.facts})
    kinds = pc.if_else(pc.is_null(rows["value"]), "tombstone", pc.coalesce(rows["op"], "unknown"))
    placed = rows.filter(pc.is_valid(rows["position"])).group_by("partition", use_threads=False)
    reach = placed.aggregate([("position", "max"), ("position", "last")]).to_pylist()
    return TopicCommit(
        table=state.table,
        topic_id=state.topic_id,
        epoch=state.epoch,
        ranges=ranges,
        records=rows.num_rows,
        by_op={count["values"]: count["counts"] for count in pc.value_counts(kinds).to_pylist()},
        max_position={reach_row["partition"]: reach_row["position_max"] for reach_row in reach},
        last_position={reach_row["partition"]: reach_row["position_last"] for reach_row in reach},
        snapshots=state.snapshots,
        openings=state.openings,
        schema_ids=state.schema_ids,
    )
