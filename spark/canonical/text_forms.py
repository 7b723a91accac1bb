"""Text, and what PostgreSQL writes as text."""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.canonical.form import MEASURED, MEASURED_TEXT, PADDED, Form, Incomparable, prefix_length, prefix_length_sql


def _pairs(column: str) -> str:
    """By json, so that hstore's own functions need not be in the search path; keys by their bytes."""
    value = f"coalesce({prefix_length_sql('value')}, 'N')"
    listed = f"string_agg(concat({prefix_length_sql('key')}, '=', {value}), ',' ORDER BY key COLLATE \"C\")"
    return _digest(column, f"(SELECT concat(count(*), '[', {listed}, ']') FROM json_each_text(({column})::json))")


def _json_pairs(text: Expression) -> Expression:
    """A JSON object; any other text as it is, also one that only begins with an object: Spark reads no further than that."""
    unquoted = sf.regexp_replace(sf.regexp_replace(text, r"\\.", ""), '"[^"]*"', "")
    found = sf.array_sort(sf.map_entries(sf.from_json(text, "map<string,string>")))
    pairs = sf.transform(
        found,
        lambda pair: sf.concat(prefix_length(pair["key"]), sf.lit("="), sf.coalesce(prefix_length(pair["value"]), sf.lit("N"))),
    )
    listed = sf.concat(sf.size(found).cast("string"), sf.lit("["), sf.array_join(pairs, ","), sf.lit("]"))
    return sf.md5(sf.coalesce(sf.when(unquoted.rlike(r"^\s*\{[^{}]*\}\s*$"), listed), text))


def _digest(column: str, text: str) -> str:
    return f"CASE WHEN {column} IS NOT NULL THEN md5({text}) END"


def _range_in_utc(value: str) -> str:
    bounds = ", ".join(f"{bound}({value}) AT TIME ZONE 'UTC'" for bound in ("lower", "upper"))
    closed = f"CASE WHEN lower_inc({value}) THEN '[' ELSE '(' END || CASE WHEN upper_inc({value}) THEN ']' ELSE ')' END"
    return f"CASE WHEN isempty({value}) THEN 'empty' ELSE tsrange({bounds}, {closed})::text END"


def _range(column: str) -> str:
    return prefix_length_sql(f"(CASE WHEN {column} IS NOT NULL THEN {_range_in_utc(column)} END)")


def _multirange(column: str) -> str:
    items = f"unnest({column}) WITH ORDINALITY x(_cdc_r, _cdc_o)"
    each = f"SELECT string_agg({_range_in_utc('_cdc_r')}, ',' ORDER BY _cdc_o) FROM {items}"
    return prefix_length_sql(f"(CASE WHEN {column} IS NOT NULL THEN concat('{{', ({each}), '}}') END)")


def _in_utc(text: Expression) -> Expression:
    """PostgreSQL quotes a bound that is a moment, and nothing else: every second piece between quotes is one.

    A moment that Spark does not know (BC) is left as it is, without the zone where that is UTC.
    """
    pieces = sf.split(text, '"')

    def plain(piece: Expression, at: Expression) -> Expression:
        known = sf.regexp_replace(piece.try_cast("timestamp").cast("string"), r"^\+", "")
        return sf.when(at % 2 == 1, sf.coalesce(known, sf.regexp_replace(piece, r"\+00( BC)?$", "$1"))).otherwise(piece)

    return prefix_length(sf.array_join(sf.transform(pieces, plain), '"'))


FORMS: dict[str, Form | Incomparable] = {
    **dict.fromkeys(("text", "character varying", "json", "jsonb", "uuid", "citext"), MEASURED_TEXT),
    "character": PADDED,
    "hstore": Form(_pairs, _json_pairs),
    "tstzrange": Form(_range, _in_utc, with_length=True),
    "tstzmultirange": Form(_multirange, _in_utc, with_length=True),
}
# The output function's text: character(n), "char", name, inet, ranges, enums, search types and all others.
OTHER = MEASURED
