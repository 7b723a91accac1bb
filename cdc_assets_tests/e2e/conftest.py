"""One embedded stack for all end-to-end tests: brought up as a user would, by `cdc up`, and taken down afterwards."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@dataclass
class Lakehouse:
    """A running stack, reached through the command line."""

    home: Path
    up_output: str

    def cdc(self, *arguments: str, timeout: float = 600, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a verb; fails the test with its output when it does not exit 0 (unless told otherwise)."""
        result = subprocess.run(
            [sys.executable, "-m", "cdc_assets.cli", *arguments],
            cwd=ROOT,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and result.returncode:
            pytest.fail(f"cdc {' '.join(arguments)} exited with {result.returncode}:\n{result.stdout}\n{result.stderr}")
        return result

    def environment(self, **more: str) -> dict[str, str]:
        """A clean environment that knows nothing but where the state lies."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CDC_", "DAGSTER_", "AWS_"))}
        return {**kept, "CDC_HOME": str(self.home), "PYTHONPATH": str(ROOT), "COLUMNS": "200", **more}

    @property
    def addresses(self) -> dict[str, str]:
        """What `stack.json` tells clients."""
        environment: dict[str, str] = json.loads((self.home / "stack.json").read_text())["environment"]
        return environment

    def connect(self, database: str) -> Any:
        """An autocommit connection to a source as its own role."""
        import psycopg

        return psycopg.connect(
            host=self.addresses["CDC_POSTGRES_HOST"],
            port=int(self.addresses["CDC_POSTGRES_PORT"]),
            dbname=database,
            user=f"{database}_cdc",
            password=(self.home / "secrets" / f"{database}_db_password").read_text().strip(),
            autocommit=True,
        )

    def silver(self, source: str, table: str) -> Path:
        """The folder of a silver table."""
        return Path(self.addresses["CDC_LAKE"]) / "silver" / source / table


@pytest.fixture(scope="package")
def lakehouse() -> Iterator[Lakehouse]:
    # While writing tests: `CDC_TEST_HOME=.cdc pytest cdc_assets_tests/e2e` uses a stack that runs already.
    given = os.environ.get("CDC_TEST_HOME")
    home = Path(given).absolute() if given else Path(tempfile.mkdtemp(prefix="cdc-e2e-"))
    house = Lakehouse(home, "")
    try:
        result = house.cdc("up", timeout=1500, check=False)
        house.up_output = result.stdout + result.stderr
        if result.returncode:
            pytest.fail(f"cdc up exited with {result.returncode}:\n{house.up_output[-8000:]}")
        yield house
    finally:
        if not given:
            house.cdc("down", timeout=180, check=False)
            shutil.rmtree(home, ignore_errors=True)
