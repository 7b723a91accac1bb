"""A table whose schema changes while it is captured: after each change silver is the table, as PostgreSQL shows it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets.assets.columns import source_columns
from cdc_assets.registry.identifiers import parse_table
from cdc_assets.registry.models import Table
from cdc_assets.resources.databases.postgresql import PostgresDatabase
from cdc_assets_tests.live_source import LiveSource
from cdc_assets_tests.spark.lake import Lake, values
from spark.errors import SchemaMismatchError
from spark.schema.ledger import PROPERTY, Ledger, diff
from spark.specs import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = "public.shape"
STEPS: list[tuple[str, str, set[str]]] = [
    (
        "a column with a default, which no event tells of",
        """ALTER TABLE shape ADD d int NOT NULL DEFAULT 7, ADD at timestamptz DEFAULT '2024-02-29 01:02:03.5+01',
             ADD tags text[] DEFAULT '{}', ADD plain text;
           INSERT INTO shape (id, v, d, at, tags) VALUES (3, 'three', 8, NULL, NULL); UPDATE shape SET v = 'uno' WHERE id = 1""",
        set(),
    ),
    (
        "wider types, a rename",
        """ALTER TABLE shape ALTER i TYPE bigint, ALTER n TYPE numeric(9,3); ALTER TABLE shape RENAME v TO w;
           INSERT INTO shape (id, i, n, w) VALUES (4, 3000000000, 123456.789, 'four')""",
        set(),
    ),
    (
        "a rename without an event, a drop, a back-fill",
        """ALTER TABLE shape RENAME plain TO bare; ALTER TABLE shape DROP gone; INSERT INTO shape (id) VALUES (6);
           UPDATE shape SET d = d + id, w = NULL WHERE id < 3""",
        set(),
    ),
    (
        "added again, another type",
        """ALTER TABLE shape ADD gone text; UPDATE shape SET gone = 'new' WHERE id = 4; ALTER TABLE shape ALTER n TYPE text
           USING n || ' EUR'; INSERT INTO shape (id, n) VALUES (7, 'ten EUR'), (8, '8'); UPDATE shape SET d = 0 WHERE id = 1""",
        {"n"},
    ),
]


def catalogue(live: LiveSource) -> tuple[Column, ...]:
    with live.settings():
        (found,) = PostgresDatabase(live.source([TABLE]).database).tables([parse_table(TABLE)]).values()
    return source_columns(live.source([TABLE]), Table(name=TABLE), found)


def truth(live: LiveSource) -> dict[int, dict[str, Any]]:
    with live.connection() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        cursor = connection.execute("SELECT * FROM shape")
        assert cursor.description is not None
        names = [c.name for c in cursor.description]
        return {row[0]: dict(zip(names, row, strict=True)) for row in cursor.fetchall()}


def put(lake: Lake, live: LiveSource) -> None:
    lake.log = {"shape": live.delivered()[f"{live.name}.{TABLE}"]}
    lake.append(lake.all_of("shape"))


def shown(lake: Lake, wanted: dict[int, dict[str, Any]], without: set[str]) -> dict[int, dict[str, Any]]:
    names = set(wanted[1]) - without
    return {row["id"]: {k: v for k, v in row.items() if k in names} for row in values(lake.spec("shape").path)}


def test_silver_follows_the_schema(live: LiveSource, session: SparkSession, tmp_path: Path) -> None:
    own, lake = replace(live, name="shapes"), Lake(session, tmp_path / "stepwise")
    with own.connection() as connection:
        connection.execute("CREATE TABLE shape (id int PRIMARY KEY, v text, n numeric(6,2), i int, gone text)")
        connection.execute("INSERT INTO shape VALUES (1, 'one', 1.5, 1, 'a'), (2, 'two', 2.25, 2, 'b')")
    own.capture([TABLE])
    put(lake, own)
    lake.fold(lake.spec("shape", catalogue(own)))
    for what, sql, without in STEPS:
        with own.connection() as connection:
            connection.execute(sql.encode())
        put(lake, own)
        lake.fold(lake.spec("shape", catalogue(own)))
        wanted = truth(own)
        assert shown(lake, wanted, without) == {i: _only(row, without) for i, row in wanted.items()}, what
    rows = {row["id"]: row for row in values(lake.spec("shape").path)}
    assert {i: (str(row["n"]) if row["n"] is not None else None, row["n__string"]) for i, row in rows.items()} == {
        **{1: (None, "1.500 EUR"), 2: ("2.250", None), 3: (None, None), 4: (None, "123456.789")},
        **{6: (None, None), 7: (None, "ten EUR"), 8: (None, "8")},
    }
    history = _ledger(lake, "shape").history
    assert [sorted(line.split(" (")[0] for line in diff(entry)) for entry in history[1:]] == [
        ["+ at timestamp with time zone", "+ d integer", "+ plain text", "+ tags text[]"],
        ["~ i integer -> bigint", "~ n numeric(6,2) -> numeric(9,3)", "~ w v -> w"],
        ["- gone text", "~ bare plain -> bare"],
        ["+ gone text -> text", "~ n numeric(9,3) -> text"],
    ]
    assert sorted({entry.after for entry in history}) == [entry.after for entry in history]

    at_once = Lake(session, tmp_path / "at_once")
    put(at_once, own)
    spec = at_once.spec("shape", catalogue(own))
    at_once.fold(replace(spec, renamed={"v": "w", "plain": "bare"}))
    wanted = truth(own)
    # What was dropped and added again, or changed in place, has no event that says so.
    assert shown(at_once, wanted, {"n", "gone"}) == {i: _only(row, {"n", "gone"}) for i, row in wanted.items()}


def _only(row: dict[str, Any], without: set[str]) -> dict[str, Any]:
    return {k: v for k, v in row.items() if k not in without}


def _ledger(lake: Lake, table: str) -> Ledger:
    from deltalake import DeltaTable

    return Ledger.from_text(DeltaTable(lake.spec(table).path).metadata().configuration[PROPERTY])


def test_widening_in_place_rewrites_nothing(session: SparkSession, tmp_path: Path) -> None:
    from cdc_assets_tests.spark.test_types import event

    lake = Lake(session, tmp_path)
    lake.put("t", event(0, {"id": 1, "v": 5}))
    lake.append(lake.all_of("t"))
    narrow, wide = (
        (Column("id", "integer", False), Column("v", "integer")),
        (Column("id", "bigint", False), Column("v", "bigint")),
    )
    lake.fold(lake.spec("t", narrow))
    path = lake.spec("t").path
    # As a table from before there were ledgers.
    session.sql(f"ALTER TABLE delta.`{path}` UNSET TBLPROPERTIES ('{PROPERTY}')").collect()
    before = {f.name for f in Path(path).glob("*.parquet")}
    with pytest.raises(SchemaMismatchError, match="schema_changes.widen is halt"):
        lake.fold(replace(lake.spec("t", wide), schema_changes={"widen": "halt"}))
    lake.put("t", event(1, {"id": 3_000_000_000, "v": 4_000_000_000}))
    lake.append(lake.all_of("t"))
    lake.fold(replace(lake.spec("t", wide), schema_changes={"widen": "evolve"}))
    assert before < {f.name for f in Path(path).glob("*.parquet")}
    found = session.read.format("delta").load(path).select("id", "v").collect()
    assert sorted((r.id, r.v) for r in found) == [(1, 5), (3_000_000_000, 4_000_000_000)]
    assert [[c.kind for c in entry.changes] for entry in _ledger(lake, "t").history] == [["create"] * 2, ["widen"] * 2]
    with pytest.raises(Exception, match="typeWidening"):
        values(path)
