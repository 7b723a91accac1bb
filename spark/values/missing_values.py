"""The value that rows have which are older than their column, as an event would hold it.

PostgreSQL gives it as its own text (pg_attribute.attmissingval); a conversion reads Debezium's leaves.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from spark.specs import Column
from spark.values.postgresql_numbers import SPECIAL
from spark.values.type_rule import SourceType

_SAME = frozenset(
    {
        *("smallint", "integer", "bigint", "oid", "real", "double precision", "numeric"),
        *("text", "character varying", "character", "bpchar", "citext", '"char"', "name", "uuid", "json", "jsonb", "ltree"),
        *("inet", "cidr", "macaddr", "macaddr8", "int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange"),
    }
)
_BY_MODE = frozenset({"numeric", "bytea", "date", "timestamp without time zone", "time without time zone"})
"""What a connector of somebody else may write in another form (spark.values.handling_modes)."""
_EPOCH = dt.datetime(1970, 1, 1)
_GREGORIAN = dt.datetime(1582, 10, 25)
"""An array's timestamps before it come by another calendar (spark.values.postgresql_times.from_hybrid)."""
_ELEMENT = re.compile(r'(?:"((?:[^"\\]|\\.)*)"|([^",{}]+))(,|$)', re.DOTALL)


@cache
def missing_leaf(column: Column) -> str | None:
    """The leaf of a column's `missing` text; None where it has none, or none that can be written down here."""
    source, text = SourceType.parse(column.source_type, column.kind), column.missing
    if source is None or text is None or (column.modes and source.name in _BY_MODE):
        return None
    try:
        return _array(source, text) if source.array else _scalar(source, text)
    except ValueError:
        return None


def _array(source: SourceType, text: str) -> str | None:
    """The elements' leaves, in JSON; None for nothing but NULLs, and for several dimensions or another lower bound than 1."""
    element, leaves = replace(source, array=False), []
    for element_text in _elements(text):
        leaf = None if element_text is None else _scalar(element, element_text)
        if element_text is not None and (leaf is None or (source.name == "numeric" and leaf in SPECIAL)):
            return None
        if (
            source.name == "timestamp without time zone"
            and element_text
            and dt.datetime.fromisoformat(_micros(element_text)) < _GREGORIAN
        ):
            return None
        leaves.append(leaf)
    return None if leaves and not any(leaf is not None for leaf in leaves) else json.dumps(leaves, ensure_ascii=False)


def _elements(text: str) -> Iterator[str | None]:
    """Of an array as PostgreSQL writes it (https://www.postgresql.org/docs/18/arrays.html#ARRAYS-IO).

    Raises:
        ValueError: it has several dimensions, or another lower bound than 1.
    """
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError(text)
    body, at = text[1:-1], 0
    while at < len(body):
        match = _ELEMENT.match(body, at)
        if match is None:
            raise ValueError(text)
        if match[1] is not None:
            yield re.sub(r"\\(.)", r"\1", match[1], flags=re.DOTALL)
        else:
            yield None if match[2] == "NULL" else match[2]
        at = match.end()


def _scalar(source: SourceType, text: str) -> str | None:
    if source.name in _SAME or source.kind == "enum":
        return {shown: sent for sent, shown in SPECIAL.items()}.get(text, text) if source.name == "numeric" else text
    return _convert(source, text)


def _convert(source: SourceType, text: str) -> str | None:
    if source.name == "boolean":
        return {"t": "true", "f": "false"}[text]
    if source.name == "date":
        return str((dt.date.fromisoformat(text) - _EPOCH.date()).days)
    if source.name == "timestamp without time zone":
        return str((dt.datetime.fromisoformat(_micros(text)) - _EPOCH) // dt.timedelta(microseconds=1))
    if source.name == "timestamp with time zone" and text.endswith("+00"):
        dt.datetime.fromisoformat(_micros(text[:-3]))
        return text[:-3].replace(" ", "T") + "Z"
    if source.name == "time without time zone":
        hours, minutes, seconds = text.split(":")
        return str((int(hours) * 60 + int(minutes)) * 60_000_000 + round(float(seconds) * 1_000_000))
    if source.name == "bytea" and text.startswith("\\x"):
        return base64.b64encode(bytes.fromhex(text[2:])).decode()
    return None


def _micros(text: str) -> str:
    """Python 3.10 reads six fraction digits or none."""
    return re.sub(r"\.(\d+)$", lambda found: f".{found[1]:0<6}", text)
