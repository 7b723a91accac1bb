"""A topic that was made again between the snapshot and bronze's first read: its offsets begin at 0, and its links are equal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest
import yaml
from confluent_kafka.admin import AdminClient, NewTopic

from cdc_assets.defs.check_specs import RECORD_PARITY
from cdc_assets.defs.volumetry_checks import parity_check
from cdc_assets_tests.support.live.clusters import until
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.live.small_chain import SmallChain
from cdc_assets_tests.support.onboarding.drive import cdc, ended
from cdc_assets_tests.support.onboarding.ground import Ground

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

TABLES = ["public.declared_lost", "public.declared_kept"]


@pytest.mark.stack
def test_a_snapshot_that_is_gone_before_the_first_read_is_red(
    live: LiveSource, remote: str, session: SparkSession, tmp_path: Path
) -> None:
    own = replace(live, name="declared")
    with own.connection() as source:
        for table in TABLES:
            source.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, v text)".encode())
            source.execute(f"INSERT INTO {table} SELECT i, 'read' FROM generate_series(1, 5) i".encode())
        own.capture(TABLES)
        own.delivered()
        own.connect.stop("declared-capture")
        _make_again(own, "declared.public.declared_lost")
        own.connect.resume("declared-capture")
        own.connect.wait_running("declared-capture")
        source.execute("INSERT INTO declared_lost VALUES (6, 'later')")
    with own.settings(), dg.DagsterInstance.ephemeral() as instance:
        chain = SmallChain(own, remote, tmp_path, own.source(TABLES), session)
        chain.advance(fold=False)
        lost, kept = (_record_parity(chain, instance, table) for table in TABLES)
        assert kept == (True, "5 records in topic, mirror and bronze")
        assert not lost[0]
        assert "a snapshot has read 5 rows of the table, and bronze has 0 records by a snapshot" in lost[1]
        assert "cdc snapshot declared public.declared_lost" in lost[1]
        _read_again(own, tmp_path)
        chain.advance(fold=False)
        assert _record_parity(chain, instance, TABLES[0]) == (True, "10 records in topic, mirror and bronze")


def _make_again(own: LiveSource, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": own.bootstrap, "log_level": 0})
    admin.delete_topics([topic])[topic].result(60)
    until(lambda: topic not in admin.list_topics(timeout=60).topics)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)


def _record_parity(chain: SmallChain, instance: dg.DagsterInstance, table: str) -> tuple[bool, str]:
    """The check as Dagster runs it."""
    chosen = dg.AssetSelection.checks(RECORD_PARITY.key(chain.source, chain.source.table(table)))
    checks = parity_check.build(chain.source)
    result = dg.materialize(
        checks, selection=chosen, resources={"platform": chain.platform}, instance=instance, raise_on_error=False
    )
    (told,) = result.get_asset_check_evaluations()
    return told.passed, told.description or ""


def _read_again(own: LiveSource, folder: Path) -> None:
    """By the command that the check names; by then the table has fewer rows than the first snapshot has read."""
    with own.connection() as source:
        source.execute("DELETE FROM declared_lost WHERE id < 4")
    ground = Ground(own, folder / "sources")
    ground.folder.mkdir()
    ground.file.write_text(yaml.safe_dump(own.source(TABLES).model_dump(mode="json", exclude_defaults=True)))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ground.environment().items():
            patch.setenv(name, value)
        told = ended(cdc("snapshot", "declared", "public.declared_lost", "-o", "json"))
    assert told["steps"]["snapshot"]["rows_scanned"] == {"public.declared_lost": 3}
