"""A table after a year of commits: what a cycle, a look and a comparison take then, beside the same of the table when it was new.

The commits are written as the protocol has them, not worked: each says that it holds nothing, and in our metadata what the table
held all along. So 300,000 take half a minute, and the log is as long, and as old, as one that has grown.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.bench.carry import Took, measure, measure_answer
from benchmarks.bench.errors import BenchError
from benchmarks.bench.figures import Figure
from benchmarks.bench.measurement import ROWS, Loaded, Measurement
from benchmarks.bench.sensor_tick import sensor_look
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names
from spark.errors import quantity
from spark.table.delta_table import table_of
from spark.table.lake_location import is_local
from spark.table.needed_versions import KIND

if TYPE_CHECKING:
    import dagster as dg

_COMMITS, _OF_TRIAL = 300_000, 30_000
_SECONDS_A_COMMIT, _COMMITS_A_DAY = 10.0, 8_640
_LOOK = 20
_CHANGES = 1_000
_RUNS, _WARM_UP = 5, 2
_RATIO = 1.5


def year(bench: Measurement) -> Iterator[Figure]:
    """A table of its own is measured new, aged, maintained, and measured again; the first two runs of each do not count.

    Raises:
        BenchError: maintenance did not do its work, or the table holds other rows than were sent; or the lake is on no disk,
            where so many files are written in half a minute.
    """
    from benchmarks.bench.stack_dagster import open_instance

    if not is_local(bench.platform.lake):
        raise BenchError(f"year: {bench.platform.lake} is no folder of this machine; give another CDC_LAKE")
    rows, commits = bench.asked.rows(ROWS), _OF_TRIAL if bench.asked.is_trial else _COMMITS
    old_log = quantity(commits, "commit", form=",")
    loaded = bench.make("_year", [bench.feed(rows)], peers=False)
    bench.carry(loaded.source)
    with open_instance(bench.stack.home) as instance:
        new = _measure(bench, loaded, instance)
        bench.say(f"year: {old_log} are written to bronze and to silver")
        bronze, silver = _paths(bench, loaded)
        age(bronze, commits, bronze_version=None)
        age(silver, commits, bronze_version=_newest(bronze)[0])
        took = measure(partial(_maintain, bench, loaded), bench.stack.cpu)
        old = _measure(bench, loaded, instance)
    bench.check(loaded)
    yield Figure(f"maintenance after {old_log}", [took])
    for name, before in new.items():
        first = Figure(f"{name} of a new table", before[_WARM_UP:], before[:_WARM_UP])
        after = old[name]
        yield first
        target = bench.asked.target(first.median * _RATIO)
        yield Figure(f"{name} after {old_log}", after[_WARM_UP:], after[:_WARM_UP], target)


def _measure(bench: Measurement, loaded: Loaded, instance: dg.DagsterInstance) -> dict[str, list[Took]]:
    """Cycles, each with the look of the sensor that follows it, which has to read the logs again; then comparisons."""
    from cdc_assets.proof.comparison import compare_rows

    found: dict[str, list[Took]] = {"cycle": [], "tick": [], "reconcile": []}
    look = sensor_look(bench, loaded.source, instance)
    for number in range(bench.asked.repeats(_RUNS) + _WARM_UP):
        bench.say(f"year: cycle {number + 1}")
        loaded.feeds[0].update(min(_CHANGES, loaded.feeds[0].rows))
        bronze, silver = bench.carry(loaded.source)
        found["cycle"].append(bronze + silver)
        found["tick"].append(measure(look, lambda: sum(os.times()[:2])))
    for _ in range(bench.asked.repeats(2) + _WARM_UP):
        compare = partial(compare_rows, Chain(bench.platform, loaded.source), loaded.source.tables)
        results, took = measure_answer(compare, bench.stack.cpu)
        if unequal := [result.sentence() for result in results.values() if not result.equal]:
            raise BenchError(f"the table had to be compared and equal: {unequal[0]}")
        found["reconcile"].append(took)
    return found


def _paths(bench: Measurement, loaded: Loaded) -> tuple[str, str]:
    lake, source = bench.platform.lake, loaded.source
    return names.bronze_path(lake, source), names.silver_path(lake, source, source.tables[0])


def _maintain(bench: Measurement, loaded: Loaded) -> None:
    """Until there is nothing left to be done: what is made by one run may be removed by the next."""
    from cdc_assets.recovery.maintenance import maintain_source

    done = list(maintain_source(Chain(bench.platform, loaded.source)))
    if not done or not any(result.commits_expired for _, result in done):
        raise BenchError(f"maintenance removed no commit: {[result.given_up for _, result in done]}")


def age(path: str, commits: int, *, bronze_version: int | None, checkpoint_each: int = _COMMITS_A_DAY) -> None:
    """So many commits behind the table's newest, ten seconds apart and the last of them now; silver's say that they have folded
    bronze up to a version (None: it is bronze). Writers make a checkpoint each hundred; here one a day takes less time."""
    from deltalake import DeltaTable

    newest, text = _newest(path)
    log, begin = Path(path, "_delta_log"), time.time() - commits * _SECONDS_A_COMMIT
    told = json.loads(text)
    for name in sorted(log.glob("*.json")):
        os.utime(name, (begin, begin))
    for number in range(1, commits + 1):
        version, at = newest + number, begin + number * _SECONDS_A_COMMIT
        told |= {"operation_id": f"year-{version}"}
        told |= {"base_version": version - 1, "topics": {}} if bronze_version is None else {"bronze_version": bronze_version}
        info = {"timestamp": int(at * 1000), "operation": "WRITE", "operationParameters": {}, "operationMetrics": {}}
        user = json.dumps(told, sort_keys=True, separators=(",", ":"))
        file = log / f"{version:020}.json"
        file.write_text(json.dumps({"commitInfo": {**info, "userMetadata": user}}) + "\n", encoding="utf-8")
        os.utime(file, (at, at))
        if number % checkpoint_each == 0 or number == commits:
            DeltaTable(path).create_checkpoint()


def _newest(path: str) -> tuple[int, str]:
    """The newest version, and what the newest commit of ours says that the table holds: those of maintenance say nothing."""
    commits = table_of(path).commits(_LOOK) or []
    for commit in commits:
        text = commit["userMetadata"] or ""
        if "cdc_assets" in text and json.loads(text).get("kind") != KIND:
            return commits[0]["version"], text
    raise BenchError(f"{path} has no commit of ours")
