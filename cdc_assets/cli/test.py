"""`cdc test`: lint, types, then the test suite on a stack of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import typer

from cdc_assets.cli.progress import console

_ROOT = Path(__file__).parents[2]
_PYTHON = sys.executable
_LINT = (
    ("ruff format --check", [_PYTHON, "-m", "ruff", "format", "--check", "."]),
    ("ruff check", [_PYTHON, "-m", "ruff", "check", "."]),
    ("mypy", [_PYTHON, "-m", "mypy"]),
)
_PYTEST = [_PYTHON, "-m", "pytest", "-p", "no:cacheprovider", "--durations=15"]
_SPARK = "cdc_assets_tests/spark"
# Side by side: either alone leaves half of two cores idle. The first is the longer one, whose output is seen as it comes.
_HALVES = (("pytest of spark", [*_PYTEST, _SPARK]), ("pytest of all else", [*_PYTEST, "cdc_assets_tests", f"--ignore={_SPARK}"]))


def test(context: typer.Context) -> None:
    """Run everything, or what the given pytest arguments select (then without lint)."""
    # Nothing of a running stack may reach the tests.
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("CDC_", "DAGSTER_"))}
    with ExitStack() as folders:

        def environment() -> Mapping[str, str]:
            return {**clean, "CDC_HOME": folders.enter_context(tempfile.TemporaryDirectory(prefix="cdc-test-"))}

        if context.args:
            failed = _one_by_one([("pytest", [_PYTHON, "-m", "pytest", *context.args])], environment())
        else:
            failed = _one_by_one(_LINT, environment()) + _side_by_side(environment(), environment())
    if failed:
        console.print(f"[red]failed: {', '.join(failed)}[/red]")
        raise typer.Exit(1)


def _one_by_one(steps: Sequence[tuple[str, list[str]]], environment: Mapping[str, str]) -> list[str]:
    failed = []
    for name, command in steps:
        console.rule(name)
        if subprocess.run(command, cwd=_ROOT, env=environment, check=False).returncode:
            failed.append(name)
    return failed


def _side_by_side(*environments: Mapping[str, str]) -> list[str]:
    (first, second), began = _HALVES, time.monotonic()
    with tempfile.TemporaryFile() as output:
        beside = subprocess.Popen(second[1], cwd=_ROOT, env=environments[1], stdout=output, stderr=output)
        try:
            failed = _one_by_one([first], environments[0])
            console.print(f"{first[0]} took {time.monotonic() - began:.0f} s; {second[0]} runs beside it")
            if beside.wait():
                failed.append(second[0])
        finally:
            # Ctrl-C reaches it by itself, and it stops what it has started.
            beside.wait()
            console.rule(second[0])
            output.seek(0)
            console.file.write(output.read().decode(errors="replace"))
    return failed
