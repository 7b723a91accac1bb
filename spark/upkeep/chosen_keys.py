"""The keys that a replay or a restore is about: named one by one, in a range, or those that had an event in a stretch of
time.

A replay finds them in bronze; in a table that was restored for somebody to look at, only their rows stay.
JobRefusedError: the table has no key, a text is none of its values, or its order in the lake is another than the
source's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.bronze.change_log import fold_at_last_run, table_events
from spark.errors import JobRefusedError
from spark.silver.typed_changes import decode_changes, key_slots, lake_types
from spark.specs import SilverSpec
from spark.table.delta_rs import is_delta
from spark.table.delta_table import table_of
from spark.table.identifiers import literal, quote, table_at
from spark.table.spark_plans import all_of
from spark.table.spark_session import compute_once
from spark.table.topic_commits import all_schema_ids
from spark.upkeep.replay_spec import FROM, TO, ReplaySpec, WantedKeys, parse_bound, parse_columns
from spark.values.type_rule import LakeType


def chosen_keys(session: SparkSession, replay: ReplaySpec, spec: SilverSpec) -> DataFrame | None:
    """Under the names of the key's columns; None: the whole table is meant. `spec` has the columns that the events are read by.

    Raises:
        JobRefusedError: the table has no key, or a text is none of a key.
    """
    if replay.is_whole:
        return None
    if not spec.keys:
        raise JobRefusedError(f"table {spec.table} has no key: replay the whole table")
    keys = keys_by_name(session, replay.keys, spec) if replay.keys else _in_time(session, replay, spec)
    return keys.transform(compute_once)


def of_chosen(rows: DataFrame, keys: DataFrame | None) -> DataFrame:
    """The rows of these keys; all where none is chosen."""
    if keys is None:
        return rows
    renamed = keys.select(*[sf.col(quote(name)).alias(f"_cdc_w{i}") for i, name in enumerate(keys.columns)])
    same = [sf.col(quote(name)).eqNullSafe(sf.col(f"_cdc_w{i}")) for i, name in enumerate(keys.columns)]
    return rows.join(sf.broadcast(renamed), all_of(same), "left_semi")


def parse_key(text: str, names: Sequence[str]) -> list[str | None]:
    """The values of a key as texts: `{"a": 1, "b": "x"}`, or a single column's value as it is.

    Raises:
        JobRefusedError: it is no key of these columns.
    """
    values = parse_columns(text, names)
    if values is None or {*values} != {*names}:
        shape = ", ".join(f'"{name}": …' for name in names)
        raise JobRefusedError(f"{text!r} is no key: write {{{shape}}}" + (", or the value alone" if len(names) == 1 else ""))
    return [None if values[name] is None else str(values[name]) for name in names]


def keys_by_name(session: SparkSession, texts: Sequence[str], spec: SilverSpec) -> DataFrame:
    """The keys that somebody has written, by the columns' types.

    Raises:
        JobRefusedError: a text is none of a key.
    """
    rows = [parse_key(text, spec.keys) for text in texts]
    types = {column.name: kind.name for column, kind in zip(spec.columns, lake_types(spec), strict=True)}
    written = session.createDataFrame(rows, ", ".join(f"t{i} string" for i in range(len(spec.keys))))
    values = [sf.expr(f"try_cast(t{i} AS {types[key]})") for i, key in enumerate(spec.keys)]
    typed = written.select("*", *[value.alias(f"v{i}") for i, value in enumerate(values)])
    for i, key in enumerate(spec.keys):
        if (wrong := typed.where(f"v{i} IS NULL AND t{i} IS NOT NULL").first()) is not None:
            raise JobRefusedError(f"table {spec.table}: {wrong[f't{i}']!r} is no value of its key column {key!r} ({types[key]})")
    return typed.select(*[sf.col(f"v{i}").alias(key) for i, key in enumerate(spec.keys)]).distinct()


def _in_time(session: SparkSession, replay: ReplaySpec, spec: SilverSpec) -> DataFrame:
    # By when the source committed the event; where it does not say, by when Kafka was given it.
    before = table_of(replay.silver.path).silver_folded()
    assert before is not None
    spec = replace(spec, schema_ids=all_schema_ids(before.topics.values()))
    events = table_events(session, spec, fold_at_last_run(spec, before).version)
    at = sf.coalesce("source_ts", "timestamp")
    for text, sign in ((replay.since, ">="), (replay.until, "<")):
        if text:
            limit = sf.lit(_time(text))
            events = events.where(at >= limit if sign == ">=" else at < limit)
    changes = decode_changes(events.where("op IS DISTINCT FROM 't'"), spec)
    keys = [sf.col(slot).alias(name) for slot, name in zip(key_slots(spec), spec.keys, strict=True)]
    return changes.where("problem IS NULL").select(*keys).distinct()


def _time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise JobRefusedError(f"{text!r} is no time with a zone: write 2026-11-25T14:00:00Z")
    return time


_WANTED = "cdc_wanted_keys"
_TEXT_FORMS = ("text", "uuid")
"""Of types that the lake keeps as text, those whose order is that of the text; others are digits, times or bits."""
_Bound = Sequence[tuple[str, str]]
"""Per leading column of the key, its quoted name and a value as SQL."""


def check_wanted(session: SparkSession, spec: SilverSpec, wanted: WantedKeys) -> None:
    """That they are keys of the table, and that a key may lie in the range.

    Raises:
        JobRefusedError: a text is none of a key, or its column has another order in the lake, or the range ends before it begins.
    """
    if not wanted.is_range:
        keys_by_name(session, wanted.single, spec).count()
        return
    bounds = _bounds(session, spec, wanted)
    if len(bounds) == 2:
        pairs = [(first, last) for (_, first), (_, last) in zip(bounds[FROM], bounds[TO], strict=False)]
        row = session.sql(f"SELECT {_beyond(pairs, '>', is_inclusive=False)} AS beyond").first()
        if row is not None and row.beyond:
            raise JobRefusedError(f"{FROM} {wanted.begin} lies above {TO} {wanted.end}: no key is between them")


def keep_only(session: SparkSession, spec: SilverSpec, wanted: WantedKeys, paths: Sequence[str]) -> int:
    """All other rows go from the tables that there are at these paths, by one commit each; how many of silver stay."""
    there = [path for path in paths if is_delta(path)]
    if wanted.is_range:
        within = _condition(_bounds(session, spec, wanted))
        for path in there:
            session.sql(f"DELETE FROM {table_at(path)} WHERE NOT coalesce({within}, false)").collect()
    else:
        _keep_single(session, spec, wanted.single, there)
    return session.read.format("delta").load(spec.path).count()


def _keep_single(session: SparkSession, spec: SilverSpec, texts: Sequence[str], paths: Sequence[str]) -> None:
    keys_by_name(session, texts, spec).createOrReplaceTempView(_WANTED)
    same = " AND ".join(f"t.{quote(key)} <=> w.{quote(key)}" for key in spec.keys)
    for path in paths:
        merge = f"MERGE INTO {table_at(path)} t USING {_WANTED} w ON {same} WHEN NOT MATCHED BY SOURCE THEN DELETE"
        session.sql(merge).collect()
    session.catalog.dropTempView(_WANTED)


def _bounds(session: SparkSession, spec: SilverSpec, keys: WantedKeys) -> dict[str, _Bound]:
    types = {column.name: kind for column, kind in zip(spec.columns, lake_types(spec), strict=True)}
    bounds = dict[str, _Bound]()
    for name, text in keys.bounds:
        values = parse_bound(text, spec.keys)
        bounds[name] = [
            (quote(key), _sql_value(session, spec, key, value, types)) for key, value in zip(spec.keys, values, strict=False)
        ]
    return bounds


def _sql_value(session: SparkSession, spec: SilverSpec, key: str, text: str, types: Mapping[str, LakeType]) -> str:
    kind = types[key]
    if kind.name == "binary" or "<" in kind.name or (kind.name == "string" and not kind.form.startswith(_TEXT_FORMS)):
        source_type = next(column.source_type for column in spec.columns if column.name == key)
        raise JobRefusedError(
            f"table {spec.table}: its key column {key!r} ({source_type}) is {kind.name} in the lake, which has another order: "
            "name its keys one by one (--keys)"
        )
    row = session.range(1).select(sf.lit(text).try_cast(kind.name).isNull().alias("wrong")).first()
    if row is None or row.wrong:
        raise JobRefusedError(f"table {spec.table}: {text!r} is no value of its key column {key!r} ({kind.name})")
    return f"CAST({literal(text)} AS {kind.name})"


def _condition(bounds: Mapping[str, _Bound]) -> str:
    """Whether a row's key is in the range; NULL where it has a NULL that decides."""
    return " AND ".join(f"({_beyond(bounds[name], sign)})" for name, sign in ((FROM, ">"), (TO, "<")) if name in bounds)


def _beyond(pairs: _Bound, sign: str, *, is_inclusive: bool = True) -> str:
    """Lexicographic: the first column decides, and where it is equal the second. A bound of the first columns says no more."""
    last = "true" if is_inclusive else "false"
    return reduce(lambda rest, pair: f"{pair[0]} {sign} {pair[1]} OR ({pair[0]} = {pair[1]} AND ({rest}))", reversed(pairs), last)
