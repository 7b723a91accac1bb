"""Events of connectors that are not run here, as Debezium's documentation shows them, all in one batch of bronze."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cdc_assets_tests.support.lake.records import Sent, drafted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MYSQL: dict[str, Any] = {
    **{"version": "3.7", "name": "mysql-server-1", "connector": "mysql", "ts_ms": 1465581029523, "ts_us": 1465581029523000},
    **{"snapshot": "false", "db": "inventory", "table": "customers", "server_id": 223344, "gtid": None},
    **{"file": "mysql-bin.000003", "pos": 484, "row": 0, "thread": 7, "query": None},
}
MARIADB = {**MYSQL, "connector": "mariadb", "file": "mariadb-bin.000003", "gtid": "0-223344-1005"}
SQLSERVER = {
    **{"version": "3.7", "connector": "sqlserver", "name": "server1", "ts_ms": 1559729468470, "ts_us": 1559729468470000},
    **{"snapshot": False, "db": "testDB", "schema": "dbo", "table": "customers", "change_lsn": "00000027:00000758:0003"},
    **{"commit_lsn": "00000027:00000758:0005", "event_serial_no": "1"},
}
ORACLE = {
    **{"version": "3.7", "name": "server1", "ts_ms": 1520085154000, "ts_us": 1520085154000000, "txId": "6.28.807"},
    **{"scn": "2122185", "commit_scn": "2122185", "rs_id": "001234.00012345.0124", "ssn": 1, "redo_thread": 1},
    **{"user_name": "user", "snapshot": False},
}
MONGODB = {
    **{"version": "3.7", "connector": "mongodb", "name": "fulfillment", "ts_ms": 1558965508000, "ts_us": 1558965508000000},
    **{"snapshot": False, "db": "inventory", "rs": "rs0", "collection": "customers", "ord": 31, "h": 1546547425148721999},
    **{"lsid": '{"id": 1}', "txnNumber": 1},
}
SOURCES = {"mysql": MYSQL, "mariadb": MARIADB, "sqlserver": SQLSERVER, "oracle": ORACLE, "mongodb": MONGODB}
EXPECTED = {
    "mysql": ("0000.0000000003.00000000000001e4.1.00000000.0000000000000000", None, "2016-06-10T17:50:29.523000"),
    "mariadb": ("0000.0000000003.00000000000001e4.1.00000000.0000000000000000", "0-223344-1005", "2016-06-10T17:50:29.523000"),
    "sqlserver": (
        "0000.00000027000007580005.1.00000027000007580003.00000001.0000000000000000",
        *("00000027:00000758:0005", "2019-06-05T10:11:08.470000"),
    ),
    "oracle": (
        "0000.00000000000002122185.1.00000000000002122185.00001234000123450124.00000001.0000000000000000",
        *("6.28.807", "2018-03-03T13:52:34"),
    ),
    "mongodb": (f"0000.{1558965508000:016x}.0000001f.1.0000000000000000", '{"id": 1}:1', "2019-05-27T13:58:28"),
}


def test_one_batch_of_every_connector(session: SparkSession) -> None:
    topics = {name: [Sent({"before": None, "after": {"id": 1}, "source": s, "op": "c"})] for name, s in SOURCES.items()}
    forms = {name: ("debezium-mongodb" if name == "mongodb" else "debezium-json", name) for name in SOURCES}
    rows = drafted(session, forms, topics).select("topic", "op", "position", "tx_id", "source_ts").collect()
    found = {row.topic: (row.position, row.tx_id, row.source_ts.isoformat()) for row in rows}
    assert found == EXPECTED
    assert {row.op for row in rows} == {"c"}
