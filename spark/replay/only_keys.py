"""Rows of chosen keys alone stay in a table that was made for somebody to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from spark.delta.delta_rs import is_delta
from spark.delta.identifiers import literal, quote, table_at
from spark.errors import ReplayError
from spark.replay.chosen_keys import keys_by_name
from spark.replay.wanted_keys import FROM, TO, WantedKeys, parse_bound
from spark.silver.changes import lake_types
from spark.specs import SilverSpec
from spark.types.rule import LakeType

_WANTED = "cdc_wanted_keys"
_TEXT_FORMS = ("text", "uuid")
"""Of types that the lake keeps as text, those whose order is that of the text; others are digits, times or bits."""
_Bound = Sequence[tuple[str, str]]
"""Per leading column of the key, its quoted name and a value as SQL."""


def check_wanted(session: SparkSession, spec: SilverSpec, wanted: WantedKeys) -> None:
    """That they are keys of the table, and that a key may lie in the range.

    Raises:
        ReplayError: a text is none of a key, or its column has another order in the lake, or the range ends before it begins.
    """
    if not wanted.is_range:
        keys_by_name(session, wanted.single, spec).count()
        return
    found = _bounds(session, spec, wanted)
    if len(found) == 2:
        pairs = [(first, last) for (_, first), (_, last) in zip(found[FROM], found[TO], strict=False)]
        row = session.sql(f"SELECT {_beyond(pairs, '>', is_inclusive=False)} AS beyond").first()
        if row is not None and row.beyond:
            raise ReplayError(f"{FROM} {wanted.begin} lies above {TO} {wanted.end}: no key is between them")


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


def _bounds(session: SparkSession, spec: SilverSpec, wanted: WantedKeys) -> dict[str, _Bound]:
    """By option, each bound as SQL."""
    types = {column.name: kind for column, kind in zip(spec.columns, lake_types(spec), strict=True)}
    found = dict[str, _Bound]()
    for name, text in wanted.bounds:
        values = parse_bound(text, spec.keys)
        found[name] = [
            (quote(key), _sql_value(session, spec, key, value, types)) for key, value in zip(spec.keys, values, strict=False)
        ]
    return found


def _sql_value(session: SparkSession, spec: SilverSpec, key: str, text: str, types: Mapping[str, LakeType]) -> str:
    kind = types[key]
    if kind.name == "binary" or "<" in kind.name or (kind.name == "string" and not kind.form.startswith(_TEXT_FORMS)):
        source_type = next(column.source_type for column in spec.columns if column.name == key)
        raise ReplayError(
            f"table {spec.table}: its key column {key!r} ({source_type}) is {kind.name} in the lake, which has another order: "
            "name its keys one by one (--keys)"
        )
    row = session.range(1).select(sf.lit(text).try_cast(kind.name).isNull().alias("wrong")).first()
    if row is None or row.wrong:
        raise ReplayError(f"table {spec.table}: {text!r} is no value of its key column {key!r} ({kind.name})")
    return f"CAST({literal(text)} AS {kind.name})"


def _condition(bounds: Mapping[str, _Bound]) -> str:
    """Whether a row's key is in the range; NULL where it has a NULL that decides."""
    return " AND ".join(f"({_beyond(bounds[name], sign)})" for name, sign in ((FROM, ">"), (TO, "<")) if name in bounds)


def _beyond(pairs: _Bound, sign: str, *, is_inclusive: bool = True) -> str:
    """Lexicographic: the first column decides, and where it is equal the second. A bound of the first columns says no more."""
    last = "true" if is_inclusive else "false"
    return reduce(lambda rest, pair: f"{pair[0]} {sign} {pair[1]} OR ({pair[0]} = {pair[1]} AND ({rest}))", reversed(pairs), last)
