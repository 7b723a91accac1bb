"""The keys that a replay is about: named one by one, or those that had an event in a stretch of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.bronze.slice import fold_at_last_run, table_events
from spark.delta.cluster import compute_once
from spark.delta.conditions import all_of
from spark.delta.identifiers import quote
from spark.delta.log import silver_folded
from spark.delta.topic_commits import all_schema_ids
from spark.errors import ReplayError
from spark.replay.replay_spec import ReplaySpec
from spark.replay.wanted_keys import parse_columns
from spark.silver.changes import decode_changes, key_slots, lake_types
from spark.specs import SilverSpec


def chosen_keys(session: SparkSession, asked: ReplaySpec, spec: SilverSpec) -> DataFrame | None:
    """Under the names of the key's columns; None: the whole table is meant. `spec` has the columns that the events are read by.

    Raises:
        ReplayError: the table has no key, or a text is none of a key.
    """
    if asked.is_whole:
        return None
    if not spec.keys:
        raise ReplayError(f"table {spec.table} has no key: replay the whole table")
    found = keys_by_name(session, asked.keys, spec) if asked.keys else _in_time(session, asked, spec)
    return found.transform(compute_once)


def of_chosen(rows: DataFrame, keys: DataFrame | None) -> DataFrame:
    """The rows of these keys; all where none is chosen."""
    if keys is None:
        return rows
    wanted = keys.select(*[sf.col(quote(name)).alias(f"_cdc_w{i}") for i, name in enumerate(keys.columns)])
    same = [sf.col(quote(name)).eqNullSafe(sf.col(f"_cdc_w{i}")) for i, name in enumerate(keys.columns)]
    return rows.join(sf.broadcast(wanted), all_of(same), "left_semi")


def parse_key(text: str, names: Sequence[str]) -> list[str | None]:
    """The values of a key as texts: `{"a": 1, "b": "x"}`, or a single column's value as it is.

    Raises:
        ReplayError: it is no key of these columns.
    """
    told = parse_columns(text, names)
    if told is None or {*told} != {*names}:
        shape = ", ".join(f'"{name}": …' for name in names)
        raise ReplayError(f"{text!r} is no key: write {{{shape}}}" + (", or the value alone" if len(names) == 1 else ""))
    return [None if told[name] is None else str(told[name]) for name in names]


def keys_by_name(session: SparkSession, texts: Sequence[str], spec: SilverSpec) -> DataFrame:
    """The keys that somebody has written, by the columns' types.

    Raises:
        ReplayError: a text is none of a key.
    """
    rows = [parse_key(text, spec.keys) for text in texts]
    types = {column.name: kind.name for column, kind in zip(spec.columns, lake_types(spec), strict=True)}
    given = session.createDataFrame(rows, ", ".join(f"t{i} string" for i in range(len(spec.keys))))
    values = [sf.expr(f"try_cast(t{i} AS {types[key]})") for i, key in enumerate(spec.keys)]
    typed = given.select("*", *[value.alias(f"v{i}") for i, value in enumerate(values)])
    for i, key in enumerate(spec.keys):
        if (wrong := typed.where(f"v{i} IS NULL AND t{i} IS NOT NULL").first()) is not None:
            raise ReplayError(f"table {spec.table}: {wrong[f't{i}']!r} is no value of its key column {key!r} ({types[key]})")
    return typed.select(*[sf.col(f"v{i}").alias(key) for i, key in enumerate(spec.keys)]).distinct()


def _in_time(session: SparkSession, asked: ReplaySpec, spec: SilverSpec) -> DataFrame:
    """Keys with an event that the source committed then; where it does not say when, that Kafka was given then."""
    before = silver_folded(session, asked.silver.path)
    assert before is not None
    spec = replace(spec, schema_ids=all_schema_ids(before.topics.values()))
    events = table_events(session, spec, fold_at_last_run(session, spec, before).version)
    at = sf.coalesce("source_ts", "timestamp")
    for text, sign in ((asked.since, ">="), (asked.until, "<")):
        if text:
            limit = sf.lit(_time(text))
            events = events.where(at >= limit if sign == ">=" else at < limit)
    changes = decode_changes(events.where("op IS DISTINCT FROM 't'"), spec)
    keys = [sf.col(slot).alias(name) for slot, name in zip(key_slots(spec), spec.keys, strict=True)]
    return changes.where("problem IS NULL").select(*keys).distinct()


def _time(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise ReplayError(f"{text!r} is no time with a zone: write 2026-11-25T14:00:00Z")
    return found
