"""`cdc test`: lint, types, then the test suite on a stack of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import chain
from pathlib import Path

import typer

from cdc_assets.cli.progress import console
from cdc_assets.cli.test_tally import last_line, part_minutes, read_tally
from cdc_assets.errors import CdcAssetsError
from cdc_assets.stack.java import share_classes

_ROOT = Path(__file__).parents[2]
_PYTHON = sys.executable
_PYTEST = [_PYTHON, "-m", "pytest", "-p", "no:cacheprovider", "--durations=15"]
# Of the system's programs a selection of tests brings those that it asks for.
_PROGRAMS = ("-p", "cdc_assets_tests.programs.when_asked")
Step = tuple[str, list[str]]
_LINT: tuple[Step, ...] = (
    ("ruff format --check", [_PYTHON, "-m", "ruff", "format", "--check", "."]),
    ("ruff check", [_PYTHON, "-m", "ruff", "check", "."]),
    ("lint-imports", [_PYTHON, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]),
)
_TYPES: Step = ("mypy", [_PYTHON, "-m", "mypy"])
CHECKS = (*_LINT, _TYPES)
# By cdc_assets_tests/parts.py, the longest first. Three leave a third of two cores, and a fourth takes that. nice does not help:
# a stack's processes are sessions of their own, and scheduled as such.
_AT_A_TIME = 4
_PARTS = ("spark", "chain", "e2e", "order", "rest", "live", "stack", "hostile")
# No part of it waits for anything: as many as the cores that CI has.
_FAST_SHARDS = 2


def test(context: typer.Context) -> None:
    """Run everything, or what the given pytest arguments select (then without lint, and one after the other)."""
    if not (_ROOT / "cdc_assets_tests").is_dir():
        raise CdcAssetsError("the tests are in the repository, and not in a wheel: clone it, then ./cdc test")
    with ExitStack() as folders:
        results = Path(folders.enter_context(tempfile.TemporaryDirectory(prefix="cdc-test-results-")))
        if context.args in ([], ["--all"]):
            # It tells by itself what it cannot bring; the tests that need it are skipped.
            subprocess.run([_PYTHON, "-m", "cdc_assets_tests.programs"], cwd=_ROOT, check=True)
            share_classes()
        if context.args in ([], ["--fast"], ["--all"]):
            if context.args == ["--fast"]:
                failed = _side_by_side(folders, chain(_LINT, _fast(results)), _FAST_SHARDS)
            else:
                failed = _side_by_side(folders, chain(_LINT, _parts(results, context.args)), _AT_A_TIME)
        else:
            command = [_PYTHON, "-m", "pytest", *_PROGRAMS, f"--junitxml={results / 'pytest.xml'}", *context.args]
            failed = _one_by_one([("pytest", command)], _environment(folders))
        outcomes, reasons = read_tally(sorted(results.iterdir()))
        minutes = part_minutes(results.iterdir())
    for reason, count in sorted(reasons.items()):
        console.print(f"skipped {count}: {reason}", markup=False)
    if failed:
        console.print(f"[red]failed: {', '.join(failed)}[/red]")
    if len(minutes) > 1:
        console.print(f"minutes: {', '.join(f'{name} {took:.1f}' for name, took in minutes.items())}", markup=False)
    console.print(last_line(outcomes, reasons), markup=False)
    if failed:
        raise typer.Exit(1)


def _environment(folders: ExitStack) -> Mapping[str, str]:
    """Nothing of a running stack may reach the tests."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("CDC_", "DAGSTER_"))}
    return {**clean, "CDC_HOME": folders.enter_context(tempfile.TemporaryDirectory(prefix="cdc-test-"))}


def _one_by_one(steps: Iterable[Step], environment: Mapping[str, str]) -> list[str]:
    failed = []
    for name, command in steps:
        console.rule(name)
        if subprocess.run(command, cwd=_ROOT, env=environment, check=False).returncode:
            failed.append(name)
    return failed


def _side_by_side(folders: ExitStack, steps: Iterable[Step], at_a_time: int) -> list[str]:
    """Some at a time, the next when one has ended; what this thread runs is seen as it comes, the rest in the end."""
    waiting = deque(steps)
    first, folder = waiting.popleft(), Path(folders.enter_context(tempfile.TemporaryDirectory(prefix="cdc-test-output-")))
    own, *others = [_environment(folders) for _ in range(at_a_time)]

    def work(environment: Mapping[str, str]) -> list[tuple[str, int, Path]]:
        return [(name, *_run_to_file(command, folder / name, environment)) for name, command in _drain(waiting)]

    with ThreadPoolExecutor(len(others)) as pool:
        beside = [pool.submit(work, environment) for environment in others]
        try:
            failed = _one_by_one(chain([first], _drain(waiting)), own)
        finally:
            # Ctrl-C reaches the processes by themselves, and they stop what they have started; none may begin any more.
            waiting.clear()
        console.print("waiting for what runs beside")
        for name, code, output in chain.from_iterable(done.result() for done in beside):
            console.rule(name)
            console.file.write(output.read_text(errors="replace"))
            failed += [name] if code else []
    return failed


def _parts(results: Path, options: list[str]) -> Iterator[Step]:
    """Each part of the suite, which leaves its results in the folder, and the types."""
    for part in _PARTS:
        yield f"pytest --part={part}", [*_PYTEST, f"--part={part}", f"--junitxml={results / part}.xml", *options]
    yield _TYPES


def _fast(results: Path) -> Iterator[Step]:
    """What needs no service, in shares."""
    for number in range(1, _FAST_SHARDS + 1):
        shard = f"{number}-of-{_FAST_SHARDS}"
        yield f"pytest --shard={shard}", [*_PYTEST, "--fast", f"--shard={shard}", f"--junitxml={results / shard}.xml"]


def _drain(waiting: deque[Step]) -> Iterator[Step]:
    with suppress(IndexError):
        while True:
            yield waiting.popleft()


def _run_to_file(command: list[str], output: Path, environment: Mapping[str, str]) -> tuple[int, Path]:
    """Its exit code, and the file with its output."""
    with output.open("wb") as file:
        return subprocess.run(command, cwd=_ROOT, env=environment, stdout=file, stderr=file, check=False).returncode, output
