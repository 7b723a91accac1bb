"""A type that PostgreSQL changes in its catalogue alone: named as one cause, counted, and mended by what is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.schema_and_fresh_checks import schema_result
from cdc_assets.proof.healing import heal
from cdc_assets_tests.support.lake.lake import values
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.live.small_chain import SmallChain, small_chain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.all, pytest.mark.stack]

TABLES = {
    "named": ("CREATE TYPE mood AS ENUM ('ok', 'bad')", "mood", "'ok'", "'bad'"),
    "listed": ("CREATE TYPE moods AS ENUM ('ok', 'bad')", "moods[]", "'{ok,bad}'", "'{bad}'"),
    "replaced": ("CREATE TYPE state AS ENUM ('new', 'old')", "state", "'new'", "'old'"),
    "paired": ("CREATE TYPE pair AS (a int, b text)", "pair", "'(1,x)'", "NULL"),
}
CHANGES = {
    "named": "ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'",
    "listed": "ALTER TYPE moods RENAME VALUE 'ok' TO 'fine'",
    "replaced": """CREATE TYPE state2 AS ENUM ('fresh', 'old'); ALTER TABLE replaced ALTER m TYPE state2
        USING (CASE m::text WHEN 'new' THEN 'fresh' ELSE m::text END)::state2;
        DROP TYPE state; ALTER TYPE state2 RENAME TO state""",
    "paired": "ALTER TYPE pair ADD ATTRIBUTE c int",
}
NEW = {"named": "'fine'", "listed": "'{fine}'", "replaced": "'fresh'", "paired": "'(3,y,4)'"}
CAUSES = {
    "named": "column m: label 'ok' is called 'fine' now",
    "listed": "column m: label 'ok' is called 'fine' now",
    "replaced": "column m: another type took the place of the one before, without label 'new'",
    "paired": "column m: its type's attributes were (a, b) and are (a, b, c) now",
}


def test_what_the_catalogue_changes_is_one_cause(live: LiveSource, remote: str, session: SparkSession, tmp_path: Path) -> None:
    own = replace(live, name="members")
    for table, (made, kind, first, second) in TABLES.items():
        run(own, made, f"CREATE TABLE {table} (id int PRIMARY KEY, m {kind})")
        run(own, f"INSERT INTO {table} VALUES (1, {first}), (2, {second})")
    declared: list[Any] = [{"name": f"public.{table}", "accept_inexact": ["m"]} for table in TABLES]
    with small_chain(own, remote, session, tmp_path, declared) as chain:
        chain.advance()
        assert {name: result.sentence().partition(" ")[0] for name, result in chain.compare([*TABLES]).items()} == dict.fromkeys(
            TABLES, "equal"
        )
        run(own, *CHANGES.values())
        assert_causes(chain)
        run(own, *(f"INSERT INTO {table} VALUES (3, {value})" for table, value in NEW.items()))
        chain.advance()
        found = assert_causes(chain)
        for table in TABLES:
            assert told(chain, table) == (
                False,
                f"no event tells of a change of a type: {CAUSES[table]} (1 row from before). "
                f"To read these rows again: cdc reconcile members.{table} --heal",
            )
        for table in TABLES:
            assert heal(Chain(chain.platform, chain.source), chain.source.table(table), found[table]) == (0, 1)
        chain.advance()
        for table in TABLES:
            assert told(chain, table)[0], told(chain, table)
            assert in_silver(chain, table) == in_source(own, table)
        assert {r.verdict for r in chain.compare([*TABLES]).values()} == {"equal"}


def assert_causes(chain: SmallChain) -> dict[str, Any]:
    """What a comparison says of each table: one row, and why."""
    found = chain.compare([*TABLES])
    assert {name: (result.keys_differing, result.causes) for name, result in found.items()} == {
        name: (1, (cause,)) for name, cause in CAUSES.items()
    }
    assert f"; cause: {CAUSES['named']}" in found["named"].sentence()
    return found


def told(chain: SmallChain, table: str) -> tuple[bool, str]:
    result = schema_result(str(chain.root), chain.source, chain.source.table(table))
    return result.passed, str(result.description)


def in_silver(chain: SmallChain, table: str) -> dict[int, str]:
    shown = {row["id"]: row["m"] for row in values(chain.silver(table))}
    return {key: "{" + ",".join(value) + "}" if isinstance(value, list) else value for key, value in shown.items()}


def in_source(live: LiveSource, table: str) -> dict[int, str]:
    with live.connection() as connection:
        return dict(connection.execute(f"SELECT id, m::text FROM {table}".encode()).fetchall())


def run(live: LiveSource, *statements: str) -> None:
    with live.connection() as connection:
        for statement in statements:
            connection.execute(statement.encode())
