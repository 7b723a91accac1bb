"""Positions of every kind of source but PostgreSQL: where each one's records say that they stand in its log.

MySQL and MariaDB: binlog file number, position in the file, row in the event (file decimal, the others hexadecimal).

| 0000.0000000042.00000000000003de.1.00000003.<offset>
|      file       pos              | row

Within one place the offset decides, as all changes of a key lie in one partition, in order. Rows are only counted where a
record has no key, for they are no order: all row events of a transaction may have one place, and each numbers its rows from 0,
so that an INSERT's third row would stand above an UPDATE of the same key behind it. MySQL's have the place of their payload
with binlog_transaction_compression, MariaDB's from 11.4 on that of their transaction (binlog_legacy_event_pos=OFF, its default).
Of a table without a key a second event of such a transaction is taken for a replay of the first: preflight refuses those.

The binlog is written at commit, so its order is commit order. File numbers are compared as numbers: after
`binlog.999999` comes `binlog.1000000`. A snapshot's rows carry the place at which it was taken, and everything streamed
afterwards lies behind it; rows of an incremental snapshot carry the place where their window closed, and what changed
a key after they were read lies behind that.

Another server (failover) has files and numbers of its own, and `server_id` has no order: such a change needs a higher
epoch. GTIDs are kept as the transaction's id; their numbers grow per server (MySQL) or domain (MariaDB) and are no
order across them.

SQL Server: commit LSN, then the change within the transaction and its serial number.

| 0000.0000002a000004d00003.1.0000002a000004c80002.00000002.<offset>
|      commit_lsn           | change_lsn           event_serial_no

An LSN is three hexadecimal numbers with colons between (log file, block, slot), each padded here to its own width. A
snapshot's rows carry the highest committed LSN at which it was taken and no change LSN.

Oracle: the SCN of the commit, then of the change, then its place in the redo log.

| 0000.00000000000002125871.1.00000000000002125850.0000003400008aaf0010.00000001.<offset>
|      commit_scn           | scn                  rs_id                 ssn

SCNs come as decimal text of any number of digits and are compared as numbers. Order of change alone would not do: a
transaction that was open while a snapshot was taken changed rows below the snapshot's SCN and commits above it. A
snapshot's rows carry only the SCN they were read at (flashback query), which holds all commits up to it.
`rs_id` (` 0x000034.00008aaf.0010 `) and `ssn` tell apart the changes of one transaction at one SCN, where LogMiner
gives them; elsewhere the topic's order does.

MongoDB: the time of the change and its ordinal within that time.

| 0000.0000018bcfe56800.00000003.1.<offset>
|      milliseconds     ord      |

A server before 6.0 tells the cluster time in whole seconds, and `ord` counts within the second. Since 6.0 Debezium sends
the wall clock instead (`wallTime`, then also in `ts_ms`), and `ord` counts within a second that the event no longer
names: it decides among changes of one millisecond.

A snapshot's rows have no place of their own. Debezium 3.6 writes the time at which a row was sent (`ord` is -1), or the
second of the change before it, and the row was read earlier than the one and later than the other. What it does say is its
order in the topic: a snapshot reads what was streamed before it, and the changes since are streamed behind it. So its rows
stand below all changes, and those of a later snapshot (blocking, incremental) above what came before them in their topic
partition and below what follows, unless they are delivered again (spark.bronze, rows that are loaded again).

The clocks of a replica set's or a sharded cluster's members must agree better than two changes of a document lie apart, or
a row of a later snapshot and the next change; where they do not, connector `topic` orders by the topic alone.

Attunity / Qlik Replicate: its change sequence, one decimal number for all tables of a task.

| 0000.0000020200520193227000000000000000000005.1.<offset>
|      changeSequence                           |

The sequence is the commit's time and a counter (35 digits), monotonic per task; another task needs a higher epoch. Rows
of a full load (REFRESH) have none: they were read before the changes that follow were applied, and stand below all of
them. Rows of a later load get theirs from what came before (spark.bronze, likewise).

Topics whose records do not say where in a source's log they stand: the topic's own order. Right for a key once everything has
arrived, since all records of a key are in one partition. What is delivered again takes a key back for as long as the repetition
lasts.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf

from spark.events.positions import (
    NUMBER_WIDTH,
    STREAMED,
    Connector,
    Field,
    Place,
    decimal,
    first_load,
    hexadecimal,
    join_parts,
    kind,
    segments,
)

FILE_WIDTH, ROW_WIDTH = 10, 8


def mysql_place(field: Field, op: Column) -> Place:
    """From file and pos, and the row where the record (a column `key` beside the source block) has no key."""
    row = sf.when(sf.col("key").isNull(), field("row"))
    number = decimal(sf.regexp_extract(field("file"), r"\.(\d+)$", 1), FILE_WIDTH)
    within = hexadecimal(sf.coalesce(row, sf.lit(0)), ROW_WIDTH)
    return Place(join_parts(number, hexadecimal(field("pos"), NUMBER_WIDTH), kind(op), within))


SOURCE = {"file": "string", "pos": "bigint", "row": "bigint", "gtid": "string"}
MYSQL = Connector("mysql", SOURCE, "source.file, source.pos", mysql_place, lambda field: field("gtid"))
MARIADB = Connector("mariadb", SOURCE, "source.file, source.pos", mysql_place, lambda field: field("gtid"))


LSN_WIDTHS, SQLSERVER_SERIAL_WIDTH = (8, 8, 4), 8


def sqlserver_place(field: Field, op: Column) -> Place:
    """From commit_lsn, change_lsn and event_serial_no."""
    none = sf.lit("0" * sum(LSN_WIDTHS))
    change = field("change_lsn")
    within = sf.when(change.isNull(), none).otherwise(segments(change, *LSN_WIDTHS))
    serial = hexadecimal(sf.coalesce(field("event_serial_no").try_cast("bigint"), sf.lit(0)), SQLSERVER_SERIAL_WIDTH)
    return Place(join_parts(segments(field("commit_lsn"), *LSN_WIDTHS), kind(op), within, serial))


SQLSERVER = Connector(
    name="sqlserver",
    source={"commit_lsn": "string", "change_lsn": "string", "event_serial_no": "string"},
    needs="source.commit_lsn",
    place=sqlserver_place,
    tx_id=lambda field: field("commit_lsn"),
)


SCN_WIDTH, REDO_WIDTHS, ORACLE_SERIAL_WIDTH = 20, (8, 8, 4), 8


def oracle_place(field: Field, op: Column) -> Place:
    """From commit_scn, scn, rs_id and ssn."""
    commit = decimal(sf.coalesce(field("commit_scn"), field("scn")), SCN_WIDTH)
    change = decimal(sf.coalesce(field("scn"), field("commit_scn")), SCN_WIDTH)
    redo = sf.coalesce(segments(field("rs_id"), *REDO_WIDTHS), sf.lit("0" * sum(REDO_WIDTHS)))
    serial = hexadecimal(sf.coalesce(field("ssn"), sf.lit(0)), ORACLE_SERIAL_WIDTH)
    return Place(join_parts(commit, kind(op), change, redo, serial))


ORACLE = Connector(
    name="oracle",
    source={"commit_scn": "string", "scn": "string", "rs_id": "string", "ssn": "bigint", "txId": "string"},
    needs="source.commit_scn, source.scn",
    place=oracle_place,
    tx_id=lambda field: field("txId"),
)


ORDINAL_WIDTH = 8
MONGODB_FIRST_LOAD = first_load(NUMBER_WIDTH, ORDINAL_WIDTH)


def mongodb_place(field: Field, op: Column) -> Place:
    """From wallTime or the cluster time, and ord; a row of a snapshot stands at zero."""
    time = sf.coalesce(field("wallTime"), field("ts_ms"))
    changed = join_parts(hexadecimal(time, NUMBER_WIDTH), hexadecimal(field("ord"), ORDINAL_WIDTH), kind(op))
    return Place(sf.when(op == "r", MONGODB_FIRST_LOAD).otherwise(changed))


def moment(place: Column) -> Column:
    """When the change was made, in milliseconds."""
    return sf.conv(sf.substring(place, 1, NUMBER_WIDTH), 16, 10).cast("bigint")


MONGODB = Connector(
    name="mongodb",
    source={"wallTime": "bigint", "ts_ms": "bigint", "ord": "bigint", "lsid": "string", "txnNumber": "bigint"},
    needs="source.ts_ms, source.ord",
    place=mongodb_place,
    tx_id=lambda field: sf.concat_ws(":", sf.nullif(field("lsid"), sf.lit("")), field("txnNumber")),
    first_load=MONGODB_FIRST_LOAD,
    moment=moment,
)


SEQUENCE_WIDTH = 40
ATTUNITY_FIRST_LOAD = first_load(SEQUENCE_WIDTH)


def attunity_place(field: Field, op: Column) -> Place:
    """From changeSequence; a row of a full load stands at zero."""
    changed = join_parts(decimal(field("changeSequence"), SEQUENCE_WIDTH), kind(op))
    return Place(sf.when(op == "r", ATTUNITY_FIRST_LOAD).otherwise(changed))


ATTUNITY = Connector(
    name="attunity",
    source={"changeSequence": "string", "transactionId": "string"},
    needs="headers.changeSequence",
    place=attunity_place,
    tx_id=lambda field: field("transactionId"),
    first_load=ATTUNITY_FIRST_LOAD,
)


def topic_place(field: Field, op: Column) -> Place:
    """The offset alone decides, which every position ends with. A snapshot's rows are nothing special."""
    return Place(sf.when(op.isNotNull(), STREAMED))


TOPIC = Connector(name="topic", source={}, needs="none", place=topic_place, tx_id=lambda field: sf.lit(None).cast("string"))
