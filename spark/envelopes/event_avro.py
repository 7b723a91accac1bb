"""Generic events in Avro: a record `ID, Version, Source, Type, Data`, names in any case, `Data` a record, map or JSON text.

The event is turned into JSON once and then read as event_json reads it: there is one meaning of an event, not two.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark.envelopes.avro_records import AvroEnvelope, decode_avro, decode_once, slot
from spark.envelopes.event_json import EventJson
from spark.positions.source_connector import Connector
from spark.specs import SilverSpec


class EventAvro(AvroEnvelope, EventJson):
    """Events with their data inside."""

    name = "event-avro"
    form = "an event in Avro with Data and a schema that the registry knows"

    def parse(self, connector: Connector) -> Expression:
        """A struct of the envelope's fields (`outer`), with the record's timestamp (`arrived`)."""
        return sf.struct(self.outer(self.as_json(sf.col("value"))).alias("outer"), sf.col("timestamp").alias("arrived"))

    def image_path(self, image: str) -> tuple[str, ...] | None:
        """Columns are of the data, or of the event around it."""
        return None

    def images(self, events: DataFrame, spec: SilverSpec) -> DataFrame:
        """As of the same event in JSON."""
        return super().images(decode_once(events, "value", self.as_json(sf.col("value"))), spec)

    def as_json(self, value: Expression) -> Expression:
        """The record as the JSON converter would write it."""
        found = decode_avro(value, self.values, None)
        texts = [
            sf.when(found[slot(i)].isNotNull(), sf.to_json(found[slot(i)], {"ignoreNullFields": "false"})) for i in self.values
        ]
        return sf.coalesce(*texts, sf.lit(None).cast("string"))
