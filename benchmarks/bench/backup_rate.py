"""How fast the large table's bronze is copied to the stack's own S3."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial

from benchmarks.bench.carry import measure_answer
from benchmarks.bench.errors import BenchError
from benchmarks.bench.figures import Figure
from benchmarks.bench.measurement import ROWS, Measurement
from cdc_assets.registry import names
from cdc_assets.registry.backup_store import BackupStore
from spark.errors import quantity

_PER_SECOND = 100_000
_RUNS = 3
_BUCKET = "cdc-backup"


def backup(bench: Measurement) -> Iterator[Figure]:
    """All records of a bronze table, from nothing, into another prefix each time; the first run does not count."""
    from cdc_assets.backup.backup_copy import backup_table

    source = bench.tables(1, bench.asked.rows(ROWS)).source
    table, bronze = names.table_name(source.tables[0]), names.bronze_path(bench.platform.lake, source)
    took, records = [], 0
    runs = bench.asked.repeats(_RUNS) + 1
    for number in range(runs):
        bench.say(f"backup: run {number + 1} of {runs}")
        store = bench.platform.store(BackupStore(kind="s3", bucket=_BUCKET, prefix=f"{bench.name}/{number}"))
        copy = partial(backup_table, store, source=source.name, table=table, bronze_path=bronze)
        copied, taken = measure_answer(copy, lambda: sum(os.times()[:2]))
        took.append(taken)
        records = copied.records
        for each in list(store.list(f"{source.name}/")):
            store.delete(each.key)
    sent = sum(feed.sent for feed in bench.tables(1, bench.asked.rows(ROWS)).feeds)
    if records != sent:
        raise BenchError(f"{quantity(records, 'record')} were copied, {sent} are in {bronze}")
    target = bench.asked.target(records / _PER_SECOND)
    yield Figure(f"backup of {quantity(records, 'record', form=',')}", took[1:], took[:1], target=target)
