"""A change without an event turns `events_flow` of a live MariaDB or MySQL red, until a comparison finds its table equal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from cdc_assets.clients.databases.binlog_events import GAPS
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.capture_assets import flow_check
from cdc_assets.defs.check_specs import EVENTS_FLOW
from cdc_assets.proof.comparison import compare_rows
from cdc_assets.proof.healing import heal
from cdc_assets.registry import names
from cdc_assets.registry.errors import DatabaseError
from cdc_assets_tests.support.lake.lake import values
from cdc_assets_tests.support.live.clusters import until
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb
from cdc_assets_tests.support.live.live_mysql import LiveMySql
from cdc_assets_tests.support.live.mysql_captured import captured
from cdc_assets_tests.support.live.small_chain import SmallChain, small_chain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

NAME = "mariaunsent"
T, P = "unsent.t", "unsent.p"
LONG = '{"a": 1, "b": [1, 2, 3, 4, 5, 6, 7, 8]}'
STATEMENTS = "SET SESSION binlog_format = 'STATEMENT'"


@pytest.fixture(scope="module")
def chain(
    mariadb: LiveMariaDb, remote: str, session: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SmallChain]:
    own = mariadb.renamed(NAME)
    own.server.execute(
        "CREATE DATABASE unsent",
        f"CREATE TABLE {T} (id int PRIMARY KEY, v int)",
        f"CREATE TABLE {P} (id int PRIMARY KEY) PARTITION BY RANGE (id) "
        "(PARTITION p0 VALUES LESS THAN (3), PARTITION p1 VALUES LESS THAN (21))",
        f"INSERT INTO {T} VALUES (1, 1), (2, 2), (3, 3)",
        f"INSERT INTO {P} VALUES (0), (1), (2), (20)",
    )
    with small_chain(own, remote, session, tmp_path_factory.mktemp(NAME), [T, P]) as made:
        yield made
    own.connect.delete(f"{NAME}-capture")


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def check(chain: SmallChain, instance: dg.DagsterInstance) -> tuple[bool, str]:
    """The check as Dagster runs it: whether it passed, and what it says."""
    result = dg.materialize(
        flow_check.build(chain.source),
        selection=dg.AssetSelection.checks(EVENTS_FLOW.key(chain.source)),
        resources={"platform": chain.platform},
        instance=instance,
        raise_on_error=False,
    )
    (told,) = result.get_asset_check_evaluations()
    return told.passed, told.description or ""


def rows(chain: SmallChain, table: str) -> tuple[list[int], list[int]]:
    """Keys of the source, which is the oracle, and of silver."""
    source = chain.live.server.query(f"SELECT id FROM {table}")
    silver = values(chain.silver(names.table_name(chain.source.table(table))))
    return sorted(row[0] for row in source), sorted(row["id"] for row in silver)


def test_ordinary_changes_pass(chain: SmallChain, instance: dg.DagsterInstance) -> None:
    assert check(chain, instance)[0]
    chain.live.server.execute(f"UPDATE {T} SET v = 5 WHERE id = 1", f"CREATE INDEX i ON {T} (v)", f"OPTIMIZE TABLE {T}")
    assert check(chain, instance)[0]


def test_statements_are_red_until_they_are_healed(chain: SmallChain, instance: dg.DagsterInstance) -> None:
    chain.live.server.execute(STATEMENTS, f"INSERT INTO {T} VALUES (9, 9)", f"UPDATE {T} SET v = v + 1 WHERE id <= 2")
    passed, told = check(chain, instance)
    assert not passed
    assert f"{T}: 2 changes of its rows that Debezium sends no event for: binlog." in told
    assert f" UTC), INSERT: INSERT INTO {T} VALUES (9, 9); the last at binlog." in told
    assert f"UPDATE: UPDATE {T} SET v = v + 1 WHERE id <= 2. Red until" in told
    assert f"cdc reconcile --heal {NAME}.unsent__t (" in told
    chain.advance()
    assert rows(chain, T) == ([1, 2, 3, 9], [1, 2, 3])
    # Events of the table come, every count agrees, and the check is red all the same.
    chain.live.server.execute(f"UPDATE {T} SET v = 8 WHERE id = 3")
    assert not check(chain, instance)[0]

    table = chain.source.table(T)
    result = compare_rows(Chain(chain.platform, chain.source), [table])["unsent__t"]
    assert (result.verdict, result.keys_differing) == ("different", 3)
    assert not check(chain, instance)[0]
    with pytest.raises(DatabaseError, match="CREATE TABLE IF NOT EXISTS `cdc_assets`") as refused:
        heal(Chain(chain.platform, chain.source), table, result)
    chain.live.server.execute(*str(refused.value).split("while the connector runs: ")[1].split("; "))
    assert heal(Chain(chain.platform, chain.source), table, result) == (0, 3)

    def equal() -> bool:
        chain.advance()
        return compare_rows(Chain(chain.platform, chain.source), [table])["unsent__t"].equal

    until(equal, seconds=240)
    assert rows(chain, T) == ([1, 2, 3, 9], [1, 2, 3, 9])
    assert check(chain, instance) == (True, "1 of 2 tables changed at the source since the last check; none is silent")


def test_a_dropped_partition_is_red_and_its_rows_are_phantoms(chain: SmallChain, instance: dg.DagsterInstance) -> None:
    chain.live.server.execute(f"ALTER TABLE {P} DROP PARTITION p0")
    passed, told = check(chain, instance)
    assert (passed, f"DROP PARTITION: ALTER TABLE {P} DROP PARTITION p0. Red until" in told) == (False, True)
    assert f"cdc repair bronze {NAME} unsent__p --anew, then cdc reconcile {NAME}.unsent__p" in told
    chain.advance()
    table = chain.source.table(P)
    result = compare_rows(Chain(chain.platform, chain.source), [table])["unsent__p"]
    assert {(d.key, d.kind) for d in result.differences} == {("0;", "phantom"), ("1;", "phantom"), ("2;", "phantom")}
    assert not check(chain, instance)[0]
    # The source has the rows again, and so both sides are equal.
    chain.live.server.execute(
        f"ALTER TABLE {P} REORGANIZE PARTITION p1 INTO (PARTITION p0 VALUES LESS THAN (3), PARTITION p1 VALUES LESS THAN (21))",
        f"INSERT INTO {P} VALUES (0), (1), (2)",
    )
    chain.advance()
    assert compare_rows(Chain(chain.platform, chain.source), [table])["unsent__p"].equal
    assert check(chain, instance)[0]


def test_an_image_with_gaps_is_named_where_the_connector_stops(chain: SmallChain, instance: dg.DagsterInstance) -> None:
    chain.live.server.execute("SET SESSION binlog_row_image = MINIMAL", f"UPDATE {T} SET v = 77 WHERE id = 1")
    connect = chain.live.connect
    until(lambda: (status := connect.status(f"{NAME}-capture")) is not None and status.failed, seconds=120)
    passed, told = check(chain, instance)
    assert not passed
    assert f"{T}: 1 change of its rows that Debezium sends no event for: binlog." in told
    assert f" UTC), {GAPS}: UPDATE {T} SET v = 77 WHERE id = 1. Its connector cannot pass such an image." in told
    assert f"read the table again: cdc repair model {NAME} unsent__t. Red until" in told


def test_mysql_is_red_until_both_sides_are_equal(
    mysql: LiveMySql, remote: str, session: SparkSession, tmp_path_factory: pytest.TempPathFactory, instance: dg.DagsterInstance
) -> None:
    own = captured(mysql, "mysqlunsent")
    table = "mysqlunsent.k"
    own.server.execute(
        "CREATE DATABASE mysqlunsent",
        f"CREATE TABLE {table} (id int PRIMARY KEY, n int, v json)",
        f"INSERT INTO {table} VALUES (1, 1, '{LONG}')",
    )
    columns = {"id": "integer not null", "n": "integer", "v": "jsonb"}
    declared = [{"name": table, "keys": ["id"], "columns": columns}]
    with small_chain(own, remote, session, tmp_path_factory.mktemp("mysqlunsent"), declared) as chain:
        (of_source,) = chain.source.tables
        assert check(chain, instance)[0]
        partial = "SET SESSION binlog_row_value_options = 'PARTIAL_JSON'"
        own.server.execute(
            partial, f"UPDATE {table} SET n = 2, v = JSON_SET(v, '$.a', 2)", STATEMENTS, f"INSERT INTO {table} (id) VALUES (9)"
        )
        passed, told = check(chain, instance)
        assert (passed, f"{table}: 2 changes of its rows that Debezium sends no event for" in told) == (False, True)
        assert " UTC), Update_rows_partial; the last at binlog." in told
        assert f" UTC), INSERT: INSERT INTO {table} (id) VALUES (9). Red until" in told
        chain.advance()
        compared = compare_rows(Chain(chain.platform, chain.source), [of_source])["mysqlunsent__k"]
        assert compared.verdict == "different", compared.sentence()
        assert not check(chain, instance)[0]
        own.server.execute(f"DELETE FROM {table} WHERE id = 9", f"UPDATE {table} SET n = 3, v = '{{}}'")
        chain.advance()
        assert compare_rows(Chain(chain.platform, chain.source), [of_source])["mysqlunsent__k"].equal
        assert check(chain, instance)[0]
