"""All tests of the suite: `--catalogue FILE` writes them while pytest collects; the runner reads them, and chooses."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from cdc_assets.registry.errors import CdcAssetsError
from cdc_assets_tests.parts import is_served, parts_of

ROOT = Path(__file__).parents[2]
PYTEST = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "cdc_assets_tests.run.minutes")


@dataclass(frozen=True)
class Test:
    """One test of the suite, as pytest names it: `id` is its node's, `is_core` what is played by default."""

    __test__ = False

    id: str
    part: str
    is_core: bool
    is_fast: bool

    @property
    def file(self) -> str:
        """Its file, relative to the root of the repository."""
        return self.id.partition("::")[0]


def write_catalogue(file: Path, items: Iterable[pytest.Item]) -> None:
    """What was collected, in the order of pytest, before anything is left out."""
    tests = list(items)
    parts = parts_of(tests)
    rows = [
        asdict(
            Test(
                item.nodeid,
                parts[item.path],
                item.get_closest_marker("all") is None,
                not is_served(item) and item.get_closest_marker("slow") is None,
            )
        )
        for item in tests
    ]
    file.write_text(json.dumps(rows), encoding="utf-8")


def collect(environment: Mapping[str, str]) -> list[Test]:
    """Ask pytest for all tests; some ten seconds.

    Raises:
        CdcAssetsError: a file of tests cannot be imported; with pytest's own words.
    """
    with tempfile.TemporaryDirectory(prefix="cdc-test-catalogue-") as folder:
        file = Path(folder) / "tests.json"
        command = [*PYTEST, "--collect-only", "-qq", "--all", f"--catalogue={file}"]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if done.returncode or not file.exists():
            raise CdcAssetsError(f"pytest cannot collect the tests:\n{done.stdout[-6000:]}{done.stderr[-2000:]}")
        return [Test(**row) for row in json.loads(file.read_text(encoding="utf-8"))]
