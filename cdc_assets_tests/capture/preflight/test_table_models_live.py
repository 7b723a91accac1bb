"""Statements that Debezium's parser reads otherwise than the server: preflight names each table, and the command that mends it.

The command is played in chain/test_model_repair_live.py. The right answer is what the server itself says of the rows.
"""

from __future__ import annotations

import json
from random import Random

import pytest

from cdc_assets.capture.preflight.inspection import Finding, preflight
from cdc_assets.capture.preflight.table_models import CHECK
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.source_declaration import CapturedSource
from cdc_assets_tests.hostile.names import MARIADB, SCHEMA, column_names, quoted, ticked
from cdc_assets_tests.support.live.live_binlog import LiveBinlog
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb
from cdc_assets_tests.support.live.live_mysql import LiveMySql
from cdc_assets_tests.support.values.mariadb_values import EXACT

pytestmark = [pytest.mark.service, pytest.mark.all]

NAME = "mmodel"
# Of each: its columns, what is altered while the connector runs, and a row of then.
CASES: dict[str, tuple[str, tuple[str, ...], str]] = {
    "renamed": (
        "id int PRIMARY KEY, item_id int",
        ("ALTER TABLE renamed ADD COLUMN kind int DEFAULT 5 AFTER thing_id, CHANGE COLUMN item_id thing_id int",),
        "2, 20, 7",
    ),
    "wholes": ("id int PRIMARY KEY", ("ALTER TABLE wholes ADD COLUMN u INTEGER UNSIGNED",), "9, 4294967295"),
    "reals": ("id int PRIMARY KEY", ("ALTER TABLE reals ADD COLUMN r REAL",), "3, 3.141592653589793"),
    "letters": (
        "id int PRIMARY KEY, v varchar(9) COMMENT 'it''s, a `v`'",
        ("ALTER TABLE letters DEFAULT CHARACTER SET latin1 COLLATE latin1_bin", "ALTER TABLE letters ADD z varchar(20) NOT NULL"),
        "4, 'v', 'é€'",
    ),
    "flags": ("id int PRIMARY KEY", ("ALTER TABLE flags ADD bo BOOLEAN DEFAULT TRUE",), "5, 1"),
    "unlogged": (
        "id int PRIMARY KEY, b int, c int",
        ("SET sql_log_bin = 0", "ALTER TABLE unlogged MODIFY b int FIRST", "SET sql_log_bin = 1"),
        "8, 7, 9",
    ),
}
# What is read rightly: nothing at all, every type that is supported, and statements whose words are not the catalogue's.
RIGHT = {
    "untouched": ("id int PRIMARY KEY, v varchar(20)", ()),
    "typed": ("id int PRIMARY KEY, " + ", ".join(f"c{n} {kind}" for n, kind in enumerate(EXACT)), ()),
    "grown": ("id int PRIMARY KEY", tuple(f"ALTER TABLE grown ADD c{n} {kind}" for n, kind in enumerate(EXACT))),
    "worded": (
        "id int PRIMARY KEY, old int",
        (
            "ALTER TABLE worded ADD a INT4 UNSIGNED FIRST, ADD b MIDDLEINT AFTER id, ADD c NCHAR VARCHAR(5), ADD d INT1",
            "ALTER TABLE worded DROP old, ADD e CHARACTER VARYING(7) COLLATE latin1_bin, ADD f FLOAT8, ADD g DEC(7,2) ZEROFILL",
            "ALTER TABLE worded CONVERT TO CHARACTER SET latin1",
            "ALTER TABLE worded RENAME COLUMN b TO bb, MODIFY d INT2 NOT NULL AFTER a, ADD h TEXT(300000), ADD i LONG VARBINARY",
        ),
    ),
}


def cases(own: LiveBinlog) -> dict[str, tuple[str, tuple[str, ...], str]]:
    """MySQL's connector is a newer one, which reads INTEGER UNSIGNED as it is."""
    return {name: told for name, told in CASES.items() if not (isinstance(own, LiveMySql) and name == "wholes")}


def right(own: LiveBinlog) -> dict[str, tuple[str, tuple[str, ...]]]:
    """`EXACT` is of MariaDB's types."""
    return {name: told for name, told in RIGHT.items() if not (isinstance(own, LiveMySql) and name in ("typed", "grown"))}


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def own(request: pytest.FixtureRequest) -> LiveBinlog:
    live: LiveBinlog = request.getfixturevalue(request.param)
    own = live.renamed(NAME)
    made = [f"CREATE TABLE {NAME}.{name} ({told[0]})" for name, told in {**cases(own), **right(own)}.items()]
    own.server.execute(f"CREATE DATABASE {NAME} CHARACTER SET utf8mb4", *made)
    own.capture([f"{NAME}.{name}" for name in (*cases(own), *right(own))])
    own.server.execute(f"INSERT INTO {NAME}.untouched VALUES (1, 'a')")
    own.delivered()
    return own


