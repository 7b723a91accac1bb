"""MongoDB's positions: the time of the change and its ordinal within that time.

    0000.0000018bcfe56800.00000003.1.<offset>
         milliseconds     ord      |

A server before 6.0 tells the cluster time in whole seconds, and `ord` counts within the second. Since 6.0 Debezium sends
the wall clock instead (`wallTime`, then also in `ts_ms`), and `ord` counts within a second that the event no longer
names: it decides among changes of one millisecond. Rows of a snapshot carry the cluster time it began at. So clocks of
a sharded cluster must agree better than a snapshot and the next change of a document lie apart; where they do not,
connector `topic` orders by the topic alone.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf

from spark.positions.layout import NUMBER_WIDTH, hexadecimal, join_parts, kind
from spark.positions.source_connector import Connector, Field, Place

ORDINAL_WIDTH = 8


def of_source(field: Field, op: Column) -> Place:
    """From wallTime or the cluster time, and ord."""
    time = sf.coalesce(field("wallTime"), field("ts_ms"))
    return Place(join_parts(hexadecimal(time, NUMBER_WIDTH), hexadecimal(field("ord"), ORDINAL_WIDTH), kind(op)))


MONGODB = Connector(
    name="mongodb",
    source={"wallTime": "bigint", "ts_ms": "bigint", "ord": "bigint", "lsid": "string", "txnNumber": "bigint"},
    needs="source.ts_ms, source.ord",
    place=of_source,
    tx_id=lambda field: sf.concat_ws(":", sf.nullif(field("lsid"), sf.lit("")), field("txnNumber")),
)
