"""What would be captured in part only is found before it is: rows, columns, partitions, and keys that are not one row's.

A real PostgreSQL is asked by the queries of `cdc preflight`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg
import pytest

from cdc_assets.capture.preflight.inspection import Finding
from cdc_assets.capture.preflight.postgresql_catalogue import read_facts
from cdc_assets.capture.preflight.postgresql_rules import findings
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.support.servers.own_server import own_server

pytestmark = pytest.mark.service

DATABASE = {"kind": "postgresql", "host": "127.0.0.1", "dbname": "live", "user": "live", "password": {"secret": "live"}}
Look = Callable[..., list[Finding]]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[psycopg.Connection]:
    with own_server(tmp_path_factory.mktemp("server")) as server, server.connection() as connection:
        yield connection


@pytest.fixture
def look(database: psycopg.Connection) -> Look:
    """What stands against these tables by one rule."""

    def asked(check: str, *tables: dict[str, Any]) -> list[Finding]:
        source = Source.model_validate({"source": "cut", "database": DATABASE, "tables": tables})
        ids: Sequence[Any] = [table.id for table in source.tables]
        facts = read_facts(database, slot="cdc_cut", publication="cdc_cut", tables=ids, offsets=[])
        return [found for found in findings(source, facts) if found.check == check and found.level != "ok"]

    return asked


def test_a_filter_or_a_column_list_of_somebody_else(database: psycopg.Connection, look: Look) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text, w text, g int GENERATED ALWAYS AS (id) STORED)")
    database.execute("CREATE PUBLICATION cdc_cut FOR TABLE t (id, v) WHERE (id > 5)")
    (found,) = look("publication_filter", {"name": "public.t"})
    assert found.message == "leaves out rows, by a filter and columns (w) of public.t: their changes are lost"
    assert found.mend
    database.execute(found.mend.encode())
    assert look("publication_filter", {"name": "public.t"}) == []
    database.execute("ALTER PUBLICATION cdc_cut SET TABLE t (id, v)")
    assert look("publication_filter", {"name": "public.t", "except_column_list": ["w"]}) == []


def test_a_partition_that_is_in_no_log_here(database: psycopg.Connection, look: Look) -> None:
    database.execute("CREATE TABLE parted (id int, v text) PARTITION BY RANGE (id)")
    database.execute("CREATE UNLOGGED TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (9)")
    (found,) = look("logged", {"name": "public.parted"})
    assert (found.level, found.mend) == ("fail", 'ALTER TABLE "public"."parted_1" SET LOGGED')
    database.execute(found.mend.encode())
    assert look("logged", {"name": "public.parted"}) == []
    database.execute("CREATE FOREIGN DATA WRAPPER nowhere; CREATE SERVER elsewhere FOREIGN DATA WRAPPER nowhere")
    database.execute("CREATE FOREIGN TABLE far PARTITION OF parted FOR VALUES FROM (9) TO (20) SERVER elsewhere")
    (found,) = look("logged", {"name": "public.parted"})
    assert found.message == "partition public.far is a foreign table: a snapshot reads its rows, and no change of them comes"


def test_a_unique_index_takes_two_nulls_for_two_values(database: psycopg.Connection, look: Look) -> None:
    database.execute("CREATE TABLE twice (a int NOT NULL, b int, UNIQUE (a, b))")
    declared = {"name": "public.twice", "keys": ["a", "b"]}
    (found,) = look("keys", declared)
    assert found.message.startswith("no unique index holds its keys (a, b) apart, NULLs too")
    database.execute("CREATE UNIQUE INDEX ON twice (a, b) NULLS NOT DISTINCT")
    assert look("keys", declared) == []
