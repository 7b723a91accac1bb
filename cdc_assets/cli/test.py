"""`cdc test`: lint, types, then the test suite on a stack of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
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
# Side by side (cdc_assets_tests/parts.py), of like length; of the first the output is seen as it comes.
_PARTS = (("spark", "stack"), ("live", "rest"))


def test(context: typer.Context) -> None:
    """Run everything, or what the given pytest arguments select (then without lint, and one after the other)."""
    with ExitStack() as folders:
        if context.args:
            failed = _one_by_one([("pytest", [_PYTHON, "-m", "pytest", *context.args])], _environment(folders))
        else:
            failed = _one_by_one(_LINT, _environment(folders)) + _side_by_side(folders)
    if failed:
        console.print(f"[red]failed: {', '.join(failed)}[/red]")
        raise typer.Exit(1)


def _environment(folders: ExitStack) -> Mapping[str, str]:
    """Nothing of a running stack may reach the tests."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("CDC_", "DAGSTER_"))}
    return {**clean, "CDC_HOME": folders.enter_context(tempfile.TemporaryDirectory(prefix="cdc-test-"))}


def _one_by_one(steps: Sequence[tuple[str, list[str]]], environment: Mapping[str, str]) -> list[str]:
    failed = []
    for name, command in steps:
        console.rule(name)
        if subprocess.run(command, cwd=_ROOT, env=environment, check=False).returncode:
            failed.append(name)
    return failed


def _side_by_side(folders: ExitStack) -> list[str]:
    first, *others = [
        (" ".join(["pytest", *chosen]), [*_PYTEST, *chosen]) for chosen in ([f"--part={p}" for p in ps] for ps in _PARTS)
    ]
    folder = Path(folders.enter_context(tempfile.TemporaryDirectory(prefix="cdc-test-output-")))
    beside = []
    for number, (name, command) in enumerate(others):
        output = folder / str(number)
        with output.open("wb") as file:
            process = subprocess.Popen(command, cwd=_ROOT, env=_environment(folders), stdout=file, stderr=file)
        # Ctrl-C reaches it by itself, and it stops what it has started.
        folders.callback(process.wait)
        beside.append((name, process, output))
    failed = _one_by_one([first], _environment(folders))
    for name, process, output in beside:
        console.print(f"waiting for {name}")
        if process.wait():
            failed.append(name)
        console.rule(name)
        console.file.write(output.read_text(errors="replace"))
    return failed
