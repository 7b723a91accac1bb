"""Positions of topics whose records do not say where in a source's log they stand: the topic's own order.

Right for a key once everything has arrived, since all records of a key are in one partition. What is delivered again
takes a key back for as long as the repetition lasts.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf

from spark.positions.layout import STREAMED
from spark.positions.source_connector import Connector, Field, Place


def of_source(field: Field, op: Column) -> Place:
    """The offset alone decides, which every position ends with. A snapshot's rows are nothing special."""
    return Place(sf.when(op.isNotNull(), STREAMED))


TOPIC = Connector(name="topic", source={}, needs="none", place=of_source, tx_id=lambda field: sf.lit(None).cast("string"))
