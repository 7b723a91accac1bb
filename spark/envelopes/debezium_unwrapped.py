"""Debezium's events flattened by ExtractNewRecordState: the row itself, metadata beside it or in headers.

What `add.fields` and `add.headers` give under their usual prefix is read wherever it is: `__op`, `__deleted`, and of
the source block either `__lsn` or `__source_lsn`. Without `__op` an event is an update, which the fold takes for an
insert where the row is new; a row of a snapshot is known by `__snapshot`.

Deletes need `delete.tombstone.handling.mode=rewrite`: then they are rows with `__deleted`, and carry a position. In the
other modes all that is left of a delete is a null value, which has no position; it counts as the delete for
connector `topic` only, where positions are offsets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from spark.envelopes.debezium_json import SOURCE, TYPES, document, is_malformed, of_source_block
from spark.envelopes.envelope import CORRUPT, Narrow, key_columns, texts
from spark.envelopes.json_document import JsonDocument
from spark.envelopes.under_payload import UnderPayload
from spark.positions.source_connector import Connector
from spark.positions.topic import TOPIC
from spark.specs import SilverSpec

PREFIX = "__"
SNAPSHOT_MARKS = ("true", "first", "first_in_data_collection", "last_in_data_collection", "last", "incremental")


class DebeziumUnwrapped(JsonDocument):
    """Flattened rows as the JSON converter writes them without schemas."""

    name = "debezium-unwrapped"
    form = "a row in JSON, as ExtractNewRecordState writes it"

    def fields(self, value: Expression, columns: Sequence[str], image: str = "after") -> Expression:
        """The names in the row."""
        return sf.json_object_keys(sf.get_json_object(self.text(value), self.root))

    def tombstones_delete(self, connector: Connector) -> bool:
        """Where positions are offsets; elsewhere a delete must be rewritten to have one."""
        return connector is TOPIC

    def marks(self, kinds: Mapping[str, str]) -> Expression:
        """A document of the metadata among the row's fields, in these types."""
        return document(self.text(sf.col("value")), self.wrap(StructType([StructField(n, TYPES[k]) for n, k in kinds.items()])))

    def mark(self, marks: Expression, name: str, kind: str) -> Expression:
        """One of the metadata; null where the row has none of that name."""
        return self.payload(marks)[name]

    def is_row(self, marks: Expression) -> Expression:
        """Whether the value could be read."""
        return ~is_malformed(marks)

    def rows(self, events: DataFrame, spec: SilverSpec) -> DataFrame:
        """With `row` (all columns), `row_key`, `present`, and `corrupt boolean`."""
        keys = texts(key_columns(spec))
        key = sf.from_json(self.key_text(sf.col("key")), self.wrap(keys))
        parsed = events.withColumns(
            {"value": document(self.text(sf.col("value")), self.wrap(texts(spec.columns))), "row_key": key}
        )
        return parsed.withColumns(
            {
                "row": self.payload(sf.col("value")),
                "row_key": self.payload(sf.col("row_key")),
                "corrupt": sf.col("value")[CORRUPT].isNotNull(),
                "present": sf.lit(None).cast("array<boolean>"),
            }
        )

    def parse(self, connector: Connector) -> Expression:
        """The metadata among the row's fields (`fields`) and in headers (`headers`)."""
        named = {f"{PREFIX}{part}{n}": k for n, k in {**connector.source, **SOURCE}.items() for part in ("source_", "")}
        fields = self.marks({**named, f"{PREFIX}op": "string", f"{PREFIX}deleted": "string"})
        headers = [_header(name).try_cast(kind).alias(name) for name, kind in named.items()]
        own = sf.struct(*headers, _header(f"{PREFIX}op").alias(f"{PREFIX}op"))
        return sf.struct(fields.alias("fields"), own.alias("headers"), sf.col("value").isNull().alias("tombstone"))

    def narrow(self, parsed: Expression, connector: Connector) -> Narrow:
        """From the metadata, wherever it is."""
        marks, headers, types = parsed["fields"], parsed["headers"], {**connector.source, **SOURCE}

        def field(name: str) -> Expression:
            places = [f"{PREFIX}source_{name}"] + ([] if name in ("ts_ms", "ts_us") else [f"{PREFIX}{name}"])
            return sf.coalesce(*[x for p in places for x in (self.mark(marks, p, types[name]), headers[p])])

        source = sf.struct(*[field(name).alias(name) for name in types])
        said = sf.coalesce(self.mark(marks, f"{PREFIX}op", "string"), headers[f"{PREFIX}op"])
        op = (
            sf.when(parsed["tombstone"], sf.lit("d") if self.tombstones_delete(connector) else sf.lit(None))
            .when(~self.is_row(marks), sf.lit(None))
            .when(self.mark(marks, f"{PREFIX}deleted", "string") == "true", "d")
            .when(said.isNotNull(), said)
            .when(field("snapshot").isin(*SNAPSHOT_MARKS), "r")
            .otherwise("u")
        )
        return of_source_block(op, source, connector)

    def images(self, events: DataFrame, spec: SilverSpec) -> DataFrame:
        """The row is the after-image, or of a delete the before-image; the key is the record's own."""
        row, gone = sf.col("row"), sf.col("op") == "d"
        before = [row[c.name].alias(c.name) for c in key_columns(spec)] or [sf.lit(1).alias("_")]
        return self.rows(events, spec).withColumns(
            {
                "unfit": sf.when(sf.col("corrupt"), f"the value is not {self.form}"),
                "row_before": sf.when(gone & row.isNotNull(), sf.struct(*before)),
                "row_after": sf.when(~gone, row),
            }
        )


class DebeziumUnwrappedSchema(UnderPayload, DebeziumUnwrapped):
    """Flattened rows under `payload`, as the JSON converter writes them with `schemas.enable=true`."""

    name = "debezium-unwrapped-schema"
    form = "a row in JSON with its schema, as ExtractNewRecordState writes it"


def _header(name: str) -> Expression:
    """A header's text, as Connect's simple converter (bare) or the JSON converter (quoted) writes it."""
    found = sf.try_element_at(sf.filter(sf.col("headers"), lambda header: header["key"] == name), sf.lit(-1))
    return sf.regexp_replace(found["value"].cast("string"), '^"|"$', "")
