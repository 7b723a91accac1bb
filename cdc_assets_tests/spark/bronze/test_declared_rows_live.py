"""A topic that was made again between the snapshot and bronze's first read: its offsets begin at 0, and its links are equal."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from cdc_assets import names
from cdc_assets.defs.checks.volumetry import build_volumetry_checks, check_key
from cdc_assets.resources.databases.postgresql_capture import PostgresCapture
from cdc_assets_tests.support.live.clusters import until
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.live.small_chain import SmallChain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
        _read_again(chain)
        chain.advance(fold=False)
        assert _record_parity(chain, instance, TABLES[0]) == (True, "7 records in topic, mirror and bronze")


def _make_again(own: LiveSource, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": own.bootstrap, "log_level": 0})
    admin.delete_topics([topic])[topic].result(60)
    until(lambda: topic not in admin.list_topics(timeout=60).topics)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)


def _record_parity(chain: SmallChain, instance: dg.DagsterInstance, table: str) -> tuple[bool, str]:
    """The check as Dagster runs it."""
    chosen = dg.AssetSelection.checks(check_key("bronze", chain.source, chain.source.table(table)))
    checks = build_volumetry_checks(chain.source)
    result = dg.materialize(
        checks, selection=chosen, resources={"platform": chain.platform}, instance=instance, raise_on_error=False
    )
    (told,) = result.get_asset_check_evaluations()
    return told.passed, told.description or ""


def _read_again(chain: SmallChain) -> None:
    database, signals = PostgresCapture(chain.source.database), names.signal_table(chain.source)  # type: ignore[arg-type]
    database.ensure_signal_table(signals)
    database.publish(names.publication_name(chain.source), [signals])
    asked = {"data-collections": [r"public\.declared_lost"], "type": "incremental"}
    database.send_signal(signals, "declared-again", "execute-snapshot", json.dumps(asked))
    topic = "declared.public.declared_lost"
    until(lambda: sum(map(len, chain.live.delivered().get(topic, {}).values())) >= 7)
