"""Seventy-two small tables of types that are hard to carry: a cycle of them, their comparison with the source, their ledger."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial

from benchmarks.bench.carry import append_and_fold, measure
from benchmarks.bench.errors import BenchError
from benchmarks.bench.example_sources import connect_example, example_source, run_cdc
from benchmarks.bench.figures import Figure
from benchmarks.bench.measurement import Measurement
from benchmarks.bench.stack_dagster import await_rest, open_instance, without_schedule, without_sensor
from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names
from cdc_assets.registry.source_declaration import Source
from spark.errors import quantity

_TABLES, _ROWS, _RUNS = 72, 150, 3
_COLUMNS, _WITHIN, _LOOK_SECONDS = 6, 300.0, 0.1
_CYCLE_TARGET, _RECONCILE_TARGET = 30.0, 20.0
_TYPES = {
    "numeric": "(n || '.' || repeat('7', n % 30 + 1))::numeric",
    "numeric(38,10)": "n * 1234567890.0123456789",
    "double precision": "CASE n % 3 WHEN 0 THEN 'NaN' WHEN 1 THEN '-Infinity' ELSE n / 3.0::float8 END",
    "timestamptz": "CASE n % 9 WHEN 0 THEN '9999-12-31 23:59:59.999Z' ELSE '0004-02-29Z'::timestamptz + n * '9 d'::interval END",
    "timestamp(3)": "'1900-01-01'::timestamp + n * interval '977 hours'",
    "date": "'0044-03-15'::date + n * 1000",
    "time": "'00:00'::time + n * interval '91 seconds'",
    "interval": "n * interval '1 month 3 days 04:05:06.7'",
    "uuid": "md5(n::text)::uuid",
    "bytea": "decode(md5(n::text), 'hex')",
    "jsonb": "jsonb_build_object('n', n, 'deep', jsonb_build_array(n, null, 'ä'))",
    "text[]": "ARRAY['a' || n, null, 'NULL', '{\"}']",
    "inet": "('10.0.' || n % 256 || '.1/16')::inet",
    "bit(16)": "n::bit(16)",
    "money": "(n * 1.01)::numeric::money",
    "int4range": "int4range(n, n + 10)",
    "point": "point(n, n / 7.0)",
    "bigint": "9223372036854775807 - n",
}
"""By the type an expression of the row's number, with the values that carriers lose: fractions, infinite numbers, years, quotes.
None that Debezium cannot carry (docs/reference/types.md), whose records are quarantined."""


def tables_of_all_types(bench: Measurement) -> Iterator[Figure]:
    """Taken in by `cdc onboard`, as a user does; the first run of each does not count.

    Raises:
        BenchError: the stack is not the bench's own, or silver is not equal to the source.
    """
    if not bench.stack.own:
        raise BenchError(f"typed-tables adds {_TABLES} tables to the example bank: measure it without --here")
    tables = make_tables()
    run_cdc("onboard", "bank", *tables)
    run_cdc("wait", "bank", "--timeout", f"{_WITHIN:.0f}")
    source = example_source("bank")
    cycles, comparisons, counts, runs = [], [], [], bench.asked.repeats(_RUNS) + 1
    with (
        without_sensor("offsets_bank"),
        without_schedule("ledger_bank_schedule"),
        open_instance(bench.stack.home) as instance,
    ):
        for number in range(runs):
            bench.say(f"typed tables: run {number + 1} of {runs}")
            insert_rows(bench, source, tables, number + 1)
            await_rest(instance)
            cycles.append(measure(partial(append_and_fold, bench.platform_of_stack, source), bench.stack.cpu))
            await_rest(instance)
            comparisons.append(measure(partial(reconcile_equal, bench, source, tables), bench.stack.cpu))
            counts.append(measure(partial(count_events_of, bench, source, tables), bench.stack.cpu))
    name = f"{quantity(_TABLES, 'table')} of all types"
    yield Figure(f"{name} x {_ROWS}", cycles[1:], cycles[:1], bench.asked.target(_CYCLE_TARGET))
    yield Figure(f"reconcile {name}", comparisons[1:], comparisons[:1], bench.asked.target(_RECONCILE_TARGET))
    yield Figure(f"ledger {name} x {_ROWS}", counts[1:], counts[:1])


def make_tables() -> list[str]:
    """Their names; each has a key and six columns, and its first rows."""
    tables = [f"public.typed_{number:02}" for number in range(_TABLES)]
    with connect_example("bank") as connection:
        for number, table in enumerate(tables):
            columns = columns_of(number)
            declared = ", ".join(f"c{place} {kind}" for place, kind in enumerate(columns))
            connection.execute(f"CREATE TABLE {table} (id integer PRIMARY KEY, {declared})")
            connection.execute(insert_statement(table, columns), [0, _ROWS])
    return tables


def columns_of(number: int) -> list[str]:
    """The types of that table's columns."""
    types = list(_TYPES)
    return [types[(number * _COLUMNS // 2 + place) % len(types)] for place in range(_COLUMNS)]


def insert_statement(table: str, columns: Sequence[str]) -> str:
    """Of the rows from one number on up to another; the driver takes a lone `%` for a placeholder."""
    values = ", ".join(f"({_TYPES[kind]})::{kind}" for kind in columns).replace("%", "%%")
    return f"INSERT INTO {table} SELECT n, {values} FROM generate_series(%s::integer + 1, %s::integer) AS n"


def insert_rows(bench: Measurement, source: Source, tables: Sequence[str], number: int) -> None:
    """As many again into each, and all of them are in the lake's topics.

    Raises:
        BenchError: they do not arrive there.
    """
    kafka = bench.platform_of_stack.lake_kafka()
    topics = [names.lake_topic(source, source.table(table)) for table in tables]
    wanted = records(kafka, topics) + _TABLES * _ROWS
    with connect_example("bank") as connection:
        for place, table in enumerate(tables):
            connection.execute(insert_statement(table, columns_of(place)), [number * _ROWS, (number + 1) * _ROWS])
    until = time.monotonic() + _WITHIN
    while (found := records(kafka, topics)) < wanted:
        if time.monotonic() > until:
            raise BenchError(f"{wanted - found} of {_TABLES * _ROWS} records are not in the lake's topics: ./cdc status")
        time.sleep(_LOOK_SECONDS)


def records(kafka: KafkaCluster, topics: Sequence[str]) -> int:
    """Offsets of all of them together."""
    return sum(end for ends in kafka.high_watermarks(topics).values() for end in ends.values())


def reconcile_equal(bench: Measurement, source: Source, tables: Sequence[str]) -> None:
    """All of them compared with the source.

    Raises:
        BenchError: one of them is not equal.
    """
    from cdc_assets.proof.comparison import compare_rows

    found = compare_rows(Chain(bench.platform_of_stack, source), [source.table(table) for table in tables])
    if unequal := [result.sentence() for result in found.values() if not result.equal]:
        raise BenchError(f"{quantity(len(unequal), 'table')} of {len(tables)} were not equal, the first: {unequal[0]}")


def count_events_of(bench: Measurement, source: Source, tables: Sequence[str]) -> None:
    """All new events of them counted by the ledger.

    Raises:
        BenchError: these are not as many as were made: something else has counted them, or they are not in silver.
    """
    from cdc_assets.proof.event_ledger import count_events

    found = count_events(Chain(bench.platform_of_stack, source), [source.table(table) for table in tables])
    if found.rows_read < _TABLES * _ROWS:
        raise BenchError(f"the ledger counted {quantity(found.rows_read, 'event')} of {_TABLES * _ROWS}")
