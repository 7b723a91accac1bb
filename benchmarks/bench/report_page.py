"""A run as a page in Markdown, with its plot beside it."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import psutil

from benchmarks.bench.bar_plot import bar_plot
from benchmarks.bench.whole_run import WholeRun
from spark.errors import quantity

Row = Mapping[str, Any]
_MET = {True: "yes", False: "**no**", None: ""}


def write_page(file: Path, run: WholeRun, asked: str) -> None:
    """The page, and its plot as a file of the same name that ends in .svg; `asked` is the command."""
    rows = [figure.row() for figure in run.figures]
    # First: a page in the clone is one of its files, which is changed from here on.
    ended = {"ended in the middle of": f"`{run.under_way}`"} if run.under_way else {}
    facts = {"command": f"`{asked}`", **machine(), **parts_of(run), **ended}
    plot = file.with_suffix(".svg")
    plot.write_text(bar_plot(rows), encoding="utf-8")
    file.write_text(page(rows, run.failures, facts, plot.name), encoding="utf-8")


def parts_of(run: WholeRun) -> dict[str, str]:
    """Of a run that went on from its record: which scenarios were measured when, and of which commit."""
    parts: dict[str, list[str]] = {}
    for name, facts in run.earlier.items():
        parts.setdefault(f"begun {facts['began']}, {facts['version']}", []).append(name)
    return {f"part {number}, {when}": ", ".join(names) for number, (when, names) in enumerate(parts.items(), 1)}


def machine() -> dict[str, str]:
    """When and where, by its name: what the figures depend on."""
    now = datetime.now(timezone.utc)
    cores, memory = psutil.cpu_count() or 1, psutil.virtual_memory().total / 2**30
    return {
        "ended": f"{now:%Y-%m-%d %H:%M} UTC",
        "version": _commit(),
        "machine": f"{quantity(cores, 'core')}, {memory:.0f} GiB, {platform.system()} {platform.machine()}",
        "Python": platform.python_version(),
        "load of 1, 5 and 15 minutes at the end": ", ".join(f"{value:.1f}" for value in os.getloadavg()),
    }


def began() -> dict[str, str]:
    """When a run begins, and of which commit: kept with what it measures."""
    return {"began": f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC", "version": _commit()}


def _commit() -> str:
    """The commit of the clone, and whether files of it were changed; of an installed package nothing is known."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"`{done.stdout.strip()}`" if done.returncode == 0 else "a version that no clone tells"


def page(rows: Sequence[Row], failures: Mapping[str, str], facts: Mapping[str, str], plot: str) -> str:
    """The page's text; `plot` is the address of its drawing."""
    parts = [
        "# A run of `cdc bench`",
        "What each row means, and how it is measured: [How fast it is](reference/benchmarks.md).\n"
        "This page is written by `cdc bench --markdown`, and not by hand.",
        _table(("the run", ""), list(facts.items())),
        f"![The figures in seconds, as bars]({plot})",
        _table(
            ("scenario", "system", "median", "min", "max", "unit", "CPU s", "target", "met", "runs"),
            [
                (
                    *(row["scenario"], row["system"], *(_number(row[key]) for key in ("median_s", "min_s", "max_s"))),
                    *(row["unit"], _number(row["cpu_s"]), _number(row["target"]), _MET[row["met"]], row["runs"]),
                )
                for row in rows
            ],
        ),
    ]
    if failures:
        parts += ["## What was not measured", _table(("scenario", "why"), [(n, _cell(why)) for n, why in failures.items()])]
    if profiled := [row for row in rows if row.get("profile")]:
        parts += ["## What the steps ask of Spark", "Of the last run of each scenario.", _profiles(profiled)]
    return "\n\n".join(parts) + "\n"


def _profiles(rows: Sequence[Row]) -> str:
    purposes = ("executor", "driver", "compiler", "collector")
    lines = []
    for row in rows:
        for step, taken in row["profile"].items():
            calls, cpu = taken["calls"], taken["cpu"]
            pauses = sum(seconds for name, seconds in taken["gc"].items() if not name.endswith(" runs"))
            counted = (calls.get("ExecutePlan", 0), sum(calls.values()), _number(pauses))
            lines.append((row["scenario"], step, *counted, *(_number(cpu.get(purpose)) for purpose in purposes)))
    return _table(("scenario", "step", "plans", "calls", "GC s", *(f"{purpose} CPU s" for purpose in purposes)), lines)


def _table(head: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    return "\n".join(["| " + " | ".join(map(str, line)) + " |" for line in (head, ["---"] * len(head), *lines)])


def _number(value: float | None) -> str:
    """To three figures, without an exponent."""
    return "" if value is None else f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
