"""A recording folded anyhow: its partitions interleaved, stretches delivered again, batches cut and jobs killed anywhere.

What Kafka and an at-least-once connector allow: each partition in its order, any order between partitions, and a
stretch of a partition's latest records once more.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from cdc_assets_tests.histories.play import kind_of
from cdc_assets_tests.histories.recording import Log, Recorded
from cdc_assets_tests.spark.capture import Record
from cdc_assets_tests.spark.lake import Lake
from spark import merge, quarantine
from spark.specs import SilverSpec


@dataclass
class Kill(BaseException):
    """The job's process is gone."""

    at: str


def repeated(log: Log, choice: random.Random) -> Log:
    """The log with some stretches delivered twice, and gaps in the offsets as transaction markers leave them."""
    answer: Log = {}
    for partition, records in log.items():
        sent: list[Record] = []
        for number, record in enumerate(records, 1):
            sent.append(record)
            if choice.random() < 2 / max(20, len(records)):
                sent += records[max(0, number - choice.randrange(1, 40)) : number]
        offset, placed = 0, []
        for record in sent:
            offset += 1 + (choice.random() < 0.1)
            placed.append(replace(record, offset=offset))
        answer[partition] = placed
    return answer


def fold(lake: Lake, recorded: Recorded, choice: random.Random, *, batches: int) -> SilverSpec:
    """Everything of one table into silver, in about so many batches."""
    kind, table = kind_of(recorded.table), recorded.table
    spec = lake.spec(table, kind.columns, kind.keys)
    log = repeated(recorded.log, choice)
    for partition, records in log.items():
        lake.put(table, *records, partition=partition)
    ends = {partition: records[-1].offset + 1 for partition, records in log.items()}
    at = dict.fromkeys(ends, 0)
    for batch in range(batches):
        last = batch == batches - 1
        at = {p: end if last else min(end, at[p] + choice.choice([0, end // 3, end // 2, end])) for p, end in ends.items()}
        asked = lake.ranges(table, at)
        lake.append(asked)
        if choice.random() < 0.2:
            assert lake.append(asked).version is None
        if choice.random() < 0.3:
            _killed(lake, spec, choice)
        if last or choice.random() < 0.8:
            lake.fold(spec)
    assert lake.fold(spec).version is None
    return spec


def _killed(lake: Lake, spec: SilverSpec, choice: random.Random) -> None:
    """A fold that dies before its commit, or right behind it."""
    before = choice.random() < 0.5
    execute = merge.execute

    def dying(*args: Any, **options: Any) -> Any:
        if not before:
            execute(*args, **options)
        raise Kill("before the commit" if before else "behind the commit")

    with patch.object(merge, "execute", dying):
        try:
            lake.fold(spec)
        except Kill:
            return


def difference(lake: Lake, spec: SilverSpec, recorded: Recorded) -> str | None:
    """What silver has and PostgreSQL does not, or the other way round; None when they are equal."""
    from pyspark.sql import functions as sf

    kind = kind_of(recorded.table)
    rows = lake.session.read.format("delta").load(spec.path)
    shown = [_as_postgresql(c.name, c.source_type, c.name in kind.large, sf) for c in kind.columns]
    found = {tuple(row) for row in rows.select(*shown).collect()}
    expected = {tuple(row) for row in recorded.rows}
    if quarantine.exists(lake.session, spec):
        first = quarantine.table(lake.session, spec).first()
        return f"{recorded.table}: in quarantine {first}"
    if found == expected and len(recorded.rows) == rows.count():
        return None
    ours, theirs = (sorted(rest, key=str)[:3] for rest in (found - expected, expected - found))
    return f"{recorded.table}: only in silver {ours}, only in PostgreSQL {theirs}"


def _as_postgresql(name: str, source_type: str, large: bool, sf: Any) -> Any:
    value = sf.col(f"`{name}`")
    if source_type == "bytea":
        # md5(b::text): PostgreSQL shows bytes as hexadecimal.
        return sf.md5(sf.concat(sf.lit("\\x"), sf.lower(sf.hex(value))))
    if source_type == "text[]":
        items = sf.transform(value, lambda x: sf.when(x.rlike(r"\s"), sf.concat(sf.lit('"'), x, sf.lit('"'))).otherwise(x))
        return sf.md5(sf.concat(sf.lit("{"), sf.array_join(items, ","), sf.lit("}")))
    if source_type == "timestamp with time zone":
        return sf.when(value.isNotNull(), sf.date_format(value, "yyyy-MM-dd HH:mm:ss.SSSSSS+00"))
    return sf.md5(value) if large else value.cast("string")
