"""Dates, times and moments: PostgreSQL's ISO text, which Spark's cast writes as well (fractions without trailing zeros)."""

from __future__ import annotations

from spark.canonical.form import AS_TEXT, Form, Incomparable, plain

_INTERVAL = Incomparable("silver holds ISO 8601 as Debezium writes it, which PostgreSQL writes otherwise")
FORMS: dict[str, Form | Incomparable] = {
    "date": AS_TEXT,
    "timestamp without time zone": AS_TEXT,
    "timestamp with time zone": Form(lambda c: f"({c} AT TIME ZONE 'UTC')::text", plain),
    "time without time zone": Form(lambda c: f"to_char({c}, 'HH24:MI:SS.US')", plain),
    "time with time zone": Incomparable("Debezium sends it in UTC, without its offset"),
    **dict.fromkeys(("interval", "interval year to month", "interval day to second"), _INTERVAL),
}
