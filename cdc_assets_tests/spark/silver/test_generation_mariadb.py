"""A table dropped and made again on a live MariaDB: its binlog tells where, so that the old rows go at once."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from cdc_assets.defs.lake_assets import build_silver_assets
from cdc_assets.defs.schema_and_fresh_checks import schema_result
from cdc_assets.registry import names
from cdc_assets_tests.support.lake.lake import rows, values
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb
from cdc_assets_tests.support.live.small_chain import SmallChain, small_chain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVOLVED = {"name": "again.made", "schema_changes": {"drop_table": "evolve"}, "history": "scd2", "truncate": "ignore"}
NEW = "(v varchar(20), id int PRIMARY KEY)"


@pytest.mark.all
@pytest.mark.stack
def test_the_log_tells_where_the_new_table_begins(
    mariadb: LiveMariaDb, remote: str, session: SparkSession, tmp_path: Path
) -> None:
    own = mariadb.renamed("mariaagain")
    execute, both = own.server.execute, ("again.made", "again.kept")
    execute("CREATE DATABASE again", *[f"CREATE TABLE {t} (id int PRIMARY KEY, v varchar(20))" for t in both])
    execute(*[f"INSERT INTO {t} VALUES (1, 'old'), (2, 'old'), (3, 'old')" for t in both])
    with small_chain(own, remote, session, tmp_path, [EVOLVED, "again.kept"]) as chain:
        advance(chain)
        # Not folded when the table is gone; two tables later another one is there.
        execute(*[f"UPDATE {t} SET v = 'last' WHERE id = 1" for t in both])
        execute(*[f"DROP TABLE {t}" for t in both], *[f"CREATE TABLE {t} {NEW}" for t in both])
        execute("INSERT INTO again.made VALUES ('between', 3)", "DROP TABLE again.made", f"CREATE TABLE again.made {NEW}")
        execute(*[f"INSERT INTO {t} (id, v) VALUES (2, 'new'), (9, 'new')" for t in both])
        advance(chain)
        assert in_silver(chain, "made") == {2: "new", 9: "new"}
        assert in_silver(chain, "kept") == {1: "last", 2: "new", 3: "old", 9: "new"}
        assert past(chain) == [
            *[(1, "last", False), (1, "old", False), (2, "new", True), (2, "old", False)],
            *[(3, "between", False), (3, "old", False), (9, "new", True)],
        ]
        assert chain.history_told("again__made")[::2] == (True, (7, 2))
        assert schema_of(chain, "made").passed
        assert "at least 2 rows of the one before" in str(schema_of(chain, "kept").description)
        # Another table of the same rows, as online schema changes make them, is no new one.
        execute(f"CREATE TABLE again.shadow {NEW}", "RENAME TABLE again.made TO again.old, again.shadow TO again.made")
        execute("DROP TABLE again.old", "INSERT INTO again.made (id, v) VALUES (4, 'swapped')")
        advance(chain)
        assert in_silver(chain, "made") == {2: "new", 4: "swapped", 9: "new"}
        execute("DROP DATABASE again", "CREATE DATABASE again", f"CREATE TABLE again.made {NEW}")
        execute("INSERT INTO again.made (id, v) VALUES (7, 'last of all')")
        advance(chain)
        found = dict(own.server.query("SELECT id, v FROM again.made"))
        assert in_silver(chain, "made") == found == {7: "last of all"}
        assert in_silver(chain, "kept") == {1: "last", 2: "new", 3: "old", 9: "new"}
        assert chain.history_told("again__made")[::2] == (True, (len(past(chain)), 1))
        built_anew(chain)
        assert chain.history_told("again__made")[::2] == (True, (len(past(chain)), 1))


def built_anew(chain: SmallChain) -> None:
    """From all of bronze, both tables are what they were."""
    before = in_silver(chain, "made"), whole(chain)
    for path in (chain.silver("again__made"), history_path(chain)):
        shutil.rmtree(path)
    advance(chain)
    assert (in_silver(chain, "made"), whole(chain)) == before


def advance(chain: SmallChain) -> None:
    """Into bronze, and into silver and its history by Dagster's assets."""
    chain.advance(fold=False)
    assert dg.materialize([build_silver_assets(chain.source)], resources={"platform": chain.platform}).success


def in_silver(chain: SmallChain, table: str) -> dict[int, str]:
    return {row["id"]: row["v"] for row in values(chain.silver(f"again__{table}"))}


def history_path(chain: SmallChain) -> str:
    return names.history_path(str(chain.root), chain.source, chain.source.table("again__made"))


def past(chain: SmallChain) -> list[tuple[int, str, bool]]:
    return sorted((row["id"], row["v"], row["_is_current"]) for row in rows(history_path(chain)))


def whole(chain: SmallChain) -> list[Any]:
    return sorted((row["id"], row["v"], row["_valid_from"], row["_valid_to"] or "") for row in rows(history_path(chain)))


def schema_of(chain: SmallChain, table: str) -> dg.AssetCheckResult:
    return schema_result(str(chain.root), chain.source, chain.source.table(f"again__{table}"))
