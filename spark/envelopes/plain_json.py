"""Plain JSON: every record is a row, `{"sensor": "a", "value": 21.5}`. No database, no operation, only arrivals.

A row's place is its offset (connector `topic`) and its time the record's own. With declared keys the newest row of a
key is its state, and a null value deletes it if the record's key is a JSON object that holds the key.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark.envelopes.debezium_json import document, is_malformed
from spark.envelopes.envelope import CORRUPT, Envelope, Narrow, key_columns, texts
from spark.positions.source_connector import Connector
from spark.specs import SilverSpec


class PlainJson(Envelope):
    """Rows as JSON objects."""

    name = "json"
    form = "a JSON object"
    written_times = True

    def tombstones_delete(self, connector: Connector) -> bool:
        """A null value says that its key is gone."""
        return True

    def parse(self, connector: Connector) -> Expression:
        """Nothing but whether there is a value: whether it can be read, silver finds out."""
        return sf.struct(sf.col("value").isNull().alias("gone"), sf.col("timestamp").alias("time"))

    def narrow(self, parsed: Expression, connector: Connector) -> Narrow:
        """An arrival, or a delete."""
        return arrival(parsed["gone"], parsed["time"], connector)

    def images(self, events: DataFrame, spec: SilverSpec) -> DataFrame:
        """The object is the row."""
        key = sf.from_json(sf.col("key").cast("string"), texts(key_columns(spec)))
        parsed = events.withColumns({"value": document(sf.col("value"), texts(spec.columns)), "row_key": key})
        return parsed.withColumns(
            {
                "unfit": sf.when((sf.col("op") != "d") & is_malformed(sf.col("value")), f"the value is not {self.form}"),
                "row_before": sf.lit(None).cast(texts(key_columns(spec))),
                "row_after": sf.when(sf.col("op") != "d", sf.col("value").dropFields(CORRUPT)),
                "present": sf.lit(None).cast("array<boolean>"),
            }
        )


def arrival(gone: Expression, time: Expression, connector: Connector) -> Narrow:
    """A record that stands for itself."""
    op = sf.when(gone, "d").otherwise("c")
    nothing = sf.lit(None).cast("string")
    return Narrow(op=op, source_ts=time, tx_id=nothing, snapshot=nothing, place=connector.place(lambda _: nothing, op))
