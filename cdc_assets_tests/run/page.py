"""What a run took, for people: its last lines, and the part of docs/contributing.md that `./cdc test --record` writes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

from cdc_assets.registry.errors import CdcAssetsError
from cdc_assets_tests.run import record
from cdc_assets_tests.run.catalogue import ROOT, collect
from cdc_assets_tests.run.record import Minutes, Took
from cdc_assets_tests.run.rotation import oldest
from cdc_assets_tests.run.steps import clock, environment, say
from cdc_assets_tests.run.tally import last_line, told
from spark.errors import quantity

PAGE = ROOT / "docs" / "contributing.md"
BEGIN, END = "<!-- written by ./cdc test --record -->", "<!-- until here -->"
_WORST = 10
_LONG = 1.0
"""Seconds."""
_OLDEST = 5
_COLUMNS = 100


def summary(minutes: Minutes, before: Mapping[str, Took]) -> list[str]:
    """The ten worst tests, what each part took, the JVMs, what has grown, and why tests were skipped."""
    lines = ["the tests that took the most processor time:"]
    lines += [f"{took.processor:8.1f} s of {took.seconds:6.1f}  {name}" for name, took in minutes.worst(_WORST)]
    lines.append("minutes (processor minutes) by part:")
    for name, took in sorted(minutes.parts.items(), key=lambda row: -row[1].seconds):
        lines.append(f"{took.seconds / 60:8.1f} ({took.processor / 60:.1f})  {name}, {took.tests} tests")
    lines += [f"{'':9}({seconds / 60:.1f})  {name}" for name, seconds in minutes.servers.items()]
    lines.append(f"{clock(minutes.seconds)} in all, {minutes.processor / 60:.1f} processor minutes, {_jvms(minutes)}")
    lines += [f"warning: {line}" for line in record.growth(minutes, before)]
    lines += [f"warning: unsteady, failed beside others and passed alone: {name}" for name in minutes.unsteady]
    return [*lines, *told(minutes.reasons)]


def write_record() -> None:
    """Take the last run and the days on which tests passed into the committed figures, and its page into the docs.

    Raises:
        CdcAssetsError: there was no run, or it was of a selection.
    """
    last = record.read_record(record.MINUTES)
    if not last:
        raise CdcAssetsError("there is no run to record: run ./cdc test --rotate 10m, then ./cdc test --record")
    minutes = _minutes(last)
    tests = record.read_passed(record.COMMITTED) | record.read_passed(record.PASSED)
    known = collect(environment(str(record.FOLDER)))
    rotated = [test for test in known if not test.is_core]
    days = {test.id for test in rotated}
    # Of the core its seconds are asked for, and a test that is quicker is estimated well enough.
    long = {test.id for test in known if tests.get(test.id, {}).get("seconds", 0.0) >= _LONG}
    kept = {name: row for name, row in tests.items() if name in days | long}
    run = {key: last[key] for key in ("command", "at", "seconds", "processor", "jvms")}
    parts = {
        name: {"seconds": took.seconds, "processor": took.processor, "tests": took.tests} for name, took in minutes.parts.items()
    }
    text = record.dumped({"run": run, "parts": parts, "tests": {name: _short(row) for name, row in kept.items()}})
    record.COMMITTED.write_text(text, encoding="utf-8")
    written = PAGE.read_text(encoding="utf-8")
    block = "\n".join(_block(minutes, oldest(rotated, kept, _OLDEST), len(rotated), sum(test.id in kept for test in rotated)))
    PAGE.write_text(re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: block, written, flags=re.DOTALL), encoding="utf-8")
    say(f"recorded {minutes.command} of {minutes.at}: {record.COMMITTED.relative_to(ROOT)}, {PAGE.relative_to(ROOT)}")


def _block(minutes: Minutes, waiting: Sequence[tuple[str, str]], rotated: int, played: int) -> list[str]:
    lines = [
        BEGIN,
        "",
        f"`{minutes.command}` took {clock(minutes.seconds)} minutes on {minutes.at[:10]}.",
        f"It took {minutes.processor / 60:.0f} processor minutes.",
        *wrap(f"It started {_jvms(minutes)}.", _COLUMNS),
        f"Its tests: {last_line(minutes)}.",
    ]
    lines += ["", "| part | tests | minutes | processor minutes |", "|---|---|---|---|"]
    for name, took in sorted(minutes.parts.items(), key=lambda row: -row[1].seconds):
        lines.append(f"| {name} | {took.tests} | {took.seconds / 60:.1f} | {took.processor / 60:.1f} |")
    for name, seconds in minutes.servers.items():
        lines.append(f"| {name} | | | {seconds / 60:.1f} |")
    lines += [f"\nUnsteady: it failed beside others, and passed alone: `{name}`." for name in minutes.unsteady]
    lines += ["", f"The rotation has {rotated} tests. {played} of them have a day on which they passed. The oldest:", ""]
    lines += ["| passed last | test |", "|---|---|"]
    lines += [f"| {at} | `{name.removeprefix('cdc_assets_tests/')}` |" for at, name in waiting]
    return [*lines, "", END]


def _jvms(minutes: Minutes) -> str:
    """`3 JVMs (2 Kafka, 1 SparkSubmit)`."""
    programs = ", ".join(f"{count} {name}" for name, count in minutes.jvms.items())
    return f"{quantity(sum(minutes.jvms.values()), 'JVM')}{programs and f' ({programs})'}"


def _minutes(last: Mapping[str, Any]) -> Minutes:
    parts = {name: Took(**row) for name, row in last["parts"].items()}
    tests = {name: Took(**row) for name, row in last["tests"].items()}
    plain = {
        key: last[key] for key in ("command", "at", "seconds", "processor", "jvms", "servers", "outcomes", "reasons", "unsteady")
    }
    return Minutes(parts=parts, tests=tests, **plain)


def _short(row: Mapping[str, Any]) -> dict[str, Any]:
    """A day is enough."""
    return {"at": row["at"][:10], "seconds": row["seconds"], "processor": row["processor"]}
