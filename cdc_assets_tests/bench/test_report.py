"""A run as a page and a plot, and what the profile tells of a server's threads."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.bench.bar_plot import bar_plot
from benchmarks.bench.carry import Took
from benchmarks.bench.errors import BenchError
from benchmarks.bench.figures import Figure
from benchmarks.bench.latency import percentile
from benchmarks.bench.measurement import Measurement, Size
from benchmarks.bench.record import BenchRecord
from benchmarks.bench.report_page import write_page
from benchmarks.bench.scenarios import Scenario
from benchmarks.bench.server_threads import thread_times, work_since
from benchmarks.bench.stack import BenchStack
from benchmarks.bench.whole_run import WholeRun, run_each
from cdc_assets.stack.home import Home

SVG = "{http://www.w3.org/2000/svg}"
STEP = {
    "calls": {"ExecutePlan": 3, "Config": 2},
    "gc": {"Serial young collection pauses": 0.25, "Serial young collection pauses runs": 2.0},
    "cpu": {"driver": 1.5, "executor": 0.5},
}
FIGURES = [
    Figure("1,000 into <many>", [Took(2.0, 3.0)], target=1.0, profile={"silver": STEP}),
    Figure("1,000 into <many>", [Took(4.0, 6.0)], system="Iceberg"),
    Figure("at rest: memory", [Took(2.5, 1.0)], target=3.0, unit="GB"),
]


def test_a_plot_has_a_bar_for_each_figure_in_seconds_and_a_line_at_the_target() -> None:
    drawn = ElementTree.fromstring(bar_plot([figure.row() for figure in FIGURES]))
    ours, iceberg = (float(bar.attrib["width"]) for bar in drawn.iter(f"{SVG}rect") if "x" in bar.attrib)
    assert ours * 2 == iceberg
    (line,) = drawn.iter(f"{SVG}line")
    bar = next(bar for bar in drawn.iter(f"{SVG}rect") if "x" in bar.attrib)
    assert float(line.attrib["x1"]) == float(bar.attrib["x"]) + ours / 2
    texts = [text.text for text in drawn.iter(f"{SVG}text")]
    assert "1,000 into <many>" in texts
    assert "at rest: memory" not in texts


def test_a_page_tells_every_figure_what_was_not_measured_and_the_profile(tmp_path: Path) -> None:
    file = tmp_path / "run.md"
    write_page(file, WholeRun(FIGURES, {"tick": "no | such\ntopic"}), "./cdc bench --peers")
    text = file.read_text(encoding="utf-8")
    assert "| 1,000 into <many> | cdc_assets | 2 | 2 | 2 | s | 3 | 1 | **no** | 1 |" in text
    assert "| 1,000 into <many> | Iceberg | 4 | 4 | 4 | s | 6 |  |  | 1 |" in text
    assert "| at rest: memory | cdc_assets | 2.5 | 2.5 | 2.5 | GB | 1 | 3 | yes | 1 |" in text
    assert "| tick | no \\| such topic |" in text
    assert "| 1,000 into <many> | silver | 3 | 5 | 0.25 | 0.5 | 1.5 |  |  |" in text
    assert "| command | `./cdc bench --peers` |" in text
    assert f"| machine | {os.cpu_count()} cores, " in text
    assert "](run.svg)" in text
    assert ElementTree.parse(tmp_path / "run.svg").getroot().tag == f"{SVG}svg"


def test_a_scenario_that_fails_leaves_the_others_and_what_it_had_measured(tmp_path: Path) -> None:
    def half(_: Measurement) -> Iterator[Figure]:
        yield FIGURES[0]
        raise BenchError("the topic is gone")

    def whole(_: Measurement) -> Iterator[Figure]:
        yield FIGURES[1]

    said: list[str] = []
    bench = Measurement(BenchStack(Home(tmp_path), 1, 1), Size(), tmp_path, said.append)
    run = WholeRun()
    run_each({"half": Scenario(half), "whole": Scenario(whole)}, bench, run)
    assert run.figures == FIGURES[:2]
    assert run.failures == {"half": "the topic is gone"}
    assert said == ["half was not measured: the topic is gone"]


def test_a_run_goes_on_from_its_record_and_tells_what_is_older(tmp_path: Path) -> None:
    measured: list[str] = []

    def first(_: Measurement) -> Iterator[Figure]:
        measured.append("first")
        yield from FIGURES[:2]

    def second(_: Measurement) -> Iterator[Figure]:
        measured.append("second")
        yield FIGURES[2]
        if measured.count("second") == 1:
            raise KeyboardInterrupt

    record = BenchRecord(tmp_path / "record.jsonl", "whole", {"began": "2026-01-02 03:04 UTC", "version": "`abc`"})
    bench = Measurement(BenchStack(Home(tmp_path), 1, 1), Size(), tmp_path, lambda _: None)
    scenarios = {"first": Scenario(first), "second": Scenario(second)}
    told: list[str] = []
    ended, whole = WholeRun(tell=lambda figure: told.append(str(figure))), WholeRun()
    with pytest.raises(KeyboardInterrupt):
        run_each(scenarios, bench, ended, record)
    assert (ended.figures, ended.under_way) == (FIGURES, "second")
    assert told == ["1,000 into <many>, cdc_assets: 2 s, to reach 1", "1,000 into <many>, Iceberg: 4 s", told[2]]
    write_page(tmp_path / "ended.md", ended, "./cdc bench")
    assert "| ended in the middle of | `second` |" in (tmp_path / "ended.md").read_text(encoding="utf-8")
    run_each(scenarios, bench, whole, record)
    assert measured == ["first", "second", "second"]
    assert (whole.under_way, sorted(record.load())) == ("", ["first", "second"])
    assert [figure.row() for figure in whole.figures] == [figure.row() for figure in FIGURES]
    write_page(tmp_path / "run.md", whole, "./cdc bench")
    assert "| part 1, begun 2026-01-02 03:04 UTC, `abc` | first |" in (tmp_path / "run.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("line", "says"), [("{}", "line 1: no figure of a scenario"), (None, "measured as whole, not as trial")])
def test_a_record_of_something_else_is_refused(tmp_path: Path, line: str | None, says: str) -> None:
    file = tmp_path / "record.jsonl"
    if line is None:
        BenchRecord(file, "whole").keep("tick", FIGURES[0])
    else:
        file.write_text(line, encoding="utf-8")
    with pytest.raises(BenchError, match=says):
        BenchRecord(file, "trial").load()


def test_a_percentile_is_one_of_the_runs() -> None:
    runs = [Took(float(wall), 0.0) for wall in (7, 1, 3, 2, 9, 4, 8, 5, 6, 10)]
    assert [percentile(runs, of).wall for of in (50, 90, 95, 100)] == [5, 9, 10, 10]
    assert percentile(runs[:1], 95).wall == 7


def test_the_work_of_threads_is_told_by_what_they_are_for() -> None:
    def work() -> None:
        until = time.thread_time() + 0.2
        while time.thread_time() < until:
            pass
        done.set()
        leave.wait(10)

    done, leave = threading.Event(), threading.Event()
    before = thread_times(os.getpid())
    worker = threading.Thread(target=work)
    worker.start()
    try:
        assert done.wait(30)
        worked = work_since(before, thread_times(os.getpid()))
    finally:
        leave.set()
        worker.join()
    assert set(worked) == {"driver"}
    assert 0.15 <= worked["driver"] < 5


def test_a_thread_is_known_by_the_beginning_of_its_name(tmp_path: Path) -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    for number, name in enumerate(("Executor task l", "C2 CompilerThre", "VM Thread", "x) y (z"), 1):
        folder = tmp_path / "7" / "task" / str(number)
        folder.mkdir(parents=True)
        (folder / "stat").write_text(f"{number} ({name}) S {' '.join(['0'] * 10)} {ticks * number} {ticks} 0 0")
    found = work_since({}, thread_times(7, tmp_path))
    assert found == {"collector": 4.0, "compiler": 3.0, "driver": 5.0, "executor": 2.0}
    assert thread_times(8, tmp_path) == {}
