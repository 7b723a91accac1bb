"""What a comparison may cost a PostgreSQL source: its time, its locks, and which pages a range of keys reads."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest

from cdc_assets.clients.databases import postgresql_cut
from cdc_assets.clients.databases.postgresql import PostgresDatabase
from cdc_assets.clients.kind_clients import open_cut
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId
from cdc_assets.stack.components.postgres_server import ensure_role
from cdc_assets_tests.support.live.live_source import LiveSource
from spark.proof.key_order import KeyRange
from spark.proof.row_text import RowText
from spark.specs import Column, SilverSpec
from spark.values.canonical_forms import Form
from spark.values.column_forms import form

COLUMNS = (Column("a", "integer", False), Column("b", "bigint", False), Column("note", "text"))
TEXT = RowText(SilverSpec("s", "limited", "none", "none", COLUMNS, ("a", "b")))
SOME = KeyRange(("a", "b"), (3, 5), (3, 2000))


@pytest.fixture
def table(live: LiveSource) -> Iterator[PostgresDatabase]:
    with live.connection() as connection:
        connection.execute("CREATE TABLE limited (a int, b bigint, note text, PRIMARY KEY (a, b))")
        connection.execute("INSERT INTO limited SELECT i % 7, i, repeat('x', 200) FROM generate_series(1, 40000) i")
        connection.execute("ANALYZE limited")
    with live.settings():
        yield PostgresDatabase(replace(live, name="limits").source(["public.limited"]).database)  # type: ignore[arg-type]
    with live.connection() as connection:
        connection.execute("DROP TABLE limited")


def test_time_and_locks(table: PostgresDatabase, live: LiveSource, monkeypatch: pytest.MonkeyPatch) -> None:
    place = replace(live, name="limits").source(["public.limited"]).tables[0].id
    # A statement that opens the cut may take that long already.
    with pytest.raises(DatabaseError, match="statement timeout"), open_cut(table, statement_timeout=0.001) as cut:
        cut.digest(place, TEXT, (0, 1))
    monkeypatch.setitem(postgresql_cut._SETTINGS, "lock_timeout", "50ms")
    with live.connection() as other, open_cut(table, statement_timeout=60) as cut:
        rows = cut.digest(place, TEXT, (0, 1))
        # The snapshot is still open: neither a writer nor an ALTER TABLE waits for it. An autovacuum is waited for, for a second.
        other.execute("SET lock_timeout = '60s'")
        other.execute("INSERT INTO limited VALUES (9, 9, 'late')")
        other.execute("ALTER TABLE limited ADD COLUMN more int")
        assert cut.digest(place, TEXT, (0, 1)) == rows
        with live.connection(autocommit=False) as holder:
            holder.execute("LOCK TABLE limited IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(DatabaseError, match="lock timeout"):
                cut.digest(place, TEXT, (0, 1))
            holder.rollback()
        assert cut.digest(place, TEXT, (0, 1)) == rows


@pytest.mark.parametrize(
    "change",
    [
        "TRUNCATE limited",
        "ALTER TABLE limited ALTER b TYPE numeric",
        "ALTER TABLE limited RENAME TO old; CREATE TABLE limited (LIKE old INCLUDING ALL); DROP TABLE old",
        "ALTER TABLE limited RENAME TO old; ALTER TABLE older RENAME TO limited; DROP TABLE old",
    ],
)
def test_a_table_that_is_another_since_the_snapshot_is_not_read(table: PostgresDatabase, live: LiveSource, change: str) -> None:
    """The snapshot would see it empty, or another one: TRUNCATE and rewrites are not MVCC-safe, names are looked up anew."""
    place = replace(live, name="limits").source(["public.limited"]).tables[0].id
    with live.connection() as other:
        other.execute("CREATE TABLE IF NOT EXISTS older (LIKE limited INCLUDING ALL)")
        with open_cut(table, statement_timeout=60) as cut:
            other.execute(change.encode())
            for ask in (
                lambda: cut.digest(place, TEXT, (0, 1)),
                lambda: cut.key_hashes(place, TEXT, [1], (0, 1)),
                lambda: cut.texts(place, TEXT, ["1;1;"]),
                lambda: cut.in_range(place, TEXT, SOME),
                lambda: cut.present(place, TEXT, {"1;1;": ("1", "1")}),
            ):
                with pytest.raises(DatabaseError, match="since the snapshot was taken; run it again"):
                    ask()
        other.execute("DROP TABLE IF EXISTS older")
        with open_cut(table, statement_timeout=60) as cut:
            for harmless in ("VACUUM limited", "ANALYZE limited", "ALTER TABLE limited ADD COLUMN more int DEFAULT 3"):
                other.execute(harmless.encode())
                cut.digest(place, TEXT, (0, 1))


def test_rows_that_a_policy_hides_are_not_passed_over(table: PostgresDatabase, live: LiveSource) -> None:
    """A role that sees a part of the rows would compare that part, and a lost row among the others would pass for equal."""
    source = replace(live, name="limits").source(["public.limited"])
    place, reader = source.tables[0].id, PostgresDatabase(source.database.model_copy(update={"user": "reader"}))
    with live.connection() as connection:
        ensure_role(connection, "reader", live.home.secret("live"), "LOGIN")
        connection.execute("GRANT CONNECT ON DATABASE live TO reader")
        connection.execute("GRANT SELECT ON limited TO reader")
        with open_cut(reader, statement_timeout=60) as cut:
            assert sum(rows for rows, _ in cut.digest(place, TEXT, (0, 1)).values()) == 40000
        connection.execute("CREATE POLICY ones ON limited USING (a = 1)")
        connection.execute("ALTER TABLE limited ENABLE ROW LEVEL SECURITY")
        with open_cut(reader, statement_timeout=60) as cut, pytest.raises(DatabaseError, match="row-level security policy"):
            cut.digest(place, TEXT, (0, 1))
        connection.execute("DROP OWNED BY reader")
        connection.execute("DROP ROLE reader")


def test_a_nan_is_a_nan_whatever_its_bits(live: LiveSource) -> None:
    """A processor's own NaN has a sign; PostgreSQL shows and sends it as NaN, so silver has the one that Java knows."""
    with live.connection() as connection:
        for kind in ("real", "double precision"):
            made = form(Column("v", kind))
            assert isinstance(made, Form)
            values = f"SELECT 'NaN'::{kind} AS v UNION ALL SELECT 'Infinity'::{kind} - i FROM (VALUES ('Infinity'::{kind})) x(i)"
            texts = [row[0] for row in connection.execute(f"SELECT {made.sql('v')} FROM ({values}) t".encode())]
            assert texts == [{"real": "7FC00000", "double precision": "7FF8000000000000"}[kind]] * 2


