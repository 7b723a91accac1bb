"""Dates, times and moments: PostgreSQL's ISO text, which Spark's cast writes as well (fractions without trailing zeros)."""

from __future__ import annotations

from spark.canonical.form import AS_WRITTEN, Form, Incomparable, plain

_INTERVAL = Incomparable("silver holds ISO 8601 as Debezium writes it, which PostgreSQL writes otherwise")


def _utc(column: str) -> str:
    return f"({column} AT TIME ZONE 'UTC')"


FORMS: dict[str, Form | Incomparable] = {
    "date": AS_WRITTEN,
    "timestamp without time zone": AS_WRITTEN,
    "timestamp with time zone": Form(lambda c: f"{_utc(c)}::text", plain, parts=lambda c: (_utc(c),)),
    "time without time zone": Form(lambda c: f"to_char({c}, 'HH24:MI:SS.US')", plain),
    "time with time zone": Incomparable("Debezium sends it in UTC, without its offset"),
    **dict.fromkeys(("interval", "interval year to month", "interval day to second"), _INTERVAL),
}
