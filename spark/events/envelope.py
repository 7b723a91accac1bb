"""The one interface of all envelopes.

A record is read twice, each time for what is needed there: by bronze narrowly (`parse`, `narrow`: what happened,
when and where in the source's log), by silver for one table's row images (`images`). Nothing is dropped in either: a
record that an envelope cannot read keeps its bytes, has a null op in bronze and a reason in silver.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from spark.events.positions import Connector, Place
from spark.specs import Column, SilverSpec
from spark.table.topic_commits import SchemaIds

TOMBSTONE, UNKNOWN = "tombstone", "unknown"
CORRUPT = "cdc_corrupt"
"""Beside the fields of a parsed document: its text, where it could not be parsed."""


class Narrow(NamedTuple):
    """What bronze says of a record beside its bytes; each null where the record does not tell.

    `op` is Debezium's letter: c, u, d, r (snapshot row), t (truncate), m (a message that is no row event).
    """

    op: Expression
    source_ts: Expression
    tx_id: Expression
    snapshot: Expression
    place: Place


def arrival(gone: Expression, time: Expression, connector: Connector) -> Narrow:
    """What a record says that stands for itself."""
    op = sf.when(gone, "d").otherwise("c")
    nothing = sf.lit(None).cast("string")
    return Narrow(op=op, source_ts=time, tx_id=nothing, snapshot=nothing, place=connector.place(lambda _: nothing, op))


class Envelope(ABC):
    """A format of records."""

    name: str
    form: str
    """The format in words, for errors: `a Debezium envelope in JSON`."""
    written_times = False
    """Whether dates and times come as people write them (spark.events.text_leaves), not as Debezium's numbers."""

    in_json = True
    """Whether values are JSON."""

    framed = False
    """Whether keys and values begin with the id of the schema they were written with."""

    def prepare(self, records: DataFrame, registry: str | None, known: SchemaIds | None = None) -> Envelope:
        """The envelope with what it must know of these records before it can read them: schemas of a registry.

        `known` are the ids that occur among the records of a framed envelope, where somebody has looked already.
        """
        return self

    def tombstones_delete(self, connector: Connector) -> bool:
        """Whether a null value is itself the delete, rather than what Debezium sends behind one."""
        return False

    @abstractmethod
    def parse(self, connector: Connector) -> Expression:
        """What `narrow` reads from, computed once per record from the columns `key`, `value` and `headers`."""

    @abstractmethod
    def narrow(self, parsed: Expression, connector: Connector) -> Narrow:
        """The narrow columns of bronze, from what `parsed` answered."""

    def fields(self, value: Expression, columns: Sequence[str], image: str = "after") -> Expression:
        """The names of the fields that an event's image (after or before) has; null where the format does not tell.

        Of these columns under their own names, where the format writes others.
        """
        return sf.lit(None).cast("array<string>")

    def in_order(self, value: Expression, image: str) -> Expression:
        """An event's image (after or before) as a map of texts in the order of its fields; null where the format has no order."""
        return sf.lit(None).cast("map<string,string>")

    def record_key(self, spec: SilverSpec) -> Expression | None:
        """The row's key as texts, from the column `key` alone; None where that takes the value too, or a schema."""
        return None

    @abstractmethod
    def images(self, events: DataFrame, spec: SilverSpec) -> DataFrame:
        """Events (bronze rows) with the table's rows as texts, in these columns more:

        `unfit string`, why the record cannot be read, or null; structs of strings named by the source's columns, each
        null where the event has none: `row_key` and `row_before` (key columns), `row_after` (all columns); and
        `present array<boolean>`, one per column: whether the after-image has the column at all (null: all of them).
        An event that changes two rows may become two, with an `op` of its own each.
        """


def kind(op: Expression, value: Expression) -> Expression:
    """How a record is counted: by its op letter, as a tombstone, or as unknown."""
    return sf.when(value.isNull(), TOMBSTONE).otherwise(sf.coalesce(op, sf.lit(UNKNOWN)))


def key_columns(spec: SilverSpec) -> list[Column]:
    """The spec's columns that a row is known by: those of the key, or all of them."""
    return [c for c in spec.columns if spec.multiset or c.name in spec.keys]


def texts(columns: Sequence[Column]) -> StructType:
    """The columns as strings."""
    return StructType([StructField(column.name, StringType()) for column in columns])
