"""SQL Server's positions: commit LSN, then the change within the transaction and its serial number.

    0000.0000002a000004d00003.1.0000002a000004c80002.00000002.<offset>
         commit_lsn           | change_lsn           event_serial_no

An LSN is three hexadecimal numbers with colons between (log file, block, slot), each padded here to its own width. A
snapshot's rows carry the highest committed LSN at which it was taken and no change LSN.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf

from spark.positions.layout import hexadecimal, join_parts, kind, segments
from spark.positions.source_connector import Connector, Field, Place

LSN_WIDTHS, SERIAL_WIDTH = (8, 8, 4), 8


def of_source(field: Field, op: Column) -> Place:
    """From commit_lsn, change_lsn and event_serial_no."""
    none = sf.lit("0" * sum(LSN_WIDTHS))
    change = field("change_lsn")
    within = sf.when(change.isNull(), none).otherwise(segments(change, *LSN_WIDTHS))
    serial = hexadecimal(sf.coalesce(field("event_serial_no").try_cast("bigint"), sf.lit(0)), SERIAL_WIDTH)
    return Place(join_parts(segments(field("commit_lsn"), *LSN_WIDTHS), kind(op), within, serial))


SQLSERVER = Connector(
    name="sqlserver",
    source={"commit_lsn": "string", "change_lsn": "string", "event_serial_no": "string"},
    needs="source.commit_lsn",
    place=of_source,
    tx_id=lambda field: field("commit_lsn"),
)
