"""The value that rows have which are older than their column, as an event would hold it.

PostgreSQL gives it as its own text (pg_attribute.attmissingval); a conversion reads Debezium's leaves.
"""

from __future__ import annotations

import base64
import datetime as dt
import re

from spark.specs import Column
from spark.types.numbers import SPECIAL
from spark.types.rule import SourceType

_SAME = frozenset(
    {
        *("smallint", "integer", "bigint", "oid", "real", "double precision", "numeric"),
        *("text", "character varying", "character", "bpchar", "citext", '"char"', "name", "uuid", "json", "jsonb", "ltree"),
        *("inet", "cidr", "macaddr", "macaddr8", "int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange"),
    }
)
_EPOCH = dt.datetime(1970, 1, 1)


def missing_leaf(column: Column) -> str | None:
    """The leaf of a column's `missing` text; None where it has none, or none that can be written down here."""
    source, text = SourceType.parse(column.source_type, column.kind), column.missing
    if source is None or text is None:
        return None
    if source.array:
        return "[]" if text == "{}" else None
    if source.name in _SAME or source.kind == "enum":
        return {shown: sent for sent, shown in SPECIAL.items()}.get(text, text) if source.name == "numeric" else text
    try:
        return _convert(source, text)
    except ValueError:
        return None


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
