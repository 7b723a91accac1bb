"""What a small lake was given step by step: enough to make all of it once more by the other writer (both_writers)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cdc_assets.clients.delta_log import silver_state
from cdc_assets_tests.support.lake.capture import Record
from spark.specs import JobResult, SilverSpec, TopicRange

Log = Mapping[str, Mapping[int, Sequence[Record]]]
"""Records by table and partition."""


@dataclass
class FoldedTable:
    """`spec` are its rules of now; `earlier` those of before, each up to the version of bronze that was folded by them."""

    spec: SilverSpec
    earlier: list[SilverSpec] = field(default_factory=list)
    by_tasks: int = 0


@dataclass
class ReadTopic:
    """One incarnation of a topic: the range of all that was appended of it, and its records by partition and offset."""

    range: TopicRange
    records: dict[int, dict[int, Record]] = field(default_factory=dict)

    def add(self, ranges: Mapping[int, tuple[int, int]], log: Mapping[int, Sequence[Record]]) -> None:
        known = dict(self.range.ranges)
        for partition, (start, end) in ranges.items():
            before = known.get(partition, (start, end))
            known[partition] = (min(before[0], start), max(before[1], end))
            read = {record.offset: record for record in log.get(partition, ()) if start <= record.offset < end}
            self.records.setdefault(partition, {}).update(read)
        self.range = replace(self.range, ranges=known)


@dataclass
class Steps:
    """`appended` are topics by name, once more where one of them begins again as another incarnation."""

    appended: list[dict[str, ReadTopic]] = field(default_factory=list)
    appended_by_tasks: int = 0
    tables: dict[str, FoldedTable] = field(default_factory=dict)

    def note_append(self, asked: Sequence[TopicRange], log: Log, done: JobResult, *, by_task: bool) -> None:
        if done.version is None:
            return
        self.appended_by_tasks += by_task
        for topic in asked:
            if topic.topic in done.ranges:
                self._topic(replace(topic, ranges={})).add(done.ranges[topic.topic], log.get(topic.table, {}))

    def _topic(self, topic: TopicRange) -> ReadTopic:
        known = self.appended[-1].get(topic.topic) if self.appended else None
        if not self.appended or (known is not None and replace(known.range, ranges={}) != topic):
            self.appended.append({})
        return self.appended[-1].setdefault(topic.topic, ReadTopic(topic))

    def rules_before(self, spec: SilverSpec) -> SilverSpec | None:
        """Those by which the table was folded so far, where they are about to change."""
        known = self.tables.get(spec.path)
        return None if known is None or known.spec == spec else replace(known.spec, folded_limit=bronze_version(spec.path))

    def note_fold(self, spec: SilverSpec, before: SilverSpec | None, done: JobResult, *, by_task: bool) -> None:
        """`before` is the answer of rules_before, asked before the fold."""
        known = self.tables.setdefault(spec.path, FoldedTable(spec))
        known.spec = spec
        known.earlier += [] if before is None else [before]
        known.by_tasks += by_task and done.version is not None


def bronze_version(path: str) -> int:
    """Up to which version of bronze a silver table or a history is folded."""
    state = silver_state(path)
    assert state is not None, path
    assert state.folded is not None, path
    return state.folded.bronze_version
