"""Dates, times and moments: PostgreSQL's ISO text, which Spark's cast writes as well (fractions without trailing zeros).

Intervals by the bits of what PostgreSQL keeps: microseconds, days and months.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.canonical.form import AS_WRITTEN, Form, Incomparable, plain

_ISO = r"^P(-?\d+)Y(-?\d+)M(-?\d+)DT(-?\d+)H(-?\d+)M(-?\d+(?:\.\d{1,6})?)S$"
_NO_TIME = "0" * 32


def _utc(column: str) -> str:
    return f"({column} AT TIME ZONE 'UTC')"


def _utc_time(column: str) -> str:
    """As Debezium sends it: in UTC without its offset, and NULL where that has seconds."""
    whole = f"extract(timezone FROM {column})::int % 60 = 0"
    return f"CASE WHEN {whole} THEN left(({column} AT TIME ZONE 'UTC')::text, -3) END"


def _binary(column: str) -> str:
    """`interval_send` writes 8 bytes of microseconds, 4 of days, 4 of months."""
    return f"upper(encode(interval_send({column}), 'hex'))"


def _finite(column: str) -> str:
    """Debezium sends infinity as zero: a column that accepts that is compared as if it were."""
    return f"CASE WHEN isfinite({column}) THEN {_binary(column)} WHEN {column} IS NOT NULL THEN '{_NO_TIME}' END"


def _from_iso(text: Expression) -> Expression:
    """ISO 8601 as Debezium writes it; any other text as it is, which no interval's bits are."""
    years, months, days, hours, minutes, seconds = (
        sf.regexp_extract(text, _ISO, i).try_cast("decimal(38,6)") for i in range(1, 7)
    )
    micros = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000
    parts = ((micros, 16), (days, 8), (years * 12 + months, 8))
    digits = [sf.right(sf.lpad(sf.hex(value.try_cast("bigint")), 16, "0"), sf.lit(count)) for value, count in parts]
    return sf.coalesce(sf.concat(*digits), sf.replace(text, sf.lit(";"), sf.lit(":")))


INTERVAL, FINITE_INTERVAL = Form(_binary, _from_iso), Form(_finite, _from_iso)
FORMS: dict[str, Form | Incomparable] = {
    "date": AS_WRITTEN,
    "timestamp without time zone": AS_WRITTEN,
    "timestamp with time zone": Form(lambda c: f"{_utc(c)}::text", plain, parts=lambda c: (_utc(c),)),
    "time without time zone": Form(lambda c: f"to_char({c}, 'HH24:MI:SS.US')", plain),
    "time with time zone": Form(_utc_time, lambda text: sf.rtrim(text, sf.lit("Z"))),
    **dict.fromkeys(("interval", "interval year to month", "interval day to second"), INTERVAL),
}
