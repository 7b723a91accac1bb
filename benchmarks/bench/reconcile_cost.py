"""What it takes to compare a table of a million rows with its source, beside the source's own query for it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.bench.carry import Took, measure_answer
from benchmarks.bench.errors import BenchError
from benchmarks.bench.example_sources import connect_example, example_source, run_cdc
from benchmarks.bench.figures import Figure
from benchmarks.bench.measurement import Measurement
from benchmarks.bench.stack_dagster import await_rest, open_instance
from spark.errors import quantity

_ROWS = 1_000_000
_RUNS = 3
_TO_SOURCE = 3.0
_TABLE = "pgbench_accounts"
_SOURCE_QUERY = "postgresql: digest"
_CARRIED_WITHIN = 1_800


def reconcile(bench: Measurement) -> Iterator[Figure]:
    """The example bank's accounts, grown to a million rows; the first run does not count.

    Raises:
        BenchError: the stack is not the bench's own, whose bank would keep these rows; or silver is not equal.
    """
    from cdc_assets.clients.source_chain import Chain
    from cdc_assets.proof.comparison import compare_rows

    if not bench.stack.own:
        raise BenchError("reconcile grows the example bank to a million rows: measure it without --here")
    source, held = example_source("bank"), grow_accounts(bench, bench.asked.rows(_ROWS))
    table, runs = source.table(_TABLE), bench.asked.repeats(_RUNS) + 1
    whole, at_source = [], []
    with open_instance(bench.stack.home) as instance:
        for number in range(runs):
            await_rest(instance)
            bench.say(f"reconcile: run {number + 1} of {runs}")
            found, took = measure_answer(partial(compare_rows, Chain(bench.platform_of_stack, source), [table]), bench.stack.cpu)
            result = found[_TABLE]
            if not result.equal or result.source_rows != held:
                raise BenchError(f"{quantity(held, 'row')} had to be compared and equal: {result.sentence()}")
            whole.append(took)
            at_source.append(Took(result.seconds["source"], 0.0))
    name = f"reconcile {quantity(held, 'row', form=',')}"
    limit = Figure(name, at_source[1:], at_source[:1], system=_SOURCE_QUERY)
    yield limit
    yield Figure(name, whole[1:], whole[:1], target=bench.asked.target(limit.median * _TO_SOURCE))


def grow_accounts(bench: Measurement, rows: int) -> int:
    """Accounts up to so many, by the bank's own role, and the chain has carried them; how many there are."""
    with connect_example("bank") as connection:
        connection.execute(
            "INSERT INTO pgbench_accounts SELECT n, 1, 0, '' FROM "
            "generate_series((SELECT max(aid) + 1 FROM pgbench_accounts), %s) AS n",
            [rows],
        )
        (held,) = connection.execute("SELECT count(*) FROM pgbench_accounts").fetchone() or (0,)
    bench.say(f"reconcile: the chain carries {quantity(held, 'row', form=',')}")
    run_cdc("wait", "bank", "--timeout", str(_CARRIED_WITHIN))
    return int(held)
