"""Dates, times, moments and intervals.

Spark's calendar has the years 1 to 9999: a record with a date outside them, or at infinity, is unfit (Debezium
sends wrapped-around integers for those).
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.types.rule import LakeType, Rule, as_text

FIRST_DAY, LAST_DAY = -719162, 2932896
FIRST_MICRO, LAST_MICRO = -62135596800000000, 253402300799999999
DAY_MICROS = 86_400_000_000
ZERO = "P0Y0M0DT0H0M0S"


def _date(text: Expression) -> Expression:
    days = text.try_cast("int")
    return sf.when(days.between(FIRST_DAY, LAST_DAY), sf.date_from_unix_date(days))


def _timestamp(text: Expression) -> Expression:
    micros = text.try_cast("bigint")
    return sf.when(micros.between(FIRST_MICRO, LAST_MICRO), sf.timestamp_micros(micros).cast("timestamp_ntz"))


def _timestamptz(text: Expression) -> Expression:
    moment = text.try_cast("timestamp")
    return sf.when(sf.unix_micros(moment).between(FIRST_MICRO, LAST_MICRO), moment)


def _time(text: Expression) -> Expression:
    micros = text.try_cast("bigint")
    seconds = sf.floor(micros / 1_000_000).cast("bigint")
    parts = sf.format_string(
        "%02d:%02d:%02d.%06d",
        sf.floor(seconds / 3600).cast("bigint"),
        sf.floor(seconds % 3600 / 60).cast("bigint"),
        seconds % 60,
        micros % 1_000_000,
    )
    return sf.when(micros.between(0, DAY_MICROS), parts)


_CALENDAR = "Years 1 to 9999; a record outside them or at infinity is unfit."
RULES = (
    Rule(
        ("date",),
        "date",
        f"{_CALENDAR} A snapshot shows years BC as AD and 5 to 14 October 1582 ten days late: the connector is not started "
        "on a table that holds one.",
        lambda _: LakeType("date", _date),
    ),
    Rule(
        ("timestamp without time zone",),
        "timestamp_ntz",
        f"A wall clock's time, without a zone. {_CALENDAR}",
        lambda _: LakeType("timestamp_ntz", _timestamp),
    ),
    Rule(
        ("timestamp with time zone",),
        "timestamp",
        f"A moment, in UTC. {_CALENDAR}",
        lambda _: LakeType("timestamp", _timestamptz),
    ),
    Rule(
        ("time without time zone",),
        "string",
        "Delta has no time of day; `HH:MM:SS.ffffff` sorts as the time does, and 24:00 is one.",
        lambda _: LakeType("string", _time),
    ),
    Rule(
        ("time with time zone",),
        "string",
        "Delta has no time of day; the time in UTC.",
        as_text,
        loses="the offset (the time is sent in UTC), 24:00 (sent as 00:00), values whose offset has seconds (sent as NULL)",
    ),
    Rule(
        ("interval", "interval year to month", "interval day to second"),
        "string",
        "ISO 8601: months, days and seconds stay apart, as PostgreSQL keeps them. Debezium sends infinity as zero, so a "
        "record with a zero interval is unfit, unless the table's `accept_inexact` names the column.",
        lambda source: LakeType("string", lambda text: text if source.accepted else sf.when(text != ZERO, text)),
    ),
)