def test_a_range_reads_the_keys_index(table: PostgresDatabase, live: LiveSource) -> None:
    with live.connection() as connection:
        query = f"EXPLAIN SELECT count(*) FROM limited WHERE {TEXT.slice_sql(SOME)}"
        plan = "\n".join(row[0] for row in connection.execute(query.encode()))
        assert "limited_pkey" in plan, plan
        (count,) = connection.execute(f"SELECT count(*) FROM limited WHERE {TEXT.slice_sql(SOME)}".encode()).fetchone() or ()
        assert count == len([i for i in range(6, 2001) if i % 7 == 3])


ODD = ["", "a", "A", "á", "a ", "a-b", "ab", "B", "z", "Z", "ß", "ss", "ü", "u\u0308", "€", "\U0001f600", "\uffff", "~", "0", "_"]


@pytest.mark.parametrize(
    ("collation", "own"), [("C", True), ("pg_c_utf8", True), ("ucs_basic", True), ("default", True), ("default", False)]
)
def test_a_text_that_is_ordered_by_its_bytes_is_asked_for_by_its_own_index(
    table: PostgresDatabase, live: LiveSource, monkeypatch: pytest.MonkeyPatch, collation: str, own: bool
) -> None:
    """Each key is in the range that its bytes say, whatever the collation; the index is used where it has that order."""
    text = RowText(SilverSpec("s", "words", "none", "none", (Column("w", "text", False), Column("n", "integer")), ("w",)))
    place = TableId("public", "words")
    if not own:
        # The embedded PostgreSQL has no collation of another order: this is how a column of one is asked for.
        monkeypatch.setattr(postgresql_cut.PostgresRows, "bytewise", lambda *_: frozenset())
    with live.connection() as connection:
        connection.execute("DROP TABLE IF EXISTS words")
        connection.execute(f'CREATE TABLE words (w text COLLATE "{collation}" PRIMARY KEY, n int)'.encode())
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO words VALUES (%s, 1)", [(word,) for word in ODD])
        connection.execute("INSERT INTO words SELECT 'filler ' || i, 1 FROM generate_series(1, 20000) i")
        connection.execute("ANALYZE words")
    words = sorted([*ODD, *[f"filler {i}" for i in range(1, 20001)]], key=str.encode)
    bounds = [None, *[(words[at],) for at in (0, 3, 7, 10007, 20012)], None]
    with open_cut(table, statement_timeout=60) as cut:
        for after, to in itertools.pairwise(bounds):
            found = cut.digest(place, text, KeyRange(("w",), after, to))
            first, last = (
                (0 if after is None else words.index(after[0]) + 1),
                (len(words) if to is None else words.index(to[0]) + 1),
            )
            assert sum(rows for rows, _ in found.values()) == last - first
        part = KeyRange(("w",), *bounds[2:4])
        assert cut.bytewise(place) == ({"w"} if own else set())
    with live.connection() as connection:
        query = f"EXPLAIN SELECT n FROM words WHERE {text.slice_sql(part, {'w'} if own else ())}"
        plan = "\n".join(row[0] for row in connection.execute(query.encode()))
        assert ("Seq Scan" not in plan) == own, plan
        connection.execute("DROP TABLE words")
