"""Tables and columns of hostile names in one source: each reaches its topic under its own key, or is refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from psycopg import sql

from cdc_assets.registry.loader import load_source
from cdc_assets.registry.names import topic
from cdc_assets_tests.hostile.names import POSTGRESQL, SCHEMA, quoted
from cdc_assets_tests.support.live.cdc import Cdc
from cdc_assets_tests.support.live.live_source import NAME

UNDECLARED = "CASE"
"""Debezium takes it for the declared "Case" and "case", unless the list says that case counts."""


@pytest.fixture
def cdc(make_cdc: Callable[[str], Cdc]) -> Iterator[Cdc]:
    cdc = make_cdc("odd")
    yield cdc
    cdc.live.connect.delete("odd-capture")
    cdc.lake.connect.delete("odd-mirror")
    (cdc.folder / "odd.yaml").unlink()


def declare(cdc: Cdc, tables: dict[str, tuple[str, ...]]) -> None:
    port = cdc.live.postgres.site.ports["postgres"]
    database = {"kind": "postgresql", "host": "127.0.0.1", "port": port, "dbname": NAME, "user": NAME}
    declared = [{"name": quoted(SCHEMA, name), **({"keys": [*keys]} if keys else {})} for name, keys in tables.items()]
    lines = ",\n  ".join(json.dumps(table, ensure_ascii=False) for table in declared)
    text = f"source: odd\ndatabase: {json.dumps({**database, 'password': {'secret': NAME}})}\ntables: [\n  {lines}]\n"
    (cdc.folder / "odd.yaml").write_text(text)


def test_odd_names_reach_their_topics_under_their_own_keys(cdc: Cdc) -> None:
    columns = {name: [*dict.fromkeys((*keys, "id", "v"))] for name, keys in POSTGRESQL.items()}
    with cdc.live.connection() as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(SCHEMA)))
        for name, listed in {**columns, UNDECLARED: ["id"]}.items():
            made = sql.SQL(", ").join(sql.SQL("{} int NOT NULL").format(sql.Identifier(column)) for column in listed)
            table = sql.Identifier(SCHEMA, name)
            connection.execute(sql.SQL("CREATE TABLE {} ({}, PRIMARY KEY (id))").format(table, made))
            # A DELETE tells the columns of the identity alone.
            connection.execute(sql.SQL("ALTER TABLE {} REPLICA IDENTITY FULL").format(table))
            connection.execute(
                sql.SQL("INSERT INTO {} VALUES ({})").format(table, sql.SQL(", ").join([sql.SQL("1")] * len(listed)))
            )
    declare(cdc, POSTGRESQL)
    cdc("validate", str(cdc.folder))
    assert [row["summary"] for row in cdc.json("apply", "odd")] == ["created", "created"]
    with cdc.live.connection() as connection:
        for name, listed in columns.items():
            table = sql.Identifier(SCHEMA, name)
            connection.execute(
                sql.SQL("INSERT INTO {} VALUES ({})").format(table, sql.SQL(", ").join([sql.SQL("2")] * len(listed)))
            )
        published = connection.execute("SELECT tablename FROM pg_publication_tables WHERE pubname = 'cdc_odd'").fetchall()
    assert {str(name) for (name,) in published} - {"signal_odd"} == set(POSTGRESQL)
    found = cdc.live.delivered()
    assert [topic for topic in found if topic.endswith(UNDECLARED)] == []
    source = load_source(cdc.folder / "odd.yaml")
    keys = {
        table.id.table: [json.loads(r.key) for r in found.get(topic(source, table), {}).get(0, [])] for table in source.tables
    }
    assert keys == {name: [dict.fromkeys(key or ("id",), n) for n in (1, 2)] for name, key in POSTGRESQL.items()}
    cdc("diff", "odd")


def test_a_table_that_debezium_cannot_name_is_refused_by_file_and_line(cdc: Cdc) -> None:
    declare(cdc, {"plain": (), '"begins': (), 'ends"': ()})
    (first, last) = cdc.json("validate", str(cdc.folder), code=1)["findings"]
    assert [(each["line"], each["path"]) for each in (first, last)] == [(5, "tables.1.name"), (6, "tables.2.name")]
    assert all("begins or ends with a double quote" in each["message"] for each in (first, last))
    assert '"""begins"' in first["message"]
