"""The bronze rows that may be of some keys, found by the records' own keys: of all the others no value is read or parsed.

Parsing every event of a table of 1,000,000 rows for a handful of suspects took a minute. A record's key is small, and
decides the row's key wherever it holds all of it (spark.envelopes.leaves); records whose key does not are kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark.delta.conditions import any_of
from spark.envelopes.known_envelopes import envelope
from spark.reconcile.row_text import RowText
from spark.silver.changes import key_slots, lake_types, slot
from spark.specs import SilverSpec
from spark.types.missing import missing_leaf

MAX_KEYS, MAX_PLACES = 2_000, 20_000
"""More of either make an expression that costs more than it saves."""


def of_keys(rows: DataFrame, text: RowText, keys: Sequence[str]) -> DataFrame:
    """At least the rows (in bronze's columns) of the keys with these texts; all rows where their records do not tell."""
    spec = text.spec
    told = _texts(spec)
    if told is None or len(keys) > MAX_KEYS:
        return rows
    typed = [
        kind.convert(told[c.name]) if c.name in told else None for c, kind in zip(spec.columns, lake_types(spec), strict=True)
    ]
    seen = rows.withColumns({slot(i): value for i, value in enumerate(typed) if value is not None})
    unknown = any_of([sf.col(name).isNull() for name in key_slots(spec)])
    found = seen.where(unknown | text.key().isin(*keys)).select("topic", "partition", "offset").limit(MAX_PLACES + 1).collect()
    if len(found) > MAX_PLACES:
        return rows
    places: dict[tuple[str, int], list[int]] = defaultdict(list)
    for row in found:
        places[row.topic, row.partition].append(row.offset)
    # Offsets, so that the statistics of files and row groups leave out what has none of them.
    return rows.where(any_of([_at(*place, offsets) for place, offsets in places.items()]))


def _at(topic: str, partition: int, offsets: Sequence[int]) -> Expression:
    return (sf.col("topic") == topic) & (sf.col("partition") == partition) & sf.col("offset").isin(*offsets)


def _texts(spec: SilverSpec) -> dict[str, Expression] | None:
    """The key columns' texts as the record's key has them; None where it takes more than the key to tell."""
    columns = {c.name: c for c in spec.columns if c.name in spec.keys}
    plain = all(c.event_field == c.name and not c.formerly and not c.since and missing_leaf(c) is None for c in columns.values())
    record = envelope(spec.envelope).record_key(spec) if plain and spec.keys else None
    return None if record is None else {name: record.getField(name) for name in columns}
