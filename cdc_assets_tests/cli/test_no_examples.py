"""`cdc up --no-examples` leaves nothing of the examples: no source, no asset, no secret that is missed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cdc_assets.registry import settings
from cdc_assets.registry.loader import load_sources
from cdc_assets.stack.examples.example_sources import EXAMPLES, declare_examples

ASSETS = "from cdc_assets.definitions import defs; print(len(list(defs.resolve_all_asset_keys())))"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    monkeypatch.delenv("CDC_SOURCES", raising=False)
    return tmp_path


def names() -> tuple[str, ...]:
    return tuple(source.name for source in load_sources(settings.sources_folder()))


@pytest.mark.slow
def test_without_the_examples_there_is_no_source_and_dagster_loads(home: Path) -> None:
    assert names() == tuple(EXAMPLES)
    declare_examples(declared=False)
    assert names() == ()
    loaded = subprocess.run(
        [sys.executable, "-c", ASSETS], capture_output=True, text=True, timeout=120, check=False, env=os.environ
    )
    assert loaded.stdout.strip() == "0", loaded.stderr
    validated = subprocess.run(
        [sys.executable, "-m", "cdc_assets.cli", "validate"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (validated.returncode, "0 sources" in validated.stdout) == (0, True), validated.stderr
    declare_examples(declared=True)
    assert names() == tuple(EXAMPLES)


def test_sources_of_your_own_are_not_touched(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_SOURCES", str(settings.example_sources()))
    declare_examples(declared=False)
    assert names() == tuple(EXAMPLES)


def test_traffic_says_that_there_is_no_bank(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cdc_assets.cli", "traffic"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, "the example source bank is not loaded" in done.stderr) == (1, True), done.stderr
    assert not (home / "secrets" / "bank_db_password").exists()
