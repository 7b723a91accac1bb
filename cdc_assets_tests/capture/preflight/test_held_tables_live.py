"""A table that somebody holds exclusively (TRUNCATE, ALTER TABLE) keeps nobody from asking about it, and is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from cdc_assets.clients.databases.postgresql_capture import PostgresActivity, read_publication
from cdc_assets.proof.flow_witnesses import PostgresWitness
from cdc_assets.registry.field_types import TableId
from cdc_assets_tests.support.live.cdc import Cdc

MADE = """
CREATE SCHEMA held;
CREATE TABLE held.plain (id int PRIMARY KEY, v text); CREATE UNLOGGED TABLE held.unlogged (id int);
CREATE TABLE held.parted (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE held.below PARTITION OF held.parted FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (id);
CREATE TABLE held.leaf PARTITION OF held.below FOR VALUES FROM (0) TO (5);
CREATE TABLE held.beside PARTITION OF held.parted FOR VALUES FROM (10) TO (20);
CREATE TABLE held.parent (id int PRIMARY KEY); CREATE TABLE held.child () INHERITS (held.parent);
CREATE VIEW held.seen AS SELECT 1; CREATE MATERIALIZED VIEW held.kept AS SELECT 1;
"""
PUBLICATIONS = (
    "FOR ALL TABLES",
    "FOR TABLES IN SCHEMA held",
    "FOR TABLES IN SCHEMA held, TABLE public.outside",
    "FOR TABLE held.parted",
    "FOR TABLE held.below",
    "FOR TABLE held.parted, held.leaf",
    "FOR TABLE held.leaf, held.plain (id) WHERE (id > 1)",
    "FOR TABLE held.parent",
    "FOR TABLE ONLY held.parent",
    "",
)
TABLES = [TableId("held", "plain"), TableId("held", "parted")]


@pytest.fixture(scope="module")
def cdc(make_cdc: Callable[[str], Cdc]) -> Iterator[Cdc]:
    cdc = make_cdc("held")
    with cdc.live.connection() as connection:
        connection.execute(MADE.encode() + b"CREATE TABLE public.outside (id int)")
        cdc.declare(*map(str, TABLES))
        yield cdc
        connection.execute("DROP PUBLICATION IF EXISTS cdc_held; DROP SCHEMA held CASCADE; DROP TABLE public.outside")


@pytest.mark.parametrize("by_root", ["true", "false"])
def test_a_publication_is_read_as_postgresql_tells_it(cdc: Cdc, by_root: str) -> None:
    with cdc.live.connection() as connection:
        for listed in PUBLICATIONS:
            connection.execute(f"CREATE PUBLICATION told {listed} WITH (publish_via_partition_root = {by_root})".encode())
            told = connection.execute("SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = 'told'").fetchall()
            found = read_publication(connection, "told")
            connection.execute("DROP PUBLICATION told")
            assert found == {TableId(*row) for row in told}, listed


@pytest.mark.parametrize("prepared", [False, True], ids=["open", "prepared"])
def test_nothing_waits_for_a_held_table(cdc: Cdc, monkeypatch: pytest.MonkeyPatch, *, prepared: bool) -> None:
    monkeypatch.setattr("cdc_assets.capture.preflight.postgresql_catalogue.OPEN_SECONDS", 0)
    with cdc.live.connection(autocommit=False) as holder:
        before = _asked(cdc)
        holder.execute("SET application_name = 'migration'")
        holder.execute("TRUNCATE held.plain; ALTER TABLE held.leaf ADD CHECK (id < 100)")
        if prepared:
            holder.execute("PREPARE TRANSACTION 'migration'")
            holder.rollback()
        try:
            # Who waits for a lock ends in an error rather than never.
            monkeypatch.setenv("PGOPTIONS", "-c lock_timeout=1s")
            with cdc.live.connection() as connection, pytest.raises(psycopg.errors.LockNotAvailable):
                connection.execute("SELECT count(*) FROM held.plain")
            assert _asked(cdc) == before
            (report,) = cdc.json("preflight", "held")
        finally:
            if prepared:
                holder.autocommit = True
                holder.execute("ROLLBACK PREPARED 'migration'")
            else:
                holder.rollback()
    found = {each["subject"]: each for each in report["findings"] if each["check"] == "table_lock"}
    assert {subject: each["level"] for subject, each in found.items()} == {str(table): "warn" for table in TABLES}
    who = "prepared transaction 'migration' of " if prepared else "(migration, open since "
    assert all(who in each["message"] and "RUNNING" in each["message"] for each in found.values()), found
    (report,) = cdc.json("preflight", "held")
    assert {each["level"] for each in report["findings"]} == {"ok"}, report["findings"]


def _asked(cdc: Cdc) -> Any:
    """What other parts of the product ask the database, some of it each minute."""
    with cdc.live.settings():
        source = cdc.live.source([*map(str, TABLES)])
        database, witness = PostgresActivity(source.database), PostgresWitness(source.database)
        return (
            database.tables(TABLES),
            database.writers([TableId("public", "outside")]),
            witness.tables_outside_log(source, {"publication.name": "cdc_held"}),
            set(witness.now(source.tables)["tables"]),
        )
