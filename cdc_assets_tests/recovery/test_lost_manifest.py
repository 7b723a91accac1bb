"""The backup asset where the newest manifest has gone from the store: its run says so, and copies again what bronze has."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.clients.platform import Platform
from cdc_assets.defs.upkeep_assets import build_backup_assets
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.recovery.object_damage import newest_manifest
from cdc_assets_tests.recovery.original import Original, rows


@pytest.mark.slow
def test_a_run_warns_once(
    store: ObjectStore, original: Original, shop: Source, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connect is away: what is not of the tables is left for the next run."""
    monkeypatch.setenv("CDC_HOME", str(tmp_path / "home"))
    away = "http://127.0.0.1:9"
    platform = Platform(lake_root=str(tmp_path / "was"), core_connect_url=away, lake_connect_url=away)
    assert shop.backup is not None
    source = shop.model_copy(update={"backup": shop.backup.model_copy(update={"store": store.config})})

    def warnings() -> list[str]:
        with dg.DagsterInstance.ephemeral() as instance:
            done = dg.materialize([build_backup_assets(source)], instance=instance, resources={"platform": platform})
            assert done.success
            told = [each.user_message for each in instance.all_logs(done.run_id) if each.level == 30]
        return [each for each in told if "manifest" in each]

    for begin in (0, 10):
        original.append("orders", rows(begin, 10))
        assert warnings() == []
    victim = newest_manifest(root)
    before = victim.read_bytes()
    victim.unlink()
    (said,) = warnings()
    assert said.startswith(f"{victim.relative_to(root)} was the newest manifest, and is gone from the store")
    assert victim.read_bytes() == before
    assert warnings() == []
