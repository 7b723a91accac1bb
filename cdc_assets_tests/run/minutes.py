"""A plugin of pytest that tells what each test takes: `--minutes FILE` appends a line of JSON for each, and one for the process.

Seconds by the clock of its set-up, call and tear-down, and processor seconds of this process and of all below it. What a fixture
of the session starts is in the set-up of the test that asked first. The servers of the ground are not below it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from cdc_assets_tests.run.processes import Processes

_MARK = "TESTS_OF_PART"


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--minutes` and `--until`."""
    parser.addoption("--minutes", metavar="FILE", help="append to this file what each test took")
    limit = 'a file with {"until": SECONDS SINCE 1970, "seconds": {TEST: SECONDS}}: no test begins that would end behind it'
    parser.addoption("--until", metavar="FILE", help=limit)


def pytest_configure(config: pytest.Config) -> None:
    """Measure, where it is asked for."""
    if config.option.minutes:
        limit = json.loads(Path(config.option.until).read_text(encoding="utf-8")) if config.option.until else {}
        config.pluginmanager.register(Minutes(Path(config.option.minutes), limit.get("until"), limit.get("seconds")), "minutes")


class Minutes:
    """The plugin of one pytest process."""

    def __init__(self, file: Path, until: float | None = None, estimates: dict[str, float] | None = None) -> None:
        self._file = file
        self._until, self._estimates = until, estimates or {}
        self._processes = Processes(_MARK)
        self._processes.watch()
        self._began = time.monotonic(), self._processes.look()
        self._test: dict[str, Any] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
        before, began = self._processes.look(), time.time()
        self._test = {"test": item.nodeid, "outcome": "passed", "began": round(began, 1)}
        try:
            return (yield)
        except BaseException:
            self._test |= {"outcome": "interrupted", "call": round(time.time() - began, 3)}
            raise
        finally:
            self._write({**self._test, "processor": round(self._processes.look() - before, 2)})

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """With a time until which tests may run, none begins that would end behind it."""
        if self._until is not None and time.time() + self._estimates.get(item.nodeid, 0) > self._until:
            self._test["outcome"] = "left"
            pytest.skip("no time is left for it")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._test[report.when or ""] = round(report.duration, 3)
        if report.outcome == "passed" or self._test["outcome"] in ("failed", "left"):
            return
        self._test["outcome"] = report.outcome
        if report.skipped and isinstance(report.longrepr, tuple):
            self._test["reason"] = report.longrepr[2].removeprefix("Skipped: ")

    def pytest_sessionfinish(self) -> None:
        self._processes.end()
        clock, processor = self._began
        whole = {"seconds": round(time.monotonic() - clock, 1), "processor": round(self._processes.look() - processor, 1)}
        self._write({**whole, "jvms": self._processes.jvms})

    def _write(self, line: dict[str, Any]) -> None:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
