"""Messages of Attunity / Qlik Replicate in JSON: `{"magic": "atMSG", "type": "DT", "message": {…}}`.

`message.headers.operation` is REFRESH (a row of the full load), INSERT, UPDATE or DELETE; `message.data` is the row after
the change, or for a DELETE the deleted row; `message.beforeData` the row before. The record's own key is not needed.
A metadata message (type `MD`) is no row event.

`columnMask` says which columns a message really has, in hexadecimal, the lowest bit of the first byte for the first
column. A column that it leaves out is null in `data`, and is *absent*, not NULL. Ordinals are those of the table's
columns; `data` names all of them in that order, so a name's place in `data` is its ordinal. Some writers leave absent
columns out of `data` altogether: then there are as many names as bits, and all of them are present.

An UPDATE that changes the key is one message here; it becomes a delete of the old row and an update of the new one.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import MapType, StringType, StructField, StructType

from spark.events.debezium_envelopes import document, is_malformed
from spark.events.envelope import Envelope, Narrow, key_columns
from spark.events.positions import Connector
from spark.specs import Column, SilverSpec

OPS = {"REFRESH": "r", "INSERT": "c", "UPDATE": "u", "DELETE": "d"}
HEADERS = ("operation", "changeSequence", "timestamp", "transactionId", "columnMask")
TEXT, ROW = StringType(), MapType(StringType(), StringType())


class AttunityJson(Envelope):
    """A data message with its row as a map, so that what is absent differs from what is NULL."""

    name = "attunity-json"
    form = "a data message of Attunity Replicate in JSON"
    written_times = True

    def parse(self, connector: Connector) -> Expression:
        """The message's type and headers."""
        return sf.from_json(sf.col("value").cast("string"), _message())

    def narrow(self, parsed: Expression, connector: Connector) -> Narrow:
        """From the headers; the time is UTC, as text or in milliseconds."""
        headers = parsed["message"]["headers"]
        op = sf.lit(None).cast("string")
        for operation, letter in OPS.items():
            op = sf.when(headers["operation"] == operation, letter).otherwise(op)
        time = headers["timestamp"]
        return Narrow(
            op=sf.when(parsed["magic"] == "atMSG", sf.when(parsed["type"] == "MD", "m").otherwise(op)),
            source_ts=sf.coalesce(
                sf.timestamp_millis(time.try_cast("bigint")), sf.concat(time, sf.lit("Z")).try_cast("timestamp")
            ),
            tx_id=connector.tx_id(lambda name: headers[name]),
            snapshot=sf.when(headers["operation"] == "REFRESH", "true").otherwise("false"),
            place=connector.place(lambda name: headers[name], op),
        )

    def images(self, events: DataFrame, spec: SilverSpec) -> DataFrame:
        """One row per changed row: an update of the key is two."""
        message = _message(StructField("data", ROW), StructField("beforeData", ROW))
        parsed = events.withColumn("value", document(sf.col("value"), message))
        content = sf.col("value")["message"]
        facts = {"data": content["data"], "before": content["beforeData"], "mask": content["headers"]["columnMask"]}
        parsed = parsed.withColumns({**facts, "unfit": sf.when(is_malformed(sf.col("value")), f"the value is not {self.form}")})
        parsed = parsed.withColumn("whole", sf.col("mask").isNull() | (_ones(sf.col("mask")) == sf.size("data")))
        data, before, op = sf.col("data"), sf.col("before"), sf.col("op")
        keys = key_columns(spec)
        if keys:
            moved = [~before[k.name].eqNullSafe(data[k.name]) & sf.map_contains_key(before, k.name) for k in keys]
            moves = sf.when((op == "u") & before.isNotNull(), sf.array_contains(sf.array(*moved), sf.lit(True)))
            parsed = parsed.withColumn("op", sf.explode(sf.when(moves, sf.array(sf.lit("d"), op)).otherwise(sf.array(op))))
        gone = sf.coalesce(before, data)
        return parsed.withColumns(
            {
                "row_key": sf.lit(None).cast(StructType([StructField(key.name, TEXT) for key in keys])),
                "row_before": sf.when(op == "d", sf.when(gone.isNotNull(), _row(gone, keys))).when(
                    before.isNotNull(), _row(before, keys)
                ),
                "row_after": sf.when((op != "d") & data.isNotNull(), _row(data, spec.columns)),
                "present": sf.when(op != "d", sf.array(*[_present(c.name) for c in spec.columns])),
            }
        )


def _message(*rows: StructField) -> StructType:
    headers = StructType([StructField(name, TEXT) for name in HEADERS])
    message = StructType([*rows, StructField("headers", headers)])
    return StructType([StructField("magic", TEXT), StructField("type", TEXT), StructField("message", message)])


def _row(values: Expression, columns: tuple[Column, ...] | list[Column]) -> Expression:
    return sf.struct(*[values[c.name].alias(c.name) for c in columns]) if columns else sf.struct(sf.lit(1).alias("_"))


def _present(name: str) -> Expression:
    data, mask = sf.col("data"), sf.col("mask")
    ordinal = (sf.array_position(sf.map_keys(data), name) - 1).cast("int")
    byte = sf.substring(mask, (sf.floor(ordinal / 8) * 2 + 1).cast("int"), sf.lit(2))
    bit = sf.getbit(sf.conv(byte, 16, 10).cast("int"), ordinal % 8)
    return sf.map_contains_key(data, name) & (sf.col("whole") | sf.coalesce(bit == 1, sf.lit(False)))


def _ones(mask: Expression) -> Expression:
    digits = sf.split(mask, "")
    return sf.aggregate(
        digits, sf.lit(0), lambda total, digit: total + sf.coalesce(sf.bit_count(sf.conv(digit, 16, 10).cast("int")), sf.lit(0))
    )
