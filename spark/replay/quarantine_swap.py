"""The quarantine of a table that is replaced: what the shadow could not fold comes in, and what it could is marked.

What comes is written before silver, as by an ordinary run, and what was open and is folded now is marked behind it. Each can be
done again.
"""

from __future__ import annotations

import uuid

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.delta.cluster import compute_once
from spark.delta.identifiers import table_at
from spark.delta.statement import execute
from spark.replay.replay_spec import SILVER, ReplaySpec
from spark.silver import quarantine
from spark.specs import SilverSpec

_SAME = " AND ".join(f"t.{name} = s.{name}" for name in quarantine.IDENTITY)
_TOLD = tuple(name for name in quarantine.UPDATED if name != "built_on")


def count_open(session: SparkSession, asked: ReplaySpec) -> int:
    """The records that the shadow could not fold."""
    shadow = _shadow(asked)
    return quarantine.table(session, shadow).where(quarantine.OPEN).count() if quarantine.exists(session, shadow) else 0


def add_found(session: SparkSession, asked: ReplaySpec, *, built_on: int) -> None:
    """Put the shadow's open records into the live quarantine; `built_on` is the version of silver that is to be replaced."""
    shadow, live = _shadow(asked), asked.silver
    if not count_open(session, asked):
        return
    found = quarantine.table(session, shadow).where(quarantine.OPEN)
    found = found.withColumn("built_on", sf.lit(built_on).cast("bigint")).select(*quarantine.COLUMNS)
    if not quarantine.exists(session, live):
        found.coalesce(1).write.format("delta").mode("error").options(**quarantine.PROPERTIES).save(live.quarantine)
        return
    changed = ", ".join(f"t.{name} = s.{name}" for name in _TOLD)
    inserted = ", ".join(f"s.{name}" for name in quarantine.COLUMNS)
    sql = (
        f"MERGE INTO {table_at(live.quarantine)} t USING {{view}} s ON {_SAME} "
        f"WHEN MATCHED AND t.dropped_at IS NULL THEN UPDATE SET {changed} "
        f"WHEN NOT MATCHED THEN INSERT ({', '.join(quarantine.COLUMNS)}) VALUES ({inserted})"
    )
    view = f"cdc_replayed_{uuid.uuid4().hex}"
    execute(session, sql.format(view=view), view=view, rows=found.transform(compute_once))


def no_longer_open(session: SparkSession, asked: ReplaySpec) -> DataFrame:
    """The identities of the open records that the shadow has folded."""
    shadow, live = _shadow(asked), asked.silver
    if not quarantine.exists(session, live):
        return session.range(0)
    rows = quarantine.table(session, live).where(quarantine.OPEN).select(*quarantine.IDENTITY)
    if not quarantine.exists(session, shadow):
        return rows
    still = quarantine.table(session, shadow).where(quarantine.OPEN).select(*quarantine.IDENTITY)
    return rows.join(sf.broadcast(still), list(quarantine.IDENTITY), "left_anti")


def mark_folded(session: SparkSession, asked: ReplaySpec) -> None:
    """Say of those records that they are folded."""
    rows = no_longer_open(session, asked).transform(compute_once)
    if rows.isEmpty():
        return
    view = f"cdc_replayed_{uuid.uuid4().hex}"
    sql = (
        f"MERGE INTO {table_at(asked.silver.quarantine)} t USING {view} s ON {_SAME} "
        "WHEN MATCHED THEN UPDATE SET t.redriven_at = current_timestamp()"
    )
    execute(session, sql, view=view, rows=rows)


def _shadow(asked: ReplaySpec) -> SilverSpec:
    return asked.shadow_of(asked.silver, SILVER)
