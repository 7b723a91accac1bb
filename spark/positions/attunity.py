"""Positions of Attunity / Qlik Replicate: its change sequence, one decimal number for all tables of a task.

    0000.0000020200520193227000000000000000000005.1.<offset>
         changeSequence                           |

The sequence is the commit's time and a counter (35 digits), monotonic per task; another task needs a higher epoch. Rows
of a full load (REFRESH) have none: they were read before the changes that follow were applied, and stand below all of
them. Rows of a later load get theirs from what came before (spark.bronze.reloads).
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf

from spark.positions.layout import decimal, first_load, join_parts, kind
from spark.positions.source_connector import Connector, Field, Place

SEQUENCE_WIDTH = 40
FIRST_LOAD = first_load(SEQUENCE_WIDTH)


def of_source(field: Field, op: Column) -> Place:
    """From changeSequence; a row of a full load stands at zero."""
    changed = join_parts(decimal(field("changeSequence"), SEQUENCE_WIDTH), kind(op))
    return Place(sf.when(op == "r", FIRST_LOAD).otherwise(changed))


ATTUNITY = Connector(
    name="attunity",
    source={"changeSequence": "string", "transactionId": "string"},
    needs="headers.changeSequence",
    place=of_source,
    tx_id=lambda field: field("transactionId"),
    first_load=FIRST_LOAD,
)
