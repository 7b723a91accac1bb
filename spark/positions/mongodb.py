"""MongoDB's positions: the time of the change and its ordinal within that time.

    0000.0000018bcfe56800.00000003.1.<offset>
         milliseconds     ord      |

A server before 6.0 tells the cluster time in whole seconds, and `ord` counts within the second. Since 6.0 Debezium sends
the wall clock instead (`wallTime`, then also in `ts_ms`), and `ord` counts within a second that the event no longer
names: it decides among changes of one millisecond.

A snapshot's rows have no place of their own. Debezium 3.6 writes the time at which a row was sent (`ord` is -1), or the
second of the change before it, and the row was read earlier than the one and later than the other. What it does say is its
order in the topic: a snapshot reads what was streamed before it, and the changes since are streamed behind it. So its rows
stand below all changes, and those of a later snapshot (blocking, incremental) above what came before them in their topic
partition and below what follows, unless they are delivered again (spark.bronze.reloads).

The clocks of a replica set's or a sharded cluster's members must agree better than two changes of a document lie apart, or
a row of a later snapshot and the next change; where they do not, connector `topic` orders by the topic alone.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf

from spark.positions.layout import NUMBER_WIDTH, first_load, hexadecimal, join_parts, kind
from spark.positions.source_connector import Connector, Field, Place

ORDINAL_WIDTH = 8
FIRST_LOAD = first_load(NUMBER_WIDTH, ORDINAL_WIDTH)


def of_source(field: Field, op: Column) -> Place:
    """From wallTime or the cluster time, and ord; a row of a snapshot stands at zero."""
    time = sf.coalesce(field("wallTime"), field("ts_ms"))
    changed = join_parts(hexadecimal(time, NUMBER_WIDTH), hexadecimal(field("ord"), ORDINAL_WIDTH), kind(op))
    return Place(sf.when(op == "r", FIRST_LOAD).otherwise(changed))


def moment(place: Column) -> Column:
    """When the change was made, in milliseconds."""
    return sf.conv(sf.substring(place, 1, NUMBER_WIDTH), 16, 10).cast("bigint")


MONGODB = Connector(
    name="mongodb",
    source={"wallTime": "bigint", "ts_ms": "bigint", "ord": "bigint", "lsid": "string", "txnNumber": "bigint"},
    needs="source.ts_ms, source.ord",
    place=of_source,
    tx_id=lambda field: sf.concat_ws(":", sf.nullif(field("lsid"), sf.lit("")), field("txnNumber")),
    first_load=FIRST_LOAD,
    moment=moment,
)
