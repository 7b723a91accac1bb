"""How long a change needs from its commit at the source to its row in silver: by the sensors, or by a stream beside them."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cdc_assets import names
from cdc_assets.bench.carry import Took
from cdc_assets.bench.example_sources import connect_example, example_source
from cdc_assets.bench.figures import Figure
from cdc_assets.bench.idle_cost import cpu_seconds
from cdc_assets.bench.measurement import Measurement
from cdc_assets.bench.stack_dagster import open_instance, without_sensor
from cdc_assets.bench.stream_process import stream_of
from cdc_assets.errors import BenchError
from cdc_assets.registry.models import Source
from cdc_assets.resources.delta_log import bronze_committed, open_table
from cdc_assets.resources.read_logs import unless_changed
from cdc_assets.silver_now import CurrentTable

_SOURCE, _TABLE, _KEY = "world", "country", "LI"
_PROBES, _QUICK_PROBES = 20, 8
_LOOK_SECONDS, _DEADLINE = 0.05, 300.0
_PHASE_SECONDS = 5.0
"""As long as a sensor waits between two looks: a probe may fall anywhere into that."""
_STATUSES = ("QUEUED", "NOT_STARTED", "STARTING", "STARTED", "CANCELING")


@dataclass(frozen=True)
class Probe:
    """One change: seconds from its commit to bronze, to a reading of now and to silver, and CPU seconds of the whole stack
    meanwhile."""

    bronze: float
    now: float
    silver: float
    cpu: float


@dataclass(frozen=True)
class Way:
    """Who carries, and in how many seconds a change is to be in silver: the median and the 95th percentile; and, where that is
    said, to be readable ahead of silver."""

    name: str
    p50: float
    p95: float
    now: float | None = None


SENSORS, CONTINUOUS = Way("latency", 6.0, 12.0), Way("latency-continuous", 1.5, 4.0, 1.5)


def latency(bench: Measurement) -> Iterator[Figure]:
    """By the sensors, as the stack is."""
    yield from figures(bench, SENSORS, probe_changes(bench, SENSORS))


def continuous_latency(bench: Measurement) -> Iterator[Figure]:
    """By `cdc stream`, while the source's sensor is off."""
    with without_sensor(f"offsets_{_SOURCE}"), stream_of(_SOURCE):
        probes = probe_changes(bench, CONTINUOUS)
    yield from figures(bench, CONTINUOUS, probes)


def probe_changes(bench: Measurement, way: Way) -> list[Probe]:
    """One row of the example `world` again and again, each time when no run is under way."""
    source, number = example_source(_SOURCE), bench.asked.repeats(_QUICK_PROBES if bench.asked.quick else _PROBES) + 1
    probes, pauses = [], random.Random(number)
    with connect_example(_SOURCE) as connection, open_instance(bench.stack.home) as instance:
        (before,) = connection.execute("SELECT population FROM country WHERE iso = %s", [_KEY]).fetchone()
        try:
            for probe in range(number):
                bench.say(f"{way.name}: probe {probe + 1} of {number}")
                _await_rest(instance)
                time.sleep(pauses.uniform(0, _PHASE_SECONDS))
                probes.append(_probe(bench, source, connection, before + 1 + probe))
        finally:
            connection.execute("UPDATE country SET population = %s WHERE iso = %s", [before, _KEY])
    return probes


def figures(bench: Measurement, way: Way, probes: Sequence[Probe]) -> Iterator[Figure]:
    """Median to bronze, 95th percentile to a reading of now, median and 95th percentile to silver; of few probes that is the
    slowest one. The first does not count."""
    bronze, now, silver = ([Took(getattr(p, layer), p.cpu) for p in probes] for layer in ("bronze", "now", "silver"))
    target = bench.asked.target
    found = Figure(f"{way.name}: commit to bronze, p50", bronze[1:], bronze[:1])
    yield found
    slow, wanted = percentile(now[1:], 95), None if way.now is None else target(way.now)
    yield Figure(f"{way.name}: commit to silver_now, p95", [slow], now[:1], target=wanted)
    yield replace(
        found, scenario=f"{way.name}: commit to silver, p50", runs=silver[1:], warm_up=silver[:1], target=target(way.p50)
    )
    slow = percentile(silver[1:], 95)
    yield Figure(f"{way.name}: commit to silver, p95", [slow], silver[:1], target=target(way.p95))


def percentile(runs: Sequence[Took], percent: float) -> Took:
    """The one that so many percent of them do not exceed (nearest rank)."""
    return sorted(runs, key=lambda took: took.wall)[math.ceil(percent / 100 * len(runs)) - 1]


def _probe(bench: Measurement, source: Source, connection: Any, population: int) -> Probe:
    platform = bench.platform_of_stack
    table = source.table(_TABLE)
    topic, bronze = names.lake_topic(source, table), names.bronze_path(platform.lake, source)
    silver = names.silver_path(platform.lake, source, table)
    held, used = _records(bronze, topic), cpu_seconds(bench.stack.supervisor)
    connection.execute("UPDATE country SET population = %s WHERE iso = %s", [population, _KEY])
    committed, in_bronze, readable = time.monotonic(), None, None
    row = CurrentTable(source, table, platform, {"iso": _KEY})
    while (waited := time.monotonic() - committed) < _DEADLINE:
        if in_bronze is None and _records(bronze, topic) > held:
            in_bronze = time.monotonic() - committed
        if in_bronze is not None and readable is None and row.to_arrow(["population"])["population"].to_pylist() == [population]:
            readable = time.monotonic() - committed
        if in_bronze is not None and readable is not None and unless_changed(_population, silver) == population:
            waited = time.monotonic() - committed
            return Probe(in_bronze, readable, waited, cpu_seconds(bench.stack.supervisor) - used)
        time.sleep(_LOOK_SECONDS)
    raise BenchError(f"a change of {source.name}.{_TABLE} is not in {silver} after {waited:.0f} s: ./cdc status")


def _records(bronze: str, topic: str) -> int:
    """Of a topic in bronze; its log is read again only when it has changed."""
    committed = bronze_committed(bronze)
    state = committed.topics.get(topic) if committed else None
    return sum(state.positions.values()) if state else 0


def _population(silver: str) -> int | None:
    from deltalake import QueryBuilder

    query = QueryBuilder().register("t", open_table(silver))
    found = query.execute(f"SELECT population FROM t WHERE iso = '{_KEY}'").read_all()["population"].to_pylist()
    return int(found[0]) if found else None


def _await_rest(instance: Any) -> None:
    """Until no run is under way.

    Raises:
        BenchError: some run does not end.
    """
    import dagster as dg

    statuses = [dg.DagsterRunStatus(status) for status in _STATUSES]
    until = time.monotonic() + _DEADLINE
    while runs := instance.get_runs(filters=dg.RunsFilter(statuses=statuses), limit=1):
        if time.monotonic() > until:
            raise BenchError(f"Dagster's run {runs[0].run_id} is under way for more than {_DEADLINE:.0f} s: ./cdc status")
        time.sleep(0.5)
