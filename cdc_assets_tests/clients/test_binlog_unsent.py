"""Changes without an event among a binlog's events, as a MariaDB 10.11.19 and a MySQL 9.7.4 told them."""

from __future__ import annotations

from collections.abc import Sequence

from cdc_assets.clients.databases.binlog_unsent import SAME_PLACE, UnsentReader
from cdc_assets.registry.field_types import TableId

T, P = TableId("x", "t"), TableId("x", "p")
FILE = "binlog.000001"
Told = tuple[int, str, int, str]

MARIADB: Sequence[Told] = [
    (1278, "Gtid", 1320, "BEGIN GTID 0-1-7"),
    (1320, "Annotate_rows", 1385, "INSERT INTO x.t VALUES (1,1,'a','{\"a\":1}')"),
    (1385, "Table_map", 1431, "table_id: 18 (x.t)"),
    (1431, "Write_rows_v1", 1489, "table_id: 18 flags: STMT_END_F"),
    (1489, "Xid", 1520, "COMMIT /* xid=13 */"),
    (2180, "Gtid", 2222, "GTID 0-1-11"),
    (2222, "Query", 2318, "ALTER TABLE x.p DROP PARTITION p0"),
    (2617, "Gtid", 2659, "BEGIN GTID 0-1-14"),
    (2659, "Query", 2759, "use `x`; INSERT INTO t VALUES (5,1,NULL,NULL)"),
    (2759, "Xid", 2790, "COMMIT /* xid=26 */"),
    (5466, "Query", 5497, "use `x`; INSERT INTO q VALUES (4000)"),
    (6436, "Begin_load_query", 6469, ";file_id=1;block_len=6"),
    (6469, "Execute_load_query", 6697, "LOAD DATA INFILE '/a' INTO TABLE `x`.`t` FIELDS TERMINATED BY '\\t' (`id`) ;file_id=1"),
    (8278, "Query", 8358, "ANALYZE TABLE x.t"),
    (8649, "Query", 8691, "TRUNCATE TABLE x.t"),
    (9667, "Gtid", 9709, "BEGIN GTID 0-1-51"),
    (9709, "Annotate_rows", 9783, "INSERT INTO x.t(id,d) VALUES (300, REPEAT('a',300))"),
    (9783, "Table_map", 9829, "table_id: 38 (x.t)"),
    (9829, "Write_rows_compressed_v1", 9884, "table_id: 38 flags: STMT_END_F"),
    (9884, "Xid", 9915, "COMMIT /* xid=94 */"),
    (10433, "Query_compressed", 10561, "ALTER TABLE x.t ADD COLUMN comp INT COMMENT 'aaaa'"),
    (10603, "Query_compressed", 10717, "INSERT INTO x.t(id,d) VALUES (301, 'aaaa')"),
    (10748, "Query_compressed", 10790, "GRANT SELECT ON x.t TO cdc"),
]
MYSQL: Sequence[Told] = [
    (3115, "Query", 3229, "ALTER TABLE x.p DROP PARTITION p0 /* xid=21 */"),
    (13203, "Query", 13274, "BEGIN"),
    (13274, "Table_map", 13328, "table_id: 123 (x.t)"),
    (13328, "Write_rows", 13430, "table_id: 123 flags: STMT_END_F USE_SQL_FOREIGN_KEY_F"),
    (13540, "Query", 13620, "BEGIN"),
    (13620, "Rows_query", 13640, "# UPDATE x.t SET j=JSON_SET(j,'$.a',2)"),
    (13640, "Table_map", 13674, "table_id: 123 (x.t)"),
    (13674, "Update_rows_partial", 13806, "table_id: 123 flags: STMT_END_F USE_SQL_FOREIGN_KEY_F"),
    (13806, "Xid", 13837, "COMMIT /* xid=99 */"),
    (13837, "Transaction_payload", 14000, "compression='ZSTD', decompressed_size=628 bytes"),
    (14000, "Query", 14000, "BEGIN"),
    (14000, "Table_map", 14000, "table_id: 123 (x.t)"),
    (14000, "Update_rows_partial", 14000, "table_id: 123 flags: STMT_END_F USE_SQL_FOREIGN_KEY_F"),
]
PACKED: Sequence[Told] = [
    (15000, "Transaction_payload", 15200, "compression='ZSTD', decompressed_size=628 bytes"),
    (15200, "Table_map", 15200, "table_id: 123 (x.t)"),
    (15200, "Write_rows", 15200, "table_id: 123 flags: STMT_END_F"),
    (15200, "Table_map", 15200, "table_id: 124 (x.p)"),
    (15200, "Write_rows", 15200, "table_id: 124"),
    (15200, "Write_rows", 15200, "table_id: 124"),
    (15200, "Write_rows", 15200, "table_id: 124 flags: STMT_END_F"),
    (15200, "Xid", 15200, "COMMIT /* xid=99 */"),
    (15400, "Transaction_payload", 15600, "compression='ZSTD', decompressed_size=628 bytes"),
    (15600, "Table_map", 15600, "table_id: 123 (x.t)"),
    (15600, "Write_rows", 15600, "table_id: 123 flags: STMT_END_F"),
    (15700, "Table_map", 15800, "table_id: 123 (x.t)"),
    (15800, "Write_rows", 15900, "table_id: 123"),
    (15900, "Write_rows", 16000, "table_id: 123 flags: STMT_END_F"),
]


