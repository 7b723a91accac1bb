"""Three tables of a live PostgreSQL whose lake is lost: what happens to them, their backup, and how they are looked at."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
from deltalake import DeltaTable

from cdc_assets.backup.backup_copy import backup_table
from cdc_assets.capture.source_columns import catalogue_of
from cdc_assets.chain.fold_specs import history_spec, silver_spec
from cdc_assets.clients import delta_rows
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.check_specs import DRILLED
from cdc_assets.defs.upkeep_assets import drill_check
from cdc_assets.proof.event_ledger import count_events, hops, places, read_windows
from cdc_assets.recovery.column_history import back_up_columns
from cdc_assets.recovery.restored_source import platform_of_lake
from cdc_assets.registry import names
from cdc_assets.registry.source_declaration import Source
from cdc_assets.registry.source_settings import Backup, DrillSettings
from cdc_assets_tests.e2e.source_rows import silver_rows, source_rows
from cdc_assets_tests.hostile.command import cli_environment
from cdc_assets_tests.recovery.command_line import cdc
from cdc_assets_tests.support.live.small_chain import SmallChain
from spark.silver import history_job

TABLES = [{"name": "public.coin", "history": "scd2"}, {"name": "public.toss", "without_key": "multiset"}, "public.note"]
NAMES = ("coin", "note", "toss")
DDL = """
CREATE TABLE coin (id int PRIMARY KEY, face text, worth numeric(12,2), minted date);
CREATE TABLE toss (coin int, up boolean);
CREATE TABLE note (id bigint PRIMARY KEY, words text, at timestamptz, data bytea);
ALTER TABLE toss REPLICA IDENTITY FULL;
INSERT INTO coin SELECT i, 'face ' || i, i / 7.0, '2026-01-01'::date + i FROM generate_series(1, 400) i;
INSERT INTO toss SELECT i % 9, i % 3 = 0 FROM generate_series(1, 90) i;
"""
CHANGES = (
    "INSERT INTO note SELECT i, repeat('w', i * 40), now(), decode(md5(i::text), 'hex') FROM generate_series(1, 200) i",
    "UPDATE coin SET worth = worth + 1 WHERE id % 3 = 0",
    "UPDATE coin SET id = id + 1000 WHERE id % 50 = 0",
    "DELETE FROM coin WHERE id % 7 = 0",
    "DELETE FROM toss WHERE coin = 3",
    "UPDATE note SET at = now() WHERE id % 2 = 0",
)


def fold_history(chain: SmallChain) -> None:
    coin, root = chain.source.table("coin"), str(chain.root)
    found = catalogue_of(Chain(chain.platform, chain.source), [coin])[coin.id]
    spec = history_spec(root, chain.source, coin, silver_spec(root, chain.source, coin, found))
    history_job.run(chain.session, spec)


def change(chain: SmallChain, *statements: str) -> None:
    with chain.live.connection() as connection:
        for statement in statements:
            connection.execute(statement.encode())


def back_up(chain: SmallChain, store: ObjectStore, *, lake: Path | str | None = None) -> Source:
    """The source, as one that declares this backup."""
    path = names.bronze_path(str(lake or chain.root), chain.source)
    for table in chain.source.tables:
        backup_table(store, source=chain.source.name, table=names.table_name(table), bronze_path=path)
        back_up_columns(store, str(lake or chain.root), chain.source, table)
    declared = {"backup": Backup(store=store.config), "drill": DrillSettings(every=timedelta(days=7))}
    return chain.source.model_copy(update=declared)


def assert_as_in_postgresql(chain: SmallChain, lake: Path | str) -> None:
    for table in chain.source.tables:
        path = names.silver_path(str(lake), chain.source, table)
        with chain.live.connection() as connection:
            columns, expected = source_rows(connection, names.table_name(table))
        assert silver_rows(Path(path), columns) == expected, table.name


def assert_ledger_balances(chain: SmallChain, lake: str) -> None:
    """The ledger's own job, begun anew: each event of the topics has its row of bronze and its fate in silver."""
    count_events(Chain(platform_of_lake(chain.platform, lake), chain.source), chain.source.tables)
    counted = places(lake, chain.source)
    for table in chain.source.tables:
        place = counted[names.table_name(table)]
        found = hops(read_windows(lake, chain.source, table), place, mirrored=names.is_mirrored(chain.source))
        assert [each for hop in found for each in hop.differing] == [], table.name
        assert place.uncounted == ""


def by_command(chain: SmallChain, source: Source, *arguments: str) -> tuple[int, Any, str]:
    """`cdc` as a person calls it, with this source in the registry."""
    with cli_environment(replace(chain, source=source)):
        return cdc(*arguments)


def rows_of(path: str, *ids: int) -> list[dict[str, Any]]:
    """By delta-rs, in their order, of these keys; all without."""
    found = [row for row in delta_rows.read_rows(DeltaTable(path)).read_all().to_pylist() if not ids or row["id"] in ids]
    return sorted(found, key=lambda row: (row["id"], str(row)))


def told_by_check(chain: SmallChain, source: Source) -> tuple[bool, str]:
    chosen = dg.AssetSelection.checks(DRILLED.key(source))
    resources = {"platform": chain.platform}
    result = dg.materialize(drill_check.build(source), selection=chosen, resources=resources, raise_on_error=False)
    (told,) = result.get_asset_check_evaluations()
    return told.passed, told.description or ""
