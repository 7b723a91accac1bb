"""MariaDB's positions on its own events: snapshot, multi-row statements, transactions, key changes, rotated binlogs, TRUNCATE."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from cdc_assets.clients.databases.binlog import BinlogPosition
from cdc_assets_tests.support.lake.lake import Lake, values
from cdc_assets_tests.support.lake.records import Sent, drafted
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb
from spark.specs import Column

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

FORM = ("debezium-json", "mariadb")
COLUMNS = (Column("id", "int(11)", False, dialect="mariadb"), Column("v", "varchar(20)", dialect="mariadb"))


def located(source: dict[str, Any]) -> BinlogPosition:
    """Where the change with this source block lies."""
    return BinlogPosition.of(source["file"], source["pos"])


def test_positions_are_in_the_order_of_the_log(mariadb: LiveMariaDb, session: SparkSession, tmp_path: Path) -> None:
    own = mariadb.renamed("mariaplaces")
    server = own.server
    server.execute("CREATE DATABASE places", "CREATE TABLE places.t (id int PRIMARY KEY, v varchar(20))")
    server.execute("INSERT INTO places.t VALUES (1, 'read'), (2, 'read')")
    own.capture(["places.t"])
    own.delivered()
    with own.database(own.source(["places.t"])) as database:
        before, counted = database.counts([own.source(["places.t"]).tables[0].id])
    assert list(counted.values()) == [2]
    with server.connect(autocommit=False) as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO places.t VALUES (3, 'a'), (4, 'a'), (5, 'a')")
        cursor.execute("UPDATE places.t SET v = CONCAT(v, id)")
        cursor.execute("UPDATE places.t SET v = 'twice' WHERE id = 3")
        connection.commit()
        cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("UPDATE places.t SET id = id + 100 WHERE id <= 2")
        cursor.execute("DELETE FROM places.t WHERE id = 4")
        connection.commit()
        cursor.execute("INSERT INTO places.t VALUES (6, 'gone')")
        connection.rollback()
    (records,) = own.delivered()["mariaplaces.places.t"].values()
    events = [(record, json.loads(record.value)) for record in records if record.value is not None]
    assert "".join(event["op"] for _, event in events) == "rr" + "ccc" + "uuuuuu" + "dcdc" + "d"
    assert len({event["source"]["file"] for _, event in events[2:]}) == 2
    # Against all records in the opposite order, so that offsets cannot be what decides.
    sent = [Sent(event, offset=len(events) - i) for i, (_, event) in enumerate(events)]
    rows = drafted(session, {"t": FORM}, {"t": sent}).select("offset", "position", "tx_id").collect()
    found = {row.offset: row for row in rows}
    places = [found[len(events) - i].position for i in range(len(events))]
    assert [p[:-17] for p in places] == sorted(p[:-17] for p in places)
    # A key change is two events at one place, of two keys: of one key no two are.
    by_key: dict[str, list[str]] = {}
    for (record, _), place in zip(events, places, strict=True):
        by_key.setdefault(str(record.key), []).append(place[:-17])
    assert all(a < b for of_key in by_key.values() for a, b in pairwise(of_key))
    assert len({found[len(events) - i].tx_id for i in range(2, len(events))}) == 2
    assert all(re.fullmatch(r"0-1-\d+", found[len(events) - i].tx_id) for i in range(2, len(events)))
    # What a consistent snapshot saw, and what it did not.
    assert not any(located(event["source"]) < before for _, event in events[2:])
    with own.database(own.source(["places.t"])) as database:
        after, counted = database.counts([own.source(["places.t"]).tables[0].id])
    assert all(located(event["source"]) < after for _, event in events)
    lake = Lake(session, tmp_path, form=FORM)
    lake.put("t", *records)
    lake.append(lake.all_of("t"))
    spec = lake.spec("t", COLUMNS)
    lake.fold(spec)
    silver = sorted((row["id"], row["v"]) for row in values(spec.path))
    assert silver == sorted(tuple(row) for row in server.query("SELECT id, v FROM places.t"))
    assert list(counted.values()) == [len(silver)]


def test_file_numbers_go_beyond_six_digits() -> None:
    files: list[tuple[str, Any]] = [("binlog.000009", 990), ("binlog.000010", 4), ("binlog.999999", 9), ("binlog.1000000", 4)]
    places = [BinlogPosition.of(*place) for place in files]
    assert places == sorted(places)
    assert BinlogPosition.of("binlog.999999", 2**32) < places[3]
    assert not BinlogPosition.of("binlog.1000000", 4) < places[3]
