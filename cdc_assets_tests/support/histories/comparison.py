"""Silver against what PostgreSQL held in the end."""

from __future__ import annotations

import json
from typing import Any

from cdc_assets_tests.support.histories.play import kind_of
from cdc_assets_tests.support.histories.recording import Recorded
from cdc_assets_tests.support.lake.lake import Lake
from spark.events.field_columns import UNTOLD
from spark.silver import quarantine_table
from spark.silver.typed_changes import AFTER_PROBLEM, ENVELOPE
from spark.specs import SilverSpec


def difference(lake: Lake, spec: SilverSpec, recorded: Recorded) -> str | None:
    """What silver has and PostgreSQL does not, or the other way round; None when they are equal.

    Columns that were dropped at the source are not looked at: silver keeps them, with what they last held. Nor are rows of which
    silver says why it does not know them: an event has a column that came and went between two looks at the catalogue, and
    its name may as well be one that a later column had then. What else is in quarantine is a difference.
    """
    from pyspark.sql import functions as sf

    kind = kind_of(recorded.table)
    rows = lake.session.read.format("delta").load(spec.path)
    shown = [_as_postgresql(c.name, c.source_type, c.name in kind.large, sf) for c in recorded.definitions[-1]]
    names = [c.name for c in recorded.definitions[-1]]
    places = [names.index(key) for key in spec.keys]
    unknown, unexpected = _in_quarantine(lake, spec)
    if unexpected:
        return f"{recorded.table}: in quarantine {unexpected[0]}"
    held, there = (
        [row for row in map(tuple, each) if tuple(row[i] for i in places) not in unknown]
        for each in (rows.select(*shown).collect(), recorded.rows)
    )
    found, expected = set(held), set(there)
    if found == expected and len(there) == len(held):
        return None
    ours, theirs = (sorted(rest, key=str)[:3] for rest in (found - expected, expected - found))
    return f"{recorded.table}: only in silver {ours}, only in PostgreSQL {theirs}"


def _in_quarantine(lake: Lake, spec: SilverSpec) -> tuple[set[tuple[str, ...]], list[Any]]:
    """The keys of events whose columns nobody can tell, as texts; and the open records that are neither those nor behind them."""
    if not quarantine_table.exists(lake.session, spec):
        return set(), []
    # What was set aside until the other half of a key change came is not open any more: it was folded, or later events say all.
    records = quarantine_table.table(lake.session, spec).where(f"{quarantine_table.OPEN} AND superseded_by IS NULL").collect()
    keys = [None if r.row_key is None else tuple(str(json.loads(r.row_key)[name]) for name in spec.keys) for r in records]
    untold = [r.error_class == ENVELOPE and r.message.startswith(UNTOLD) and r.row_key is not None for r in records]
    unknown = {key for key, is_untold in zip(keys, untold, strict=True) if is_untold and key is not None}
    behind = [r.error_class == AFTER_PROBLEM and key in unknown for r, key in zip(records, keys, strict=True)]
    return unknown, [r for r, *known in zip(records, untold, behind, strict=True) if not any(known)]


def _as_postgresql(name: str, source_type: str, large: bool, sf: Any) -> Any:
    value = sf.col(f"`{name}`")
    if source_type == "bytea":
        # md5(b::text): PostgreSQL shows bytes as hexadecimal.
        return sf.md5(sf.concat(sf.lit("\\x"), sf.lower(sf.hex(value))))
    if source_type == "text[]":
        items = sf.transform(value, lambda x: sf.when(x.rlike(r"\s"), sf.concat(sf.lit('"'), x, sf.lit('"'))).otherwise(x))
        return sf.md5(sf.concat(sf.lit("{"), sf.array_join(items, ","), sf.lit("}")))
    if source_type == "timestamp with time zone":
        return sf.when(value.isNotNull(), sf.date_format(value, "yyyy-MM-dd HH:mm:ss.SSSSSS+00"))
    return sf.md5(value) if large else value.cast("string")
