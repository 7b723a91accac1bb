"""Plain text: every record is a text, whatever it says. The row is what Kafka has of it: value, key, time, headers, place.

For producers that agree on no format. A row's place is its offset (connector `topic`), and its time the record's own. With
`keys: [key]` the newest text of a key is its state, and a null value deletes it. Bytes that are no UTF-8 are unfit.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark.envelopes.envelope import key_columns, texts
from spark.envelopes.plain_json import PlainJson
from spark.specs import SilverSpec

_ISO = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"


class PlainText(PlainJson):
    """Rows of what a record is made of, in the columns of its row in spark.kinds.envelopes."""

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
        lambda each: sf.struct(each["key"].alias("key"), sf.make_valid_utf8(each["value"].cast("string")).alias("value")),
    )
    return {
        "value": _valid("value"),
        "key": _valid("key"),
        "time": sf.date_format("source_ts", _ISO),
        "headers": sf.to_json(sf.coalesce(headers, sf.array())),
        "partition": sf.col("partition").cast("string"),
        "offset": sf.col("offset").cast("string"),
    }
