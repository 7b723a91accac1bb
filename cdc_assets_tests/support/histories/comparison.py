"""Silver against what PostgreSQL held in the end."""

from __future__ import annotations

from typing import Any

from cdc_assets_tests.support.histories.play import kind_of
from cdc_assets_tests.support.histories.recording import Recorded
from cdc_assets_tests.support.lake.lake import Lake
from spark.silver import quarantine
from spark.specs import SilverSpec


def difference(lake: Lake, spec: SilverSpec, recorded: Recorded) -> str | None:
    """What silver has and PostgreSQL does not, or the other way round; None when they are equal.

    Columns that were dropped at the source are not looked at: silver keeps them, with what they last held.
    """
    from pyspark.sql import functions as sf

    kind = kind_of(recorded.table)
    rows = lake.session.read.format("delta").load(spec.path)
    shown = [_as_postgresql(c.name, c.source_type, c.name in kind.large, sf) for c in recorded.definitions[-1]]
    held = [tuple(row) for row in rows.select(*shown).collect()]
    found, expected = set(held), {tuple(row) for row in recorded.rows}
    # What was set aside until the other half of a key change came is not open any more: it was folded, or later events say all.
    open_ = f"{quarantine.OPEN} AND superseded_by IS NULL"
    if quarantine.exists(lake.session, spec) and (first := quarantine.table(lake.session, spec).where(open_).first()):
        return f"{recorded.table}: in quarantine {first}"
    if found == expected and len(recorded.rows) == len(held):
        return None
    ours, theirs = (sorted(rest, key=str)[:3] for rest in (found - expected, expected - found))
    return f"{recorded.table}: only in silver {ours}, only in PostgreSQL {theirs}"


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
