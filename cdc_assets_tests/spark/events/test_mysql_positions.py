"""MySQL's positions on its own events: several rows and tables, key changes, rotated binlogs, compressed transactions; the
login.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_assets_tests.support.lake.lake import Lake, values
from cdc_assets_tests.support.lake.records import Sent, drafted
from cdc_assets_tests.support.live.live_mysql import LiveMySql
from cdc_assets_tests.support.live.mysql_captured import Declared, captured, records
from spark.specs import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

FORM = ("debezium-json", "mysql")
PLACE: Declared = {"name": "places.t", "keys": ["id"], "columns": {"id": "integer not null", "v": "text"}}


@pytest.mark.parametrize("compressed", ["OFF", "ON"])
def test_positions_are_in_the_order_of_the_log(mysql: LiveMySql, session: SparkSession, tmp_path: Path, compressed: str) -> None:
    own, server = captured(mysql, f"mysqlplaces{compressed.lower()}"), mysql.server
    database = f"places{compressed.lower()}"
    place = {**PLACE, "name": f"{database}.t"}
    server.execute(
        f"CREATE DATABASE {database}",
        f"CREATE TABLE {database}.t (id int PRIMARY KEY, v varchar(200))",
        f"CREATE TABLE {database}.u (id int PRIMARY KEY, v varchar(200))",
        f"INSERT INTO {database}.t VALUES (1, 'read'), (2, 'read')",
        f"INSERT INTO {database}.u VALUES (3, 'read'), (5, 'read')",
    )
    own.capture([place, {**place, "name": f"{database}.u"}])
    own.delivered()
    with server.connect(autocommit=False, database=database) as connection, connection.cursor() as cursor:
        cursor.execute(f"SET SESSION binlog_transaction_compression = {compressed}")
        cursor.execute("INSERT INTO t VALUES (3, REPEAT('a', 90)), (4, 'a'), (5, 'a')")
        cursor.execute("UPDATE t SET v = CONCAT(v, id)")
        cursor.execute("UPDATE t JOIN u USING (id) SET t.v = CONCAT('joined', t.id), u.v = 'joined'")
        cursor.execute("UPDATE t SET v = 'twice' WHERE id = 3")
        connection.commit()
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("UPDATE t SET id = id + 100 WHERE id <= 2")
        cursor.execute("DELETE FROM t WHERE id = 4")
        cursor.execute("INSERT INTO t VALUES (4, 'again')")
        connection.commit()
        cursor.execute("INSERT INTO t VALUES (6, 'gone')")
        connection.rollback()
    delivered = records(own, place)
    events = [(record, json.loads(record.value)) for record in delivered if record.value is not None]
    # Against all records in the opposite order, so that offsets cannot be what decides.
    sent = [Sent(event, key=record.key, offset=len(events) - i) for i, (record, event) in enumerate(events)]
    rows = drafted(session, {"t": FORM}, {"t": sent}).select("offset", "position", "tx_id").collect()
    found = {row.offset: row for row in rows}
    places = [found[len(events) - i].position for i in range(len(events))]
    lake = Lake(session, tmp_path, form=FORM)
    lake.put("t", *delivered)
    lake.append(lake.all_of("t"))
    spec = lake.spec("t", (Column("id", "integer", False), Column("v", "text")))
    lake.fold(spec)
    silver = sorted((row["id"], row["v"]) for row in values(spec.path))
    assert silver == sorted(tuple(row) for row in server.query(f"SELECT id, v FROM {database}.t"))
    assert "".join(event["op"] for _, event in events) == "rr" + "ccc" + "uuuuu" + "uu" + "u" + "dcdc" + "d" + "c"
    assert [p[:-17] for p in places] == sorted(p[:-17] for p in places)
    by_key: dict[str, list[str]] = {}
    for (record, _), at in zip(events, places, strict=True):
        by_key.setdefault(str(record.key), []).append(at[:-17])
    assert all(a <= b for of_key in by_key.values() for a, b in pairwise(of_key))
    assert len({found[len(events) - i].tx_id for i in range(2, len(events))}) == 2
    assert all(re.fullmatch(r"[0-9a-f-]{36}:\d+", found[len(events) - i].tx_id) for i in range(2, len(events)))


def test_login_without_tls(mysql: LiveMySql) -> None:
    """The whole login of caching_sha2_password, by the driver and by the reader of the binlog."""
    own, server = captured(mysql, "mysqlplain", "disabled"), mysql.server
    server.execute("CREATE DATABASE plain", "CREATE TABLE plain.t (id int PRIMARY KEY, v varchar(200))", "FLUSH PRIVILEGES")
    place = {**PLACE, "name": "plain.t"}
    own.capture([place])
    server.execute("FLUSH PRIVILEGES", "INSERT INTO plain.t VALUES (1, 'ü')")
    assert [json.loads(r.value)["after"] for r in records(own, place) if r.value] == [{"id": 1, "v": "ü"}]
