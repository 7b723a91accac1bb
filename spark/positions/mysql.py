"""MySQL's and MariaDB's positions: binlog file number, position in the file, row in the event.

    0000.0000000042.00000000000003de.1.00000003.<offset>
         file       pos              | row           (file decimal, the others hexadecimal)

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
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf

from spark.positions.layout import NUMBER_WIDTH, decimal, hexadecimal, join_parts, kind
from spark.positions.source_connector import Connector, Field, Place

FILE_WIDTH, ROW_WIDTH = 10, 8


def of_source(field: Field, op: Column) -> Place:
    """From file and pos, and the row where the record (a column `key` beside the source block) has no key."""
    row = sf.when(sf.col("key").isNull(), field("row"))
    number = decimal(sf.regexp_extract(field("file"), r"\.(\d+)$", 1), FILE_WIDTH)
    within = hexadecimal(sf.coalesce(row, sf.lit(0)), ROW_WIDTH)
    return Place(join_parts(number, hexadecimal(field("pos"), NUMBER_WIDTH), kind(op), within))


SOURCE = {"file": "string", "pos": "bigint", "row": "bigint", "gtid": "string"}
MYSQL = Connector("mysql", SOURCE, "source.file, source.pos", of_source, lambda field: field("gtid"))
MARIADB = Connector("mariadb", SOURCE, "source.file, source.pos", of_source, lambda field: field("gtid"))
