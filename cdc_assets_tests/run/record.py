"""What runs took: of this tree in `.cdc-test/`, and the figures that are committed, with which a run is compared.

`.cdc-test/minutes.json` is the last run's, `.cdc-test/passed.json` tells when each test passed last on this machine.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cdc_assets.registry.errors import CdcAssetsError
from cdc_assets_tests.run.catalogue import ROOT

FOLDER = ROOT / ".cdc-test"
MINUTES, PASSED = FOLDER / "minutes.json", FOLDER / "passed.json"
COMMITTED = ROOT / "cdc_assets_tests" / "figures.json"
SLOWEST = 50
_GROWTH = 1.2
_SMALL = 20.0
"""Processor seconds: a part below it grows by a fifth for nothing."""


@dataclass(frozen=True)
class Took:
    """Seconds by the clock and of the processor; how many tests."""

    seconds: float = 0.0
    processor: float = 0.0
    tests: int = 0


@dataclass
class Minutes:
    """A run: each part, file and test, the servers that all parts share, and the whole."""

    command: str
    at: str
    seconds: float = 0.0
    processor: float = 0.0
    jvms: dict[str, int] = field(default_factory=dict)
    """How many were started, by what they run."""
    parts: dict[str, Took] = field(default_factory=dict)
    servers: dict[str, float] = field(default_factory=dict)
    files: dict[str, Took] = field(default_factory=dict)
    tests: dict[str, Took] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    unsteady: list[str] = field(default_factory=list)
    """Tests of the rotation that failed beside others, and passed alone."""

    def worst(self, count: int) -> list[tuple[str, Took]]:
        """The tests that took the most processor time."""
        return sorted(self.tests.items(), key=lambda row: -row[1].processor)[:count]


def read_lines(file: Path) -> list[dict[str, Any]]:
    """What a part has written until now; a line that is being written is left out."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def measured(command: str, parts: Mapping[str, Path]) -> Minutes:
    """The run whose parts have written these files; of a test that was played twice the later file counts."""
    minutes = Minutes(command, _now())
    files: dict[str, list[Took]] = defaultdict(list)
    outcomes: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for part, file in parts.items():
        lines = read_lines(file)
        tests = [line for line in lines if "test" in line and line["outcome"] not in ("left", "interrupted")]
        for line in tests:
            took = Took(round(seconds_of(line), 2), line["processor"], 1)
            minutes.tests[line["test"]] = took
            files[line["test"].partition("::")[0]].append(took)
            outcomes[line["test"]] = line["outcome"]
            if "reason" in line:
                reasons[line["test"]] = line["reason"]
        whole = next((line for line in lines if "jvms" in line), None)
        sums = _sum(minutes.tests[line["test"]] for line in tests)
        minutes.parts[part] = Took(whole["seconds"], whole["processor"], len(tests)) if whole else sums
    minutes.files = {name: _sum(rows) for name, rows in files.items()}
    minutes.outcomes, minutes.reasons = dict(Counter(outcomes.values())), dict(Counter(reasons.values()))
    return minutes


def seconds_of(line: Mapping[str, Any]) -> float:
    """By the clock, of all phases of one test."""
    return float(sum(line.get(phase, 0.0) for phase in ("setup", "call", "teardown")))


def write(minutes: Minutes) -> None:
    """The last run of this tree; of its tests the slowest, since the others are too many to be looked at."""
    FOLDER.mkdir(exist_ok=True)
    kept = {**asdict(minutes), "tests": {name: asdict(took) for name, took in minutes.worst(SLOWEST)}}
    MINUTES.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def note_passed(files: Iterable[Path]) -> None:
    """Add to `.cdc-test/passed.json` when each test of these files of lines passed, and what it took.

    One that was interrupted takes at least twice as long as it had: it waits on, for a run with so much time.
    """
    rows = read_passed(PASSED)
    today = _now()
    for file in files:
        for line in read_lines(file):
            if line.get("outcome") == "passed":
                rows[line["test"]] = {"at": today, "seconds": round(seconds_of(line), 1), "processor": line["processor"]}
            elif line.get("outcome") == "interrupted":
                at = rows.get(line["test"], {}).get("at", "")
                rows[line["test"]] = {"at": at, "seconds": round(2 * seconds_of(line), 1), "processor": line["processor"]}
    FOLDER.mkdir(exist_ok=True)
    PASSED.write_text(dumped({"tests": rows}), encoding="utf-8")


def read_passed(file: Path) -> dict[str, dict[str, Any]]:
    """When each test passed last, and what it took then.

    Raises:
        CdcAssetsError: the file is broken; with the command that makes it anew.
    """
    return dict(_read(file).get("tests", {}))


def read_parts(file: Path = COMMITTED) -> dict[str, Took]:
    """The recorded parts, the servers among them.

    Raises:
        CdcAssetsError: as `read_passed`.
    """
    try:
        return {name: Took(**row) for name, row in _read(file).get("parts", {}).items()}
    except (TypeError, AttributeError) as error:
        raise _broken(file, error) from error


def growth(minutes: Minutes, before: Mapping[str, Took]) -> list[str]:
    """A line for each part that has grown by more than a fifth in processor seconds; machines differ, so it is a warning."""
    return [
        f"{name} has grown: {took.processor:.0f} processor seconds, {before[name].processor:.0f} when they were recorded"
        for name, took in minutes.parts.items()
        if name in before and took.processor > max(_SMALL, _GROWTH * before[name].processor)
    ]


def dumped(rows: Mapping[str, Any]) -> str:
    """JSON with a line for each entry, in order: two branches that add entries meet without a conflict where they can."""
    sections = []
    for section, entries in rows.items():
        if isinstance(entries, Mapping):
            lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(entries[name])}" for name in sorted(entries))
            sections.append(f" {json.dumps(section)}: {{\n{lines}\n }}")
        else:
            sections.append(f" {json.dumps(section)}: {json.dumps(entries)}")
    return "{\n" + ",\n".join(sections) + "\n}\n"


def read_record(file: Path) -> dict[str, Any]:
    """All of a record, empty where there is none.

    Raises:
        CdcAssetsError: as `read_passed`.
    """
    return _read(file)


def _read(file: Path) -> dict[str, Any]:
    try:
        rows = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(rows, dict) or not all(isinstance(rows.get(key, {}), dict) for key in ("tests", "parts")):
            raise ValueError("it is no record")
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise _broken(file, error) from error
    return rows


def _broken(file: Path, error: Exception) -> CdcAssetsError:
    mend = "git checkout" if file == COMMITTED else "rm"
    shown = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
    return CdcAssetsError(f"{shown} is no record of a run of the tests ({error}): {mend} {shown}, then run ./cdc test again")


def _sum(rows: Iterable[Took]) -> Took:
    taken: Sequence[Took] = list(rows)
    return Took(
        round(sum(row.seconds for row in taken), 1),
        round(sum(row.processor for row in taken), 1),
        sum(row.tests for row in taken),
    )


def _now() -> str:
    return dt.datetime.now(tz=dt.timezone.utc).replace(microsecond=0).isoformat()
