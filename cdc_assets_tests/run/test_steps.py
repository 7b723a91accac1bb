"""Steps side by side: what is told while they run, and what is shown of what failed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cdc_assets_tests.run import parts, record
from cdc_assets_tests.run.catalogue import Test
from cdc_assets_tests.run.processes import Processes
from cdc_assets_tests.run.steps import Progress, Step, play
from cdc_assets_tests.run.tally import last_line


def python(name: str, text: str) -> Step:
    return Step(name, [sys.executable, "-c", text])


def test_what_failed_is_shown_whole_and_last(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    told = "\n".join(f"print('line {at}')" for at in range(9))
    ended = play([python("wrong", f"{told}\nraise SystemExit(3)"), python("right", told)], tmp_path, 2, {})
    assert {done.step.name: done.code for done in ended} == {"wrong": 3, "right": 0}
    shown = capfd.readouterr().out
    assert shown.startswith("0:00 · 0% · ")
    end = shown[shown.index("──── right ────") :]
    lines = "\n".join(f"line {at}" for at in range(9))
    assert end == f"──── right ────\nline 6\nline 7\nline 8\n──── wrong ────\n{lines}\n"


@pytest.mark.slow
def test_a_step_whose_time_is_over_is_interrupted_and_has_not_failed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "test_it.py").write_text("import time\n\ndef test_short():\n    pass\n\ndef test_long():\n    time.sleep(300)\n")
    lines = tmp_path / "it.jsonl"
    command = [*parts.PYTEST, "-q", "--rootdir", str(tmp_path), f"--minutes={lines}", str(tmp_path / "test_it.py")]
    (done,) = play([Step("it", command, until=time.time() + 15)], tmp_path, 1, {})
    assert done.code == 0
    assert "it: its time is over, it is interrupted\n" in capfd.readouterr().out
    outcomes = {line["test"]: line["outcome"] for line in record.read_lines(lines) if "test" in line}
    assert outcomes == {"test_it.py::test_short": "passed", "test_it.py::test_long": "interrupted"}
    assert last_line(record.measured("", {"it": lines})) == "1 passed"


def test_a_step_knows_no_running_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CDC_LAKE_BOOTSTRAP", "b:9")
    monkeypatch.setenv("DAGSTER_HOME", "/mine")
    text = "import os; print(sorted(name for name in os.environ if name.startswith(('CDC_', 'DAGSTER_'))))"
    play([python("names", text)], tmp_path, 1, {})
    assert "['CDC_HOME']" in capfd.readouterr().out


def test_progress_is_of_the_recorded_seconds_and_a_failure_is_told_at_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    steps = [Step("live", [], ["a", "b", "c"]), Step("mypy", [], seconds=40.0)]
    progress = Progress(steps, tmp_path, {"a": 30.0, "b": 20.0, "c": 10.0}, began=time.monotonic() - 60)
    progress.running = {"live": 0.0, "mypy": 0.0}
    (tmp_path / "live.jsonl").write_text('{"test": "a", "outcome": "passed"}\n{"test": "b", "outcome": "failed"}\n')
    assert progress.line() == "1:00 · 50% · about 1 min left · live 2/3, mypy"
    assert capfd.readouterr().out == "FAILED b\n"
    progress.ended.add("mypy")
    del progress.running["mypy"]
    assert progress.line() == "1:00 · 90% · about 1 min left · live 2/3"
    assert capfd.readouterr().out == "", "once"


def test_parts_are_whole_files_and_shares_are_of_like_length(tmp_path: Path) -> None:
    tests = [
        *(Test(f"test_{file}.py::test_{at}", "spark", True, False) for file in "abcdef" for at in range(3)),
        Test("test_live.py::test_it", "live", True, False),
        Test("test_other.py::test_it", "live", True, False),
    ]
    steps = parts.part_steps(tests, {test.id: 20.0 for test in tests}, tmp_path, ["--ground=here"])
    assert [step.name for step in steps] == ["live", "spark-1", "spark-2", "spark-3"]
    assert [len(step.tests) for step in steps] == [2, 6, 6, 6]
    assert [(tmp_path / f"{step.name}.chosen").read_text().splitlines() for step in steps] == [list(step.tests) for step in steps]
    assert len({test.partition("::")[0] for test in steps[1].tests}) == 2
    assert "--ground=here" in steps[1].command


def test_a_world_of_the_core_is_played_on_the_live_servers_behind_all_others(tmp_path: Path) -> None:
    tests = [
        Test("test_a_world.py::test_it", "hostile", True, False),
        Test("test_a_world.py::test_more", "hostile", False, False),
        Test("test_live.py::test_it", "live", True, False),
    ]
    live, hostile = parts.part_steps(tests, {}, tmp_path, [])
    assert (live.name, live.tests) == ("live", ["test_live.py::test_it", "test_a_world.py::test_it"])
    assert (hostile.name, hostile.tests) == ("hostile", ["test_a_world.py::test_more"])


def test_the_fast_ones_are_shared_out_by_files(tmp_path: Path) -> None:
    one, two = (set(step.command[len(parts.PYTEST) + 2 :]) for step in parts.fast_steps(tmp_path))
    assert not one & two
    assert one | two == {str(file) for file in (parts.ROOT / "cdc_assets_tests").rglob("test_*.py")}


@pytest.mark.service
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="without Linux's /proc no process is looked at")
def test_processor_seconds_are_of_all_below_and_of_what_was_left_behind(tmp_path: Path) -> None:
    java = tmp_path / "java"
    shutil.copy(shutil.which("sh") or "", java)
    waiting = [str(java), "-c", "read line", "-cp", "a.jar:b.jar", "kafka.Kafka"]
    burn = "import time\nend = time.process_time() + 0.4\nwhile time.process_time() < end: pass\n"
    silent = "stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL"
    left = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {burn + 'time.sleep(9)'!r}], {silent})"
    with subprocess.Popen(waiting, stdin=subprocess.PIPE) as jvm:
        script = (
            "import subprocess, sys, time\n"
            "from cdc_assets_tests.run.processes import Processes\n"
            "processes = Processes('MARK_OF_THIS_TEST')\n"
            f"jvm = subprocess.Popen({waiting!r}, stdin=subprocess.PIPE)\n"
            f"subprocess.run([sys.executable, '-c', {burn!r}])\n"
            f"subprocess.run([sys.executable, '-c', {left!r}])\n"
            "while processes.look() < 0.8: time.sleep(0.05)\n"
            "print(processes.jvms)\n"
            "jvm.kill()\n"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
        jvm.kill()
    assert done.stdout == "{'Kafka': 1}\n", "not that of somebody else"
    processes = Processes("", os.getpid())
    assert processes.look() > 0
