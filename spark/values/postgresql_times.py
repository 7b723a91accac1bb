"""Dates, times, moments and intervals.

Spark's calendar has the years 1 to 9999: a record with a date outside them, or at infinity, is unfit (Debezium
sends wrapped-around integers for those).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date as date_of_python

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.values.type_rule import LakeType, Refused, Rule, SourceType, as_text

FIRST_DAY, LAST_DAY = -719162, 2932896
FIRST_MICRO, LAST_MICRO = -62135596800000000, 253402300799999999
DAY_MICROS = 86_400_000_000
LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
GREGORIAN = -12_219_292_800_000_000
"""Where java.util.GregorianCalendar changes calendars: 15 October 1582, the day after 4 October there."""
_GAP_DAYS = 10
# Each of these years has a 29 February in the Julian calendar, and none in the Gregorian.
_JULIAN_LEAPS = tuple(year for year in range(100, 1501, 100) if year % 400)
ZERO = "P0Y0M0DT0H0M0S"


def date(source: SourceType) -> LakeType:
    """Days since 1970, or ISO 8601."""

    def days(text: Expression) -> Expression:
        count = text.try_cast("int")
        return sf.when(count.between(FIRST_DAY, LAST_DAY), sf.date_from_unix_date(count))

    def iso(text: Expression) -> Expression:
        return sf.when(text.rlike(r"^\d{4}-\d\d-\d\dZ?$"), sf.left(text, sf.lit(10)).try_cast("date"))

    return LakeType("date", iso) if source.modes.temporal == "isostring" else LakeType("date", days, form="days")


def _micros(source: SourceType) -> Callable[[Expression], Expression]:
    """Time or timestamp leaves as microseconds. Raises Refused: where the mode cuts digits off."""
    mode, digits = source.modes.temporal, source.args[0] if source.args else 6
    is_time = source.name.startswith("time ")
    if mode == "connect" and digits > 3:
        raise Refused("time.precision.mode=connect cuts it to milliseconds")
    adapted = mode == "adaptive" or (mode == "adaptive_time_microseconds" and not is_time)
    if mode == "connect" or (adapted and digits <= 3):
        return lambda text: sf.try_multiply(text.try_cast("bigint"), sf.lit(1000))
    if mode == "nanoseconds":
        return from_nanos
    return lambda text: text.try_cast("bigint")


def from_nanos(text: Expression) -> Expression:
    """Microseconds, where the nanoseconds are whole ones and not at the end of their range."""
    nanos = text.try_cast("bigint")
    exact = (nanos % 1000 == 0) & ~nanos.isin(LOWEST, HIGHEST)
    return sf.when(exact, sf.call_function("div", nanos, sf.lit(1000)))


def from_hybrid(micros: Expression) -> Expression:
    """An array's timestamp, which Debezium reads by a calendar that is Julian before 15 October 1582.

    What it sends as 15 to 24 October 1582 may also have been the day of that name ten days before: it is unfit.
    """
    # Up to 28 February 100 the Julian calendar is two days ahead of the proleptic Gregorian one.
    start = date_of_python(1, 1, 1)
    begins = [(date_of_python(year, 3, 1) - start).days for year in _JULIAN_LEAPS]
    sent = [FIRST_MICRO + (days + passed - 1) * DAY_MICROS for passed, days in enumerate(begins)]
    days = sum((sf.when(micros >= at, 1).otherwise(0) for at in sent), sf.lit(-2))
    healed = micros - days.cast("bigint") * DAY_MICROS
    return sf.when(micros >= GREGORIAN + _GAP_DAYS * DAY_MICROS, micros).when(micros < GREGORIAN, healed)


def _timestamp(source: SourceType) -> LakeType:
    def iso_micros(text: Expression) -> Expression:
        shape = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?Z?$"
        clock = sf.when(text.rlike(shape), sf.rtrim(text, sf.lit("Z")).try_cast("timestamp_ntz"))
        return sf.unix_micros(clock.cast("timestamp"))

    micros = iso_micros if source.modes.temporal == "isostring" else _micros(source)

    def convert(text: Expression) -> Expression:
        count = from_hybrid(micros(text)) if source.array else micros(text)
        return sf.when(count.between(FIRST_MICRO, LAST_MICRO), sf.timestamp_micros(count).cast("timestamp_ntz"))

    far = "before 1677-09-21 and after 2262-04-11 (sent as NULL)" if source.modes.temporal == "nanoseconds" else ""
    # An array's timestamps come by another calendar.
    form = "micros" if source.modes.temporal == "microseconds" and not source.array else ""
    return LakeType("timestamp_ntz", convert, loses=far, form=form)


def timestamptz(text: Expression) -> Expression:
    """A moment as ISO 8601 with its zone."""
    moment = text.try_cast("timestamp")
    return sf.when(sf.unix_micros(moment).between(FIRST_MICRO, LAST_MICRO), moment)


def _time(source: SourceType) -> LakeType:
    if source.modes.temporal == "isostring":
        return LakeType("string", lambda text: _iso_time(text, midnight=source.accepted))
    micros = _micros(source)

    def convert(text: Expression) -> Expression:
        count = micros(text)
        seconds = sf.floor(count / 1_000_000).cast("bigint")
        parts = sf.format_string(
            "%02d:%02d:%02d.%06d",
            sf.floor(seconds / 3600).cast("bigint"),
            sf.floor(seconds % 3600 / 60).cast("bigint"),
            seconds % 60,
            count % 1_000_000,
        )
        return sf.when(count.between(0, DAY_MICROS), parts)

    return LakeType("string", convert, form="clock" if source.modes.temporal == "microseconds" else "")


def _iso_time(text: Expression, *, midnight: bool) -> Expression:
    """`12:34:56.5Z` with six fraction digits. Midnight may have been 24:00, which is sent as 00:00."""
    clock = sf.rtrim(text, sf.lit("Z"))
    whole = sf.concat(sf.left(clock, sf.lit(8)), sf.lit("."), sf.rpad(sf.substr(clock, sf.lit(10)), 6, "0"))
    fits = text.rlike(r"^\d\d:\d\d:\d\d(\.\d{1,6})?Z?$")
    return sf.when(fits if midnight else fits & (text != "00:00:00Z"), whole)


def _interval(source: SourceType) -> LakeType:
    if source.modes.interval == "numeric":
        raise Refused("interval.handling.mode=numeric counts a month as 30.4375 days")
    if source.accepted:
        return as_text(source)
    return LakeType("string", lambda text: sf.when(text != ZERO, text), form="interval")


_CALENDAR = "Years 1 to 9999; a record outside them or at infinity is unfit."
RULES = (
    Rule(
        ("date",),
        "date",
        f"{_CALENDAR} A snapshot shows years BC as AD and 5 to 14 October 1582 ten days late: the connector is not started "
        "on a table that holds one.",
        date,
    ),
    Rule(
        ("timestamp without time zone",),
        "timestamp_ntz",
        f"A wall clock's time, without a zone. {_CALENDAR}",
        _timestamp,
    ),
    Rule(
        ("timestamp with time zone",),
        "timestamp",
        f"A moment, in UTC. {_CALENDAR}",
        lambda _: LakeType("timestamp", timestamptz, form="instant"),
    ),
    Rule(
        ("time without time zone",),
        "string",
        "Delta has no time of day; `HH:MM:SS.ffffff` sorts as the time does, and 24:00 is one.",
        _time,
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
        _interval,
    ),
)
