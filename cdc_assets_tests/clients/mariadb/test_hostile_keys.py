"""The condition that asks for some keys again means these keys and no others, in whatever session reads it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pymysql.cursors import Cursor

from cdc_assets_tests.support.servers.mariadb_server import mariadb_server
from cdc_assets_tests.support.servers.own_server import own_server
from spark.proof.row_text import RowText
from spark.specs import Column, SilverSpec

pytestmark = pytest.mark.service

HOSTILE = [
    *(
        "x\\') OR 1=1 -- ",
        "\\",
        "\\\\",
        "'",
        "''",
        "\\'",
        "') OR ('1'='1",
        "x' #",
        "%",
        "%s",
        "?",
        ":a",
        "{d '1'}",
        "/*",
        "$$",
        ";",
    ),
    *("a;", "\n", "\t", "\x1a", '"', "`", "ü", "ž'", "\N{GRINNING FACE}", "", " x"),
]


def keys(seed: int) -> list[str]:
    draw = random.Random(seed)
    parts = [*HOSTILE, "a", "1", "OR 1=1", " "]
    found = {*HOSTILE, *("".join(draw.choices(parts, k=draw.randint(2, 4)))[:40] for _ in range(60))}
    # MariaDB pads with blanks where it compares keys: one of each.
    return sorted({key.rstrip(" ").casefold(): key for key in found}.values())


def row_text(kind: str, dialect: str) -> RowText:
    columns = Column("k", kind, False, dialect=dialect), Column("n", "int(11)" if dialect == "mariadb" else "integer", False)
    return RowText(SilverSpec("s", "t", "-", "-", columns, ("k",)))


@pytest.fixture(scope="module")
def seed() -> int:
    found = random.SystemRandom().randrange(2**32)
    print("seed", found)
    return found


def test_of_mariadb(tmp_path: Path, seed: int) -> None:
    text, asked = row_text("varchar(60)", "mariadb"), keys(seed)
    with mariadb_server(tmp_path) as server, server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE h")
        cursor.execute("CREATE TABLE h.t (k varchar(60) COLLATE utf8mb4_bin PRIMARY KEY, n int NOT NULL)")
        cursor.executemany("INSERT INTO h.t VALUES (%s, %s)", [(key, n) for n, key in enumerate(asked)])
        cursor.execute(f"SELECT {text.key_sql()}, n FROM h.t")
        forms = dict(cursor.fetchall())
        assert len(forms) == len(asked)
        for mode in ("", "NO_BACKSLASH_ESCAPES"):
            cursor.execute("SET sql_mode = %s", [mode])
            for form, number in forms.items():
                cursor.execute(f"SELECT n FROM h.t WHERE {text.one_of_sql([form])}")
                assert cursor.fetchall() == ((number,),), (mode, form)
            cursor.execute(f"SELECT COUNT(*) FROM h.t WHERE {text.one_of_sql([*forms][:7])}")
            assert cursor.fetchall() == ((7,),)
        assert_any_session(cursor)


def assert_any_session(cursor: Cursor) -> None:
    """The connector's session has the time zone of its machine, and the server's mode: ours has neither."""
    cursor.execute("CREATE TABLE h.typed (c char(6), t timestamp(3) NOT NULL, n int NOT NULL, PRIMARY KEY (c, t))")
    cursor.execute("SET time_zone = '+00:00', sql_mode = ''")
    cursor.execute(
        "INSERT INTO h.typed VALUES ('a', '2024-03-31 01:30:00.5', 1), (' b', '1970-01-01 00:00:01', 2), ('', '2038-01-01', 3)"
    )
    columns = Column("c", "char(6)", False, dialect="mariadb"), Column("t", "timestamp(3)", False, dialect="mariadb")
    text = RowText(SilverSpec("s", "t", "-", "-", columns, ("c", "t")))
    cursor.execute(f"SELECT {text.key_sql()}, n FROM h.typed")
    forms = dict(cursor.fetchall())
    assert len(forms) == 3
    for session in ("time_zone = '-11:00'", "time_zone = '+05:30'", "sql_mode = 'PAD_CHAR_TO_FULL_LENGTH,ANSI'"):
        cursor.execute(f"SET {session}")
        for form, number in forms.items():
            cursor.execute(f"SELECT n FROM h.typed WHERE {text.one_of_sql([form])}")
            assert cursor.fetchall() == ((number,),), (session, form)


def test_of_postgresql(tmp_path: Path, seed: int) -> None:
    text, asked = row_text("text", "postgresql"), keys(seed)
    with own_server(tmp_path) as server, server.connection() as connection:
        connection.execute("CREATE TABLE t (k text PRIMARY KEY, n integer NOT NULL)")
        connection.cursor().executemany("INSERT INTO t VALUES (%s, %s)", [(key, n) for n, key in enumerate(asked)])
        forms = dict(connection.execute(f"SELECT {text.key_sql()}, n FROM t".encode()).fetchall())
        assert len(forms) == len(asked)
        for conforming in ("on", "off"):
            connection.execute(f"SET standard_conforming_strings = {conforming}".encode())
            for form, number in forms.items():
                found = connection.execute(f"SELECT n FROM t WHERE {text.one_of_sql([form])}".encode()).fetchall()
                assert found == [(number,)], (conforming, form)
