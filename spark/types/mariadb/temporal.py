"""Dates, times of any sign and length, moments.

Debezium sends zero dates (`0000-00-00`, `2024-00-15`) as NULL, or as 1970-01-01 where the column is NOT NULL: nobody can tell
any more. So a connector is only started where the server refuses them and no table holds one (docs/reference/mariadb.md).
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.types.rule import LakeType, Refused, Rule, SourceType
from spark.types.temporal import FIRST_MICRO, LAST_MICRO, date, from_nanos, timestamptz

LONGEST = ((838 * 60 + 59) * 60 + 60) * 1_000_000 - 1


def _scale(source: SourceType) -> int:
    return source.args[0] if source.args else 0


def _datetime(source: SourceType) -> LakeType:
    mode, digits = source.modes.temporal, _scale(source)
    if mode == "isostring":
        shape = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z?$"
        return LakeType("timestamp_ntz", lambda t: sf.when(t.rlike(shape), sf.rtrim(t, sf.lit("Z")).try_cast("timestamp_ntz")))
    if mode == "connect" and digits > 3:
        raise Refused("time.precision.mode=connect cuts it to milliseconds")

    def convert(text: Expression) -> Expression:
        count = text.try_cast("bigint")
        if mode == "nanoseconds":
            count = from_nanos(text)
        elif mode == "connect" or (mode == "adaptive_time_microseconds" and digits <= 3):
            count = sf.try_multiply(count, sf.lit(1000))
        return sf.when(count.between(FIRST_MICRO, LAST_MICRO), sf.timestamp_micros(count).cast("timestamp_ntz"))

    far = "years before 1678 and after 2261 (sent wrapped around)" if mode == "nanoseconds" else ""
    short = mode == "adaptive_time_microseconds" and digits <= 3
    form = "millis" if short else "micros" if mode in ("adaptive_time_microseconds", "microseconds") else ""
    return LakeType("timestamp_ntz", convert, loses=far, form=form)


def _time(source: SourceType) -> LakeType:
    if source.modes.temporal != "adaptive_time_microseconds":
        raise Refused(f"time.precision.mode={source.modes.temporal} has no negative times and none beyond 24 hours")

    def convert(text: Expression) -> Expression:
        count = text.try_cast("bigint")
        size = sf.abs(count)
        seconds = sf.call_function("div", size, sf.lit(1_000_000))
        whole = sf.format_string(
            "%02d:%02d:%02d.%06d",
            sf.call_function("div", seconds, sf.lit(3600)),
            sf.call_function("div", seconds % 3600, sf.lit(60)),
            seconds % 60,
            size % 1_000_000,
        )
        return sf.when(size <= LONGEST, sf.concat(sf.when(count < 0, "-").otherwise(""), whole))

    return LakeType("string", convert, form="span")


def _moment(text: Expression) -> Expression:
    """The type begins one second after 1970 does: what comes as that moment is a zero date."""
    return sf.when(text != EPOCH, timestamptz(text))


EPOCH = "1970-01-01T00:00:00Z"
_ZERO = "Zero dates are refused before the connector starts."
RULES = (
    Rule(("date",), "date", f"Years 1 to 9999. {_ZERO}", date),
    Rule(("datetime",), "timestamp_ntz", f"A wall clock's time, without a zone. {_ZERO}", _datetime),
    Rule(
        ("timestamp",),
        "timestamp",
        f"A moment, in UTC. {_ZERO}",
        lambda _: LakeType("timestamp", _moment, form="instant but epoch"),
    ),
    Rule(("time",), "string", "Delta has no time of day, and this one goes from -838:59:59 to 838:59:59.", _time),
)