def source_of(own: LiveBinlog) -> CapturedSource:
    return own.source([{"name": f"{NAME}.{name}"} for name in (*cases(own), *right(own))])


def looked(own: LiveBinlog) -> dict[str, Finding]:
    return {subject.partition(".")[2]: finding for subject, finding in looked_at(own, source_of(own)).items()}


def looked_at(own: LiveBinlog, source: CapturedSource) -> dict[str, Finding]:
    url, at = own.connect.url, own.bootstrap
    platform = Platform(core_bootstrap=at, lake_bootstrap=at, core_connect_url=url, lake_connect_url=url)
    with own.settings():
        return {f.subject: f for f in preflight(Chain(platform, source)).findings if f.check == CHECK}


def play(own: LiveBinlog, told: dict[str, tuple[str, ...]]) -> None:
    with own.server.connect(database=NAME) as connection, connection.cursor() as cursor:
        for statements in told.values():
            for statement in statements:
                cursor.execute(statement)


def last_events(own: LiveBinlog) -> dict[str, dict[str, object]]:
    source, found = source_of(own), own.delivered()
    topics = {name: names.topic(source, source.table(str(TableId(NAME, name)))) for name in cases(own)}
    return {name: json.loads(found[topic][0][-1].value or "")["after"] for name, topic in topics.items() if topic in found}


def insert(own: LiveBinlog) -> dict[str, dict[str, object]]:
    """A row into each of the cases; what the server says of it, as Debezium writes it."""
    rows: dict[str, dict[str, object]] = {}
    with own.server.connect(database=NAME) as connection, connection.cursor() as cursor:
        for name, (_, _, row) in cases(own).items():
            cursor.execute(f"DELETE FROM {name}")
            cursor.execute(f"INSERT INTO {name} VALUES ({row})")
            cursor.execute(f"SELECT * FROM {name}")
            columns = [column[0] for column in cursor.description]
            rows[name] = dict(zip(columns, cursor.fetchone(), strict=True))
    return rows


def text_of(row: dict[str, object]) -> str:
    """By which true is not 1."""
    return json.dumps(row, sort_keys=True)


def test_each_statement_that_is_misread_is_told_with_its_mend(own: LiveBinlog) -> None:
    assert {name: f.level for name, f in looked(own).items()} == dict.fromkeys((*cases(own), *right(own)), "ok")
    play(own, {name: told[1] for name, told in {**cases(own), **right(own)}.items()})
    found = looked(own)
    assert {name: f.level for name, f in found.items()} == dict.fromkeys(cases(own), "fail") | dict.fromkeys(right(own), "ok")
    for name, (_, statements, _) in cases(own).items():
        told = found[name]
        if name != "unlogged":
            assert f"since {statements[-1]} (at binlog." in told.message
        assert "Model: " in told.message
        assert "Server: " in told.message
        assert told.mend == f"cdc repair model {NAME} {NAME}__{name}"
    rows = insert(own)
    assert {name for name, event in last_events(own).items() if text_of(event) != text_of(rows[name])} == {*cases(own)}


def test_a_connector_that_has_not_read_a_statement_is_not_called_wrong_nor_right(own: LiveBinlog) -> None:
    connector = names.connector_name(source_of(own))
    own.connect.stop(connector)
    own.server.execute(f"ALTER TABLE {NAME}.untouched ADD w int FIRST")
    found = looked(own)["untouched"]
    assert found.level == "warn"
    assert "cannot be told" in found.message
    own.connect.resume(connector)
    own.connect.wait_running(connector)
    assert looked(own)["untouched"].level == "ok"


def test_odd_names_are_no_difference(mariadb: LiveMariaDb) -> None:
    """Of tables, and of columns: by the snapshot, and added by a statement."""
    odd = mariadb.renamed("mmodelodd")
    columns = column_names(Random(7), 50, kind="mariadb", taken=("id",))
    tables = [TableId(SCHEMA, name) for name in MARIADB]
    made = ", ".join(f"{ticked(column)} int" for column in columns)
    odd.server.execute(f"CREATE DATABASE {ticked(SCHEMA)}", "CREATE DATABASE mmodelodd")
    odd.server.execute(*(f"CREATE TABLE {ticked(*table)} (id int PRIMARY KEY, {made})" for table in tables))
    odd.capture([quoted(*table) for table in tables])
    odd.server.execute(f"INSERT INTO {ticked(*tables[0])} (id) VALUES (1)")
    odd.delivered()
    source = odd.source([quoted(*table) for table in tables])
    assert {(f.subject, f.level) for f in looked_at(odd, source).values()} == {(str(table), "ok") for table in tables}
    added = "ADD `new,x` int FIRST, ADD `ключ;` varchar(9) CHARACTER SET latin1 AFTER id"
    odd.server.execute(*(f"ALTER TABLE {ticked(*table)} {added}" for table in tables))
    assert {(f.subject, f.level) for f in looked_at(odd, source).values()} == {(str(table), "ok") for table in tables}
