"""Steps of a run, some at a time: each writes into a file, and a line tells how far all are."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cdc_assets_tests.run.catalogue import ROOT
from cdc_assets_tests.run.record import read_lines

_TOLD_EVERY = 15.0
_STOP_SECONDS = 180.0
"""What a process may take to stop its servers."""
_INTERRUPTED = 2
_TAIL = 3
"""Lines of what passed."""


@dataclass(frozen=True)
class Step:
    """A command, and the seconds that it took when it was last recorded; of a part of the tests their ids."""

    name: str
    command: Sequence[str]
    tests: Sequence[str] = ()
    seconds: float = 5.0
    until: float | None = None
    """Seconds since 1970: then it is interrupted, as by Ctrl-C, and that is no failure."""


@dataclass
class Ended:
    """How a step ended."""

    step: Step
    code: int
    output: Path
    seconds: float


@dataclass
class Progress:
    """How much of the recorded time of all steps is over, by the lines that the parts write."""

    steps: Sequence[Step]
    results: Path
    estimates: Mapping[str, float]
    began: float = field(default_factory=time.monotonic)
    running: dict[str, float] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)

    def line(self) -> str:
        """`3:12 · 41 % · about 5 min left · chain 12/61, spark 140/512, mypy`."""
        whole = sum(self._weight(step) for step in self.steps) or 1.0
        done, told = 0.0, []
        for step in self.steps:
            lines = [line for line in read_lines(self.results / f"{step.name}.jsonl") if "test" in line]
            self._tell_failures(lines)
            over = self._weight(step) if step.name in self.ended else sum(self.estimates.get(x["test"], 0.0) for x in lines)
            done += min(over, self._weight(step))
            if step.name in self.running:
                told.append(f"{step.name} {len(lines)}/{len(step.tests)}" if step.tests else step.name)
        passed = time.monotonic() - self.began
        share = done / whole
        left = f" · about {max(1, round(passed * (1 - share) / share / 60))} min left" if share > 0.05 else ""
        return f"{clock(passed)} · {share:.0%}{left} · {', '.join(told) or 'starting'}"

    def _weight(self, step: Step) -> float:
        return sum(self.estimates.get(test, 0.0) for test in step.tests) if step.tests else step.seconds

    def _tell_failures(self, lines: Sequence[Mapping[str, object]]) -> None:
        for line in lines:
            if line["outcome"] == "failed" and line["test"] not in self.failed:
                self.failed.append(str(line["test"]))
                say(f"FAILED {line['test']}")


def clock(seconds: float) -> str:
    """`12:04`."""
    return f"{int(seconds // 60)}:{int(seconds % 60):02}"


def say(text: str) -> None:
    """On standard output, at once."""
    print(text, flush=True)


def play(steps: Sequence[Step], results: Path, at_a_time: int, estimates: Mapping[str, float]) -> list[Ended]:
    """Each step, some at a time, in the given order; what failed is printed whole behind the last."""
    progress = Progress(steps, results, estimates)
    waiting, ended = deque(steps), list[Ended]()
    with tempfile.TemporaryDirectory(prefix="cdc-test-output-") as folder, _told(progress):
        try:
            with ThreadPoolExecutor(at_a_time) as pool:
                workers = [pool.submit(_work, waiting, Path(folder), progress, ended) for _ in range(at_a_time)]
                for worker in workers:
                    worker.result()
        finally:
            # Ctrl-C reaches the processes by themselves, and they stop what they have started; none may begin any more.
            waiting.clear()
        for done in sorted(ended, key=lambda each: bool(each.code)):
            _show(done)
    return ended


def environment(home: str) -> dict[str, str]:
    """Nothing of a running stack may reach the tests."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("CDC_", "DAGSTER_"))}
    return {**clean, "CDC_HOME": home}


def _work(waiting: deque[Step], folder: Path, progress: Progress, ended: list[Ended]) -> None:
    for step in _drain(waiting):
        began, output = time.monotonic(), folder / step.name.replace("/", "-")
        progress.running[step.name] = began
        with tempfile.TemporaryDirectory(prefix="cdc-test-") as home, output.open("wb") as file:
            code = _run(step, subprocess.Popen(step.command, cwd=ROOT, env=environment(home), stdout=file, stderr=file))
        del progress.running[step.name]
        progress.ended.add(step.name)
        ended.append(Ended(step, code, output, time.monotonic() - began))
        say(f"{step.name}: {'failed' if code else 'passed'} in {clock(ended[-1].seconds)}")


def _run(step: Step, process: subprocess.Popen[bytes]) -> int:
    """Its exit code; 0 of one whose time was over, and of which no test had failed."""
    try:
        return process.wait(None if step.until is None else max(0.0, step.until - time.time()))
    except subprocess.TimeoutExpired:
        say(f"{step.name}: its time is over, it is interrupted")
        process.send_signal(signal.SIGINT)
    try:
        code = process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    # https://docs.pytest.org/en/stable/reference/exit-codes.html: 2 is an interrupted run, whatever its tests were.
    return 0 if code == _INTERRUPTED else code


def _show(done: Ended) -> None:
    lines = done.output.read_text(errors="replace").rstrip().splitlines()
    say(f"──── {done.step.name} ────")
    say("\n".join(lines if done.code else lines[-_TAIL:]))


def _drain(waiting: deque[Step]) -> Iterator[Step]:
    while waiting:
        try:
            yield waiting.popleft()
        except IndexError:
            return


@contextmanager
def _told(progress: Progress) -> Iterator[None]:
    over = threading.Event()

    def tell() -> None:
        say(progress.line())
        while not over.wait(_TOLD_EVERY):
            say(progress.line())

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()