def found(events: Sequence[Told]) -> list[tuple[str, int, str, str]]:
    rows = [(FILE, begin, kind, 1, end, info) for begin, kind, end, info in events]
    return [(str(c.table), c.at.position, c.kind, c.statement) for c in UnsentReader([T, P]).changes(rows)]


def test_mariadb_tells_each_kind() -> None:
    assert found(MARIADB) == [
        ("x.p", 2222, "DROP PARTITION", "ALTER TABLE x.p DROP PARTITION p0"),
        ("x.t", 2659, "INSERT", "use `x`; INSERT INTO t VALUES (5,1,NULL,NULL)"),
        ("x.t", 6469, "LOAD DATA", MARIADB[12][3]),
        ("x.t", 9829, "Write_rows_compressed_v1", "INSERT INTO x.t(id,d) VALUES (300, REPEAT('a',300))"),
        ("x.t", 10433, "Query_compressed", "ALTER TABLE x.t ADD COLUMN comp INT COMMENT 'aaaa'"),
        ("x.t", 10603, "Query_compressed", "INSERT INTO x.t(id,d) VALUES (301, 'aaaa')"),
    ]


def test_mysql_tells_each_kind_and_the_place_of_a_compressed_transaction() -> None:
    assert found(MYSQL) == [
        ("x.p", 3115, "DROP PARTITION", "ALTER TABLE x.p DROP PARTITION p0"),
        ("x.t", 13674, "Update_rows_partial", "UPDATE x.t SET j=JSON_SET(j,'$.a',2)"),
        ("x.t", 13837, "Update_rows_partial", ""),
    ]


def test_a_second_event_of_a_table_in_a_compressed_transaction_is_told_once() -> None:
    assert found(PACKED) == [("x.p", 15000, SAME_PLACE, "")]


def test_events_come_in_pages() -> None:
    """What a page tells of tables and statements holds in the next one."""
    rows = [(FILE, begin, kind, 1, end, info) for begin, kind, end, info in MARIADB]
    reader = UnsentReader([T, P])
    assert [c.at.position for row in rows for c in reader.changes([row])] == [2222, 2659, 6469, 9829, 10433, 10603]


def test_a_long_statement_is_cut() -> None:
    (change,) = UnsentReader([T]).changes(
        [(FILE, 4, "Query", 1, 9, "UPDATE x.t SET v = 1\n  WHERE id IN (" + "1, " * 999 + "2)")]
    )
    assert change.statement.startswith("UPDATE x.t SET v = 1 WHERE id IN (1, 1, ")
    assert len(change.statement) == 301
