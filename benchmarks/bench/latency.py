"""How long a change needs from its commit at the source to its row in silver: by the sensors, or by a stream beside them."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.bench.carry import Took
from benchmarks.bench.errors import BenchError
from benchmarks.bench.example_sources import connect_example, example_source
from benchmarks.bench.figures import Figure
from benchmarks.bench.idle_cost import cpu_between, cpu_by_process
from benchmarks.bench.measurement import Measurement
from benchmarks.bench.stack_dagster import await_rest, open_instance, without_sensor
from benchmarks.bench.stream_process import stream_of
from benchmarks.bench.transactions import transactions
from cdc_assets.clients.delta_log import bronze_committed, open_table, unless_changed
from cdc_assets.reading.silver_now import CurrentTable
from cdc_assets.registry import names

_PROBES, _FEW_PROBES = 20, 8
_LOOK_SECONDS, _DEADLINE = 0.05, 300.0
_BUSY_RATE = 1_000.0
_PHASE_SECONDS = 5.0
"""As long as a sensor waits between two looks: a probe may fall anywhere into that."""


@dataclass(frozen=True)
class Probe:
    """One change: seconds from its commit to bronze, to a reading of now and to silver, and CPU seconds of the whole stack
    meanwhile."""

    bronze: float
    now: float
    silver: float
    cpu: float


@dataclass(frozen=True)
class ProbedRow:
    """One row of an example source, of which nobody else changes that column."""

    source: str
    table: str
    key: tuple[str, Any]
    column: str

    def value(self, held: Any, number: int) -> Any:
        """Another one for each probe."""
        return held + 1 + number if isinstance(held, int) else f"probe {number}"

    @property
    def select(self) -> str:
        """Its value in the source."""
        return f"SELECT {self.column} FROM {self.table} WHERE {self.key[0]} = %s"

    @property
    def update(self) -> str:
        """Another value in the source."""
        return f"UPDATE {self.table} SET {self.column} = %s WHERE {self.key[0]} = %s"

    def in_silver(self, silver: str) -> Sequence[Any]:
        """Its values there: one, or none."""
        from deltalake import QueryBuilder

        (key, value), query = self.key, QueryBuilder().register("t", open_table(silver))
        text = f"'{value}'" if isinstance(value, str) else value
        found = query.execute(f"SELECT {self.column} FROM t WHERE {key} = {text}").read_all()
        return list(found[self.column].to_pylist())


@dataclass(frozen=True)
class Way:
    """Who carries, and in how many seconds a change is to be in silver: the median and the 95th percentile; and, where that is
    said, to be readable ahead of silver."""

    name: str
    p50: float
    p95: float
    now: float | None = None
    row: ProbedRow = ProbedRow("world", "country", ("iso", "LI"), "population")
    rests: bool = True
    """Whether a probe waits until no run is under way: beside a steady load one always is."""


SENSORS, CONTINUOUS = Way("latency", 6.0, 12.0), Way("latency-continuous", 1.5, 4.0, 1.5)
BUSY = Way("latency-busy", 6.0, 12.0, row=ProbedRow("bank", "pgbench_tellers", ("tid", 1), "filler"), rests=False)


def latency(bench: Measurement) -> Iterator[Figure]:
    """By the sensors, as the stack is."""
    yield from figures(bench, SENSORS, probe_changes(bench, SENSORS))


def continuous_latency(bench: Measurement) -> Iterator[Figure]:
    """By `cdc stream`, while the source's sensor is off."""
    with without_sensor(f"offsets_{CONTINUOUS.row.source}"), stream_of(CONTINUOUS.row.source):
        probes = probe_changes(bench, CONTINUOUS)
    yield from figures(bench, CONTINUOUS, probes)


def busy_latency(bench: Measurement) -> Iterator[Figure]:
    """By the sensors, while pgbench changes the same source a thousand times a second."""
    with transactions(_BUSY_RATE) as load:
        probes = probe_changes(bench, BUSY)
    yield from figures(bench, BUSY, probes)
    yield Figure(f"{BUSY.name}: transactions/s", [Took(load.reached, 0.0)], unit="1/s")


def probe_changes(bench: Measurement, way: Way) -> list[Probe]:
    """One row of an example again and again, each time when no run is under way."""
    row, number = way.row, bench.asked.repeats(_PROBES if bench.asked.long else _FEW_PROBES) + 1
    probes, pauses = [], random.Random(number)
    with connect_example(row.source) as connection, open_instance(bench.stack.home) as instance:
        (before,) = connection.execute(row.select, [row.key[1]]).fetchone()
        try:
            for probe in range(number):
                bench.say(f"{way.name}: probe {probe + 1} of {number}")
                if way.rests:
                    await_rest(instance)
                time.sleep(pauses.uniform(0, _PHASE_SECONDS))
                probes.append(_probe(bench, row, connection, row.value(before, probe)))
        finally:
            connection.execute(row.update, [before, row.key[1]])
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


def _probe(bench: Measurement, row: ProbedRow, connection: Any, value: Any) -> Probe:
    platform, source = bench.platform_of_stack, example_source(row.source)
    table = source.table(row.table)
    topic, bronze = names.lake_topic(source, table), names.bronze_path(platform.lake, source)
    silver = names.silver_path(platform.lake, source, table)
    held, used = _records(bronze, topic), cpu_by_process(bench.stack.supervisor)
    connection.execute(row.update, [value, row.key[1]])
    committed, in_bronze, readable = time.monotonic(), None, None
    now = CurrentTable(source, table, platform, {row.key[0]: str(row.key[1])})
    while (waited := time.monotonic() - committed) < _DEADLINE:
        if in_bronze is None and _records(bronze, topic) > held:
            in_bronze = time.monotonic() - committed
        if in_bronze is not None and readable is None and _is(now.to_arrow([row.column])[row.column].to_pylist(), value):
            readable = time.monotonic() - committed
        if in_bronze is not None and readable is not None and _is(unless_changed(row.in_silver, silver), value):
            waited = time.monotonic() - committed
            return Probe(in_bronze, readable, waited, cpu_between(used, cpu_by_process(bench.stack.supervisor)))
        time.sleep(_LOOK_SECONDS)
    raise BenchError(f"a change of {row.source}.{row.table} is not in {silver} after {waited:.0f} s: ./cdc status")


def _is(found: Sequence[Any] | None, value: Any) -> bool:
    """Whether that one value was found; PostgreSQL fills a `character` up with spaces."""
    return [each.rstrip() if isinstance(each, str) else each for each in found or []] == [value]


def _records(bronze: str, topic: str) -> int:
    """Of a topic in bronze; its log is read again only when it has changed."""
    committed = bronze_committed(bronze)
    state = committed.topics.get(topic) if committed else None
    return sum(state.positions.values()) if state else 0
