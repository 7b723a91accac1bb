"""A table that no later run can fold is red at once, and nobody waits for it; after the command that is named it goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from cdc_assets.capture.log_position import LogPosition
from cdc_assets.chain.fold_specs import refusals_now
from cdc_assets.clients.platform import Platform
from cdc_assets.defs.check_specs import SCHEMA
from cdc_assets.defs.lake_assets import build_silver_assets
from cdc_assets.proof import caught_up
from cdc_assets.proof.caught_up import Awaited, wait_caught_up
from cdc_assets.registry import names
from cdc_assets.registry.errors import FailuresError
from cdc_assets_tests.support.declared import declare
from cdc_assets_tests.support.lake.declared_table import WIDE, DeclaredTable
from cdc_assets_tests.support.lake.declared_topic import SOURCE
from cdc_assets_tests.support.lake.lake import Lake, values
from cdc_assets_tests.support.lake.versions import sent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMAND = "build it anew: cdc replay source t"


@pytest.fixture
def table(session: SparkSession, remote: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DeclaredTable:
    file = declare(tmp_path, monkeypatch, SOURCE, "source")
    monkeypatch.setenv("CDC_SPARK_REMOTE", remote)
    return DeclaredTable(file, Lake(session, tmp_path / "lake"))


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def run(table: DeclaredTable, instance: dg.DagsterInstance) -> bool:
    """As the sensor's run does it: whether silver was materialized."""
    assets, resources = [build_silver_assets(table.source)], {"platform": Platform()}
    return dg.materialize(assets, instance=instance, resources=resources, raise_on_error=False).success


def told(table: DeclaredTable, instance: dg.DagsterInstance) -> tuple[bool, str] | None:
    """What Dagster's page has of the check, and whether it is red."""
    key = SCHEMA.key(table.source, table.source.tables[0])
    record = instance.event_log_storage.get_latest_asset_check_execution_by_key([key]).get(key)
    if record is None or record.event is None:
        return None
    found: Any = record.event.get_dagster_event().event_specific_data
    return not found.passed and found.severity == dg.AssetCheckSeverity.ERROR, found.description or ""


def wait(table: DeclaredTable, said: list[str]) -> None:
    wait_caught_up(Platform(), (table.source,), timeout=60, awaited=Awaited(refusals=refusals_now), say=said.append)


def test_it_is_red_at_once_and_goes_on_behind_the_replay(
    table: DeclaredTable, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.declare()
    table.arrive(sent(0, 0, 1, "1", "n", "c"), sent(1, 1, 2, "2", "n", "c"))
    assert run(table, instance)
    assert told(table, instance) is None

    # Renamed and of another type at once.
    columns = {name: kind for name, kind in WIDE.items() if name != "v"} | {"w": "integer"}
    table.declare(columns=columns, renamed={"v": "w"})
    table.arrive(sent(2, 2, 3, "3", "n", "c"))
    assert not run(table, instance)
    red, sentence = told(table, instance) or (False, "")
    assert red
    assert COMMAND in sentence

    offsets = {names.lake_topic(table.source, table.source.tables[0]): {0: 3}}
    monkeypatch.setattr(caught_up, "carry_or_tell", lambda *_, **__: LogPosition("m", "p", offsets))
    said: list[str] = []
    with pytest.raises(FailuresError, match=COMMAND):
        wait(table, said)
    assert [COMMAND in line for line in said] == [True]

    assert table.replay()["swapped"] is True
    assert run(table, instance)
    assert (told(table, instance) or (True, ""))[0] is False
    wait(table, said)
    assert len(said) == 1
    assert {row["id"]: row["w"] for row in values(table.path)} == {1: 1, 2: 2, 3: 3}
