"""A fold that sets a record aside turns its table's check red: nobody waits for the check's own rhythm."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from cdc_assets.defs import lake_assets, volumetry_checks
from cdc_assets.defs.check_specs import QUARANTINE_EMPTY
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.registry.source_declaration import Source


def test_the_table_is_red_as_soon_as_it_is_folded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = {"kind": "postgresql", "host": "db", "dbname": "d", "user": "u", "password": {"secret": "p"}}
    tables = [{"name": "public.orders"}, {"name": "public.lines"}]
    source = Source.model_validate({"source": "shop", "database": database, "tables": tables})
    set_aside = {"orders": 1, "lines": 0}

    told_early: list[bool] = []
    instances: list[dg.DagsterInstance] = []

    def fold(*_: Any) -> Any:
        for table in source.tables:
            storage = instances[0].event_log_storage
            told_early.append(bool(storage.get_latest_asset_check_execution_by_key([*QUARANTINE_EMPTY.keys(source)])))
            yield table, (SimpleNamespace(detail={"quarantined": set_aside[table.id.table]}), None)

    facts = {
        "first_seen": dt.datetime(2026, 1, 1),
        "superseded_by": None,
        "row_key": "7",
        "error_class": "future",
        "message": "m",
    }
    record: Any = SimpleNamespace(facts=facts)
    record.hidden = lambda _: record
    answers = {
        "bronze_committed": SimpleNamespace(version=1),
        "catalogue_or_last_known": defaultdict(lambda: None),
        "metadata_of_fold": {},
        "schema_news": (),
        "silver_version": None,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(lake_assets, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(lake_assets, "fold_others", fold)
    monkeypatch.setattr(volumetry_checks, "quarantine_records", lambda *_: [record])
    with dg.DagsterInstance.ephemeral() as instance:
        instances.append(instance)
        platform = PlatformResource(lake_root=str(tmp_path / "lake"))
        assert dg.materialize(
            [lake_assets.build_silver_assets(source)], instance=instance, resources={"platform": platform}
        ).success
        keys = [*QUARANTINE_EMPTY.keys(source)]
        found = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    assert told_early == [False, True], "it is told when the step ends, which may be minutes later"
    assert [*found] == [keys[0]]
    event = found[keys[0]].event
    assert event is not None
    said: Any = event.get_dagster_event().event_specific_data
    assert not said.passed
    assert said.description.endswith("1 row in doubt: cdc quarantine list shop/orders")
