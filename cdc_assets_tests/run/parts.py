"""The steps of a run: each part of the suite as one pytest, or as several where nothing ties its files together."""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from cdc_assets.stack.jars.locked_jars import cache_folder
from cdc_assets_tests.parts import HOSTILE, LIVE, PARTS, REST, SPARK
from cdc_assets_tests.run.catalogue import PYTEST, ROOT, Test
from cdc_assets_tests.run.steps import Step

CHECKS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("ruff format --check", (sys.executable, "-m", "ruff", "format", "--check", ".")),
    ("ruff check", (sys.executable, "-m", "ruff", "check", ".")),
    ("lint-imports", (sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()")),
    ("mypy", (sys.executable, "-m", "mypy")),
)
"""Lint and types, with the seconds that they take below."""
_CHECK_SECONDS = {"mypy": 120.0}
_CHECK_OPTIONS = {"mypy": [f"--cache-dir={cache_folder().parent / 'mypy'}"]}
"""One cache of all clones: it is asked by the content of files, and a new clone has none."""
_SHARES = {SPARK: 3, REST: 3}
"""Parts whose files need nothing of each other but the ground, and how many processes play them side by side."""
_WITH = {HOSTILE: LIVE}
"""A part whose tests of the core need the servers of another one: the same process plays them, behind that."""
_WORTH_A_PROCESS = 60.0
"""Seconds: a process takes eight to import what the tests import."""
_File = TypeVar("_File")
_TEST = re.compile(r"^def test_", re.MULTILINE)


def checks(names: Iterable[str] = ()) -> Iterator[Step]:
    """All of lint and types, or those named."""
    wanted = set(names)
    for name, command in CHECKS:
        if not wanted or name in wanted:
            yield Step(name, [*command, *_CHECK_OPTIONS.get(name, ())], seconds=_CHECK_SECONDS.get(name, 3.0))


def part_steps(
    tests: Sequence[Test], seconds: Mapping[str, float], results: Path, options: Sequence[str], until: float | None = None
) -> list[Step]:
    """The parts of these tests in their order; each writes `<name>.jsonl` into the folder of results, and ends by `until`."""
    by_part: dict[str, list[Test]] = defaultdict(list)
    for test in sorted(tests, key=lambda test: test.part in _WITH):
        by_part[_WITH.get(test.part, test.part) if test.is_core else test.part].append(test)
    steps = []
    for part, rows in sorted(by_part.items(), key=lambda row: PARTS.index(row[0])):
        shares = _shares(rows, seconds, _SHARES.get(part, 1))
        for number, share in enumerate(shares, 1):
            step = _step(part if len(shares) == 1 else f"{part}-{number}", share, seconds, results, options)
            steps.append(replace(step, until=until))
    return steps


def fast_steps(results: Path) -> list[Step]:
    """What needs no service, in two shares of files: to collect all tests first would take a quarter of its minute."""
    files = {
        path: len(_TEST.findall(path.read_text(encoding="utf-8"))) for path in (ROOT / "cdc_assets_tests").rglob("test_*.py")
    }
    steps = []
    for number, share in enumerate(_balanced(files, 2), 1):
        command = [*PYTEST, "--fast", f"--minutes={results / f'fast-{number}.jsonl'}", *map(str, sorted(share))]
        steps.append(Step(f"fast-{number}", command, seconds=25.0))
    return steps


def _step(name: str, tests: Sequence[Test], seconds: Mapping[str, float], results: Path, options: Sequence[str]) -> Step:
    ids = [test.id for test in tests]
    chosen = results / f"{name}.chosen"
    chosen.write_text("\n".join(ids), encoding="utf-8")
    files = list(dict.fromkeys(test.file for test in tests))
    command = [*PYTEST, f"--chosen={chosen}", f"--minutes={results / f'{name}.jsonl'}", *options, *files]
    return Step(name, command, ids, sum(seconds.get(test, 0.0) for test in ids))


def write_limit(file: Path, until: float, seconds: Mapping[str, float]) -> str:
    """The option by which no test begins that would end after this time (seconds since 1970)."""
    file.write_text(json.dumps({"until": until, "seconds": dict(seconds)}), encoding="utf-8")
    return f"--until={file}"


def _shares(tests: Sequence[Test], seconds: Mapping[str, float], most: int) -> list[list[Test]]:
    """Whole files, since fixtures are theirs, in the suite's order within a share."""
    files: dict[str, float] = defaultdict(float)
    for test in tests:
        files[test.file] += seconds.get(test.id, 0.0)
    count = max(1, min(most, len(files), int(sum(files.values()) / _WORTH_A_PROCESS)))
    return [[test for test in tests if test.file in share] for share in _balanced(files, count)]


def _balanced(sizes: Mapping[_File, float], count: int) -> list[set[_File]]:
    """The largest first, each to the smallest share."""
    shares: list[set[_File]] = [set() for _ in range(count)]
    sums = [0.0] * count
    for file, size in sorted(sizes.items(), key=lambda row: (-row[1], str(row[0]))):
        at = sums.index(min(sums))
        shares[at].add(file)
        sums[at] += size
    return shares
