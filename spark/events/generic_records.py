"""Envelopes of topics that no connector of ours fills: a record that is a row (JSON, text, Avro), an event with an
operation of its own.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark.events.avro_records import AvroEnvelope, decode_avro, decode_once, slot, whole_columns
from spark.events.debezium_envelopes import document, is_malformed
from spark.events.envelope import CORRUPT, Envelope, Narrow, arrival, key_columns, texts
from spark.events.json_records import fault
from spark.events.positions import Connector
from spark.specs import Column, SilverSpec
from spark.values.postgresql_numbers import mark_long_numbers, unmark_numbers


# Plain records: every record is a row, in JSON (`{"sensor": "a", "value": 21.5}`), in Avro, or as text, whatever that says.
#
# No database, no operation, only arrivals. A row's place is its offset (connector `topic`) and its time the record's own. With
# declared keys the newest row of a key is its state, and a null value deletes it if the record's key is a JSON object that
# holds the key. Plain Avro has its schema in a registry.
#
# Plain text is for producers that agree on no format. The row is what Kafka has of it: value, key, time, headers, place. With
# `keys: [key]` the newest text of a key is its state, and a null value deletes it. Bytes that are no UTF-8 are unfit.
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


class PlainAvro(AvroEnvelope, PlainJson):
    """Rows as Avro records."""

    name = "avro"
    form = "an Avro record with a schema that the registry knows"

    def images(self, events: DataFrame, spec: SilverSpec) -> DataFrame:
        """The record is the row."""
        keys, value = key_columns(spec), sf.col("value")
        decoded = decode_avro(value, self.values, whole_columns(spec.columns), adjust=True)
        parsed = decode_once(self.with_key(events, keys), "value", decoded)
        row = self.row_of(value, self.values, spec.columns)
        parsed = parsed.withColumn("row_after", sf.when(sf.col("op") != "d", row))
        return parsed.withColumns(
            {
                "unfit": sf.when((sf.col("op") != "d") & sf.col("row_after").isNull(), f"the value is not {self.form}"),
                "row_before": sf.lit(None).cast(texts(keys)),
                "present": sf.lit(None).cast("array<boolean>"),
            }
        )


_ISO = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"


class PlainText(PlainJson):
    """Rows of what a record is made of, in the columns of its row in spark.record_formats."""

    name = "text"
    in_json = False
    form = "text in UTF-8"

    def images(self, events: DataFrame, spec: SilverSpec) -> DataFrame:
        """The declared columns by their names, of all that a record has."""
        parts = _parts()
        key = sf.struct(*[parts[c.name].alias(c.name) for c in key_columns(spec)]) if key_columns(spec) else sf.lit(None)
        row = sf.struct(*[parts[c.name].alias(c.name) for c in spec.columns])
        named = [name for name in ("key", "value") if any(c.name == name for c in spec.columns)]
        unfit = sf.lit(None).cast("string")
        for name in named:
            broken = sf.col(name).isNotNull() & _valid(name).isNull()
            unfit = sf.when(broken, f"the {name} is not {self.form}").otherwise(unfit)
        return events.withColumns(
            {
                "unfit": unfit,
                "row_key": key.cast(texts(key_columns(spec))),
                "row_before": sf.lit(None).cast(texts(key_columns(spec))),
                "row_after": sf.when(sf.col("op") != "d", row.cast(texts(spec.columns))),
                "present": sf.lit(None).cast("array<boolean>"),
            }
        )


def _valid(name: str) -> Expression:
    """The text of a column of bytes; null where it is none, so that no bytes go on as one."""
    text = sf.col(name).cast("string")
    return sf.when(sf.is_valid_utf8(text), text)


def _parts() -> dict[str, Expression]:
    """The texts of all that a record has. Kafka repeats a header's name where its writer does: they are a list."""
    headers = sf.transform(
        "headers",
        lambda header: sf.struct(header["key"].alias("key"), sf.make_valid_utf8(header["value"].cast("string")).alias("value")),
    )
    return {
        "value": _valid("value"),
        "key": _valid("key"),
        "time": sf.date_format("source_ts", _ISO),
        "headers": sf.to_json(sf.coalesce(headers, sf.array())),
        "partition": sf.col("partition").cast("string"),
        "offset": sf.col("offset").cast("string"),
    }


# Generic events, in JSON and in Avro: `{"ID": …, "Version": …, "Source": …, "Type": …, "Data": {…}}`, names in any case.
#
# A declared column is a field of `Data`, or, under the envelope's own names (`id`, `version`, `source`, `type`, `time`,
# `data` in any case, unless `Data` has such a field), what the envelope says; `data` is the whole of it as JSON. That is
# CloudEvents' structured form as well, whose version is `specversion` and whose `time` is the event's time; without a
# time, the record's own. An event's place is its offset. With `keys: [id]` an event that was sent twice is one row.
#
# In Avro it is a record, whose `Data` is a record, map or JSON text. It is turned into JSON once and then read as the other
# one: there is one meaning of an event, not two.
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
        records = decode_avro(value, self.values, None)
        texts = [
            sf.when(records[slot(i)].isNotNull(), sf.to_json(records[slot(i)], {"ignoreNullFields": "false"}))
            for i in self.values
        ]
        return sf.coalesce(*texts, sf.lit(None).cast("string"))
