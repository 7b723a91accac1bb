"""Generic events in JSON: `{"ID": …, "Version": …, "Source": …, "Type": …, "Data": {…}}`, names in any case.

A declared column is a field of `Data`, or, under the envelope's own names (`id`, `version`, `source`, `type`, `time`,
`data` in any case, unless `Data` has such a field), what the envelope says; `data` is the whole of it as JSON. That is
CloudEvents' structured form as well, whose version is `specversion` and whose `time` is the event's time; without a
time, the record's own. An event's place is its offset. With `keys: [id]` an event that was sent twice is one row.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark.envelopes.envelope import Envelope, Narrow, key_columns, texts
from spark.envelopes.foreign_json import fault
from spark.envelopes.plain_json import arrival
from spark.positions.source_connector import Connector
from spark.specs import Column, SilverSpec
from spark.types.json_numbers import mark_long_numbers, unmark_numbers

OUTER = ("id", "version", "specversion", "source", "type", "time", "data")
FIELDS = "map<string,string>"


class EventJson(Envelope):
    """Events with their data inside."""

    name = "event-json"
    form = "an event in JSON with Data"
    written_times = True

    def parse(self, connector: Connector) -> Expression:
        """A struct of the envelope's fields (`outer`), with the record's timestamp (`arrived`)."""
        return sf.struct(self.outer(sf.col("value")).alias("outer"), sf.col("timestamp").alias("arrived"))

    def outer(self, value: Expression) -> Expression:
        """The fields of an event; null where it is no object."""
        return sf.from_json(value.cast("string"), FIELDS)

    def narrow(self, parsed: Expression, connector: Connector) -> Narrow:
        """An arrival, at the time the event states."""
        time = sf.coalesce(_field_of_any_case(parsed["outer"], "time").try_cast("timestamp"), parsed["arrived"])
        return arrival(sf.lit(False), time, connector)

    def images(self, events: DataFrame, spec: SilverSpec) -> DataFrame:
        """A row of the envelope's and the data's fields."""
        parsed = events.withColumn("outer", self.outer(sf.col("value")))
        data = unmark_numbers(_field_of_any_case(sf.col("outer"), "data"))
        parsed = parsed.withColumns({"inner": sf.from_json(mark_long_numbers(data), FIELDS), "data_fault": fault(data)})
        outer, inner = sf.col("outer"), sf.col("inner")

        def value(column: Column) -> Expression:
            own = inner[column.name]
            if column.name.lower() not in OUTER:
                return own
            return sf.when(sf.map_contains_key(inner, column.name), own).otherwise(_field_of_any_case(outer, column.name.lower()))

        row = sf.struct(*[value(c).alias(c.name) for c in spec.columns])
        unfit = outer.isNull() | inner.isNull()
        none = sf.lit(None).cast(texts(key_columns(spec)))
        return parsed.withColumns(
            {
                "unfit": sf.when(unfit, f"the value is not {self.form}").otherwise(sf.col("data_fault")),
                "row_key": none,
                "row_before": none,
                "row_after": sf.when(~unfit, row),
                "present": sf.lit(None).cast("array<boolean>"),
            }
        )


def _field_of_any_case(fields: Expression, name: str) -> Expression:
    """The first field of that name in any case."""
    return sf.get(sf.map_values(sf.map_filter(fields, lambda key, _: sf.lower(key) == name)), sf.lit(0))
