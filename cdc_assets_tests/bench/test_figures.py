"""What `cdc bench` says of its runs, and that its events are of the form that Debezium sends."""

from __future__ import annotations

import gzip
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.bench.at_rest import watch
from benchmarks.bench.carry import Took
from benchmarks.bench.events import SCHEMA, event_text, key_text, truncate_text, unsent_text
from benchmarks.bench.figures import Figure
from benchmarks.bench.idle_cost import cpu_between
from benchmarks.bench.scenarios import SCENARIOS
from cdc_assets.cli.cdc_command import app
from spark.record_formats import DEBEZIUM_UNAVAILABLE

RECORDING = Path(__file__).parents[1] / "support" / "histories" / "recording.json.gz"


def figure(*walls: float, target: float | None = 1.0) -> Figure:
    return Figure("any", [Took(wall, wall / 2) for wall in walls], [Took(9.0, 9.0)], target)


def test_a_row_tells_the_median_and_the_spread_and_not_the_warm_up() -> None:
    assert figure(3.0, 1.0, 2.0, target=2.0).row() == {
        **{"scenario": "any", "system": "cdc_assets", "median_s": 2.0, "min_s": 1.0, "max_s": 3.0, "cpu_s": 1.0},
        **{"target": 2.0, "met": True, "runs": 3, "warm_up_s": [9.0], "unit": "s"},
    }


@pytest.mark.parametrize(
    ("wall", "target", "met", "missed"),
    [(1.0, 1.0, True, False), (1.1, 1.0, False, False), (1.16, 1.0, False, True), (99.0, None, None, False)],
)
def test_a_figure_is_missed_from_15_percent_above_it(wall: float, target: float | None, met: bool | None, missed: bool) -> None:
    found = figure(wall, target=target)
    assert (found.met, found.is_missed) == (met, missed)


def recorded() -> list[dict[str, Any]]:
    """The values that Debezium sent for rows of tables, by the tests' own recording."""
    with gzip.open(RECORDING, "rt") as file:
        told = json.load(file)
    records = [record for table in told for log in table["log"].values() for record in log]
    return [json.loads(record[2]) for record in records if record[2]]


def test_an_event_has_the_fields_of_a_real_one_in_their_order() -> None:
    real = recorded()
    for op, balance in (("r", 7), ("c", 8), ("u", 9), ("d", 0)):
        read_by = "true" if op == "r" else None
        like = next(e for e in reversed(real) if e["op"] == op and e["source"]["snapshot"] == read_by)
        made = json.loads(event_text(op, 5, balance, 1_000))
        assert list(made) == list(like)
        assert list(made["source"]) == list(like["source"])
        for part in ("before", "after"):
            assert (made[part] is None) == (like[part] is None)
        assert {k: type(v) for k, v in made["source"].items()} == {k: type(v) for k, v in like["source"].items()}
        assert [type(x) for x in json.loads(made["source"]["sequence"])] == [
            type(x) for x in json.loads(like["source"]["sequence"])
        ]
        if op != "d":
            assert made["after"] == {"aid": 5, "bid": 1, "abalance": balance, "filler": " " * 84}
            assert list(made["after"]) == list(SCHEMA)
    assert json.loads(key_text(5)) == {"aid": 5}
    emptied = next(event for event in real if event["op"] == "t")
    made = json.loads(truncate_text(1_000))
    assert (list(made), list(made["source"])) == (list(emptied), list(emptied["source"]))
    assert json.loads(unsent_text(5, 1, 7))["after"]["filler"] == DEBEZIUM_UNAVAILABLE


def test_the_rows_of_a_snapshot_stand_at_one_place_as_real_ones_do() -> None:
    real: dict[tuple[str, str], list[str]] = {}
    for event in recorded():
        source = event["source"]
        if event["op"] == "r" and source["snapshot"] != "incremental" and source["sequence"].startswith("[null"):
            real.setdefault((source["schema"], source["table"]), []).append(source["sequence"])
    # A table may have been read twice.
    assert all(len(set(places)) <= 2 for places in real.values())
    assert any(len(places) >= 5 for places in real.values())
    made = [json.loads(event_text("r", number, 7, number))["source"] for number in range(50)]
    assert len({(each["sequence"], each["lsn"], each["txId"]) for each in made}) == 1
    assert json.loads(event_text("u", 3, 7, 1))["source"]["lsn"] > made[0]["lsn"]


@pytest.mark.slow
def test_at_rest_counts_the_work_of_a_process() -> None:
    def work(_: str) -> None:
        until = time.process_time() + 0.3
        while time.process_time() < until:
            pass

    before = time.process_time()
    cores, memory = watch(os.getpid(), seconds=0.1, windows=2, say=work)
    assert time.process_time() - before >= 0.6
    assert len(cores) == len(memory) == 2
    assert all(0.01 < took.wall < 5 for took in memory)
    assert sum(took.cpu for took in cores) < 0.6


def test_cpu_of_a_process_that_has_gone_is_never_taken_back() -> None:
    before = {1: (10.0, 5.0), 2: (3.0, 1.0)}
    waited_for = {1: (10.5, 9.5)}
    assert cpu_between(before, waited_for) == pytest.approx(0.5 + 0.5)
    of_another_parent = {1: (10.5, 5.0), 3: (0.25, 0.0)}
    assert cpu_between(before, of_another_parent) == pytest.approx(0.5 + 0.25)


def test_a_scenario_that_is_not_there_is_named_with_those_that_are() -> None:
    done = CliRunner().invoke(app, ["bench", "--scenario", "cycle-2k"])
    assert done.exit_code == 2
    assert all(name in done.output for name in ("cycle-2k", *SCENARIOS))


def test_without_a_stack_nothing_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    done = CliRunner().invoke(app, ["bench", "--here"])
    assert done.exit_code == 2
    assert "no stack runs in" in done.output
