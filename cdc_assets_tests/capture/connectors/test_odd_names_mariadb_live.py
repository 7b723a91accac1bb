"""Tables and columns of hostile names in one MariaDB source: each reaches its topic under its own key, or is refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from cdc_assets.registry.loader import load_source
from cdc_assets.registry.names import topic
from cdc_assets_tests.hostile.names import MARIADB, SCHEMA, quoted, ticked
from cdc_assets_tests.support.live.cdc import Cdc
from cdc_assets_tests.support.live.live_binlog import SECRET
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb

NAME = "modd"
UNDECLARED = "CASE"
"""Debezium takes it for the declared "Case" and "case", unless the list says that case counts."""


@pytest.fixture
def own(mariadb: LiveMariaDb) -> LiveMariaDb:
    return mariadb.renamed(NAME)


@pytest.fixture
def cdc(make_cdc: Callable[[str], Cdc], own: LiveMariaDb) -> Iterator[Cdc]:
    cdc = make_cdc(NAME)
    own.write_secret()
    yield cdc
    cdc.live.connect.delete(f"{NAME}-capture")
    cdc.lake.connect.delete(f"{NAME}-mirror")
    (cdc.folder / f"{NAME}.yaml").unlink(missing_ok=True)


def declare(cdc: Cdc, own: LiveMariaDb, tables: dict[str, tuple[str, ...]]) -> None:
    database = {"kind": "mariadb", "host": "127.0.0.1", "port": own.server.port, "user": "cdc", "password": {"secret": SECRET}}
    declared = [{"name": quoted(SCHEMA, name), **({"keys": [*keys]} if keys else {})} for name, keys in tables.items()]
    lines = ",\n  ".join(json.dumps(table, ensure_ascii=False) for table in declared)
    text = f"source: {NAME}\ndatabase: {json.dumps(database)}\ntables: [\n  {lines}]\n"
    (cdc.folder / f"{NAME}.yaml").write_text(text)


def insert(own: LiveMariaDb, columns: dict[str, list[str]], number: int) -> None:
    with own.server.connect() as connection, connection.cursor() as cursor:
        for name, listed in columns.items():
            cursor.execute(f"INSERT INTO {ticked(SCHEMA, name)} VALUES ({', '.join([str(number)] * len(listed))})")


def test_odd_names_reach_their_topics_under_their_own_keys(cdc: Cdc, own: LiveMariaDb) -> None:
    columns = {name: [*dict.fromkeys((*keys, "id", "v"))] for name, keys in MARIADB.items()}
    with own.server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {ticked(SCHEMA)}")
        for name, listed in {**columns, UNDECLARED: ["id"]}.items():
            made = ", ".join(f"{ticked(column)} int NOT NULL" for column in listed)
            cursor.execute(f"CREATE TABLE {ticked(SCHEMA, name)} ({made}, PRIMARY KEY (id))")
    insert(own, {**columns, UNDECLARED: ["id"]}, 1)
    declare(cdc, own, MARIADB)
    cdc("validate", str(cdc.folder))
    applied = cdc("apply", NAME)
    assert f"{NAME}-capture: created, RUNNING, 1 task" in applied
    # What the role of the connector may not make is told, and stands in nobody's way.
    assert f"CREATE TABLE IF NOT EXISTS `cdc_assets`.`signal_{NAME}` (" in applied
    insert(own, {**columns, UNDECLARED: ["id"]}, 2)
    own.delivered()
    # Its definitions are read from the schema history then.
    cdc("restart", f"{NAME}-capture", "--all")
    cdc.live.connect.wait_running(f"{NAME}-capture")
    insert(own, columns, 3)
    found = own.delivered()
    assert [name for name in found if name.endswith(UNDECLARED)] == []
    source = load_source(cdc.folder / f"{NAME}.yaml")
    keys = {
        table.id.table: [json.loads(r.key or "") for r in found.get(topic(source, table), {}).get(0, [])]
        for table in source.tables
    }
    assert keys == {name: [dict.fromkeys(key or ("id",), n) for n in (1, 2, 3)] for name, key in MARIADB.items()}
    cdc("diff", NAME)
