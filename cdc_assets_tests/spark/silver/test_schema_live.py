"""A table whose schema changes while it is captured: after each change silver is the table, as PostgreSQL shows it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets.capture.source_columns import source_columns
from cdc_assets.clients.databases.postgresql import PostgresDatabase
from cdc_assets.registry.field_types import parse_table
from cdc_assets.registry.table_declaration import Table
from cdc_assets_tests.support.lake.lake import Lake, rows, values
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.oracles.proven import proven
from spark.errors import TableStopError
from spark.silver import history_job as history
from spark.silver.column_ledger import PROPERTY, ColumnLedger, diff
from spark.specs import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = "public.shape"
AUDIT = """
CREATE TABLE shape_audit (number bigserial, id int, seen jsonb);
CREATE FUNCTION shape_audit() RETURNS trigger LANGUAGE plpgsql AS
  'BEGIN INSERT INTO shape_audit (id, seen) VALUES (coalesce(NEW.id, OLD.id), to_jsonb(NEW)); RETURN NULL; END';
CREATE TRIGGER shape_audit AFTER INSERT OR UPDATE OR DELETE ON shape FOR EACH ROW EXECUTE FUNCTION shape_audit()
"""
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
           INSERT INTO shape (id, i, n, w) VALUES (4, 3000000000, 123456.789, 'four'), (5, 5, 5, 'five');
           UPDATE shape SET id = id WHERE id = 2""",
        set(),
    ),
    (
        "a rename without an event, a drop, a back-fill",
        """ALTER TABLE shape RENAME plain TO bare; ALTER TABLE shape DROP gone; INSERT INTO shape (id) VALUES (6);
           UPDATE shape SET d = d + id, w = NULL WHERE id < 3; DELETE FROM shape WHERE id = 5""",
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
        connection.execute(AUDIT)
        connection.execute("INSERT INTO shape VALUES (1, 'one', 1.5, 1, 'a'), (2, 'two', 2.25, 2, 'b')")
    own.capture([TABLE])
    put(lake, own)
    lake.fold(lake.spec("shape", catalogue(own)))
    past = Past(session, lake, str(tmp_path / "history"))
    past.go_on(catalogue(own))
    for what, sql, without in STEPS:
        with own.connection() as connection:
            connection.execute(sql.encode())
        put(lake, own)
        lake.fold(lake.spec("shape", catalogue(own)))
        wanted = truth(own)
        assert shown(lake, wanted, without) == {i: _only(row, without) for i, row in wanted.items()}, what
        past.go_on(catalogue(own))
        assert past.told() == audited(own), what
    assert past.refolded == 0
    past.proven()
    found = {row["id"]: row for row in values(lake.spec("shape").path)}
    assert {i: (str(row["n"]) if row["n"] is not None else None, row["n__string"]) for i, row in found.items()} == {
        **{1: (None, "1.500 EUR"), 2: ("2.250", None), 3: (None, None), 4: (None, "123456.789")},
        **{6: (None, None), 7: (None, "ten EUR"), 8: (None, "8")},
    }
    entries = _ledger(lake, "shape").history
    assert [sorted(line.split(" (")[0] for line in diff(entry)) for entry in entries[1:]] == [
        ["+ at timestamp with time zone", "+ d integer", "+ plain text", "+ tags text[]"],
        ["~ i integer -> bigint", "~ n numeric(6,2) -> numeric(9,3)", "~ w v -> w"],
        ["- gone text", "~ bare plain -> bare"],
        ["+ gone text -> text", "~ n numeric(9,3) -> text"],
    ]
    assert sorted({entry.after for entry in entries}) == [entry.after for entry in entries]

    at_once = Lake(session, tmp_path / "at_once")
    put(at_once, own)
    spec = at_once.spec("shape", catalogue(own))
    at_once.fold(replace(spec, renamed={"v": "w", "plain": "bare"}))
    wanted = truth(own)
    # What was dropped and added again, or changed in place, has no event that says so.
    assert shown(at_once, wanted, {"n", "gone"}) == {i: _only(row, {"n", "gone"}) for i, row in wanted.items()}


@dataclass
class Past:
    """The history beside silver. It is not told the columns' numbers: it knows of renames because they are declared."""

    session: SparkSession
    lake: Lake
    path: str
    refolded: int = 0

    def go_on(self, columns: tuple[Column, ...]) -> None:
        unnumbered = [replace(c, number=None) for c in columns]
        spec = replace(self.lake.spec("shape", unnumbered), path=self.path, renamed={"v": "w", "plain": "bare"})
        self.refolded += history.run(self.session, spec).detail.get("refolded_keys", 0)

    def proven(self) -> None:
        """Silver met the renames by the columns' numbers, and a column that was dropped and added again as another one."""
        silver = self.lake.spec("shape")
        proven(self.session, replace(silver, path=self.path), silver, without={"gone"})

    def told(self) -> dict[int, list[dict[str, Any] | None]]:
        """Per key what its row was, one after the other; None where it was gone."""
        found: dict[int, list[dict[str, Any] | None]] = defaultdict(list)
        ended: dict[int, str | None] = {}
        for row in sorted(rows(self.path), key=lambda row: row["_valid_from"]):
            key = row["id"]
            assert ended.get(key, "") is not None
            if key in found and ended[key] != row["_valid_from"]:
                found[key].append(None)
            if not found[key] or found[key][-1] != _told(row):
                found[key].append(_told(row))
            ended[key] = row["_valid_to"]
        for key, end in ended.items():
            found[key] += [] if end is None else [None]
        return dict(found)


def audited(live: LiveSource) -> dict[int, list[dict[str, Any] | None]]:
    """The same from a trigger in the database itself, under the names that columns have now."""
    past: dict[int, list[dict[str, Any] | None]] = defaultdict(list)
    with live.connection() as connection:
        for key, row in connection.execute("SELECT id, seen FROM shape_audit ORDER BY number").fetchall():
            now = None if row is None else _told(row)
            if not past[key] or past[key][-1] != now:
                past[key].append(now)
    return dict(past)


def _told(row: dict[str, Any]) -> dict[str, Any]:
    """What both sides have: a column that did not exist yet counts with the default that it brought."""
    number = row.get("n__string", row.get("n"))
    number = row["n"] if number is None else number
    return {
        "w": row.get("w") or row.get("v"),
        "n": None if number is None else Decimal(str(number).removesuffix(" EUR").replace("ten", "10")),
        **{"i": row["i"], "d": row.get("d", 7), "bare": row.get("bare") or row.get("plain")},
        "tags": row.get("tags", []),
    }


def _only(row: dict[str, Any], without: set[str]) -> dict[str, Any]:
    return {k: v for k, v in row.items() if k not in without}


def _ledger(lake: Lake, table: str) -> ColumnLedger:
    from deltalake import DeltaTable

    return ColumnLedger.from_text(DeltaTable(lake.spec(table).path).metadata().configuration[PROPERTY])


@pytest.mark.all
def test_widening_in_place_rewrites_nothing(session: SparkSession, tmp_path: Path) -> None:
    from cdc_assets_tests.support.lake.events import event

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
    with pytest.raises(TableStopError, match="schema_changes.widen is halt"):
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


@pytest.mark.all
@pytest.mark.parametrize("also_widened", [True, pytest.param(False, marks=pytest.mark.all)])
def test_the_first_timestamps_of_a_table(session: SparkSession, tmp_path: Path, also_widened: bool) -> None:
    """Delta adds its feature for them to new tables alone; a date becomes one, and columns come that are, or hold them."""
    from cdc_assets_tests.support.lake.events import event

    lake = Lake(session, tmp_path)
    lake.put("t", event(0, {"id": 1, "v": 19_782}))
    lake.append(lake.all_of("t"))
    lake.fold(lake.spec("t", (Column("id", "integer", False), Column("v", "date"))))
    many = Column("a", "timestamp without time zone[]", missing='{"2024-02-29 12:34:56.5"}')
    widened = Column("v", "timestamp without time zone" if also_widened else "date")
    columns = (Column("id", "integer", False), widened, many, Column("z", "timestamp without time zone"))
    lake.put("t", event(1, {"id": 2, "v": None, "a": [1_709_210_096_500_000], "z": 0}))
    lake.append(lake.all_of("t"))
    lake.fold(lake.spec("t", columns))
    found = session.read.format("delta").load(lake.spec("t").path).orderBy("id").collect()
    assert [(str(r.a[0]), str(r.z)) for r in found] == [
        ("2024-02-29 12:34:56.500000", "None"),
        ("2024-02-29 12:34:56.500000", "1970-01-01 00:00:00"),
    ]
